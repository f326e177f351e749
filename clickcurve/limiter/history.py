"""What was asked of each event and what was admitted, summed by minute, until it is taken to be kept.

Pure: the listener of a limiter says when a decision was made, and takes the sums to wherever rows are kept. Decisions
count with their cost. A hit that only a rule in shadow mode would have refused was admitted, and so was a hit that a
fallback let pass. A reserved hit was asked for, and admitted, when it was reserved, whatever becomes of it; a peek is
neither.

Callers are kept under a digest that only the owner of the secret can make: it leads from a caller to a history, and
from a history to nobody.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from hashlib import blake2b

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, MINUTE_S
from clickcurve.keys import OUTCOMES, caller_key, limit_key
from clickcurve.limiter.decision import Decision

# Sums that may wait to be taken; when there are more the oldest minutes go, and are counted as lost. Without callers it
# is the sums of fifty events in a week.
MAX_SUMS = 1_000_000
# Callers of a day that get a history of their own; later ones share one.
MAX_CALLERS = 100_000
CALLER_RULE = "feature=value, such as ip=203.0.113.7, or several separated by blanks"


class DecisionSums:
    """Sums of one thread's decisions. lost: hits asked for whose sums had to go."""

    def __init__(self, max_sums: int = MAX_SUMS, max_callers: int = MAX_CALLERS) -> None:
        self.lost = 0
        self._max_sums = max_sums
        self._max_callers = max_callers
        self._minutes: dict[int, dict[str, int]] = {}
        self._keys: dict[str, tuple[str, str]] = {}
        self._callers: set[str] = set()
        self._day = -1

    def add(self, event: str, cost: int, decision: Decision, now: float) -> None:
        """Counts a decision that was made at `now`, epoch seconds."""
        self._add(self._keys.get(event) or self._named(event), cost, decision, now)

    def add_caller(self, event: str, digest: str, cost: int, decision: Decision, now: float) -> None:
        """Counts a decision about a caller, after `add` counted it for the event."""
        today = int(now) // DAY_S
        if today != self._day:
            self._callers.clear()
            self._day = today
        if digest not in self._callers:
            if len(self._callers) < self._max_callers:
                self._callers.add(digest)
            else:
                digest = "others"
        asked, admitted = (caller_key(event, outcome, digest) for outcome in OUTCOMES)
        self._add((asked, admitted), cost, decision, now)

    def _add(self, keys: tuple[str, str], cost: int, decision: Decision, now: float) -> None:
        minute = int(now) // MINUTE_S * MINUTE_S
        sums = self._minutes.get(minute)
        if sums is None:
            sums = self._minutes[minute] = {}
            self._bound()
        asked, admitted = keys
        sums[asked] = sums.get(asked, 0) + cost
        if decision.allowed:
            sums[admitted] = sums.get(admitted, 0) + cost

    def take(self) -> dict[int, dict[str, int]]:
        """Hands all sums over: minute start -> stored key -> count. None of them stay here."""
        taken, self._minutes = self._minutes, {}
        return taken

    def give_back(self, taken: Mapping[int, Mapping[str, int]]) -> None:
        """Takes back sums that could not be kept, to be taken once more."""
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
        sums = sum(map(len, self._minutes.values()))
        while sums > self._max_sums:
            oldest = min(self._minutes)
            gone = self._minutes.pop(oldest)
            sums -= len(gone)
            self.lost += asked_in({oldest: gone})


def asked_in(taken: Mapping[int, Mapping[str, int]]) -> int:
    """Returns how many hits were asked for, in sums that were taken; callers' sums are parts of those."""
    end = ":" + OUTCOMES[0]
    return sum(count for sums in taken.values() for key, count in sums.items() if key.endswith(end))


# --- callers ----------------------------------------------------------------------------------------------------------
def digest_of(secret: bytes, identity: str) -> str:
    """Returns what stands in keys for a caller (`clickcurve.limiter.key.identity_of`). secret: at most 64 bytes."""
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16, key=secret).hexdigest()


def parse_caller(text: str) -> dict[str, str]:
    """Parses a caller as people write it, `ip=203.0.113.7 endpoint=/links`, into features. ParameterInvalid."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError:
        words = []
    if not words or not all(name and value for name, _, value in words):
        raise ParameterInvalid(
            f"caller {text!r} is not written as feature=value", field="caller", value=text, rule=CALLER_RULE
        )
    return {name: value for name, _, value in words}
