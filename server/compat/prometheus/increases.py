"""The hits of what an expression selects, at each of its moments.

Hits are kept in buckets. At a moment `t`, `increase(clicks[1h])` counts the buckets that end in `(t - 1h, t]`; one that
is still open ends now. With moments on the edges of buckets that is the exact number of hits, and a whole number. Where
a bucket is wider than the step, its count is one sample, at the first moment after it, and the moments in it have none:
so a sum over moments is the sum of all hits, whatever the step.

The counter itself, `clicks`, is the count of all time at a moment of now, and at each before it what had been counted
by the ends of buckets: so it grows between two moments by the increase. An opening, which has no dates, is in it.

An event, or the sum of its values, has rows as clicks have, and all of this holds for it.

With a dimension in a label there is a series for each of its values, which counts what is certain of it (`at_least`) in
hours at the finest. Hits without a value have no label; hits whose value is not kept are in no series.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import accumulate
from typing import NamedTuple

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import MINUTE_S, Ladder, fold_day
from clickcurve.buckets.measures import CLICKS, Measure
from clickcurve.budget import POINTS, spend
from clickcurve.keys import ALL_LINKS, link_key
from ingest.hit import FUTURE_S
from query.breakdowns.queries import BreakdownQueries
from query.grid import Grid
from query.parameters import MAX_TOP, Parameters, Window
from query.queries import Queries
from query.steps import STEPS
from query.zones import UTC_ZONE, iso
from server.compat.expressions import Expression, literals_of
from server.compat.links import MOST_LOOKED_AT, greatest_links, matching_keys
from server.compat.prometheus.promql import EVENT, Increase, Matcher, NotUnderstood, SumBy, TopK, Vector, metric_of

KEY = "key"
MOST_LINKS = 1_000  # that one expression may read
MOST_WITH_BREAKDOWNS = 200  # links whose breakdowns one may read
MOST_MOMENTS = 11_000  # as Prometheus has it
MOST_SAMPLES = 500_000
_GATHERING = 3  # times as much work as making a point


@dataclass(frozen=True, slots=True)
class Moments:
    """start, start + step and so on up to end, epoch seconds. One moment: start == end."""

    start: int
    end: int
    step_s: int

    def __len__(self) -> int:
        return (self.end - self.start) // self.step_s + 1

    def at(self, index: int) -> int:
        return self.start + index * self.step_s

    def first_after(self, t: int) -> int:
        """Returns the index of the first moment at or after t; below 0 and beyond the last one, too."""
        return -((self.start - t) // self.step_s)


@dataclass(slots=True)
class LabelledSamples:
    """One series: its labels without the name, and the counts by index of their moments."""

    labels: dict[str, str]
    samples: dict[int, int] = field(default_factory=dict)


class Sources(NamedTuple):
    """What answers. breakdowns: None for a server without breakdowns."""

    queries: Queries
    breakdowns: BreakdownQueries | None

    def events(self) -> Collection[str]:
        """Returns the names of the events that can be asked for."""
        return self.queries.events.names()

    def dimensions(self) -> dict[str, str]:
        """Returns the dimensions by their labels: `tag.colour` is `tag_colour`."""
        names = self.breakdowns.dimensions if self.breakdowns is not None else ()
        return {re.sub(r"\W", "_", name, flags=re.ASCII): name for name in names}


class Increases:
    """Evaluates one expression. `warnings` say what an answer cannot tell.

    now: epoch seconds. It stands still for all of a request: a bucket that is open would else end after a moment of now
    whenever a second begins meanwhile.
    """

    def __init__(self, sources: Sources, moments: Moments, now: int) -> None:
        self._queries = sources.queries
        self._now = now
        self._breakdowns = sources.breakdowns
        self._dimensions = sources.dimensions()
        self._moments = moments
        self.warnings: list[str] = []

    async def series(self, vector: Vector) -> list[LabelledSamples]:
        """Returns the series of an expression; raises NotUnderstood and ParameterInvalid."""
        self._queries.events.checked(_measure_of(vector))
        if isinstance(vector, TopK):
            return await self._greatest(vector)
        if isinstance(vector, SumBy):
            return await self._sums(vector)
        return await self._selected(vector, self.dimension_of(vector.matchers))

    def dimension_of(
        self, matchers: Iterable[Matcher], labels: Iterable[str] = (), measure: Measure = CLICKS
    ) -> str | None:
        """Returns the one label of a dimension among these; None: there is none. Raises NotUnderstood for two."""
        others = (KEY, EVENT) if measure.event else (KEY,)
        named = [label for label in (*(each.label for each in matchers), *labels) if label not in others]
        for label in named:
            if label not in self._dimensions:
                labels_known = ", ".join((KEY, *self._dimensions))
                raise NotUnderstood(
                    f"there is no label {label}; known: {labels_known}", field="query", value=label, rule=labels_known
                )
            if label != named[0]:
                detail = f"an expression may name one dimension, this one names {named[0]} and {label}"
                raise NotUnderstood(detail, field="query", value=label, rule="one dimension in an expression")
        return named[0] if named else None

    # --- sums ---------------------------------------------------------------------------------------------------------
    async def _sums(self, vector: SumBy) -> list[LabelledSamples]:
        if isinstance(vector.of, Increase):
            dimension = self.dimension_of(vector.of.matchers, vector.labels, vector.of.measure)
            is_of_all = KEY not in {*vector.labels, *(each.label for each in vector.of.matchers)}
            summed = await self._selected(vector.of, dimension, is_of_all)
        else:
            self.dimension_of((), vector.labels, _measure_of(vector))
            summed = await self.series(vector.of)
            if missing := set(vector.labels) - {KEY} - self._labels_of(vector.of):
                label = min(missing)
                detail = f"what is added up has no label {label}: write it in the inner sum by (...) too"
                raise NotUnderstood(detail, field="query", value=label, rule="sum by (country) (increase(...))")
        sums: dict[tuple[str | None, ...], LabelledSamples] = {}
        for one in summed:
            labels = {label: one.labels[label] for label in vector.labels if label in one.labels}
            of = tuple([labels.get(label) for label in vector.labels])
            into = sums.setdefault(of, LabelledSamples(labels)).samples
            await spend(POINTS, len(one.samples))
            for at, count in one.samples.items():
                into[at] = into.get(at, 0) + count
        return list(sums.values())

    def _labels_of(self, vector: Vector) -> set[str]:
        """Returns the labels that the series of an expression may have."""
        if isinstance(vector, Increase):
            return {each.label for each in vector.matchers} | {KEY} | ({EVENT} if vector.measure.event else set())
        return set(vector.labels) if isinstance(vector, SumBy) else self._labels_of(vector.of)

    async def _greatest(self, vector: TopK) -> list[LabelledSamples]:
        of = vector.of.of if isinstance(vector.of, SumBy) and vector.of.labels == (KEY,) else vector.of
        if isinstance(of, Increase) and not of.matchers and len(self._moments) == 1:
            end, name = self._moments.end, {} if of is not vector.of else _name_of(of)
            if of.over_s is not None:
                greatest = await greatest_links(self._queries, max(0, end - of.over_s), end, vector.k, of.measure)
                return [LabelledSamples(name | {KEY: key}, {0: count}) for key, count in greatest]
            if end == self._now:
                best = await self._queries.top(Parameters(limit=vector.k, measure=of.measure))
                return [LabelledSamples(name | {KEY: key}, {0: count}) for key, count in best.links]
        candidates = await self.series(vector.of)
        kept = [LabelledSamples(one.labels) for one in candidates]
        for at in range(len(self._moments)):
            await spend(POINTS, len(candidates))
            there = ((one.samples[at], -number) for number, one in enumerate(candidates) if at in one.samples)
            for count, number in nlargest(vector.k, there):
                kept[-number].samples[at] = count
        if len(self._moments) == 1:
            kept.sort(key=lambda one: -one.samples.get(0, -1))
        return [one for one in kept if one.samples]

    # --- what a selector means ----------------------------------------------------------------------------------------
    async def _selected(
        self, vector: Increase, dimension: str | None, is_of_all: bool = False
    ) -> list[LabelledSamples]:
        """Returns a series for each link that is selected, or for all together; for each value of a dimension."""
        most = MOST_LINKS if dimension is None else MOST_WITH_BREAKDOWNS
        keys = [] if is_of_all else await self.keys(vector.matchers, most, vector.measure)
        name, row = _name_of(vector), vector.measure.row
        subjects = [(name, row(ALL_LINKS))] if is_of_all else [(name | {KEY: key}, row(link_key(key))) for key in keys]
        if vector.over_s is None and dimension is None:
            return [LabelledSamples(labels, await self._counter(stored)) for labels, stored in subjects]
        window = self._window(vector.over_s)
        if window is None:
            return []
        selected = []
        for labels, stored in subjects:
            if dimension is None:
                curve = await self._queries.curve_in(stored, window)
                assert vector.over_s is not None
                self._warn(curve.grid, vector.over_s, self._queries.ladder)
                selected.append(LabelledSamples(labels, await self._gathered(curve.grid, curve.counts, curve.first)))
                continue
            selected += await self._values(vector, labels, stored, dimension, window)
        return selected

    async def _values(
        self, vector: Increase, labels: dict[str, str], stored: str, dimension: str, window: Window
    ) -> list[LabelledSamples]:
        """Returns a series for each value that the matchers of a dimension select."""
        assert self._breakdowns is not None
        is_wanted = await self.selector(vector.matchers, dimension)
        curves = await self._breakdowns.value_curves_in(stored, self._dimensions[dimension], window, is_wanted, MAX_TOP)
        samples = []
        for curve in curves:
            certain = [bounds.at_least for bounds in curve.bounds]
            of_value = labels | ({dimension: curve.value} if curve.value else {})
            gathered = await self._gathered(curve.grid, certain, curve.first)
            if vector.over_s is None:
                gathered = self._so_far(gathered, 0)
            else:
                self._warn(curve.grid, vector.over_s, self._breakdowns.ladder)
            samples.append(LabelledSamples(of_value, gathered))
        return samples

    async def _counter(self, stored: str) -> dict[int, int]:
        """Returns what a row had counted at each moment: all that it has, less what came after."""
        moments = self._moments
        is_now = moments.start == moments.end == self._now
        # Hits may be stamped so far ahead, and are in the count of all time.
        after = None if is_now else Window(moments.start, self._now + FUTURE_S + 1, STEPS["native"], UTC_ZONE)
        count, opening, curve = await self._queries.life_in(stored, after)
        if curve is None:
            return {0: count} if count else {}
        since = await self._gathered(curve.grid, curve.counts, curve.first)
        later = sum(curve.counts) - sum(since.values())
        first = 0 if opening or curve.first is None else max(0, moments.first_after(curve.first))
        before = count - sum(since.values()) - later
        samples = self._so_far(since, before)
        return {at: value for at, value in samples.items() if at >= first and value}

    def _so_far(self, gathered: dict[int, int], before: int) -> dict[int, int]:
        """Returns the running sum at each moment."""
        added = [gathered.get(at, 0) for at in range(len(self._moments))]
        return dict(enumerate(list(accumulate(added, initial=before))[1:]))

    def _window(self, over_s: int | None) -> Window | None:
        """Returns the range that all moments need; None if it is empty. Raises NotUnderstood for another length."""
        moments = self._moments
        if over_s is None:
            return Window(0, max(1, moments.end + (moments.end == self._now)), STEPS["native"], UTC_ZONE)
        if len(moments) > 1 and over_s != moments.step_s:
            detail = f"the length in brackets is {over_s} s and the step {moments.step_s} s: both must be the same"
            raise NotUnderstood(f"{detail}; in Grafana write [$__interval]", field="query", rule=f"[{moments.step_s}s]")
        if over_s < MINUTE_S:
            detail = f"hits are counted by the minute: {over_s} s is less than a bucket"
            raise NotUnderstood(
                f"{detail}; in Grafana set the interval of the data source to 60s", field="query", rule="from 60s"
            )
        # So that the minute of now is in it from its first second.
        end = moments.end + (moments.end == self._now)
        start = max(0, moments.start - over_s)
        return Window(start, end, STEPS["native"], UTC_ZONE) if start < end else None

    async def _gathered(self, grid: Grid, counts: Sequence[int], first: int | None) -> dict[int, int]:
        """Returns the counts by moment: that of a bucket belongs to the first moment at or after its end."""
        now, edges = self._now, grid.edges
        by_moment: dict[int, int] = {}
        if first is None:
            return by_moment
        await spend(POINTS, _GATHERING * len(counts))
        for start, end, count in zip(edges, edges[1:], counts, strict=False):
            at = max(0, self._moments.first_after(min(end, max(now, start))))
            if end > first and start <= now and at < len(self._moments):
                by_moment[at] = by_moment.get(at, 0) + count
        return by_moment

    def _warn(self, grid: Grid, over_s: int, ladder: Ladder) -> None:
        if grid.edges and grid.edges[0] < grid.window.start:
            self._say(f"the range begins inside a kept bucket, which counts whole from {iso(grid.edges[0])}")
        start, end = ladder.kept(grid.window.start, fold_day(self._now))
        if end - start > over_s:
            self._say(
                f"at {iso(grid.window.start)} buckets of {(end - start) // MINUTE_S} minutes are kept: each is "
                "one sample, at the first moment after it"
            )

    def _say(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    # --- which links --------------------------------------------------------------------------------------------------
    async def keys(self, matchers: Sequence[Matcher], most: int = MOST_LINKS, measure: Measure = CLICKS) -> list[str]:
        """Returns the links that matchers select, in the order of their keys; of an event those that have any.

        Raises ParameterInvalid for too many, RequestTooCostly.
        """
        wanted = await _Selector.compiled(matchers, KEY)
        if wanted.named is not None:
            keys = [key for key in sorted(wanted.named) if key and await wanted.selects(key)]
            more = len(keys) > most
        else:
            keys, more = await matching_keys(self._queries, wanted.selects, most, measure=measure)
        if more:
            raise ParameterInvalid(
                f"this selects from more links than can be read at once ({most:,} of {MOST_LOOKED_AT:,} looked at): "
                "name keys, add all up with sum(...), or ask topk(...) at one moment",
                field="query",
                rule=f"at most {most:,} links",
            )
        return keys

    async def selector(self, matchers: Sequence[Matcher], label: str) -> Callable[[str], Awaitable[bool]]:
        """Returns what tells whether a value of this label is selected. Raises ParameterInvalid, RequestTooCostly."""
        return (await _Selector.compiled(matchers, label)).selects


def _measure_of(vector: Vector) -> Measure:
    """Returns what the series of an expression count."""
    return vector.measure if isinstance(vector, Increase) else _measure_of(vector.of)


def _name_of(vector: Increase) -> dict[str, str]:
    """Returns the labels that all series of a selector have: of a counter its metric too, and the event."""
    name = {"__name__": metric_of(vector.measure)} if vector.over_s is None else {}
    return name | ({EVENT: vector.measure.event} if vector.measure.event else {})


class _Selector:
    """What the matchers of one label select. named: the only texts that they can select; None if that may be any."""

    def __init__(self) -> None:
        self.named: frozenset[str] | None = None
        self._texts: list[tuple[frozenset[str], bool]] = []  # with whether a text must be one of them, or must not
        self._expressions: list[tuple[Expression, bool]] = []

    @classmethod
    async def compiled(cls, matchers: Sequence[Matcher], label: str) -> _Selector:
        """Reads the matchers of a label. Raises ParameterInvalid, RequestTooCostly."""
        wanted = cls()
        for matcher in reversed([each for each in matchers if each.label == label]):
            is_wanted = not matcher.sign.startswith("!")
            texts = literals_of(matcher.text) if matcher.sign.endswith("~") else [matcher.text]
            if texts is None:
                wanted._expressions.append((await Expression.compiled("query", matcher.text), is_wanted))
                continue
            wanted._texts.append((frozenset(texts), is_wanted))
            if is_wanted:
                wanted.named = wanted._texts[-1][0]
        return wanted

    async def selects(self, text: str) -> bool:
        """Returns whether all matchers select this text."""
        for texts, is_wanted in self._texts:
            if (text in texts) is not is_wanted:
                return False
        for expression, is_wanted in self._expressions:
            if await expression.matches(text) is not is_wanted:
                return False
        return True
