"""What was asked of each event and what was admitted, summed by minute, until somebody takes it to keep.

Pure: who listens to a limiter says when a decision was made, and takes the sums to wherever rows are kept. Decisions
count with their cost. What a rule in shadow mode would have refused was admitted, and so was what was admitted blindly.
A reserved hit was asked for, and admitted, when it was reserved, whatever becomes of it; a peek is neither.
"""

from __future__ import annotations

from collections.abc import Mapping

from ratelimit.decision import Decision
from storage.contract import OUTCOMES, limit_key

MINUTE_S = 60
# Of sums that nobody could take. More than this go, the oldest first, and are counted as lost.
MAX_MINUTES = 7 * 24 * 60


class History:
    """Sums of one thread's decisions. lost: hits asked for whose sums had to go."""

    def __init__(self, max_minutes: int = MAX_MINUTES) -> None:
        self.lost = 0
        self._max_minutes = max_minutes
        self._minutes: dict[int, dict[str, int]] = {}
        self._keys: dict[str, tuple[str, str]] = {}

    def add(self, event: str, cost: int, decision: Decision, now: float) -> None:
        """Count a decision that was made at `now`, epoch seconds."""
        minute = int(now) // MINUTE_S * MINUTE_S
        sums = self._minutes.get(minute)
        if sums is None:
            sums = self._minutes[minute] = {}
            self._bound()
        asked, admitted = self._keys.get(event) or self._named(event)
        sums[asked] = sums.get(asked, 0) + cost
        if decision.allowed:
            sums[admitted] = sums.get(admitted, 0) + cost

    def take(self) -> dict[int, dict[str, int]]:
        """All sums, minute start -> stored key -> count; from here on they are the taker's."""
        taken, self._minutes = self._minutes, {}
        return taken

    def give_back(self, taken: Mapping[int, Mapping[str, int]]) -> None:
        """What could not be kept is here again, to be taken once more."""
        for minute, sums in taken.items():
            mine = self._minutes.setdefault(minute, {})
            for key, count in sums.items():
                mine[key] = mine.get(key, 0) + count
        self._bound()

    def _named(self, event: str) -> tuple[str, str]:
        asked, admitted = (limit_key(event, outcome) for outcome in OUTCOMES)
        self._keys[event] = asked, admitted
        return asked, admitted

    def _bound(self) -> None:
        while len(self._minutes) > self._max_minutes:
            oldest = min(self._minutes)
            self.lost += asked_in({oldest: self._minutes.pop(oldest)})


def asked_in(taken: Mapping[int, Mapping[str, int]]) -> int:
    """How many hits were asked for, in sums that were taken."""
    end = ":" + OUTCOMES[0]
    return sum(count for sums in taken.values() for key, count in sums.items() if key.endswith(end))
