"""The names of events that can be asked for: those of the settings, and those that the store still holds.

The store notes each name. One that the settings leave out is counted no more, and its rows answer until they are
deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.measures import measures_of, rows_with_events
from clickcurve.keys import link_key
from clickcurve.waiting import in_thread
from server.job import Job
from server.logs import log
from storage.contract import Store
from storage.notes import NoteSpace, take_new

# EVENT, then a name: it is stored. DELETED, then a name: it is being deleted, by a deletion with this token.
# DELETION_ANSWER, then its token and an owner: what this answers.
EVENT, DELETED, DELETION_ANSWER = "event:", "event-deleted:", "event-deletion-answer:"
RENEW_S = 60  # another server may count others
EVENT_NOTES = NoteSpace("events", (EVENT, DELETED, DELETION_ANSWER), take_new(EVENT))


class KnownNames:
    """The names as a worker knows them. `renew` agrees with the store."""

    def __init__(self, counted: Sequence[str], store: Store) -> None:
        """Makes them of the names of the settings, which are `counted`."""
        self._counted, self._store = tuple(counted), store
        self._stored: frozenset[str] = frozenset()
        self._is_silent = False

    def names(self) -> Collection[str]:
        """Returns all that can be asked for, those of the settings first."""
        return (*self._counted, *sorted(self._stored.difference(self._counted)))

    async def with_events(self, clicks: Iterable[str]) -> list[str]:
        """Returns the stored keys of these rows of clicks, and of all rows of events beside them.

        Asks the store, for another server may count others since. Raises StoreUnavailable.
        """
        names = {*self._counted, *await in_thread("reading events", noted_names, self._store)}
        return [row for each in clicks for row in rows_with_events(each, names)]

    def ranked_within(self, prefixes: Collection[str]) -> frozenset[str]:
        """Returns how the stored keys of links begin that have rankings of their own.

        prefixes: of the keys of links that tokens are for. An event, and its values, rank all links and those of each.
        """
        links = [link_key(each) for each in prefixes]
        measures = [measure for name in self.names() for measure in measures_of(name)]
        return frozenset([*links, *(measure.row(each) for measure in measures for each in ("", *links))])

    async def begin(self, patience_s: float) -> None:
        """Agrees with the store before the first request, if it answers in time; else the job does."""
        await asyncio.wait({asyncio.ensure_future(self.renew())}, timeout=patience_s)

    def jobs(self) -> Iterator[Job]:
        yield Job("events", self.renew, RENEW_S, at_start=False)

    async def renew(self) -> None:
        """Notes the names of the settings in the store, and learns which others it has."""
        try:
            self._stored = await asyncio.to_thread(self._agree)
            self._is_silent = False
        except ClickcurveError as error:
            if not self._is_silent:  # once, not every few seconds
                log.warning("events not noted", extra={"reason": error.detail, "then": "it is tried again"})
            self._is_silent = True

    def _agree(self) -> frozenset[str]:
        stored = noted_names(self._store)
        for name in self._counted:
            if name not in stored:
                self._store.note(EVENT + name, "")
        return stored.union(self._counted)


def noted_names(store: Store) -> frozenset[str]:
    """Returns the names of the events that a store holds. May block; raises StoreUnavailable."""
    return frozenset(name.removeprefix(EVENT) for name in store.notes(EVENT))
