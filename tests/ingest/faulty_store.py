"""A store that fails on purpose, as a store does that is down, loses an answer, or outlives its caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import Held, Save, SavedRow, Store
from storage.journals import Journals


class Killed(BaseException):
    """The process ends here."""


class FaultyStore:
    """Fails or kills before or after the n-th call of the flush side, and answers nothing while `down`.

    killed: the process has ended in a call whose error nobody raises.
    """

    PLAIN = ("rows", "claimed", "shared", "replay_us", "close", "walk", "due", "owners", "owner")

    def __init__(self, store: Store) -> None:
        self._store = store
        self.down = self.killed = False
        self.calls = 0
        self.fail_at: dict[int, tuple[str, type[BaseException]]] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name in ("shared", "replay_us", "links_per_load", "ladder"):
            return real
        if name in ("rows", "claimed"):

            async def read(*args: Any) -> Any:
                self._up()
                return await real(*args)

            return read

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._failing(name):
                return real(*args, **kwargs)

        return call

    @contextmanager
    def _failing(self, name: str) -> Iterator[None]:
        """Counts a call, and fails before or after it."""
        self._up()
        self.calls += 1
        when, error = self.fail_at.pop(self.calls, ("never", StoreUnavailable))
        if when == "before":
            raise error(f"{name} before")
        yield
        if when == "after":
            raise error(f"{name} after")

    def journals(self) -> Any:
        return FaultyJournals(self, self._store.journals())

    @contextmanager
    def saving(self, held: Held, flush: int) -> Iterator[Save]:
        """A piece stays under way as long as it may: until the next one is given, or the end. Then it may fail."""
        under_way: list[Mapping[str, SavedRow]] = []

        def wait() -> None:
            while under_way:
                self.save_own(held, flush, under_way.pop(), {})

        def save(rows: Mapping[str, SavedRow]) -> None:
            wait()
            under_way.append(rows)

        try:
            yield save
        except BaseException:
            with suppress(StoreUnavailable):
                wait()
            raise
        wait()

    def _up(self) -> None:
        if self.down:
            raise StoreUnavailable("down")


class FaultyJournals:
    """The journals of a store that fails: their calls are counted with its own.

    Frames are written and fences read on the loop of a process. If it is killed there, nothing of it is answered.
    """

    def __init__(self, store: FaultyStore, journals: Journals) -> None:
        self._store, self._journals = store, journals

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._journals, name)

        def call(*args: Any) -> Any:
            with self._store._failing(name):
                return real(*args)

        async def ask(*args: Any) -> Any:
            try:
                with self._store._failing(name):
                    return await real(*args)
            except Killed as killed:
                self._store.killed = True
                raise StoreUnavailable("nobody hears it") from killed

        return ask if name in ("append", "fence") else call
