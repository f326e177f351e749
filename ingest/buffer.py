"""Counts in memory that are not in the store yet: the buffer that hits are added to, and the one that a flush took.

A buffer holds what one flush will move. The event loop fills it. Once a flush has taken it nothing is added, so the
flush thread may read it while the loop answers queries from it. What is decided meanwhile (an id that another owner or
flush has claimed, a link that is erased) is applied by the loop between two steps of the flush.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from sys import getsizeof

from clickcurve.buckets.breakdowns.breakdown import BreakdownDelta
from clickcurve.buckets.breakdowns.erased import NO_WORDS, ErasedWords, Instead, erase_in_delta
from clickcurve.buckets.errors import JournalBehind
from clickcurve.buckets.row import Delta
from clickcurve.keys import (
    ALL_LINKS,
    counts_key,
    link_key,
    link_of,
)
from clickcurve.pending import Pending, PendingBreakdown
from clickcurve.row_kinds.table import instead_in
from ingest.batch import AttributeCounts, Batch, GroupCounts, Identified, SourceStep, decode_batch, keys_of
from ingest.counts import (
    NO_DELTA,
    PAIR_BYTES,
    BufferedProfiles,
    KeyedCounts,
    RowCounts,
    at_once,
    counts_of,
    drain,
    in_pieces,
    parts_of,
)
from ingest.journal.contract import Frame, Journal
from ingest.journal.group_commit import Group

BUFFER_BYTES = 512 << 20  # what an owner's buffers may take; beyond it hits are answered 429
IDS_AT_ONCE = 256  # ids that are counted or decided in one step: with attributes some 8 us each
ID_BYTES = 600  # what CPython takes of an id whose claim is not decided, with a hit; PAIR_BYTES for each key of it


@dataclass(slots=True)
class UndecidedId:
    """The counts under an id whose claim is not decided yet. `visible`: they are in answers already.

    numbers: those in the buffer of the profiles of its batch. earlier: the counts under the same id that were accepted
    so long before that the id was forgotten meanwhile; they count whatever becomes of these.
    """

    identified: Identified
    accepted_us: int
    visible: bool
    numbers: Sequence[int] = ()
    earlier: UndecidedId | None = None


@dataclass(frozen=True, slots=True)
class ErasedCounts:
    """The counts of a link or a group that were buffered when it was erased. A link's stay in the sums of all links."""

    at_us: int
    counts: RowCounts


@dataclass(slots=True)
class Buffer:
    """The counts that one flush moves. `late_before`: earlier minutes are kept by key."""

    late_before: int
    links: KeyedCounts = field(default_factory=KeyedCounts)
    others: KeyedCounts = field(default_factory=KeyedCounts)  # by stored key, not in the sums of links
    profiles: BufferedProfiles = field(default_factory=BufferedProfiles)
    openings: Counter[str] = field(default_factory=Counter)
    undecided: dict[str, UndecidedId] = field(default_factory=dict)  # by id
    sources: dict[str, SourceStep] = field(default_factory=dict)  # the last piece of each
    refused: set[str] = field(default_factory=set)  # ids that another owner or flush has claimed
    erased: dict[str, ErasedCounts] = field(default_factory=dict)  # by stored key
    flush: int | None = None  # the number of the flush that took it
    since_us: int | None = None  # the first accept stamp
    until_us: int = 0  # the last
    began: float = 0.0  # when the first hit came, by a clock that nobody can set
    more_bytes: int = 0  # what is held beside the counts
    words: ErasedWords = NO_WORDS  # values that must be forgotten

    def bytes_held(self) -> int:
        """Returns what this buffer takes in memory, with what its flush will."""
        return self.links.bytes_held + self.others.bytes_held + self.profiles.bytes_held + self.more_bytes

    def entries(self) -> int:
        return self.links.entries + self.others.entries + len(self.undecided) + len(self.openings)

    def is_empty(self) -> bool:
        return self.since_us is None

    def hits(self) -> int:
        """Returns the hits of all links, without those of undecided ids that are not visible."""
        return self.links.people.sums.total() + self.links.bots.sums.total()

    def _stamp(self, accepted_us: int) -> None:
        """Notes an accept stamp; a large batch is counted after later ones."""
        self.since_us = accepted_us if self.since_us is None else min(self.since_us, accepted_us)
        self.until_us = max(self.until_us, accepted_us)

    def add_singles(self, minute: int, keys: Sequence[str], accepted_us: int) -> bool:
        """Counts a hit of each key; returns whether more is held than before."""
        self._stamp(accepted_us)
        return self.links.people.add_singles(minute, keys)

    def add_batch(self, batch: Batch, accepted_us: int, visible: bool) -> None:
        """Counts a batch at once; see `adding`."""
        at_once(self.adding(batch, accepted_us, visible))

    def adding(self, batch: Batch, accepted_us: int, visible: bool) -> Iterator[None]:
        """Counts a batch; yields between steps of some milliseconds, for others to run.

        `visible`: the counts under ids are in answers before their claims are decided. Counts come before their
        attributes, so that no reader in between meets more of the latter.
        """
        self._stamp(accepted_us)
        if batch.keys:
            for keys in in_pieces(batch.keys, parts_of):
                self.links.people.add_keys(keys, self.late_before)
                if keys is not batch.keys:
                    yield
            return
        yield from self.links.add(batch.people, batch.bots, self.late_before)
        if batch.others:
            yield from self.others.add(batch.others, {}, self.late_before)
        before = len(self.openings)
        self.openings.update(batch.openings)
        if growth := len(self.openings) - before:
            self.more_bytes += growth * PAIR_BYTES + sum(map(getsizeof, islice(reversed(self.openings), growth)))
        numbers: list[int] = []
        if batch.attributes is not None:
            yield from self.profiles.number(batch.attributes, numbers)
            yield from self._count_attributes(batch.attributes.links, batch.attributes.groups, numbers, 1)
        for many, identified in enumerate(batch.identified, 1):
            yield from self._add_identified(UndecidedId(identified, accepted_us, visible, numbers))
            if many % IDS_AT_ONCE == 0:
                yield
        if batch.source is not None:
            self.sources[batch.source.source] = batch.source

    def _add_identified(self, undecided: UndecidedId) -> Iterator[None]:
        identified = undecided.identified
        undecided.earlier = self.undecided.get(identified.id)
        self.undecided[identified.id] = undecided
        pairs = sum(map(len, identified.people.values())) + sum(map(len, identified.bots.values()))
        self.more_bytes += ID_BYTES + pairs * PAIR_BYTES
        if identified.attributes or identified.groups:
            self.more_bytes += ID_BYTES + pairs * PAIR_BYTES
        if undecided.visible:
            yield from self._count(identified, undecided.numbers, 1)

    def _count(self, identified: Identified, numbers: Sequence[int], sign: int) -> Iterator[None]:
        yield from self.links.add(identified.people, identified.bots, self.late_before, sign)
        if identified.attributes or identified.groups:
            yield from self._count_attributes(identified.attributes, identified.groups, numbers, sign)

    def _count_attributes(
        self, links: AttributeCounts | None, groups: GroupCounts | None, numbers: Sequence[int], sign: int
    ) -> Iterator[None]:
        if links:
            yield from self.links.attributes.add(links, numbers, sign)
        if groups:
            yield from self.others.add(groups.people, groups.bots, self.late_before, sign)
            yield from self.others.attributes.add(groups.attributes, numbers, sign)

    def decide(self, refused: Iterable[str]) -> None:
        """Leaves out the ids in `refused`, which others have claimed, and counts all other undecided ids."""
        at_once(self.deciding(refused))

    def deciding(self, refused: Iterable[str]) -> Iterator[None]:
        """Decides the same; yields between steps of some milliseconds, for others to run."""
        others = set(refused)
        self.refused |= others
        for many, (id_, undecided) in enumerate(self.undecided.items(), 1):
            self._settle(undecided, id_ not in others)
            earlier = undecided.earlier
            while earlier is not None:
                self._settle(earlier, True)
                earlier = earlier.earlier
            if many % IDS_AT_ONCE == 0:
                yield
        for id_ in others:
            self.undecided.pop(id_, None)

    def _settle(self, undecided: UndecidedId, counts: bool) -> None:
        if undecided.visible != counts:
            self._count_late(undecided, 1 if counts else -1)
            undecided.visible = counts

    def _count_late(self, undecided: UndecidedId, sign: int) -> None:
        """Counts the hits under an id (sign -1: takes them back), also among what was erased after they came."""
        identified = undecided.identified
        at_once(self._count(identified, undecided.numbers, sign))
        if not self.erased:
            return
        links = identified.people, identified.bots, identified.attributes or AttributeCounts()
        groups = identified.groups or GroupCounts()
        for key in keys_of(*links[:2]):
            self._erase_late(link_key(key), undecided, counts_of(key, *links, undecided.numbers), sign)
        for stored in keys_of(groups.people, groups.bots):
            late = counts_of(stored, groups.people, groups.bots, groups.attributes, undecided.numbers)
            self._erase_late(stored, undecided, late, sign)

    def _erase_late(self, stored: str, undecided: UndecidedId, late: RowCounts, sign: int) -> None:
        erased = self.erased.get(stored)
        if erased is not None and undecided.accepted_us < erased.at_us:
            self.erased[stored] = ErasedCounts(erased.at_us, erased.counts.plus(late, sign))

    def erase(self, stored: str, at_us: int) -> ErasedCounts | None:
        """Erases what is buffered of a link or a group (its stored key); returns what `restore` needs."""
        before = self.erased.get(stored)
        self.erased[stored] = ErasedCounts(at_us, RowCounts().plus(self._of(stored)))  # a copy of its own
        return before

    def restore(self, stored: str, before: ErasedCounts | None) -> None:
        """Takes an erasure back."""
        if before is None:
            self.erased.pop(stored, None)
        else:
            self.erased[stored] = before

    def delta_of_row(self, stored: str) -> Delta:
        """Returns what this buffer adds to the row of a stored key."""
        if stored == ALL_LINKS:
            return self.all_links()
        counts = self._of(stored)
        erased = self.erased.get(stored)
        if erased is None:
            return Delta(counts.people, counts.bots, counts.opening)
        left = counts._replace(profiles={}, visitors={}).plus(erased.counts._replace(profiles={}, visitors={}), -1)
        gone, gone_bots = sum(erased.counts.people.values()), sum(erased.counts.bots.values())
        return Delta(left.people, left.bots, left.opening, gone + erased.counts.opening, gone_bots)

    def delta(self, key: str) -> Delta:
        """Returns what this buffer adds to one link's row."""
        return self.delta_of_row(link_key(key))

    def _of(self, stored: str) -> RowCounts:
        """Returns what is held of a link or of another row that is not that of all links."""
        link = link_of(stored)
        if link is None:
            return self.others.of(stored)
        return self.links.of(link)._replace(opening=self.openings.get(link, 0))

    def delta_of_breakdown(self, stored: str) -> BreakdownDelta:
        """Returns what this buffer adds to the breakdown of this stored key."""
        make = self.breakdown_maker(stored)
        return NO_DELTA if make is None else make()

    def breakdown_maker(self, stored: str) -> Callable[[], BreakdownDelta] | None:
        """Returns what makes that delta, of a copy, so that a thread may call it; None: it adds nothing."""
        make = self._maker(stored)
        if make is None or not self.words:
            return make
        instead = instead_in(stored, self.words)
        return make if instead is None else partial(_erased_delta, make, instead)

    def _maker(self, stored: str) -> Callable[[], BreakdownDelta] | None:
        counts = counts_key(stored)
        assert counts != stored, stored
        if counts == ALL_LINKS:
            sums = dict.copy(self.links.attributes.sums)
            return partial(self.profiles.delta_of_all, sums) if any(sums.values()) else None
        link = link_of(counts)
        row = self.others.attributes_of(counts) if link is None else self.links.attributes_of(link)
        if (erased := self.erased.get(counts)) is not None:
            row = row.plus(RowCounts(profiles=erased.counts.profiles, visitors=erased.counts.visitors), -1)
        return partial(self.profiles.delta, row) if any(row.profiles.values()) else None

    def counted_links(self) -> Iterator[dict[str, int]]:
        """Yields the links that were counted here, erased ones included, and their hits, as `MinuteCounts.by_key`."""
        return chain((dict.copy(self.openings),), self.links.by_key())

    def counted_beside(self, name_of: Callable[[str], str | None]) -> Iterator[dict[str, int]]:
        """Yields the rows beside links that `name_of` names and that were counted here, and their hits, likewise."""
        for by_key in self.others.by_key():
            yield {name: count for key, count in by_key.items() if (name := name_of(key)) is not None}

    def drain(self, pause: Callable[[], None]) -> None:
        """Lets go of what the store has taken, in small steps with pauses."""
        self.links.drain(pause)
        self.others.drain(pause)
        drain(self.openings, pause)
        drain(self.undecided, pause)

    def all_links(self) -> Delta:
        return Delta(self.links.people.all_links(), self.links.bots.all_links(), self.openings.total())


def _erased_delta(make: Callable[[], BreakdownDelta], instead: Instead) -> BreakdownDelta:
    return erase_in_delta(make(), instead)


def replay(frames: Iterable[Frame], erasures: Mapping[str, int], late_before: int) -> Buffer:
    """Builds the buffer that these journal frames make; erasures: stored keys, and when each was erased (epoch us).

    No count under an id is visible before its claim is decided: only the store knows whether this journal claimed it
    before a restart, or another owner did.
    """
    buffer = Buffer(late_before)
    to_erase = sorted(((at_us, key) for key, at_us in erasures.items()), reverse=True)
    for frame in frames:
        accepted_us = frame.accepted_us
        while to_erase and to_erase[-1][0] <= accepted_us:
            at_us, key = to_erase.pop()
            buffer.erase(key, at_us)
        decoded = decode_batch(frame.payload)
        if isinstance(decoded, Batch):
            buffer.add_batch(decoded, accepted_us, visible=False)
        else:
            buffer.add_singles(*decoded, accepted_us)
    for at_us, key in reversed(to_erase):
        buffer.erase(key, at_us)
    return buffer


class Buffers:
    """What an owner accepted and the store may lack. `taken`: what the unfinished flush moves, None between flushes.

    `full`: they take more than `bytes_max`. They may pass that by what was under way when they did.
    """

    def __init__(self, journal: Journal, late_before: int, bytes_max: int) -> None:
        """Rebuilds them from the journal's frames: one for the unfinished flush, one for all later hits."""
        self.bytes_max = bytes_max
        self._journal = journal
        self.taken: Buffer | None = None
        record = journal.state.flush
        if record is not None:
            self.taken = replay(journal.frames(record), {}, late_before)
            self.taken.flush = record.number
        self.filling = replay(journal.frames(), {}, late_before)
        self.words = NO_WORDS
        self.full = self.bytes_held() > bytes_max
        self._running: Callable[[], float] = lambda: 0.0

    def measure(self, now: float, running: Callable[[], float]) -> None:
        """Measures how long hits wait by `running` from now on. now: by the clock of the stamps that it holds."""
        self._running = running
        for each in self.all():
            each.began = running() - (0.0 if each.since_us is None else max(0.0, now - each.since_us / 1e6))

    def lag_s(self, running: float) -> float:
        """Returns how long the oldest hit has waited."""
        return max((running - each.began for each in self.all() if each.since_us is not None), default=0.0)

    def add(self, group: Group, minute: int, accepted_us: int) -> Iterator[None]:
        """Counts what a group brought, its single hits in this minute; yields between steps, for others to run."""
        buffer = self.filling
        if buffer.since_us is None:
            buffer.began = self._running()
        if group.keys and buffer.add_singles(minute, group.keys, accepted_us):
            self.full = self.bytes_held() > self.bytes_max
        if group.batches:
            for batch, visible, _ in group.batches:
                yield from buffer.adding(batch, accepted_us, visible)
            self.full = self.bytes_held() > self.bytes_max

    def bytes_held(self) -> int:
        total = self.filling.bytes_held()
        return total if self.taken is None else total + self.taken.bytes_held()

    def take(self, flush: int, late_before: int) -> None:
        """Hands what is buffered to this flush, and begins a new buffer."""
        self.taken, self.filling = self.filling, Buffer(late_before, words=self.words)
        self.taken.flush = flush

    def forget_words(self, words: ErasedWords) -> None:
        """Shows and lands nothing of these values from now on."""
        self.words = words
        for each in self.all():
            each.words = words

    def complete(self) -> None:
        """Lets go of what the flush has stored."""
        self.taken = None
        self.full = self.bytes_held() > self.bytes_max

    def all(self) -> list[Buffer]:
        return [self.filling] if self.taken is None else [self.taken, self.filling]

    def accepted_at(self, id_: str) -> int | None:
        """Returns the last accept stamp of an id whose claim is not decided, None if it is not here."""
        stamps = [each.undecided[id_].accepted_us for each in self.all() if id_ in each.undecided]
        return max(stamps, default=None)

    def pending(self, key: str) -> list[Pending]:
        """Returns what may not be in the owner's stored row of `key` (a stored key) yet."""
        others_from = self._journal.others_from
        return [
            Pending(self._owner, partial(getattr, each, "flush"), delta, others_from)
            for each in self.all()
            if (delta := each.delta_of_row(key)).adds_anything()
        ]

    def pending_breakdowns(self, key: str) -> list[PendingBreakdown]:
        """Returns what may not be in the owner's stored breakdown of `key` (its stored key) yet."""
        others_from = self._journal.others_from
        return [
            PendingBreakdown(self._owner, partial(getattr, each, "flush"), make, others_from)
            for each in self.all()
            if (make := each.breakdown_maker(key)) is not None
        ]

    def _owner(self) -> int:
        return self._journal.state.identity.owner

    def counted_links(self) -> Iterator[dict[str, int]]:
        """Yields the links that were counted here and their hits, a link several times."""
        return chain.from_iterable([each.counted_links() for each in self.all()])

    def counted_beside(self, name_of: Callable[[str], str | None]) -> Iterator[dict[str, int]]:
        """Yields the rows beside links that `name_of` names and that were counted here, and their hits, likewise."""
        return chain.from_iterable([each.counted_beside(name_of) for each in self.all()])

    def behind(self) -> JournalBehind:
        """Returns the answer to hits while they are full."""
        bytes_held = self.bytes_held()
        return JournalBehind(
            f"what waits for the store takes {bytes_held:,} of {self.bytes_max:,} bytes of memory; try again later"
        )

    def erase(self, stored: str, at_us: int) -> Callable[[], None]:
        """Erases what is buffered of a link or a group; returns what takes this back."""
        before = [(each, each.erase(stored, at_us)) for each in self.all()]

        def restore() -> None:
            for each, erased in before:
                each.restore(stored, erased)

        return restore

    @property
    def since_us(self) -> int | None:
        """The first accept stamp of all; None: nothing is buffered."""
        return min((each.since_us for each in self.all() if each.since_us is not None), default=None)
