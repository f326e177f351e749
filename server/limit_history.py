"""Hands what the limiter decided over to the owner, which keeps it like hits: in the journal, then in rows.

Once a second, as one batch, and once more at a stop. What was handed over survives a kill; what was decided since the
last second is lost with the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from buckets.errors import ClickcurveError, JournalUnknown
from ingest.batch import Batch
from ratelimit.decision import Decision
from ratelimit.history import History, asked_in


class LimitHistory:
    """`heard` is the limiter's listener. accept is the owner's. Everything on one event loop."""

    def __init__(self, accept: Callable[[Batch], Awaitable[object]], clock: Callable[[], float]) -> None:
        self._accept = accept
        self._clock = clock
        self._history = History()
        self._lost = 0

    def heard(self, event: str, cost: int, decision: Decision) -> None:
        self._history.add(event, cost, decision, self._clock())

    async def hand_over(self) -> None:
        """All that was heard is in the journal. Raises what `accept` raises; then it is handed over the next time."""
        taken = self._history.take()
        if not taken:
            return
        try:
            await self._accept(Batch(others=taken))
        except JournalUnknown:  # it may count already: once more could be twice
            self._lost += asked_in(taken)
            raise
        except ClickcurveError:
            self._history.give_back(taken)
            raise

    @property
    def lost(self) -> int:
        """Hits asked for whose counts may not have been kept."""
        return self._lost + self._history.lost
