"""The outside auditor's book: what was sent, what was answered, and so how often each hit may count.

Each hit of a key has a weight of its own, a power of four. So a key's total, written in base four, says of every single
hit how often it was counted: 0, 1, 2 or 3 times. A wrong total names the hit.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

BASE = 4
HITS_A_KEY = 15  # 4 ** 14 is the largest weight below the limit of a hit's count


class Outcome(Enum):
    """What is known of a hit. The value: how often it may have been counted, least and most."""

    acknowledged = (1, 1)  # answered with success
    unknown = (0, 1)  # the connection ended without an answer
    refused = (0, 0)  # answered with 429 or 503, or never sent


@dataclass(frozen=True, slots=True)
class Sent:
    """One hit: its key and which digit of the key's total it is."""

    key: str
    digit: int

    @property
    def count(self) -> int:
        return int(BASE**self.digit)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A hit that a total has more or less often than it may. digit None: more than all that was sent."""

    key: str
    digit: int | None
    was: str
    times: int
    lost: bool  # else it was counted too often
    total: int

    def __str__(self) -> str:
        if self.digit is None:
            return f"{self.key}: the total {self.total} is more than was ever sent"
        return f"{self.key}: hit {self.digit} was {self.was} and counted {self.times} times (total {self.total})"


def misfits(key: str, total: int, expected: Sequence[tuple[str, int, int]]) -> list[Misfit]:
    """The hits of a key that its total has more or less often than expected: (what it was, least, most).

    `expected` has every hit that was sent, in the order of the digits.
    """
    wrong = []
    for digit, (was, least, most) in enumerate(expected):
        times = total // BASE**digit % BASE
        if not least <= times <= most:
            wrong.append(Misfit(key, digit, was, times, times < least, total))
    if total >= BASE ** len(expected):
        wrong.append(Misfit(key, None, "never sent", 1, False, total))
    return wrong


@dataclass(slots=True)
class Ledger:
    """Hands out hits and judges totals. Keys begin with `prefix`; `open_keys` of them take hits at a time."""

    prefix: str
    chance: random.Random
    open_keys: int = 300
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _whole: list[tuple[Sent, ...]] = field(default_factory=list)

    def single(self) -> Sent:
        """A hit with a weight of one on a key of its own, for the route that knows no counts."""
        key = f"{self.prefix}one-{len(self.outcomes)}"
        self.outcomes[key] = [Outcome.unknown]
        return Sent(key, 0)

    def weighted(self) -> Sent:
        """The next hit of a random open key."""
        if len(self._open) < self.open_keys:
            key = f"{self.prefix}{len(self.outcomes)}"
            self.outcomes[key] = []
            self._open.append(key)
        place = self.chance.randrange(len(self._open))
        key = self._open[place]
        outcomes = self.outcomes[key]
        outcomes.append(Outcome.unknown)
        if len(outcomes) == HITS_A_KEY:
            self._open[place] = self._open[-1]
            self._open.pop()
        return Sent(key, len(outcomes) - 1)

    def settle(self, hits: Sequence[Sent], outcome: Outcome) -> None:
        """Writes down what became of one request. Until then its hits are unknown."""
        for hit in hits:
            self.outcomes[hit.key][hit.digit] = outcome
        if outcome is Outcome.unknown and len(hits) > 1:
            self._whole.append(tuple(hits))

    def bounds(self, key: str) -> tuple[int, int]:
        """Least and most that the key's total may be."""
        weights = [BASE**digit for digit in range(HITS_A_KEY)]
        spans = [outcome.value for outcome in self.outcomes[key]]
        return (
            sum(weight * least for weight, (least, _) in zip(weights, spans, strict=False)),
            sum(weight * most for weight, (_, most) in zip(weights, spans, strict=False)),
        )

    def sums(self) -> dict[Outcome, int]:
        """How many hits had which outcome."""
        found = dict.fromkeys(Outcome, 0)
        for outcomes in self.outcomes.values():
            for outcome in outcomes:
                found[outcome] += 1
        return found

    def misfits(self, totals: Mapping[str, int], keys: Iterable[str] | None = None) -> list[Misfit]:
        """The hits that counted more or less often than their answers allow; a missing key has no hits."""
        wrong = []
        for key in self.outcomes if keys is None else keys:
            expected = [(outcome.name, *outcome.value) for outcome in self.outcomes[key]]
            wrong += misfits(key, totals.get(key, 0), expected)
        return wrong

    def judge(self, totals: Mapping[str, int], keys: Iterable[str] | None = None) -> list[str]:
        """A sentence for each of the misfits."""
        return [str(misfit) for misfit in self.misfits(totals, keys)]

    def judge_whole(self, totals: Mapping[str, int]) -> list[str]:
        """A sentence for each request without an answer that counted in part."""
        return [
            f"a batch of {len(hits)} hits without an answer counted in part, at {hits[0].key} hit {hits[0].digit}"
            for hits in self._whole
            if len({totals.get(hit.key, 0) // hit.count % BASE for hit in hits}) > 1
        ]
