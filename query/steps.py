"""What a caller writes for a span or a step, and what it means: text in, units out.

Everything that is refused raises ParameterInvalid with the field, the value and the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.times import parse_length
from query.zones import DAY, HOUR, MINUTE, MONTH, WEEK, YEAR, Calendar, Fixed, Unit, Zone

LAST_RULE = "a whole number from 1 and a unit m, h, d, w, mo or y, such as 60m, 24h, 7d or 12mo"

UNITS: dict[str, Unit] = {"m": MINUTE, "h": HOUR, "d": DAY, "w": WEEK, "mo": MONTH, "y": YEAR}


# --- last=N and a unit ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Last:
    """`last=7d`: the current unit and the n - 1 before it."""

    n: int
    unit: Unit

    def start(self, now: int, zone: Zone) -> int:
        return self.unit.back(now, self.n - 1, zone)

    def end(self, now: int, zone: Zone) -> int:
        """Returns the end of the unit that holds now."""
        return self.unit.after(now, zone)


def parse_last(text: str) -> Last:
    length = parse_length(text, UNITS)
    if length is None or length[0] < 1:
        raise ParameterInvalid(f"last {text!r} is not a length of time", field="last", value=text, rule=LAST_RULE)
    return Last(*length)


# --- steps ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Step:
    """One point's length. `unit` is None for `native`: the buckets as they are kept."""

    name: str
    unit: Unit | None

    @property
    def average_s(self) -> int:
        """Seconds of a piece on average; 0 for native. Says which of two steps is the finer one."""
        return self.unit.average_s if self.unit else 0


_FIXED = {f"{n}m": 60 * n for n in (1, 2, 5, 10, 15, 20, 30)} | {f"{n}h": 3600 * n for n in (1, 2, 3, 4, 6, 12)}
_CALENDAR = {"1d": DAY, "1w": WEEK, "1mo": MONTH, "3mo": Calendar(0, 3), "1y": YEAR}
STEPS: dict[str, Step] = (
    {name: Step(name, Fixed(width_s)) for name, width_s in _FIXED.items()}
    | {name: Step(name, unit) for name, unit in _CALENDAR.items()}
    | {"native": Step("native", None)}
)
AUTO = "auto"
STEP_RULE = f"one of {', '.join(STEPS)} or {AUTO}"

# The steps `auto` chooses from, with the longest range of each: seconds, or calendar years.
_AUTO_RANGES = (("1m", 2 * 3600), ("5m", 48 * 3600), ("1h", 14 * 86_400), ("1d", 92 * 86_400))
_AUTO_WEEK_YEARS = 2


def parse_step(text: str) -> Step | None:
    """Returns the step of that name; None for `auto`."""
    if text == AUTO:
        return None
    if text not in STEPS:
        raise ParameterInvalid(f"step {text!r} is not known", field="step", value=text, rule=STEP_RULE)
    return STEPS[text]


def auto_step(start: int, end: int, zone: Zone) -> Step:
    """Returns the step for a range, by its length in seconds or on the local clock: the shorter of the two.

    So 14 days are 14 days also when one of them has 25 hours.
    """
    wall_start, wall_end = zone.wall(start), zone.wall(end)
    shorter = min(timedelta(seconds=end - start), wall_end - wall_start)
    for name, longest_s in _AUTO_RANGES:
        if shorter <= timedelta(seconds=longest_s):
            return STEPS[name]
    years = (wall_end.year - _AUTO_WEEK_YEARS, *wall_end.timetuple()[1:6])
    return STEPS["1w" if years <= wall_start.timetuple()[:6] else "1mo"]
