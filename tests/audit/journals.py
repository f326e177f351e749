"""The auditor of journals that are copied, lost and quarantined: which of them holds each batch, and what that means.

A batch must count once it was answered with success, unless it was erased, or every journal that held it was given up
before a flush had brought it into the store: lost with its disk, or quarantined, which is reported. A batch with an id
is given up, too, with the journal whose unfinished flush may have claimed the id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tests.audit.auditor import Auditor, Sent, Try


class Wrong(AssertionError):
    """A total that cannot be."""


@dataclass(eq=False, slots=True)
class Copy:
    """A journal as it lies on one disk. doubtful: there may be another one like it, or its owner was retired.

    batches: those that may lie in it and are in no finished flush, True where it surely took them. refused: ids that
    its flushes gave up to others.
    """

    name: str
    doubtful: bool = False
    given_up: bool = False
    batches: dict[SentBatch, bool] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def copied(self, name: str) -> Copy:
        self.doubtful = True
        other = Copy(name, doubtful=True, batches=dict(self.batches), refused=set(self.refused))
        for sent, surely in other.batches.items():
            sent.copies[other] = surely
        return other

    def holds(self, content: Collection[SentBatch]) -> None:
        """The journal was opened again: what was in doubt is in it, or is not."""
        for sent in [sent for sent, surely in self.batches.items() if not surely]:
            if sent in content:
                sent.lies_in(self, surely=True)
            else:
                del self.batches[sent], sent.copies[self]


@dataclass(eq=False, slots=True, kw_only=True)
class SentBatch(Sent):
    """A batch with or without an id. at: when it was made.

    stamps_us: the latest that each try may have been accepted with. claim_lost: its id may belong to a flush that
    nobody will finish.
    """

    number: int
    id: str | None
    at: float
    claim_lost: bool = False
    copies: dict[Copy, bool] = field(default_factory=dict)  # True: it surely took it
    stamps_us: list[int] = field(default_factory=list)

    def lies_in(self, copy: Copy, surely: bool) -> None:
        """It is in this journal, or nobody knows."""
        copy.batches[self] = self.copies[copy] = surely or copy.batches.get(self, False)

    def must_count(self, key: str) -> bool:
        if not Sent.must_count(self, key):
            return False
        return self.stored or (
            not self.claim_lost and any(surely and not copy.given_up for copy, surely in self.copies.items())
        )

    def __repr__(self) -> str:
        return f"batch {self.number}" + (f" with id {self.id}" if self.id else "")


class JournalsAuditor(Auditor[SentBatch]):
    """Follows each batch through the journals that hold it, and each erasure through the clocks that stamp it."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = 0  # batches in journals that were given up
        self._erasing: Counter[str] = Counter()  # erasures under way
        self._erased_until_us: dict[str, int] = {}  # what is accepted with an earlier stamp goes, too
        self._doubtful_until_us: dict[str, int] = {}  # an erasure up to this stamp may yet come

    def batch(self, links: Iterable[str], id_: str | None, at: float) -> SentBatch:
        """Enters a batch that counts each of these links."""
        hits = self.next_hits(links)
        sent = self.enter(SentBatch(hits, id_ is not None, number=len(self.sent), id=id_, at=at))
        for hit in hits:
            if self._erasing[hit.key] or hit.key in self._doubtful_until_us:
                sent.erased[hit.key] = "perhaps"
        return sent

    # --- what became of it ----------------------------------------------------------------------------------------
    def sending(self, sent: SentBatch, earliest_us: int) -> Try:
        """A try begins, at a node whose clock says so."""
        for hit in sent.hits:
            if sent.erased.get(hit.key) == "gone" or earliest_us <= self._erased_until_us.get(hit.key, 0):
                sent.erased[hit.key] = "perhaps"
        return self.begin(sent)

    def flushed(self, copy: Copy, batches: Iterable[SentBatch]) -> None:
        """A flush of this journal has ended well, that had these batches."""
        for sent in batches:
            copy.batches.pop(sent, None)
            if sent.id is None or sent.id not in copy.refused:
                sent.stored = True

    def give_up(self, copy: Copy, unfinished: Collection[SentBatch], waiting: Collection[SentBatch]) -> None:
        """This journal will never be flushed. It holds these batches, in its unfinished flush and in none."""
        copy.given_up = True
        for sent in unfinished:
            if sent.id is not None and not sent.stored:
                sent.claim_lost = True
        for sent, surely in copy.batches.items():
            if sent in unfinished or sent in waiting:
                self.reported += 1
            elif surely and (sent.id is None or sent.id not in copy.refused):
                sent.stored = True  # a flush that nobody heard the end of had it, or it would still be there

    def erasing(self, link: str) -> list[SentBatch]:
        """An erasure begins, and may be seen from now on; the batches that were answered before."""
        self._erasing[link] += 1
        for sent in self.by_key[link]:
            sent.erased.setdefault(link, "perhaps")
        return [sent for sent in self.by_key[link] if not sent.under_way]

    def erasure_done(self, link: str, at_us: tuple[int, int], before: Collection[SentBatch]) -> None:
        """An erasure, stamped between these, was answered with success. before: answered when it began."""
        self._erasing[link] -= 1
        if at_us[0] > self._doubtful_until_us.get(link, 0):
            self._doubtful_until_us.pop(link, None)
        self._erased_until_us[link] = max(at_us[1], self._erased_until_us.get(link, 0))
        for sent in before:
            if sent.stamps_us and not sent.under_way and all(latest < at_us[0] for latest in sent.stamps_us):
                sent.erased[link] = "gone"

    def erasure_unknown(self, link: str, until_us: int) -> None:
        """An erasure, stamped before this, may yet come, nobody knows when."""
        self._erasing[link] -= 1
        self._doubtful_until_us[link] = max(until_us, self._doubtful_until_us.get(link, 0))

    # --- judging --------------------------------------------------------------------------------------------------
    def must(self, link: str) -> set[SentBatch]:
        """Returns the batches that must count in the link, wherever they are."""
        return {sent for sent in self.by_key[link] if sent.must_count(link)}

    def stored(self, link: str) -> set[SentBatch]:
        """Returns those of them that are in the store, so that every reader must see them."""
        return {sent for sent in self.must(link) if sent.stored}

    def check_batches(
        self, link: str, total: int, must: set[SentBatch], what: str, *, final: bool = False, once: bool = True
    ) -> None:
        """Raises Wrong unless each batch is in the total as often as it may be. once: no batch may be in it twice."""
        most = 1 if once else 3
        for misfit in self.misfits(link, total, must=must, most=most, erased_may_show=not final):
            raise Wrong(f"{what}: {misfit}: {misfit.sent}")
