"""A table that only conditional updates change: one value after the other, the same for all.

What a coordinator had begun may lie there unfinished. The next conditional update or serial read of that partition
finishes it or ends it for good, before it does its own work. A read at quorum may still see the value before the last
one, as long as nobody was told that the last one is there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from random import Random

Columns = dict[str, tuple[object, float | None]]  # column -> value and when it expires, epoch seconds
Key = tuple[object, ...]
Condition = tuple[str, str, object]  # column, comparison, value

COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": lambda a, b: a is not None and a < b,  # type: ignore[operator]
    "<=": lambda a, b: a is not None and a <= b,  # type: ignore[operator]
    ">": lambda a, b: a is not None and a > b,  # type: ignore[operator]
    ">=": lambda a, b: a is not None and a >= b,  # type: ignore[operator]
}


@dataclass(frozen=True, slots=True)
class Change:
    """columns: what is set, None = removed. exists: what IF [NOT] EXISTS asks; conditions: all of them must hold."""

    columns: dict[str, object]
    exists: bool | None
    conditions: tuple[Condition, ...]
    ttl: int | None


@dataclass(slots=True)
class Register:
    """One partition. before: what it was when the last change came. told: somebody knows of the last change."""

    columns: Columns = field(default_factory=dict)
    before: Columns = field(default_factory=dict)
    told: bool = True
    begun: list[Change] = field(default_factory=list)

    def settle(self, rnd: Random, now: float) -> None:
        """Finish or end what lies unfinished."""
        begun, self.begun = self.begun, []
        for change in begun:
            if rnd.random() < 0.5:
                self._apply(change, now)
        self.told = True

    def change(self, change: Change, rnd: Random, now: float) -> bool:
        self.settle(rnd, now)
        return self._apply(change, now)

    def _apply(self, change: Change, now: float) -> bool:
        stored = live(self.columns, now)
        if change.exists is not None and change.exists != bool(stored):
            return False
        if not all(COMPARISONS[op](stored.get(column), value) for column, op, value in change.conditions):
            return False
        expires = None if change.ttl is None else now + change.ttl
        self.before, self.told = dict(self.columns), False
        self.columns.update({column: (value, expires) for column, value in change.columns.items()})
        return True


def live(columns: Columns, now: float) -> dict[str, object]:
    return {
        column: value
        for column, (value, expires) in columns.items()
        if value is not None and (expires is None or expires > now)
    }


class LinearTable:
    def __init__(self, rnd: Random) -> None:
        self._rnd = rnd
        self.registers: dict[Key, Register] = {}

    def register(self, key: Key) -> Register:
        return self.registers.setdefault(key, Register())

    def serial(self, key: Key, now: float) -> dict[str, object]:
        register = self.register(key)
        register.settle(self._rnd, now)
        return live(register.columns, now)

    def at_quorum(self, now: float, keys: Container[Key] | None) -> dict[Key, dict[str, object]]:
        """These partitions, None: all, as a plain read sees them. What is drawn depends on all."""
        seen = {}
        for key, register in self.registers.items():
            old = not register.told and self._rnd.random() < 0.5
            if keys is not None and key not in keys:
                continue
            columns = live(register.before if old else register.columns, now)
            if columns:
                seen[key] = columns
        return seen
