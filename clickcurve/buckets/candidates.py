"""Candidates: the few rows of an owner whose upper bounds are kept, and the cutoffs that all its other rows stay below.

A ranking needs the greatest counts only. So the store keeps, for each window of `UpperBounds`, the KEPT rows with the
greatest bounds. For each day it keeps a cutoff: no other row whose last hit was on that day has a greater bound. A
flush looks only at the rows that it changes; a row that passes a cutoff becomes a candidate. When there are too many
candidates, those with the least bounds are dropped, which raises the cutoffs of the days of their last hits. Cutoffs
only rise. A question reads the cutoffs of the days in its range, so last month's traffic does not hide today's.

Equal numbers are in the order of keys, as in a ranking. So a cutoff is a place: a number, and a key that has it.

There are several rankings: of all links, and of the links whose keys begin with some prefixes. Each has candidates and
cutoffs of its own; a row must be a candidate in each ranking whose cutoffs it passes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.ladder import DAY_S, Ladder
from clickcurve.buckets.prefixes import Prefixes
from clickcurve.buckets.row import Row
from clickcurve.buckets.upper_bounds import (
    BOT_WINDOWS,
    PEOPLE,
    UNDATED,
    WINDOWS,
    UpperBounds,
    in_windows,
    upper_bounds_of,
)

Place: TypeAlias = tuple[int, str]

KEPT = 2_500  # for each window: a question for 1,000 links reads some more, since windows are wider than its range
ROOM = 500  # how many candidates may be added before the least are dropped again
NOBODY: Place = (0, "")  # the cutoff that every row passes which counts anything
BEFORE = -1  # stands for all days that no window reaches any more, and for rows without a dated hit

_ALWAYS = 1 << 30  # days
DAYS = (*WINDOWS, _ALWAYS, *BOT_WINDOWS, _ALWAYS)  # the width of each window of UpperBounds, from PEOPLE on
_LONGEST = max(*WINDOWS, *BOT_WINDOWS)
_OPEN = (NOBODY,) * len(DAYS)
_PEOPLE, _BOTS = slice(0, len(WINDOWS) + 1), slice(len(WINDOWS) + 1, len(DAYS))


def ranks_before(place: Place, cutoff: Place) -> bool:
    """Returns whether a place comes before a cutoff in the order of rankings."""
    return place[0] > cutoff[0] or (place[0] == cutoff[0] and place[1] < cutoff[1])


class Cutoffs:
    """The cutoffs of one owner: for each day, a place for each window. A day without cutoffs has NOBODY."""

    __slots__ = ("_days", "_reached", "newest")

    def __init__(self, days: Mapping[int, tuple[Place, ...]] | None = None) -> None:
        self._days = dict(days or {})
        self._reached: dict[int, _Reached] = {}
        self.newest = max(self._days, default=BEFORE)

    @classmethod
    def of_bytes(cls, data: bytes) -> Cutoffs:
        """Reads what `to_bytes` wrote. Raises ValueError."""
        try:
            read = json.loads(zlib.decompress(data))
            days = {int(day): tuple([(int(most), str(key)) for most, key in cutoffs]) for day, cutoffs in read.items()}
        except (zlib.error, TypeError, AttributeError) as error:
            raise ValueError(f"cutoffs of {len(data)} bytes: {error}") from error
        if any(len(cutoffs) != len(DAYS) for cutoffs in days.values()):
            raise ValueError(f"cutoffs that are not of {len(DAYS)} numbers")
        return cls(days)

    def to_bytes(self) -> bytes:
        return zlib.compress(json.dumps(self._days, separators=(",", ":")).encode(), 1)

    def passed_by(self, bounds: UpperBounds, key: str) -> bool:
        """Returns whether a row with these upper bounds must be a candidate."""
        return any(ranks_before((bounds[PEOPLE + at], key), cutoff) for at, cutoff in self._of(bounds[0]).numbers)

    def bounds_if_candidate(self, key: str, row: Row, ladder: Ladder) -> UpperBounds | None:
        """Returns the upper bounds of a row if it must be a candidate, else None.

        Reads only the buckets that decide this.
        """
        cutoffs = self._of(UNDATED if row.last is None else row.last)
        if cutoffs.people.passed(key, row, row.people_cells, row.lifetime, row.opening, ladder) or (
            row.bots and cutoffs.bots.passed(key, row, row.bot_cells, row.bots, 0, ladder)
        ):
            return upper_bounds_of(row, ladder)
        return None

    def rest(self, since: int | None, newest: int, people: bool, bots: bool) -> Place:
        """Returns a place such that only candidates rank before it, by hits from `since` on (None: of all time).

        newest: the day of the owner's last hit.
        """
        first = BEFORE if since is None else self._day(since)
        asked = [cutoffs for day, cutoffs in self._days.items() if day >= first]
        width = _ALWAYS if since is None else newest - since // DAY_S + 1
        places = []
        for wanted, part in ((people, _PEOPLE), (bots, _BOTS)):
            number = next(at for at in range(part.start, part.stop) if DAYS[at] >= width)
            places += [min((cutoffs[number] for cutoffs in asked), key=_order, default=NOBODY)] if wanted else []
        return together(places)

    def raised(self, days: Iterable[int], floors: Sequence[Place], newest: int) -> Cutoffs:
        """Returns the cutoffs after candidates were dropped whose last hits were on `days`, and places after `floors`.

        floors: one place for each window. Days that no window reaches any more become one.
        """
        raised = dict(self._days)
        for day in {*days, newest}:
            raised[day] = _all_higher(raised.get(day), floors)
        past = [raised.pop(day) for day in list(raised) if day < newest - _LONGEST]
        for cutoffs in past:
            raised[BEFORE] = _all_higher(raised.get(BEFORE), cutoffs)
        return Cutoffs(raised)

    def _day(self, t: int) -> int:
        day = t // DAY_S
        return day if day >= self.newest - _LONGEST else BEFORE

    def _of(self, last: int) -> _Reached:
        """Returns the cutoffs that apply to a row with this last hit."""
        day = self._day(last)
        reached = self._reached.get(day)
        if reached is None:
            cutoffs = self._days.get(day, _OPEN)
            numbers = [at for at, days in enumerate(DAYS) if day > self.newest - days]
            people, bots = ([at for at in numbers if part.start <= at < part.stop] for part in (_PEOPLE, _BOTS))
            reached = _Reached(
                _Series([DAYS[at] for at in people[:-1]], [cutoffs[at] for at in people]),
                _Series([DAYS[at] for at in bots[:-1]], [cutoffs[at] for at in bots]),
                [(at, cutoffs[at]) for at in numbers],
            )
            self._reached[day] = reached
        return reached


class _Reached(NamedTuple):
    """The cutoffs of rows whose last hit was on one day, for the windows that still reach that day."""

    people: _Series
    bots: _Series
    numbers: list[tuple[int, Place]]


class _Series(NamedTuple):
    """The cutoffs of one series: of its windows, the shortest first, then of its life."""

    windows: list[int]
    cutoffs: list[Place]

    def passed(self, key: str, row: Row, cells: tuple[Cells, ...], count: int, undated: int, ladder: Ladder) -> bool:
        """Returns whether a series of a row passes a cutoff. Mostly the first test decides."""
        if ranks_before((count, key), self.cutoffs[-1]):
            return True
        count -= undated
        in_window = in_windows(row, cells, count, self.windows, ladder)
        for most, last_key in self.cutoffs[:-1]:
            if count < most or (count == most and key >= last_key):
                return False  # cutoffs of wider windows are as high
            if ranks_before((next(in_window), key), (most, last_key)):
                return True
        return False


def _order(place: Place) -> tuple[int, str]:
    return -place[0], place[1]


def together(places: Sequence[Place]) -> Place:
    """Returns the highest place of a sum of rows, if row n ranks at places[n] at the highest."""
    some = [place for place in places if place[0]]
    return some[0] if len(some) == 1 else (sum(most for most, _ in some), "")


def _all_higher(cutoffs: Sequence[Place] | None, others: Sequence[Place]) -> tuple[Place, ...]:
    """Returns the higher of each two cutoffs. A wider window's cutoff is at least as high, so that few are tried."""
    raised = [highest(cutoff, other) for cutoff, other in zip(cutoffs or _OPEN, others, strict=True)]
    return (*accumulate(raised[_PEOPLE], highest), *accumulate(raised[_BOTS], highest))


def highest(place: Place, other: Place) -> Place:
    """Returns the one of two places that comes first in the order of rankings."""
    return other if ranks_before(other, place) else place


class CutoffsByPrefix:
    """The cutoffs of one owner by prefix. read: returns those of a prefix; called again when another key asks."""

    def __init__(self, prefixes: Prefixes, read: Callable[[str], Cutoffs]) -> None:
        self._prefixes = prefixes
        self._read = read
        self._last: tuple[list[str], list[Cutoffs]] = [], []  # keys come in order: mostly of the same prefixes

    def bounds_if_candidate(self, key: str, row: Row, ladder: Ladder) -> UpperBounds | None:
        """Returns the upper bounds of a row if it must be a candidate of any ranking, else None."""
        prefixes = self._prefixes.of(key)
        if prefixes != self._last[0]:
            self._last = prefixes, [self._read(prefix) for prefix in prefixes]
        for cutoffs in self._last[1]:
            if (bounds := cutoffs.bounds_if_candidate(key, row, ladder)) is not None:
                return bounds
        return None


def open_cutoffs() -> CutoffsByPrefix:
    """Returns cutoffs that every row passes which counts anything."""
    return CutoffsByPrefix(Prefixes(), lambda prefix: Cutoffs())
