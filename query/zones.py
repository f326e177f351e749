"""Calendar edges in a time zone: where its minutes, hours, days, weeks, months and years begin.

Rules, so that the edges of one step tile all of time:

- A step of a fixed width (minutes, hours) has an edge at every instant whose local clock shows a multiple of the width
  since local midnight. Where the zone's offset jumps by less than the width, the piece around the jump is longer or
  shorter; nothing is doubled or left out.
- A day, week (ISO, Monday), month or year begins at the first instant whose local clock is at or past its midnight. A
  midnight that a jump leaves out begins at the jump; of a doubled one the first counts; a date that a zone skipped
  whole has no edge of its own.

Times are epoch seconds. A local clock reading ("wall") is a datetime without a zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from clickcurve.buckets.errors import ParameterInvalid, shown
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME

EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_LAST_WALL = datetime(9999, 12, 30)  # ends the last year, wherever: the calendar has no later day in every zone
_MONTH_S = 2_629_746  # on average
_LONGEST_DAYS = {1: 31, 3: 92, 12: 366}  # of so many months
# Not zones of places: these count leap seconds, or mean "whatever this machine is set to".
_LONGEST_NAME = 64  # the longest has 38; `a/a/a` is looked for by as many nested imports
_REFUSED = ("right/", "posix/", "localtime", "posixrules", "Factory")


@dataclass(frozen=True, slots=True)
class Zone:
    """An IANA time zone under the name that the caller gave."""

    name: str
    info: ZoneInfo = field(compare=False)
    is_utc: bool = field(compare=False)

    def offset(self, t: int) -> int:
        """Seconds that the local clock is ahead of UTC at t."""
        if self.is_utc:
            return 0
        return (self.wall(t) - EPOCH) // _SECOND - t

    def wall(self, t: int) -> datetime:
        """Returns the reading of the local clock at t; raises ParameterInvalid beyond the calendar."""
        try:
            return datetime.fromtimestamp(t, self.info).replace(tzinfo=None, fold=0)
        except (OverflowError, ValueError):
            raise ParameterInvalid(f"{t} s is beyond the calendar", value=t, rule="not after the year 9998") from None

    def instant(self, wall: datetime) -> int:
        """Returns the first instant at which the local clock is at or past `wall` (whole seconds).

        It is below 0 before 1970.
        """
        plain = (wall - EPOCH) // _SECOND
        if self.is_utc:
            return plain
        early = plain - self._offset_at(wall, fold=0)
        if self.wall(early) == wall:
            return early
        # The clock jumped over this reading: the jump itself is the answer, somewhere between the two readings of it.
        before, after = plain - self._offset_at(wall, fold=1) - 1, early
        old = self.offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if self.offset(middle) == old else (before, middle)
        return after

    def _offset_at(self, wall: datetime, fold: int) -> int:
        ahead = wall.replace(tzinfo=self.info, fold=fold).utcoffset()
        assert ahead is not None
        return ahead // _SECOND


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """Returns the zone of that IANA name; raises ParameterInvalid for anything else."""
    try:
        if len(name) > _LONGEST_NAME or name.startswith(_REFUSED):
            raise KeyError(name)
        info = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ParameterInvalid(
            f"tz {shown(name)!r} is not a time zone",
            field="tz",
            value=name,
            rule="an IANA time zone name such as UTC, Europe/Berlin or Asia/Kolkata",
        ) from None
    return Zone(name, info, name in ("UTC", "Etc/UTC", "Etc/GMT", "GMT"))


UTC_ZONE = zone("UTC")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A step of a fixed width that divides a day."""

    width_s: int

    @property
    def average_s(self) -> int:
        return self.width_s

    longest_s = average_s  # while no clock is set back

    def start(self, t: int, zone: Zone) -> int:
        """Returns the last edge at or before t."""
        width, ahead = self.width_s, zone.offset(t)
        edge = t - (t + ahead) % width
        older = zone.offset(edge)
        if older == ahead:
            return edge
        edge -= (edge + older) % width
        while edge + width <= t and zone.offset(edge + width) == older:
            edge += width
        return edge

    def after(self, t: int, zone: Zone) -> int:
        """Returns the first edge after t."""
        width, ahead = self.width_s, zone.offset(t)
        edge = t + width - (t + ahead) % width
        newer = zone.offset(edge)
        if newer == ahead:
            return edge
        edge = t + width - (t + newer) % width
        while zone.offset(edge) != newer:
            edge += width
        return edge

    def edges(self, low: int, high: int, zone: Zone) -> Iterator[int]:
        """Returns the edges in (low, high].

        Goes day by day while the offset keeps its phase: asking the zone for each edge is slow.
        """
        if low >= high:
            return
        width = self.width_s
        phase = zone.offset(low) % width
        while low < high:
            until = high if zone.is_utc else min(high, low + DAY_S)
            later = zone.offset(until) % width
            if later == phase:
                yield from range(low + width - (low + phase) % width, until + 1, width)
            else:
                edge = low
                while (edge := self.after(edge, zone)) <= until:
                    yield edge
            low, phase = until, later

    def back(self, t: int, n: int, zone: Zone) -> int:
        """Returns the start of the unit n units before the one that holds t; never below 0."""
        return max(0, self.start(max(0, self.start(t, zone) - n * self.width_s), zone))


@dataclass(frozen=True, slots=True)
class Calendar:
    """A step of whole days, ISO weeks or months: `days` and `months` is its length, one of them 0."""

    days: int
    months: int = 0

    @property
    def average_s(self) -> int:
        return self.days * DAY_S + self.months * _MONTH_S

    @property
    def longest_s(self) -> int:
        """How long a unit is at most while no clock is set back."""
        return (self.days or _LONGEST_DAYS[self.months]) * DAY_S

    def start(self, t: int, zone: Zone) -> int:
        """Returns the last edge at or before t; below 0 where the unit began before 1970."""
        return self._unit_at(t, zone)[1]

    def after(self, t: int, zone: Zone) -> int:
        """Returns the first edge after t."""
        return self._unit_at(t, zone)[2]

    def edges(self, low: int, high: int, zone: Zone) -> Iterator[int]:
        """Returns the edges in (low, high]."""
        wall, edge, later = self._unit_at(low, zone)
        while later <= high:
            if later > edge:  # a date that the zone skipped has none
                edge = later
                yield edge
            wall, before = self._shift(wall, 1), wall
            if wall <= before:  # the calendar ends here
                return
            later = zone.instant(self._shift(wall, 1))

    def back(self, t: int, n: int, zone: Zone) -> int:
        """Returns the start of the unit n units before the one that holds t; never below 0."""
        if n * self.average_s > t + _MONTH_S:
            return 0
        return max(0, zone.instant(self._shift(self._unit_at(t, zone)[0], -n)))

    def _unit_at(self, t: int, zone: Zone) -> tuple[datetime, int, int]:
        """Returns the unit that holds t: its first wall reading, its first instant and that of the next unit."""
        wall = self._floor(zone.wall(t))
        start = zone.instant(wall)
        while True:
            later = self._shift(wall, 1)
            end = zone.instant(later)
            if end > t:
                return wall, start, end
            if later <= wall:  # the calendar ends here
                return wall, start, END_OF_TIME
            wall, start = later, end

    def _floor(self, wall: datetime) -> datetime:
        day = datetime(wall.year, wall.month, wall.day)
        if self.months:
            return datetime(wall.year, (wall.month - 1) // self.months * self.months + 1, 1)
        return day - timedelta(days=day.weekday()) if self.days == 7 else day

    def _shift(self, wall: datetime, n: int) -> datetime:
        if not self.months:
            moved = wall.toordinal() + n * self.days
            return _LAST_WALL if moved > _LAST_WALL.toordinal() else datetime.fromordinal(moved)
        month = wall.year * 12 + wall.month - 1 + n * self.months
        return _LAST_WALL if month // 12 > _LAST_WALL.year else datetime(month // 12, month % 12 + 1, 1)


Unit = Fixed | Calendar

MINUTE, HOUR = Fixed(60), Fixed(3600)
DAY, WEEK, MONTH, YEAR = Calendar(1), Calendar(7), Calendar(0, 1), Calendar(0, 12)


def iso(t: int) -> str:
    """Writes t in UTC, for sentences."""
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
