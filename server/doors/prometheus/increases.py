"""The hits of what an expression selects, at each of its moments.

Hits are kept in buckets. At a moment `t`, `increase(clicks[1h])` counts the buckets that end in `(t - 1h, t]`; one that
is still open ends now. With moments on the edges of buckets that is the exact number of hits, and a whole number. Where
a bucket is wider than the step, its count is one sample, at the first moment after it, and the moments in it have none:
so a sum over moments is the sum of all hits, whatever the step.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import MINUTE_S, fold_day
from clickcurve.keys import ALL_LINKS, link_key
from query.curve import Curve
from query.parameters import BY_KEY, MAX_TOP, Parameters, Window
from query.queries import Queries
from query.steps import STEPS
from query.zones import UTC_ZONE, iso
from server.doors.expressions import literals_of, safe_expression
from server.doors.prometheus.promql import Increase, Matcher, NotUnderstood, SumBy, TopK, Vector

KEY = "key"
MOST_LINKS = 1_000  # that one expression may read
MOST_LOOKED_AT = 10_000  # links whose keys are compared
MOST_MOMENTS = 11_000  # as Prometheus has it
MOST_SAMPLES = 500_000
_KEY_CHARACTERS = 1_024


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


class Increases:
    """Evaluates one expression. `warnings` say what an answer cannot tell."""

    def __init__(self, queries: Queries, moments: Moments) -> None:
        self._queries = queries
        self._moments = moments
        self.warnings: list[str] = []

    async def series(self, vector: Vector) -> list[LabelledSamples]:
        """Returns the series of an expression; raises NotUnderstood and ParameterInvalid."""
        if isinstance(vector, TopK):
            return await self._greatest(vector)
        if isinstance(vector, SumBy):
            return await self._sums(vector)
        keys = await self.keys(vector.matchers)
        return [LabelledSamples({KEY: key}, await self._increase(key, vector.over_s)) for key in keys]

    # --- sums ---------------------------------------------------------------------------------------------------------
    async def _sums(self, vector: SumBy) -> list[LabelledSamples]:
        if unknown := [label for label in vector.labels if label != KEY]:
            raise NotUnderstood(f"there is no label {unknown[0]}", field="query", value=unknown[0], rule=KEY)
        if isinstance(vector.of, Increase) and not vector.of.matchers and not vector.labels:
            return [LabelledSamples({}, await self._increase(None, vector.of.over_s))]
        found = await self.series(vector.of)
        if KEY in vector.labels:
            return found
        sums: defaultdict[int, int] = defaultdict(int)
        for one in found:
            for at, count in one.samples.items():
                sums[at] += count
        return [LabelledSamples({}, dict(sums))] if found else []

    async def _greatest(self, vector: TopK) -> list[LabelledSamples]:
        of = vector.of.of if isinstance(vector.of, SumBy) and vector.of.labels == (KEY,) else vector.of
        if isinstance(of, Increase) and not of.matchers and len(self._moments) == 1:
            return await self._ranked_links(of.over_s, vector.k)
        found = await self.series(vector.of)
        kept = [LabelledSamples(one.labels) for one in found]
        for at in range(len(self._moments)):
            there = ((one.samples[at], -number) for number, one in enumerate(found) if at in one.samples)
            for count, number in nlargest(vector.k, there):
                kept[-number].samples[at] = count
        if len(self._moments) == 1:
            kept.sort(key=lambda one: -one.samples.get(0, -1))
        return [one for one in kept if one.samples]

    async def _ranked_links(self, over_s: int, k: int) -> list[LabelledSamples]:
        """Returns the links with the most hits of all, without reading each of them."""
        end = self._moments.end
        top = await self._queries.top(Parameters(start=max(0, end - over_s), end=end, limit=k))
        return [LabelledSamples({KEY: key}, {0: count}) for key, count in top.links]

    # --- one series ---------------------------------------------------------------------------------------------------
    async def _increase(self, key: str | None, over_s: int) -> dict[int, int]:
        moments = self._moments
        if len(moments) > 1 and over_s != moments.step_s:
            detail = f"the length in brackets is {over_s} s and the step {moments.step_s} s: both must be the same"
            raise NotUnderstood(f"{detail}; in Grafana write [$__interval]", field="query", rule=f"[{moments.step_s}s]")
        if over_s < MINUTE_S:
            detail = f"hits are counted by the minute: {over_s} s is less than a bucket"
            raise NotUnderstood(
                f"{detail}; in Grafana set the interval of the data source to 60s", field="query", rule="from 60s"
            )
        end = moments.end + (
            moments.end == self._queries.now()
        )  # so that the minute of now is in it from its first second
        window = Window(max(0, moments.start - over_s), end, STEPS["native"], UTC_ZONE)
        if window.start >= window.end:
            return {}
        curve = await self._queries.curve_in(ALL_LINKS if key is None else link_key(key), window)
        self._warn(curve, over_s)
        return self._gathered(curve)

    def _gathered(self, curve: Curve) -> dict[int, int]:
        """Returns the counts by moment: that of a bucket belongs to the first moment at or after its end."""
        now, edges, first = self._queries.now(), curve.grid.edges, curve.first
        found: dict[int, int] = {}
        if first is None:
            return found
        for start, end, count in zip(edges, edges[1:], curve.counts, strict=False):
            at = max(0, self._moments.first_after(min(end, max(now, start))))
            if end > first and start <= now and at < len(self._moments):
                found[at] = found.get(at, 0) + count
        return found

    def _warn(self, curve: Curve, over_s: int) -> None:
        if curve.grid.edges and curve.grid.edges[0] < curve.grid.window.start:
            self._say(f"the range begins inside a kept bucket, which counts whole from {iso(curve.grid.edges[0])}")
        ladder, day = self._queries.ladder, fold_day(self._queries.now())
        start, end = ladder.kept(curve.grid.window.start, day)
        if end - start > over_s:
            self._say(
                f"at {iso(curve.grid.window.start)} buckets of {(end - start) // MINUTE_S} minutes are kept: each is "
                "one sample, at the first moment after it"
            )

    def _say(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    # --- which links --------------------------------------------------------------------------------------------------
    async def keys(self, matchers: Iterable[Matcher], most: int = MOST_LINKS) -> list[str]:
        """Returns the links that matchers select, in the order of their keys; raises ParameterInvalid for too many."""
        given = list(matchers)
        if unknown := [each.label for each in given if each.label != KEY]:
            raise NotUnderstood(f"there is no label {unknown[0]}", field="query", value=unknown[0], rule=KEY)
        expressions = {
            each: safe_expression("query", each.text, _KEY_CHARACTERS)
            for each in given
            if each.sign.endswith("~") and literals_of(each.text) is None
        }
        named = [texts for each in given if (texts := _named(each)) is not None]
        if named:
            return [key for key in sorted(named[0]) if key and _are_met(given, expressions, key)]
        found: list[str] = []
        after: str | None = None
        for _ in range(MOST_LOOKED_AT // MAX_TOP):
            page = await self._queries.key_page(Parameters(sort=BY_KEY, after=after, limit=MAX_TOP))
            found += [key for key, _ in page.links if _are_met(given, expressions, key)]
            after = page.after
            if after is None or len(found) > most:
                break
        if after is not None or len(found) > most:
            raise ParameterInvalid(
                f"this selects from more links than can be read at once ({most:,} of {MOST_LOOKED_AT:,} looked at): "
                "name keys, add all up with sum(...), or ask topk(...) at one moment",
                field="query",
                rule=f"at most {most:,} links",
            )
        return found


def _named(matcher: Matcher) -> list[str] | None:
    """Returns the only keys that a matcher can select; None if it names none."""
    if matcher.sign == "=":
        return [matcher.text]
    return literals_of(matcher.text) if matcher.sign == "=~" else None


def _are_met(matchers: Iterable[Matcher], expressions: Mapping[Matcher, re.Pattern[str]], key: str) -> bool:
    return all(_is_met(each, expressions.get(each), key) for each in matchers)


def _is_met(matcher: Matcher, expression: re.Pattern[str] | None, key: str) -> bool:
    if matcher.sign in ("=", "!="):
        met = key == matcher.text
    elif expression is None:
        met = key in (literals_of(matcher.text) or ())
    else:
        met = expression.fullmatch(key) is not None
    return met is not matcher.sign.startswith("!")
