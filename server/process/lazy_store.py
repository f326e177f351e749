"""A store that could not be opened when the server started: it is opened by whoever needs it first once it can be.

Hits are accepted meanwhile, since accepting needs the journal only. The flush, whose calls may block, tries to open the
store each time; readers only use what a flush has opened, because opening may take seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import Store, StoredLink


class LateStore:
    """Stands for the store that `open_store` gives; `shared` is known before."""

    def __init__(self, open_store: Callable[[], Store], shared: bool, reason: str) -> None:
        self.shared = shared
        self._open_store = open_store
        self._opening = threading.Lock()
        self._opened: Store | None = None
        self._reason = reason

    def _store(self) -> Store:
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = self._open_store()
                except StoreUnavailable as error:
                    self._reason = error.detail
                    raise
            return self._opened

    def _ready(self) -> Store:
        if self._opened is None:
            raise StoreUnavailable(f"the store has not been reached since the start: {self._reason}")
        return self._opened

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Any plain verb of the contract; the store is opened when it is called, not when it is named."""
        return lambda *args, **named: getattr(self._store(), name)(*args, **named)

    @property
    def replay_us(self) -> int | None:
        return None if self._opened is None else self._opened.replay_us

    def measures(self) -> Mapping[str, float]:
        return {} if self._opened is None else self._opened.measures()

    async def rows(self, key: str) -> StoredLink:
        return await self._ready().rows(key)

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        return await self._ready().claimed(ids, since_us)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def open_or_later(open_store: Callable[[], Store], shared: bool, told: Callable[[StoreUnavailable], None]) -> Store:
    """The store, or one that opens later where it cannot answer now; `told` hears why. StoreMismatch passes through."""
    try:
        return open_store()
    except StoreUnavailable as error:
        told(error)
        return cast(Store, LateStore(open_store, shared, error.detail))
