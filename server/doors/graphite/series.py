"""Counts along time for a name: which links a pattern means, and their points in a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import fold_day
from clickcurve.keys import ALL_LINKS, group_key, link_key
from query.curve import Curve
from query.grid import fitting_step
from query.parameters import BY_KEY, MAX_TOP, Parameters, Window
from query.queries import Queries
from query.steps import Step
from query.zones import Zone
from server.doors.graphite.names import CLICKS, GROUPS, NAME_RULE, TOTAL, NodePattern, node_name, node_text, nodes_of

MOST_SERIES = 200  # of one pattern; each is a row to read
MOST_KEYS = 10_000  # that are looked at for a pattern
_STORED_OF = {CLICKS: link_key, GROUPS: group_key}


@dataclass(frozen=True, slots=True)
class AskedSpan:
    """The asked range in epoch seconds, with the most points of a series and, for `summarize`, the least step."""

    start: int
    end: int
    zone: Zone
    most_points: int
    least: Step | None = None

    def moved(self, by_s: int) -> AskedSpan:
        return replace(self, start=max(0, self.start + by_s), end=max(1, self.end + by_s))


@dataclass(frozen=True, slots=True)
class CountSeries:
    """Points at `starts`, None where nothing can have been counted; `path` is the name that they were read for.

    tier: the coarsest of the ladder's tiers in it; None for a line that was counted nowhere.
    """

    name: str
    path: str
    starts: tuple[int, ...]
    values: tuple[float | None, ...]
    step: str = ""
    tier: int | None = None

    def renamed(self, name: str) -> CountSeries:
        return replace(self, name=name)

    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]


class SeriesReader:
    """Reads series for names and patterns."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def now(self) -> int:
        return self._queries.now()

    @property
    def ladder_text(self) -> str:
        return str(self._queries.ladder)

    def tier_width_s(self, tier: int, t: int) -> int:
        start, end = self._queries.ladder.bucket(tier, t)
        return end - start

    async def read(self, path: str, span: AskedSpan) -> list[CountSeries]:
        """Returns the series that a name or pattern means. One that nobody ever hit is there and has no values."""
        nodes = nodes_of(path)
        window = self.window(span)
        if nodes == [TOTAL]:
            return [self.series(TOTAL, await self._queries.curve_in(ALL_LINKS, window))]
        stored_of = _STORED_OF.get(nodes[0])
        if len(nodes) != 2 or stored_of is None or not nodes[1]:
            raise ParameterInvalid(f"there is no {path}", field="target", value=path, rule=NAME_RULE)
        keys, more = await self.keys(nodes[0], NodePattern(nodes[1]), MOST_SERIES)
        if more:
            raise ParameterInvalid(
                f"{path} means more than {MOST_SERIES} {'links' if nodes[0] == CLICKS else GROUPS}: name fewer, take "
                f"the greatest of all links with highest({CLICKS}.*, 10, 'sum'), or {TOTAL} for the sum of all links",
                field="target",
                value=path,
                rule=f"at most {MOST_SERIES}",
            )
        return [
            self.series(f"{nodes[0]}.{node_name(key)}", await self._queries.curve_in(stored_of(key), window))
            for key in keys
        ]

    async def greatest(self, path: str, span: AskedSpan, n: int) -> list[CountSeries] | None:
        """Returns the n links with the most hits; None for a path that does not mean all links."""
        if path != f"{CLICKS}.*":
            return None
        window = self.window(span)
        found = await self._queries.top(Parameters(start=span.start, end=span.end, limit=min(n, MAX_TOP)))
        return [
            self.series(f"{CLICKS}.{node_name(key)}", await self._queries.curve_in(link_key(key), window))
            for key, _ in found.links
        ]

    async def keys(self, kind: str, pattern: NodePattern, most: int) -> tuple[list[str], bool]:
        """Returns the first links or groups that a node means, in their order, and whether there may be more."""
        if pattern.is_plain:
            return [node_text(pattern.text)], False
        found: list[str] = []
        after: str | None = None
        for _ in range(MOST_KEYS // MAX_TOP):
            asked = Parameters(sort=BY_KEY, prefix=pattern.prefix, after=after, limit=MAX_TOP)
            page = await self._queries.key_page(asked, of_groups=kind == GROUPS)
            found += [key for key, _ in page.links if pattern.matches(key)]
            after = page.after
            if after is None or len(found) > most:
                break
        return found[:most], after is not None or len(found) > most

    def window(self, span: AskedSpan) -> Window:
        """Returns the range with the finest step that all of it has and that fits."""
        ladder, day = self._queries.ladder, fold_day(self._queries.now())
        step = fitting_step(span.start, span.end, span.zone, ladder, day, span.most_points, span.least)
        return Window(span.start, span.end, step, span.zone)

    def series(self, name: str, curve: Curve) -> CountSeries:
        """Returns a curve as a series: without a value before the link's first hit, and after now."""
        now, first, edges = self.now(), curve.first, curve.grid.edges
        values: Sequence[float | None] = [
            count if start <= now and first is not None and end > first else None
            for start, end, count in zip(edges, edges[1:], curve.counts, strict=False)
        ]
        tier = self._queries.ladder.tier_of(edges[0], curve.grid.fold_day) if edges else None
        return CountSeries(name, name, edges[:-1], tuple(values), curve.grid.window.step.name, tier)
