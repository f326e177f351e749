"""The ladder: bucket widths, how long each is kept, and where one tier ends and the next begins.

A tier is a bucket width. Fixed widths are aligned to the epoch, so a bucket's start is a multiple of its width. Two
tiers follow the calendar, in UTC: `week` is the ISO week (Monday 00:00) **cut at month edges**, so a week in which a
month begins is two buckets; `month` is the calendar month. That way every width nests in the next, and both whole weeks
and whole months are sums of whole buckets.

A ladder is tiers, finest first. At any moment it divides all of time into spans, one a tier, coarse = old:

    0 .. cuts[-2] ........ cuts[1] ...... cuts[0] ...... for ever forward
    | last tier |   ...   |   tier 1     |   tier 0

`cuts[i]` is the first instant that tier i holds. Three facts carry everything else:

- The cuts depend on one integer, the fold day, and on nothing else: two owners that agree on the day agree on every
  bucket. The fold day is the UTC day an hour ago (`fold_day`), so the day changes an hour late: "the last 60 minutes"
  asked at 00:10 are still minutes, and clocks that differ by minutes do not matter.
- Each cut is moved down to a bucket start of the next coarser tier. So a coarse bucket appears only once its whole span
  is older than what the finer tier keeps, never halves, and an instant always belongs to exactly one bucket.
- Cuts never move back when the day goes forward. So buckets are only ever replaced by the bucket that holds them.

What makes a ladder valid is said once, in `_broken_rule`, and checked when it is built. All arithmetic on timestamps
lives in this module; times are integer epoch seconds, spans half-open.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from itertools import accumulate, pairwise, repeat
from operator import mod

from clickcurve.buckets.errors import LadderInvalid

MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400
GRACE_S = HOUR_S
END_OF_TIME = 253_402_300_800  # the year 10000: the calendar ends here, and no time at or after it is a time
MAX_TIERS = 8
MAX_KEPT_BUCKETS = 50_000  # of all tiers but the last: what keeps a row small enough to read and write as one value
WEEK = "week"
MONTH = "month"

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_WEEKDAY_OF_EPOCH = 3  # a Thursday; Monday is 0
_CUTS_CACHED = 64
_NAMES = {MINUTE_S: "minute", 300: "five_minute", HOUR_S: "hour", DAY_S: "day"}


def fold_day(now: int) -> int:
    """Returns the day that every cut depends on at `now` (epoch seconds): the UTC day an hour ago. Never below 0."""
    return max(0, (now - GRACE_S) // DAY_S)


def minutes_since(now: int) -> int:
    """Returns 00:00 UTC of the fold day: an earlier hit is late."""
    return fold_day(now) * DAY_S


@lru_cache(maxsize=4096)
def _month(day: int) -> tuple[int, int]:
    """Returns the calendar month that holds a day, as epoch seconds."""
    at = date.fromordinal(day + _EPOCH_ORDINAL)
    first = day - at.day + 1
    return first * DAY_S, (first + monthrange(at.year, at.month)[1]) * DAY_S


@lru_cache(maxsize=4096)
def _week_piece(day: int) -> tuple[int, int]:
    """Returns the ISO week that holds a day, cut at the edges of that day's month, as epoch seconds."""
    monday = day - (day + _WEEKDAY_OF_EPOCH) % 7
    month_start, month_end = _month(day)
    return max(monday * DAY_S, month_start), min((monday + 7) * DAY_S, month_end)


@dataclass(frozen=True, slots=True)
class Tier:
    """One bucket width. width_s None: a calendar tier, named `week` or `month`. kept_days None: kept for ever."""

    name: str
    width_s: int | None
    kept_days: int | None

    def bucket(self, t: int) -> tuple[int, int]:
        """Returns [start, end) of this tier's bucket that holds t."""
        width_s = self.width_s
        if width_s is not None:
            start = t - t % width_s
            return start, start + width_s
        return _week_piece(t // DAY_S) if self.name == WEEK else _month(t // DAY_S)

    def start(self, t: int) -> int:
        """Returns the start of this tier's bucket that holds t."""
        width_s = self.width_s
        return t - t % width_s if width_s is not None else self.bucket(t)[0]

    def starts(self, times: Iterable[int]) -> list[int]:
        """Returns `start` of each time."""
        width_s = self.width_s
        if width_s is not None:
            return [t - t % width_s for t in times]
        return [self.bucket(t)[0] for t in times]

    def nearest_edges(self, times: Sequence[int]) -> Sequence[int]:
        """Moves each time to the nearer end of its bucket, the later one if both are as near.

        Those that are edges stay. If all are, the sequence itself is returned: the usual case, found in C.
        """
        width_s = self.width_s
        if width_s is not None:
            if not any(map(mod, times, repeat(width_s))):
                return times
            half_s = width_s // 2
            return [t + half_s - (t + half_s) % width_s for t in times]
        return [start if t - start < end - t else end for t in times for start, end in (self.bucket(t),)]

    def __str__(self) -> str:
        width = self.name if self.width_s is None else str(self.width_s)
        return width if self.kept_days is None else f"{width}:{self.kept_days}"


@dataclass(frozen=True, slots=True)
class Ladder:
    """The tiers, finest first. Immutable and hashable. LadderInvalid says which rule is broken, with the numbers."""

    tiers: tuple[Tier, ...]
    _age_days: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _cuts: dict[int, tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        broken = _broken_rule(self.tiers)
        if broken is not None:
            raise LadderInvalid(broken, field="ladder", value=str(self))
        object.__setattr__(self, "_age_days", tuple(accumulate(tier.kept_days or 0 for tier in self.tiers[:-1])))
        object.__setattr__(self, "_cuts", {})

    @classmethod
    def parse(cls, text: str) -> Ladder:
        """Reads a name of `LADDERS`, or `width:kept days`, comma between, finest first: `60:1,3600:31,week:366,month`.

        A width is seconds, `week` or `month`; the days count after those of the finer tiers; the last tier has none.
        """
        tiers = LADDERS.get(text.strip(), text)
        return cls(tuple(_parse_tier(part) for part in tiers.split(",")))

    def __str__(self) -> str:
        return ",".join(map(str, self.tiers))

    def cuts(self, fold_day: int) -> tuple[int, ...]:
        """Returns the cuts: cuts[i] is the first instant that tier i holds; never increasing, the last is 0."""
        cached = self._cuts.get(fold_day)
        return self._cut(fold_day) if cached is None else cached

    def _cut(self, fold_day: int) -> tuple[int, ...]:
        if len(self._cuts) >= _CUTS_CACHED:
            self._cuts.clear()
        kept_since = [max(0, fold_day + 1 - age) * DAY_S for age in self._age_days]
        cuts = (*(tier.start(t) for tier, t in zip(self.tiers[1:], kept_since, strict=True)), 0)
        self._cuts[fold_day] = cuts
        return cuts

    def tier_of(self, t: int, fold_day: int) -> int:
        """Returns the tier that holds t: the index of the first cut that is not after it."""
        cuts = self.cuts(fold_day)
        return 0 if t >= cuts[0] else len(cuts) - bisect_right(cuts[::-1], max(t, 0))

    def tier_of_age(self, days: int) -> Tier:
        """Returns the coarsest tier that may hold something so many days old, of those after the finest."""
        return self.tiers[max(1, bisect_left(self._age_days, days))]

    def bucket(self, tier: int, t: int) -> tuple[int, int]:
        """Returns [start, end) of that tier's bucket that holds t."""
        return self.tiers[tier].bucket(t)

    def kept(self, t: int, fold_day: int) -> tuple[int, int]:
        """Returns [start, end) of the kept bucket that holds t."""
        return self.tiers[self.tier_of(t, fold_day)].bucket(t)

    def nests_in(self, wider: Ladder) -> bool:
        """Tells whether on every fold day each kept bucket lies in one kept bucket of the other ladder.

        A tier whose buckets are too wide for one of the other's may only begin where that one has ended: at its age,
        or, where the two begin at different edges, at the latest edge after it.
        """
        for tier, begins in zip(self.tiers, (0, *self._age_days), strict=True):
            for other, following, ends in zip(wider.tiers, wider.tiers[1:], wider._age_days, strict=False):
                if not _fits(tier, other):
                    longest_s = following.width_s or (7 if following.name == WEEK else 31) * DAY_S
                    more_days = 0 if _fits(following, tier) else -(-longest_s // DAY_S)
                    if begins < ends + more_days:
                        return False
            if not _fits(tier, wider.tiers[-1]):
                return False
        return True

    def folds_at(self, tier: int, t: int) -> int | None:
        """Returns the first fold day on which tier no longer holds t; None for the last tier: it keeps everything."""
        if tier == len(self.tiers) - 1:
            return None
        end = self.tiers[tier + 1].bucket(t)[1]
        return -(-end // DAY_S) - 1 + self._age_days[tier]


def _parse_tier(part: str) -> Tier:
    width, colon, kept = (piece.strip() for piece in part.partition(":"))
    if colon and not (kept.isascii() and kept.isdigit()):
        raise LadderInvalid(f"{part.strip()!r}: {kept!r} is not a number of days", field="ladder", value=part)
    kept_days = int(kept) if colon else None
    if width in (WEEK, MONTH):
        return Tier(width, None, kept_days)
    if not (width.isascii() and width.isdigit() and int(width) > 0):
        names = ", ".join(LADDERS)
        raise LadderInvalid(
            f"{width!r} is not a width: give seconds, {WEEK!r} or {MONTH!r}, or the name of a ladder ({names})",
            field="ladder",
            value=part,
        )
    return Tier(name_of(int(width)), int(width), kept_days)


def name_of(width_s: int) -> str:
    """Returns the name of a fixed width: `five_minute`, `hour`, `15_minute`, `90_second`."""
    for unit_s in (DAY_S, HOUR_S, MINUTE_S):
        if width_s % unit_s == 0:
            return _NAMES.get(width_s) or f"{width_s // unit_s}_{_NAMES[unit_s]}"
    return "second" if width_s == 1 else f"{width_s}_second"


def _broken_rule(tiers: Sequence[Tier]) -> str | None:
    """Returns the first rule that these tiers break, as a sentence with its numbers; None for a valid ladder."""
    if not 1 <= len(tiers) <= MAX_TIERS:
        return f"a ladder has 1 to {MAX_TIERS} tiers, this one has {len(tiers)}"
    return _broken_tier(tiers) or _broken_step(tiers) or _broken_bound(tiers)


def _broken_tier(tiers: Sequence[Tier]) -> str | None:
    for tier in tiers:
        if tier.width_s is None and tier.name not in (WEEK, MONTH):
            return f"tier {tier.name!r} has no width"
        if tier.width_s is not None and (tier.width_s < 1 or tier.name in (WEEK, MONTH)):
            return f"tier {tier.name!r} cannot have a width of {tier.width_s} s"
    names = [tier.name for tier in tiers]
    if len(set(names)) < len(names):
        return f"two tiers have one name: {', '.join(names)}"
    return None


def _broken_step(tiers: Sequence[Tier]) -> str | None:
    for fine, coarse in pairwise(tiers):
        if not _nests(fine, coarse):
            return f"a bucket of {_width(fine)} does not nest in one of {_width(coarse)}: each must divide the next"
        if fine.kept_days is None or fine.kept_days < 1:
            return f"tier {fine.name!r} must be kept 1 day or more, not {fine.kept_days}: only the last is for ever"
    return None


def _broken_bound(tiers: Sequence[Tier]) -> str | None:
    finest, last = tiers[0], tiers[-1]
    if finest.width_s is not None and finest.width_s % MINUTE_S:
        return f"hits are counted by the minute, so the finest width must be whole minutes, not {finest.width_s} s"
    if last.kept_days is not None:
        return f"the last tier, {last.name!r}, is kept for ever, not {last.kept_days} days"
    if last.width_s is not None and last.width_s < DAY_S:
        return f"the last tier is kept for ever, so it must be a day or wider, not {last.width_s} s"
    kept = sum(map(_most_buckets, tiers, tiers[1:]))
    if kept > MAX_KEPT_BUCKETS:
        return f"a row would hold up to {kept} buckets, the limit is {MAX_KEPT_BUCKETS}"
    return None


def _most_buckets(tier: Tier, coarser: Tier) -> int:
    """Returns how many buckets a tier may hold: those of its days, and of a coarser bucket that is not wholly past."""
    shortest_s = tier.width_s or 5 * DAY_S  # week pieces: 63 a year at most
    longest_s = coarser.width_s or (7 if coarser.name == WEEK else 31) * DAY_S
    return -(-((tier.kept_days or 0) * DAY_S + longest_s) // shortest_s)


def _nests(fine: Tier, coarse: Tier) -> bool:
    """Returns whether every bucket of `fine` lies in one wider bucket of `coarse`."""
    if fine.width_s is None:
        return (fine.name, coarse.name) == (WEEK, MONTH)
    if coarse.width_s is None:
        return DAY_S % fine.width_s == 0  # calendar buckets begin at any midnight
    return fine.width_s < coarse.width_s and coarse.width_s % fine.width_s == 0


def _fits(fine: Tier, coarse: Tier) -> bool:
    """Returns whether every bucket of `fine` lies in one bucket of `coarse`, which may be as wide."""
    return (fine.name, fine.width_s) == (coarse.name, coarse.width_s) or _nests(fine, coarse)


def _width(tier: Tier) -> str:
    return tier.name if tier.width_s is None else f"{tier.width_s} s"


# The ladders that have a name: how long days are kept, a quarter or a year and a month. 5 minutes are kept for the two
# days before the fold day, because the yesterday of a zone begins up to 49 hours ago, at any quarter of an hour.
LADDERS = {
    "quarter": "60:1,300:2,3600:31,86400:92,week:366,month",
    "days": "60:1,300:2,3600:31,86400:400,week:1830,month",
}
CLICKS = Ladder.parse("quarter")  # of a new store, unless it is asked for another
