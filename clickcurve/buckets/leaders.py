"""Leaders: the few rows of an owner whose weights are kept, and the bars that all its other rows stay under.

A ranking needs the greatest counts only. So of each number of a weight the KEPT greatest are kept, and for each day the
bar: no other row whose last hit was on that day has more. A flush knows the rows that it changes, and those alone; one
that passes a bar becomes a leader. When there are too many, the least go, and raise the bars of their days. Bars only
rise; but a range asks for those of its own days, so what was much last month does not hide what is much today.

Equal numbers are in the order of keys, as in a ranking. So a bar is a place: a number, and a key that has it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.ladder import DAY_S, Ladder
from clickcurve.buckets.row import Row
from clickcurve.buckets.weight import BOT_WINDOWS, PEOPLE, UNDATED, WINDOWS, Weight, in_windows, weight_of

Place: TypeAlias = tuple[int, str]

KEPT = 2_500  # of each number: a question for 1,000 links reads some more, since windows are wider than its range
ROOM = 500  # leaders more than were left the last time, before the least go again
NOBODY: Place = (0, "")  # the bar that every row passes which counts anything
BEFORE = -1  # stands for all days that no window reaches any more, and for rows without a dated hit

_ALWAYS = 1 << 30  # days
DAYS = (*WINDOWS, _ALWAYS, *BOT_WINDOWS, _ALWAYS)  # of the window of each number of a weight, from PEOPLE on
_LONGEST = max(*WINDOWS, *BOT_WINDOWS)
_OPEN = (NOBODY,) * len(DAYS)
_PEOPLE, _BOTS = slice(0, len(WINDOWS) + 1), slice(len(WINDOWS) + 1, len(DAYS))


def leads(place: Place, bar: Place) -> bool:
    """Returns whether a place comes before a bar in the order of rankings."""
    return place[0] > bar[0] or (place[0] == bar[0] and place[1] < bar[1])


class Bars:
    """The bars of one owner: for each day a place for each number of a weight. A day without any has NOBODY."""

    __slots__ = ("_days", "_reached", "newest")

    def __init__(self, days: Mapping[int, tuple[Place, ...]] | None = None) -> None:
        self._days = dict(days or {})
        self._reached: dict[int, _Reached] = {}
        self.newest = max(self._days, default=BEFORE)

    @classmethod
    def of_bytes(cls, data: bytes) -> Bars:
        """Reads what `to_bytes` wrote. Raises ValueError."""
        try:
            read = json.loads(zlib.decompress(data))
            days = {int(day): tuple([(int(most), str(key)) for most, key in bars]) for day, bars in read.items()}
        except (zlib.error, TypeError, AttributeError) as error:
            raise ValueError(f"bars of {len(data)} bytes: {error}") from error
        if any(len(bars) != len(DAYS) for bars in days.values()):
            raise ValueError(f"bars that are not of {len(DAYS)} numbers")
        return cls(days)

    def to_bytes(self) -> bytes:
        return zlib.compress(json.dumps(self._days, separators=(",", ":")).encode(), 1)

    def passed_by(self, weight: Weight, key: str) -> bool:
        """Returns whether a row of this weight must be a leader."""
        return any(leads((weight[PEOPLE + at], key), bar) for at, bar in self._of(weight[0]).numbers)

    def leading(self, key: str, row: Row, ladder: Ladder) -> Weight | None:
        """Returns the weight of a row that must be a leader, None: it need not; reads only the buckets that tell."""
        bars = self._of(UNDATED if row.last is None else row.last)
        if bars.people.passed(key, row, row.people_cells, row.lifetime, row.opening, ladder) or (
            row.bots and bars.bots.passed(key, row, row.bot_cells, row.bots, 0, ladder)
        ):
            return weight_of(row, ladder)
        return None

    def rest(self, since: int | None, newest: int, people: bool, bots: bool) -> Place:
        """Returns the place that no row but a leader comes before, in a range from `since` on; None: in their lives.

        newest: the day of the last hit of all.
        """
        first = BEFORE if since is None else self._day(since)
        asked = [bars for day, bars in self._days.items() if day >= first]
        width = _ALWAYS if since is None else newest - since // DAY_S + 1
        found = []
        for wanted, part in ((people, _PEOPLE), (bots, _BOTS)):
            number = next(at for at in range(part.start, part.stop) if DAYS[at] >= width)
            found += [min((bars[number] for bars in asked), key=_order, default=NOBODY)] if wanted else []
        return together(found)

    def raised(self, days: Iterable[int], floors: Sequence[Place], newest: int) -> Bars:
        """Returns the bars when leaders of these days went that come after floors, one for each number.

        Days that no window reaches any more become one.
        """
        raised = dict(self._days)
        for day in {*days, newest}:
            raised[day] = _all_higher(raised.get(day), floors)
        past = [raised.pop(day) for day in list(raised) if day < newest - _LONGEST]
        for bars in past:
            raised[BEFORE] = _all_higher(raised.get(BEFORE), bars)
        return Bars(raised)

    def _day(self, t: int) -> int:
        day = t // DAY_S
        return day if day >= self.newest - _LONGEST else BEFORE

    def _of(self, last: int) -> _Reached:
        """Returns the bars of a row by its last hit."""
        day = self._day(last)
        found = self._reached.get(day)
        if found is None:
            bars = self._days.get(day, _OPEN)
            numbers = [at for at, days in enumerate(DAYS) if day > self.newest - days]
            people, bots = ([at for at in numbers if part.start <= at < part.stop] for part in (_PEOPLE, _BOTS))
            found = _Reached(
                _Series([DAYS[at] for at in people[:-1]], [bars[at] for at in people]),
                _Series([DAYS[at] for at in bots[:-1]], [bars[at] for at in bots]),
                [(at, bars[at]) for at in numbers],
            )
            self._reached[day] = found
        return found


class _Reached(NamedTuple):
    """The bars of rows whose last hit was on one day: of the numbers by which a range may still ask for such rows."""

    people: _Series
    bots: _Series
    numbers: list[tuple[int, Place]]


class _Series(NamedTuple):
    """The bars of one series: of windows, the shortest first, and of its life."""

    windows: list[int]
    bars: list[Place]

    def passed(self, key: str, row: Row, cells: tuple[Cells, ...], count: int, undated: int, ladder: Ladder) -> bool:
        """Returns whether a series of a row passes a bar. Mostly the first look tells: it counts too little in all."""
        if leads((count, key), self.bars[-1]):
            return True
        count -= undated
        in_window = in_windows(row, cells, count, self.windows, ladder)
        for most, last_key in self.bars[:-1]:
            if count < most or (count == most and key >= last_key):
                return False  # bars of wider windows are as high
            if leads((next(in_window), key), (most, last_key)):
                return True
        return False


def _order(place: Place) -> tuple[int, str]:
    return -place[0], place[1]


def together(places: Sequence[Place]) -> Place:
    """Returns the place that no sum of rows comes before, each of which comes before none of these places."""
    some = [place for place in places if place[0]]
    return some[0] if len(some) == 1 else (sum(most for most, _ in some), "")


def _all_higher(bars: Sequence[Place] | None, others: Sequence[Place]) -> tuple[Place, ...]:
    """Returns the higher of each two bars. None is above that of a wider window, so that few are tried."""
    raised = [_higher(bar, other) for bar, other in zip(bars or _OPEN, others, strict=True)]
    return (*accumulate(raised[_PEOPLE], _higher), *accumulate(raised[_BOTS], _higher))


def _higher(bar: Place, other: Place) -> Place:
    return other if leads(other, bar) else bar
