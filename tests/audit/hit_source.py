"""Gives out the hits of random traffic: many keys, each of which takes hits until its weights are used up."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.audit.auditor import Hit

HITS_A_KEY = 15  # 4 ** 14 is the largest weight below the limit of a hit's count


@dataclass(slots=True)
class HitSource:
    """Keys begin with `prefix`; `open_keys` of them take hits at a time. Enter the hits in the order of the calls."""

    prefix: str
    chance: random.Random
    open_keys: int = 300
    _given: dict[str, int] = field(default_factory=dict)  # key -> hits
    _open: list[str] = field(default_factory=list)

    def single(self) -> Hit:
        """Returns a hit with a weight of one on a key of its own, for the route that knows no counts."""
        key = f"{self.prefix}one-{len(self._given)}"
        self._given[key] = 1
        return Hit(key, 0)

    def weighted(self) -> Hit:
        """Returns the next hit of a random open key."""
        if len(self._open) < self.open_keys:
            key = f"{self.prefix}{len(self._given)}"
            self._given[key] = 0
            self._open.append(key)
        index = self.chance.randrange(len(self._open))
        key = self._open[index]
        digit = self._given[key]
        self._given[key] += 1
        if digit + 1 == HITS_A_KEY:
            self._open[index] = self._open[-1]
            self._open.pop()
        return Hit(key, digit)
