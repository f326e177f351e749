"""A store that fails on purpose, as a store does that is down, loses an answer, or outlives its caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import Held, Save, SavedRow, Store


class Killed(BaseException):
    """The process ends here."""


class FaultyStore:
    """Fails or kills before or after the n-th call of the flush side, and answers nothing while `down`."""

    PLAIN = ("rows", "claimed", "shared", "replay_us", "close", "walk", "due", "owners", "owner")

    def __init__(self, store: Store) -> None:
        self._store = store
        self.down = False
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
            self._up()
            self.calls += 1
            when, error = self.fail_at.pop(self.calls, ("never", StoreUnavailable))
            if when == "before":
                raise error(f"{name} before")
            answer = real(*args, **kwargs)
            if when == "after":
                raise error(f"{name} after")
            return answer

        return call

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
