"""Nodes that count clicks and events: real owners over one store, a hand-moved clock, and a plain list of every hit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from clickcurve.answers.written import as_json
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.ladder import DAY_S
from clickcurve.buckets.measures import CLICKS as OF_CLICKS
from clickcurve.buckets.measures import Measure, measures_of
from clickcurve.buckets.ranges import Bots
from clickcurve.keys import ALL, Subject, group_of, link_key
from clickcurve.pending import Pending, PendingBreakdown
from ingest.attributes.country import OFF, country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import Batch
from ingest.hit import JsonHit, Moment, RawHits
from ingest.reading.request_sums import RequestSums
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.why import ChangeQueries
from query.counted import KnownEvents
from query.lists.listed_rows import GROUP, LINK
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from storage.contract import Store
from testing.owner_process import OwnerProcess, TrackedDisk

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
EVENTS = ("lead", "sale")
DIMENSIONS = ("ref", "source")
MEASURES = (OF_CLICKS, *(measure for name in EVENTS for measure in measures_of(name)))
READER = ProfileReader(DIMENSIONS, country_reader(OFF), ReferrerReader(), events=EVENTS)


@dataclass(frozen=True)
class EventHit:
    """A click, or with a name an event. ref, source: what it says, empty for nothing."""

    key: str
    t: int
    event: str = ""
    value: int = 0
    count: int = 1
    bot: bool = False
    ref: str = ""
    source: str = ""
    groups: tuple[str, ...] = ()
    id: str | None = None

    @property
    def minute(self) -> int:
        return self.t - self.t % 60

    def measured(self, measure: Measure) -> int:
        """What it adds to a row of this measure."""
        if measure.event != self.event:
            return 0
        return self.count * (self.value if measure.of_values else 1)

    def sent(self) -> JsonHit:
        return JsonHit(
            self.key,
            ts=self.t,
            count=self.count,
            id=self.id,
            bot=self.bot or None,
            ref=f"https://{self.ref}/page" if self.ref else None,
            source=self.source or None,
            groups=[*self.groups] or None,
            event=self.event or None,
            value=self.value if self.event else None,
        )


def batch_of(hits: Sequence[EventHit], now: int) -> Batch:
    """The batch of a request with these hits, all of which are good."""
    sums = RequestSums(Moment(now, now - DAY_S, now + 300), reader=READER)
    sums.add(RawHits(json=[hit.sent() for hit in hits]), lambda agent: False)
    receipt = sums.receipt()
    assert not receipt.refused, receipt
    batch = sums.batch()
    assert batch is not None
    return batch


class Asker:
    """What answers questions at a node. own: its owners; workers: those of other processes of its machine."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], float],
        own: Callable[[], Sequence[OwnerProcess]],
        workers: Callable[[], Sequence[OwnerProcess]] = tuple,
        bounded: BoundedLadder = BREAKDOWN,
    ) -> None:
        self._own, self._workers = own, workers
        self.reader = Reader(store.rows, self._pending, lambda keys: None, store.ladder, self.pending)
        divided = BreakdownReader(store.rows, self._pending, self._parts, store.ladder, bounded, self)
        known = KnownEvents(lambda: EVENTS)
        self.breakdowns = BreakdownQueries(divided, DIMENSIONS, lambda dimension: 0, now, events=known)
        self.links = Listing(LINK, store, self._all_pending, self._buffered, lambda: 0, buffered_beside=self._beside)
        groups = partial(self._beside, group_of)
        self.groups = Listing(GROUP, store, self._all_pending, groups, lambda: 0, buffered_beside=self._beside)
        self.queries = Queries(self.reader, self.links, self.groups, now, known)
        self.events = self.queries.what_came(self.breakdowns)
        self.changes = ChangeQueries(self.queries, self.breakdowns)

    def _pending(self, key: str) -> list[Pending]:
        return [each for process in self._own() for each in process.owner.pending(key)]

    def _all_pending(self, key: str) -> list[Pending]:
        """Lists ask no other worker for links: here they know all that is pending on the machine."""
        theirs = [each for process in self._workers() for each in process.owner.pending(key)]
        return [*self._pending(key), *theirs]

    def _parts(self, key: str) -> list[PendingBreakdown]:
        return [each for process in self._own() for each in process.owner.pending_breakdowns(key)]

    async def pending(self, key: str) -> Sequence[Pending]:
        return [each for process in self._workers() for each in process.owner.pending(key)]

    async def pending_breakdowns(self, key: str) -> Sequence[PendingBreakdown]:
        return [each for process in self._workers() for each in process.owner.pending_breakdowns(key)]

    def _buffered(self) -> Iterable[dict[str, int]]:
        owners = (process.owner for process in (*self._own(), *self._workers()))
        return chain.from_iterable([owner.buffered_links() for owner in owners])

    def _beside(self, name_of: Callable[[str], str | None]) -> Iterable[dict[str, int]]:
        owners = (process.owner for process in (*self._own(), *self._workers()))
        return chain.from_iterable([owner.buffered_beside(name_of) for owner in owners])

    async def ask(self, what: str, subject: Subject = ALL, query: str = "") -> dict[str, Any]:
        """What a program reads of an answer. what: as in a path after the subject, such as `by/ref/curve`."""
        words, raw = what.split("/"), query.encode()
        dimension = words.pop(words.index("by") + 1) if "by" in words else ""
        answers: dict[str, Callable[[], Any]] = {
            "": lambda: self.queries.summary(subject, raw),
            "total": lambda: self.queries.total(subject, raw),
            "curve": lambda: self.queries.curve(subject, raw),
            "by": lambda: self.breakdowns.by(subject, dimension, raw),
            "by/curve": lambda: self.breakdowns.curve(subject, dimension, raw),
            "why": lambda: self.changes.why(subject, raw),
            "events": lambda: self.events.of(subject, raw),
            "events/by": lambda: self.events.by(subject, dimension, raw),
            "links": lambda: self.queries.links(raw),
            "groups": lambda: self.queries.groups(raw),
        }
        return dict(json.loads(as_json(await answers["/".join(words)]())))

    async def sum(self, keys: Sequence[str], query: str) -> dict[str, Any]:
        return dict(json.loads(as_json(await self.queries.sum(keys, query.encode()))))


class EventNodes:
    """Owners, workers of one machine, over a store; `asker` answers at the first, `elsewhere` at another machine."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        owners: int = 1,
        now: int = NOW,
        bounded: BoundedLadder = BREAKDOWN,
        written: Store | None = None,
    ) -> None:
        """Starts the owners. written: what these have of the store, which may fail them."""
        self.store, self.now = store, now
        self.hits: list[EventHit] = []  # of links that were not deleted since
        self.everything: list[EventHit] = []
        self.processes = [
            OwnerProcess(
                folder / f"journal-{n}",
                written or store,
                lambda: float(self.now),
                alone=owners == 1,
                disk=TrackedDisk(),
                bounded=bounded,
            )
            for n in range(owners)
        ]
        first, others = self.processes[:1], self.processes[1:]
        self.asker = Asker(store, self._clock, lambda: first, lambda: others, bounded)
        self.elsewhere = Asker(store, self._clock, tuple, bounded=bounded)

    def _clock(self) -> float:
        return self.now + 0.5

    async def accept(self, *hits: EventHit, owner: int = 0) -> None:
        """Counts hits; those whose id was counted before count no more."""
        duplicates = await self.processes[owner].owner.accept(batch_of(hits, self.now))
        new = [hit for hit in hits if hit.id is None or hit.id not in duplicates]
        self.hits += new
        self.everything += new

    async def flush(self) -> None:
        for process in self.processes:
            await process.owner.flush()

    async def delete(self, stored: str) -> None:
        """Deletes a link or a group with its events, as a server does."""
        rows = [measure.row(stored) for measure in MEASURES]
        await self.processes[0].owner.erase(*rows)
        for process in self.processes[1:]:
            await process.owner.hide_erased(*rows)
        for asker in (self.asker, self.elsewhere):
            asker.queries.rows_erased()
        self.hits = [hit for hit in self.hits if link_key(hit.key) != stored]

    async def close(self) -> None:
        for process in self.processes:
            await process.owner.close()
        self.store.close()

    # --- the truth -----------------------------------------------------------------------------------------------
    def of(self, subject: Subject, bots: Bots = Bots.exclude) -> list[EventHit]:
        """The hits of a subject."""
        wanted = {Bots.exclude: (False,), Bots.only: (True,), Bots.include: (False, True)}[bots]
        if subject == ALL:
            found = self.everything
        elif (group := group_of(subject.stored)) is not None:
            found = [hit for hit in self.everything if group in hit.groups]
        else:
            found = [hit for hit in self.hits if link_key(hit.key) == subject.stored]
        return [hit for hit in found if hit.bot in wanted]


def counted(hits: Iterable[EventHit], measure: Measure, start: int = 0, end: int = 2**40) -> int:
    """What hits of [start, end) add up to."""
    return sum(hit.measured(measure) for hit in hits if start <= hit.t < end)


def counted_minutes(hits: Iterable[EventHit], measure: Measure, start: int | None, end: int | None) -> int:
    """What hits of whole minutes of [start, end) add up to; None: of all time."""
    low, high = (0, 2**40) if start is None or end is None else (start, end)
    return sum(hit.measured(measure) for hit in hits if low <= hit.minute < high)


def asking(measure: Measure) -> str:
    """The parameters that ask for a measure."""
    if not measure.event:
        return ""
    return f"event={measure.event}" + ("&measure=value" if measure.of_values else "")
