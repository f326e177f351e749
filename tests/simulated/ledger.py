"""What every link's total may be, whoever is asked, and what has become of each batch.

Each batch has a weight of its own in each link that it counts: a power of four, so that the digits of a total in base 4
say how often each batch is in it: 0 lost, 1 right, 2 or 3 counted more than once.

A batch must count once it was answered with success, unless it was erased, or every journal that held it was given up
before a flush had brought it into the store: lost with its disk, or set aside, which is reported. A batch with an id is
given up, too, with the journal whose unfinished flush may have claimed the id.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

BATCHES_PER_LINK = 31  # a count in the journal is a number of 64 bits


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
    batches: dict[Sent, bool] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def copied(self, name: str) -> Copy:
        self.doubtful = True
        other = Copy(name, doubtful=True, batches=dict(self.batches), refused=set(self.refused))
        for sent, surely in other.batches.items():
            sent.copies[other] = surely
        return other

    def holds(self, content: Collection[Sent]) -> None:
        """The journal was opened again: what was in doubt is in it, or is not."""
        for sent in [sent for sent, surely in self.batches.items() if not surely]:
            if sent in content:
                sent.lies_in(self, surely=True)
            else:
                del self.batches[sent], sent.copies[self]


@dataclass(eq=False, slots=True)
class Sent:
    """A batch. hits: link -> weight. stamps_us: the latest that each try may have been accepted with.

    under_way: tries not answered yet. tries: those that were not refused, under way or not. claim_lost: its id may
    belong to a flush that nobody will finish.
    """

    number: int
    id: str | None
    hits: dict[str, int]
    at: float
    under_way: int = 0
    tries: int = 0
    acknowledged: bool = False
    stored: bool = False
    claim_lost: bool = False
    copies: dict[Copy, bool] = field(default_factory=dict)  # True: it surely took it
    stamps_us: list[int] = field(default_factory=list)
    erased: dict[str, Literal["perhaps", "gone"]] = field(default_factory=dict)

    def lies_in(self, copy: Copy, surely: bool) -> None:
        """It is in this journal, or nobody knows."""
        copy.batches[self] = self.copies[copy] = surely or copy.batches.get(self, False)

    def must_count(self, link: str) -> bool:
        if not self.acknowledged or link in self.erased:
            return False
        return self.stored or (
            not self.claim_lost and any(surely and not copy.given_up for copy, surely in self.copies.items())
        )

    def __repr__(self) -> str:
        return f"batch {self.number}" + (f" with id {self.id}" if self.id else "")


class Ledger:
    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.by_link: defaultdict[str, list[Sent]] = defaultdict(list)
        self.reported = 0  # batches in journals that were given up
        self._erasing: Counter[str] = Counter()  # erasures under way
        self._erased_until_us: dict[str, int] = {}  # what is accepted with an earlier stamp goes, too
        self._doubtful_until_us: dict[str, int] = {}  # an erasure up to this stamp may yet come

    def has_room(self, link: str) -> bool:
        return len(self.by_link[link]) < BATCHES_PER_LINK

    def batch(self, links: Iterable[str], id_: str | None, at: float) -> Sent:
        sent = Sent(len(self.sent), id_, {}, at)
        self.sent.append(sent)
        for link in links:
            sent.hits[link] = 4 ** len(self.by_link[link])
            self.by_link[link].append(sent)
            if self._erasing[link] or link in self._doubtful_until_us:
                sent.erased[link] = "perhaps"
        return sent

    # --- what became of it ----------------------------------------------------------------------------------------
    def sending(self, sent: Sent, earliest_us: int) -> None:
        """A try begins, at a node whose clock says so."""
        sent.under_way += 1
        sent.tries += 1
        for link in sent.hits:
            if sent.erased.get(link) == "gone" or earliest_us <= self._erased_until_us.get(link, 0):
                sent.erased[link] = "perhaps"

    def flushed(self, copy: Copy, batches: Iterable[Sent]) -> None:
        """A flush of this journal has ended well, that had these batches."""
        for sent in batches:
            copy.batches.pop(sent, None)
            if sent.id is None or sent.id not in copy.refused:
                sent.stored = True

    def give_up(self, copy: Copy, unfinished: Collection[Sent], waiting: Collection[Sent]) -> None:
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

    def erasing(self, link: str) -> list[Sent]:
        """An erasure begins, and may be seen from now on; the batches that were answered before."""
        self._erasing[link] += 1
        for sent in self.by_link[link]:
            sent.erased.setdefault(link, "perhaps")
        return [sent for sent in self.by_link[link] if not sent.under_way]

    def erased(self, link: str, at_us: tuple[int, int], before: Collection[Sent]) -> None:
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
    def must(self, link: str) -> set[Sent]:
        return {sent for sent in self.by_link[link] if sent.must_count(link)}

    def stored(self, link: str) -> set[Sent]:
        return {sent for sent in self.by_link[link] if sent.stored and sent.must_count(link)}

    def judge(
        self, link: str, total: int, must: set[Sent], what: str, *, final: bool = False, once: bool = True
    ) -> None:
        """Raises Wrong unless each batch is in the total as often as it may be. once: no batch may be in it twice."""
        batches = self.by_link[link]
        for sent in batches:
            times = total // sent.hits[link] % 4
            if times > 1 and once:
                raise Wrong(f"{what}: {sent} counts {times} times in {link!r}")
            if times and not sent.tries:
                raise Wrong(f"{what}: {sent} counts in {link!r}, though it was refused")
            if times and final and sent.erased.get(link) == "gone":
                raise Wrong(f"{what}: {sent} counts in {link!r}, though it was erased")
            if not times and sent in must and sent.must_count(link):
                raise Wrong(f"{what}: {sent} is lost in {link!r}")
        if total >= 4 ** len(batches):
            raise Wrong(f"{what}: {link!r} counts what nobody sent: {total:#x}")
