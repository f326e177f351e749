"""What counts one key in memory: the verbs of each strategy's meter, and the bytes that all meters share."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod

from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import Rule


class MemoryBudget:
    """Bytes that are taken and given back, under the backend's lock. denied: how often too few were left."""

    __slots__ = ("denied", "max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.denied = 0

    def has(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self.max_bytes

    def take(self, size_bytes: int) -> bool:
        """Takes so many bytes; returns False, and takes none, if fewer are left."""
        used_bytes = self.used_bytes + size_bytes
        if used_bytes > self.max_bytes:
            self.denied += 1
            return False
        self.used_bytes = used_bytes
        return True

    def add(self, size_bytes: int) -> None:
        """Takes bytes that are needed in any case, even beyond the maximum."""
        self.used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes


# Of what is bounded elsewhere: a packed meter by the number of its buckets.
UNBOUNDED = MemoryBudget(sys.maxsize)


class Meter(ABC):
    """One key's state: the smallest that answers. The backend holds its lock around each call."""

    __slots__ = ()

    @abstractmethod
    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        """Returns the key's quota, after a hit of this cost if it fits and is taken. Changes nothing that counts."""

    def hit(self, rule: Rule, at_us: int, cost: int, caller: str) -> Quota:
        """Returns the key's quota after a hit of this cost, which it counts if it fits."""
        quota = self.weigh(rule, at_us, cost, True)
        if quota[0]:
            self.charge(rule, at_us, cost, caller, False)
        return quota

    @abstractmethod
    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, is_reserved: bool) -> int:
        """Counts a hit that fits. Returns the handle by which, if it is held, it can be taken back."""

    @abstractmethod
    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        """Ends the hold on a hit and takes back so much of its cost, as far as that still counts."""

    def explained(self, rule: Rule, at_us: int, quota: Quota) -> Quota:
        """Returns the quota with the pieces that it was summed from, if any, and the callers of a list."""
        return quota

    @abstractmethod
    def is_idle(self, at_us: int) -> bool:
        """Returns whether nothing counts at this time, so that a new meter would answer the same."""

    def size_bytes(self) -> int:
        """Returns what it took from the budget since it was made, without its share of a key."""
        return 0
