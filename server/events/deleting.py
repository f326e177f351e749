"""Deleting an event that is counted no more: what was counted of it, of all owners.

A deletion is noted, with a token of its own. Each worker answers it once: it moves what its owner holds into the store,
so that no hit of the event comes later, or says that its settings still count the event. When all open owners have
answered, the rows are erased, and then the event's name is forgotten: killed before that, it is begun again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.measures import measured
from clickcurve.keys import ALL_LINKS, corrected_key, link_of
from clickcurve.row_kinds.table import kind_of
from ingest.owner import Owner
from server.events.known_events import DELETED, DELETION_ANSWER, EVENT
from server.job import Job
from server.logs import log
from storage.contract import OPEN, OwnerRecord, Store, StoredLink

FOLLOW_S = 5
ROWS_PER_PAGE = 1_000
FLUSHED, COUNTED = "flushed", "counted"  # what an owner answers


@dataclass
class DeletionAnswers:
    """A worker's answers. counted: the events of its settings. `refresh` looks for deletions."""

    owner: Owner
    store: Store
    counted: Collection[str]
    _answered: set[str] = field(default_factory=set)  # tokens
    _is_silent: bool = False

    def jobs(self) -> Iterator[Job]:
        yield Job("event_deletions", self.refresh, FOLLOW_S, at_start=False)

    async def refresh(self) -> None:
        """Answers the deletions that are new."""
        try:
            for name, token in (await asyncio.to_thread(self.store.notes, DELETED)).items():
                if token not in self._answered:
                    await self._answer(name.removeprefix(DELETED), token)
                    self._answered.add(token)
            self._is_silent = False
        except ClickcurveError as error:
            if not self._is_silent:  # once, not every five seconds
                log.warning("no answer to a deletion", extra={"reason": error.detail, "then": "it is tried again"})
            self._is_silent = True

    async def _answer(self, name: str, token: str) -> None:
        await self.owner.flush()
        answer = COUNTED if name in self.counted else FLUSHED
        await asyncio.to_thread(self.store.note, f"{DELETION_ANSWER}{token}:{self.owner.status.owner}", answer)


@dataclass
class EventSums:
    """What is stored of an event: hits of people and of bots and the sum of people's values, and rows of links."""

    people: int = 0
    bots: int = 0
    value: int = 0
    links: int = 0
    rows: int = 0


def sums_of_events(store: Store) -> dict[str, EventSums]:
    """Returns what is stored of each event, by a walk over all rows. Raises StoreUnavailable, RowCorrupt."""
    found: dict[str, EventSums] = {}
    for key, link in _rows(store):
        measure, clicks = measured(key)
        live = [row for row in map(decode_header, (each.data for each in link.rows)) if row.erased_at >= link.erased_at]
        if not measure.event or not any(row.lifetime or row.bots for row in live):
            continue
        sums = found.setdefault(measure.event, EventSums())
        sums.rows += len(live)
        people, bots = sum(row.lifetime for row in live), sum(row.bots for row in live)
        if clicks == ALL_LINKS and measure.of_values:
            sums.value += people
        elif clicks == ALL_LINKS:
            sums.people, sums.bots = people, bots
        elif link_of(clicks) is not None:
            sums.links += not measure.of_values
    return found


def _rows(store: Store) -> Iterator[tuple[str, StoredLink]]:
    after: str | None = None
    while page := store.walk(after, ROWS_PER_PAGE):
        yield from page
        after = page[-1][0]


class Deletion:
    """The deletion of one event. May block; raises StoreUnavailable."""

    def __init__(self, store: Store, name: str) -> None:
        """Notes it, so that workers answer; another one of this event that was killed begins anew."""
        self._store, self._name, self._token = store, name, secrets.token_hex(8)
        store.drop_notes([DELETED + name])
        store.note(DELETED + name, self._token)

    def _answers(self) -> dict[str, str]:
        prefix = f"{DELETION_ANSWER}{self._token}:"
        return {name.removeprefix(prefix): answer for name, answer in self._store.notes(prefix).items()}

    def waiting(self) -> list[OwnerRecord]:
        """Returns the open owners that have not answered: they may hold hits of the event."""
        answers = self._answers()
        return [each for each in self._store.owners() if each.state == OPEN and str(each.owner) not in answers]

    def counting(self) -> list[int]:
        """Returns the owners whose settings still count the event."""
        return sorted(int(owner) for owner, answer in self._answers().items() if answer == COUNTED)

    def erase(self, now_us: int) -> int:
        """Erases all rows of the event; returns how many stored keys that were. now_us: after all of its hits."""
        page: list[tuple[str, StoredLink]] = []
        erased = 0
        for key, link in _rows(self._store):
            if measured(corrected_key(key))[0].event == self._name:
                page.append((key, link))
                if len(page) == ROWS_PER_PAGE:
                    erased, page = erased + self._erase(page, now_us), []
        return erased + self._erase(page, now_us)

    def _erase(self, page: list[tuple[str, StoredLink]], now_us: int) -> int:
        if page:
            # A machine whose clock is ahead may have erased some of them: the latest stamp wins.
            at_us = max(now_us, *(link.erased_at + 1 for _, link in page))
            rows = [key for key, _ in page if not kind_of(key).corrects]
            self._store.erase(rows, at_us, [key for key, _ in page if kind_of(key).corrects])
        return len(page)

    def end(self, *, is_deleted: bool) -> None:
        """Forgets what is noted of the deletion, and the event's name if its rows are erased."""
        answers = [*self._store.notes(f"{DELETION_ANSWER}{self._token}:")]
        self._store.drop_notes([*([EVENT + self._name] if is_deleted else []), DELETED + self._name, *answers])
