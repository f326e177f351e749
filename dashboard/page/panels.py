"""The panels below a page's chart: lists of one kind as tabs, in two columns that end at about the same height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from clickcurve.buckets.breakdowns.check import BOT, BOT_KIND
from dashboard.page.audience.countries import COUNTRY
from dashboard.page.audience.differences import Difference
from dashboard.page.audience.hours import WeekHours
from dashboard.page.audience.values import ValueTable

LINKS, VALUES, CHANGED, HOURS = "links", "values", "changed", "hours"
# Dimensions of one kind, whose tables are tabs of one panel.
KINDS = (
    ("ref", "channel", "source", "utm_source", "utm_medium", "utm_campaign"),
    (COUNTRY,),
    ("device", "browser", "os", "lang"),
    (BOT_KIND, BOT),
)
# How high the head and the foot of a panel are, the map, and the hours of a week, in lines of a list.
_FRAME_LINES, _MAP_LINES, _HOURS_LINES = 3, 8, 6
_UNEVEN_LINES = 5  # by which the columns may differ so that the second panel is seen at the first look


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. lines: how high it is, about; tables: its tabs; difference: for CHANGED; hours: for HOURS."""

    kind: str
    lines: int
    tables: Sequence[ValueTable] = ()
    difference: Difference | None = None
    hours: WeekHours | None = None


def panels_of(
    links: int | None, tables: Sequence[ValueTable], difference: Difference | None, hours: WeekHours | None = None
) -> list[Panel]:
    """Returns a page's panels. links: the lines of the list of links, None where the page has none.

    Tables of one kind are tabs of one panel, in the order of KINDS; what is of none stands together behind them.
    """
    panels = [] if links is None else [Panel(LINKS, links + _FRAME_LINES)]
    kinds = [[table for name in names for table in tables if table.dimension == name] for names in KINDS]
    known = {name for names in KINDS for name in names}
    others = [table for table in tables if table.dimension not in known]
    panels += [Panel(VALUES, max(map(_lines, each)) + _FRAME_LINES, each) for each in (*kinds, others) if each]
    if difference is not None and difference.causes:
        lines = sum(len(causes) + 1 for causes in difference.causes.values())
        panels.append(Panel(CHANGED, lines + _FRAME_LINES, difference=difference))
    if hours is not None:
        panels.append(Panel(HOURS, (_HOURS_LINES if hours.rows else 1) + _FRAME_LINES, hours=hours))
    return panels


def columns_of(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Puts panels into two columns that end at about the same height, the first one into the left.

    The second one, where hits came from, begins the right column if that keeps them about as high; else they are as
    equally high as can be. Each column keeps the order; one panel alone has the whole width.
    """
    if len(panels) < 2:
        return [list(panels)] if panels else []

    def apart(sides: Sequence[int]) -> int:
        return abs(sum(panel.lines * (1 - 2 * side) for panel, side in zip(panels, sides, strict=True)))

    def badness(sides: Sequence[int]) -> tuple[bool, bool, int]:
        return apart(sides) > _UNEVEN_LINES, sides[1] == 0, apart(sides)

    sides = min(((0, *rest) for rest in product((0, 1), repeat=len(panels) - 1)), key=badness)
    columns = [[panel for panel, of in zip(panels, sides, strict=True) if of == side] for side in (0, 1)]
    return [column for column in columns if column]


def _lines(table: ValueTable) -> int:
    return len(table.rows) + (_MAP_LINES if table.countries else 0)
