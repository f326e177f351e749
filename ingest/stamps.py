"""Stamps: the order of the hits and erasures of one machine, whatever its clock does.

Each accepted group of hits, and each erasure of a link, gets a stamp in microseconds. An erasure covers the hits with
lower stamps and no others. So two things have to hold, for all workers that share a store:

1. An erasure's stamp is above those of all hits that were answered before it was asked for, and above those of all
   erasures that were answered by then: the store lets the highest erasure of a link win.
2. A hit's stamp is above those of all erasures that were answered before the hit was sent.

They hold because every stamp is above all stamps that anybody could know to be earlier:

- Each worker has a slot in memory that all of them share, and writes each of its stamps there before it uses it. A
  stamp is above all slots, read when it is made. What was answered earlier was in its slot by then, since slots only
  rise and only their worker writes them.
- A slot outlives its worker: the next one with its journal goes on from it.
- When all have ended the slots are new. A worker puts the highest stamp of its journal into its slot before it answers
  anything. What is in no journal is flushed, and an erasure takes what is flushed whatever its stamp. No worker erases
  until all have filled their slots (`known`).
- A worker asks the store for its newest erasure before it first claims its owner. Before that it erases nothing.

A clock that is ahead is followed. One that is set back is not: stamps rise by 1 until it has caught up. Other machines
of a cluster have clocks and slots of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol


class Slots(Protocol):
    """The newest stamp of each worker: a list, or memory that processes share. 0: its journal is not read yet."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def __getitem__(self, number: int, /) -> int: ...

    def __setitem__(self, number: int, stamp_us: int, /) -> None: ...


class Stamps:
    """Makes the stamps of worker `mine`, the n-th of the slots. The event loop alone calls it."""

    def __init__(self, clock: Callable[[], float], slots: Slots, mine: int = 0) -> None:
        self._clock = clock
        self._slots = slots
        self._mine = mine
        self._alone = len(slots) == 1

    def next(self) -> int:
        """Returns a stamp above all that any worker has made."""
        newest = self._slots[self._mine] if self._alone else self.newest
        self._slots[self._mine] = stamp_us = max(newest + 1, int(self._clock() * 1e6))
        return stamp_us

    @property
    def newest(self) -> int:
        """The highest stamp of all workers so far."""
        return max(self._slots)

    def follow(self, stamp_us: int) -> None:
        """Makes all later stamps higher than this one, which a journal or the store holds."""
        self._slots[self._mine] = max(self._slots[self._mine], stamp_us, 1)

    def known(self) -> bool:
        """Returns whether every worker has filled its slot."""
        return all(self._slots)
