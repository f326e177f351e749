"""What a store has open, opened at the start if that is possible, else on first use.

A server starts while its store is down: it accepts hits, which needs the journal only. The verbs of a flush, which may
block, try to open the store each time. Readers on the event loop only use what a flush has opened, since opening may
take seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeAlias, TypeVar

from clickcurve.buckets.errors import StoreUnavailable

Later: TypeAlias = Callable[[StoreUnavailable], object]


class Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closable)


class FirstUse(Generic[Opened]):
    """The connections that `connect` makes. Any thread may use it."""

    def __init__(self, connect: Callable[[], Opened], later: Later | None) -> None:
        """Opens at once. If the store cannot answer now, calls `later` with the reason and leaves it to `open`.

        Without `later` it raises StoreUnavailable instead. Whatever else `connect` raises passes through.
        """
        self._connect = connect
        self._opening = Lock()
        self._opened: Opened | None = None
        self._reason = ""
        try:
            self.open()
        except StoreUnavailable as error:
            if later is None:
                raise
            later(error)

    def open(self) -> Opened:
        """Returns what is open, and opens it before that if it is not. May block for seconds. Raises as `connect`."""
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = self._connect()
                except StoreUnavailable as error:
                    self._reason = error.detail
                    raise
            return self._opened

    def opened(self) -> Opened:
        """Returns what is open. Never blocks; raises StoreUnavailable if nothing is."""
        if self._opened is None:
            raise StoreUnavailable(f"the store has not been reached since the start: {self._reason}")
        return self._opened

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def close(self) -> None:
        """Closes what is open, for good."""
        if self._opened is not None:
            self._opened.close()
