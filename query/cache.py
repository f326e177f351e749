"""A bounded cache of things that are slow to make and needed again within the minute."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A dict with a bound on the sum of its values' weights.

    When it is full it forgets everything: cheap, and right here, because what it holds goes out of date with the clock.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._values: dict[K, V] = {}
        self.get = self._values.get

    def keep(self, key: K, value: V, weight: int) -> V:
        """Keeps a value, unless it is too heavy, and returns it. A key's weight is that of its first value."""
        if key in self._values:
            self._values[key] = value
        elif weight <= self._most:
            if self._weight + weight > self._most:
                self._values.clear()
                self._weight = 0
            self._weight += weight
            self._values[key] = value
        return value
