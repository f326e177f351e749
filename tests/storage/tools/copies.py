"""What the tests of copies share: a store that has everything, what is to be seen of it, and ways to interrupt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S
from clickcurve.buckets.measures import measured, measures_of
from clickcurve.keys import ALL_LINKS, moved_key
from server.app.note_spaces import NOTE_SPACES
from server.events.known_events import EVENT, noted_names
from storage.contract import OPEN, RETIRED, Held, Source, Store, StoredLink
from storage.tools.copy import Copied, copy
from storage.tools.copy_owner import PREFIX
from storage.tools.export import export
from storage.tools.verify import OnProgress, pages
from tests.storage.flushes import DAY, NOON, Flusher, hits
from tests.storage.stores import due

Make = Callable[[str], Store]

NOW_US = NOON * 1_000_000
HOUR_US = 3_600_000_000
WINDOW_US = 48 * HOUR_US


def retire(store: Store, owner: int) -> None:
    stored = store.owner(owner)
    assert stored is not None and store.claim(stored, replace(stored, state=RETIRED))


def filled(store: Store) -> Store:
    """Three owners: two of a stopped server, one of a lost machine that was in the middle of a flush."""
    first, second, lost = Flusher(store, 1, divided=True), Flusher(store, 2), Flusher(store, 5, divided=True)
    first.flush({f"key-{n}": hits((n, 1 << n), bots=n % 2) for n in range(10)}, {"log": Source(1, 100, "tail")})
    second.flush({"key-1": hits((0, 7)), "key-2": hits((-3 * 1440, 5)), "\0\0odd": hits((0, 3), opening=4)})
    store.erase(["key-2"], NOW_US)
    first.flush({"key-2": hits((9, 1)), "key-3": hits((9, 2))})
    for flusher, id_, hours in ((first, "a", 1), (first, "b", 47), (second, "c", 2), (second, "old", 49)):
        store.claim_ids(flusher.held, flusher.number, {id_: NOW_US - hours * HOUR_US}, WINDOW_US)
    lost.flush({"key-1": hits((1, 11))}, {"other": Source(5, 7, "seven")})
    lost.begin({"key-4": hits((1, 13)), "key-5": hits((1, 17))})
    store.close_owner(first.held)
    store.close_owner(second.held)
    retire(store, 5)
    return store


def filled_with_events(store: Store) -> Store:
    """One owner with sales of two links, some of which are called bots."""
    flusher = Flusher(store, 1, divided=True)
    rows = ("key-1", "key-2", ALL_LINKS)
    events = {measure.row(row): hits((9, 40), bots=3) for measure in measures_of("sale") for row in rows}
    for row in events:
        if measured(row)[1] == ALL_LINKS:
            events[row] = hits((9, 80), bots=6)
    called = {moved_key(row): hits((9, 1)) for row in events}
    flusher.begin({**events, **called, "key-1": hits((1, 2)), "key-2": hits()})
    flusher.finish({"key-1": hits((1, 2))})
    store.note(f"{EVENT}sale", "")
    store.close_owner(flusher.held)
    return store


def copied(source: Store, target: Store, on_progress: OnProgress = lambda done, total: None) -> Copied:
    return asyncio.run(copy(source, target, CLICKS, NOW_US - WINDOW_US, WINDOW_US, NOTE_SPACES, on_progress))


def ids(store: Store) -> set[str]:
    with store.view() as view:
        found: list[tuple[str, int]] = []
        while page := view.ids(found[-1][0] if found else None, 100):
            found += page
        return {id_ for id_, _ in found}


def imports(store: Store) -> dict[str, Source]:
    with store.view() as view:
        return {name: kept for name, kept in view.sources().items() if not name.startswith(PREFIX)}


def picture(store: Store) -> tuple[Any, ...]:
    """All that matters of a store."""
    days = [
        {owner.owner: sorted(due(store, owner.owner, day, 100)) for owner in store.owners()} for day in (0, DAY + 9)
    ]
    with store.view() as view:
        links = sorted(chain.from_iterable(pages(view)))
    return store.owners(), links, ids(store), imports(store), days


def exported(store: Store) -> list[dict[str, Any]]:
    lines = export(store, CLICKS, NOON + 40 * DAY_S, pytest.fail, events=noted_names(store))
    return sorted(lines, key=lambda line: str(line["key"]))


def reopened(store: Store, owner: int) -> Flusher:
    """The owner again in the hands of its journal, one epoch on."""
    stored = store.owner(owner)
    assert stored is not None
    flusher = Flusher(store, owner)
    flusher.held, flusher.number = Held(owner, stored.epoch + 1, "again"), stored.begun
    assert store.claim(stored, replace(stored, epoch=stored.epoch + 1, holder="again", state=OPEN))
    return flusher


class Died(BaseException):
    """The copying process was killed here."""


class Recording:
    """A store that remembers what was saved."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.saved: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name == "save_own":
            return self._save_own
        return getattr(self.store, name)

    def _save_own(self, held: Held, flush: int, rows: Any, sources: Any) -> None:
        self.saved.append(rows)
        self.store.save_own(held, flush, rows, sources)


class Interrupted:
    """A store at whose n-th call `then` happens, before or after the call."""

    def __init__(self, store: Store, n: int, when: str, then: Callable[[], object]) -> None:
        self._store, self._n, self._when, self._then = store, n, when, then
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)

        def call(*args: Any) -> Any:
            now = self._is_now()
            if now and self._when == "before":
                self._then()
            answer = real(*args)
            if now and self._when == "after":
                self._then()
            return answer

        return call

    async def rows(self, key: str) -> StoredLink:
        if self._is_now():
            self._then()
        return await self._store.rows(key)

    def _is_now(self) -> bool:
        self.calls += 1
        return self.calls == self._n


def die() -> None:
    raise Died


def fail() -> None:
    raise StoreUnavailable("down")
