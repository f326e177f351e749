"""Rows that were folded by a clock that was ahead, exported and imported: every sum stays, and no law is broken."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, Breakdown, BreakdownDelta, fold_breakdown, land
from clickcurve.buckets.breakdowns.check import check_against_counts
from clickcurve.buckets.errors import HitRejected
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, Ladder, fold_day
from clickcurve.buckets.row import EMPTY, Delta, Row, add, check, fold
from ingest.hit import Moment
from ingest.imports.history_line import History
from ingest.imports.places import Ahead, Placing, Wide
from tests.ingest.imports.test_history_line import read as read_line

NOW = 1_760_000_000 // DAY_S * DAY_S + 12 * HOUR_S  # 2025-10-09 12:00
DAY = fold_day(NOW)
MOMENT = Moment(NOW, DAY * DAY_S, NOW + 300)
ALL = Placing(Wide.start, Ahead.now)
FORMER = Ladder.parse("60:1,300:1,3600:31,week:366,month")

Hits = list[tuple[int, str, bool]]  # minutes before now, what is said, whether of a bot


def line_of(hits: Hits, folded_to: int, divided_to: int, ladder: Ladder) -> dict[str, Any]:
    """Hits as an export has them, of rows that were folded to these days."""
    counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    values: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for ago, said, bot in hits:
        t = NOW - 60 * ago
        counts[bot][t] += 1
        if not bot:
            values[t // HOUR_S * HOUR_S][said] += 1
    row = fold(add(EMPTY, Delta(*counts), ladder), folded_to, ladder)
    breakdown = fold_breakdown(
        land(BREAKDOWN.empty, [BreakdownDelta({"ref": values})], 0, BREAKDOWN), divided_to, BREAKDOWN
    )
    buckets: dict[int, list[int]] = {}
    for series, tiers in enumerate((row.people_cells, row.bot_cells), 2):
        for tier, (starts, sums) in enumerate(tiers):
            for start, count in zip(starts, sums, strict=True):
                buckets.setdefault(start, [*ladder.bucket(tier, start), 0, 0])[series] = count
    by = [
        [*BREAKDOWN.ladder.bucket(tier, start), dict(each.values), each.other, each.slack]
        for tier, at in enumerate(breakdown.dimensions.get("ref", ()))
        for start, each in at.items()
    ]
    line = {"key": "a", "total": row.lifetime, "bots": row.bots, "first_hit": row.first, "last_hit": row.last}
    return line | {"buckets": [buckets[start] for start in sorted(buckets)], "by": {"ref": sorted(by)}}


def read(line: Mapping[str, Any], placing: Placing, ladder: Ladder = CLICKS) -> History:
    return read_line(json.dumps(line).encode(), MOMENT, ladder, placing)


def taken(history: History, ladder: Ladder) -> tuple[Row, Breakdown]:
    """The rows of today that a history makes."""
    row = add(fold(EMPTY, DAY, ladder), Delta(history.people, history.bots, history.opening), ladder)
    values: dict[str, dict[int, dict[str, int]]] = {}
    for name, hour, value, count in history.values:
        cell = values.setdefault(name, {}).setdefault(hour, {})
        cell[value] = cell.get(value, 0) + count
    return row, land(BREAKDOWN.empty, [BreakdownDelta(values)], DAY, BREAKDOWN)


@given(
    st.lists(st.tuples(st.integers(-30 * 1_440, 500 * 1_440), st.sampled_from("abc"), st.booleans()), min_size=1),
    st.integers(DAY, DAY + 900),
    st.integers(DAY, DAY + 900),
    st.sampled_from((CLICKS, FORMER)),
)
@example([(1_440 * days, "a", False) for days in range(0, 40, 3)], DAY + 400, DAY + 400, CLICKS)  # weeks, and months
@settings(deadline=None, max_examples=300)
def test_rows_that_were_folded_ahead_are_taken_over_whole(
    hits: Hits, folded_to: int, divided_to: int, ladder: Ladder
) -> None:
    row, breakdown = taken(read(line_of(hits, folded_to, divided_to, ladder), ALL, ladder), ladder)
    assert (row.lifetime, row.bots) == (sum(not bot for *_, bot in hits), sum(bot for *_, bot in hits))
    assert check(row, ladder) == []
    assert check_against_counts(breakdown, row, BREAKDOWN, ladder) == []
    counted: Counter[str] = Counter()
    for tier in breakdown.dimensions.get("ref", ()):
        for bucket in tier.values():
            counted.update(bucket.values)
    assert counted == Counter(said for _, said, bot in hits if not bot)
    assert row.last is not None and row.last <= MOMENT.latest
    assert row.fold_day == DAY, "new hits have minutes"


def test_what_is_not_asked_for_is_refused() -> None:
    coarse = line_of([(1_440, "a", False)], DAY, DAY + 900, CLICKS)
    for placing in (Placing(), Placing(ahead=Ahead.now)):
        with pytest.raises(HitRejected, match="reaches over an edge"):  # the breakdown alone is too wide
            read(coarse, placing)
    ahead = line_of([(-1_440, "a", False)], DAY, DAY, CLICKS)
    for placing in (Placing(), Placing(Wide.start)):
        with pytest.raises(HitRejected, match="ahead of the server's clock"):
            read(ahead, placing)
    assert read(ahead, ALL).people == {NOW // 60 * 60: 1}


def test_what_begins_in_the_widest_bucket_counts_at_its_start() -> None:
    """Hits of three days, whose breakdown is kept by month."""
    first = DAY * DAY_S - 8 * DAY_S  # the 1st of October
    days = [[first + n * DAY_S, first + (n + 1) * DAY_S, 2, 1] for n in range(3)]
    by = {"ref": [[first, first + 31 * DAY_S, {"a": 6}, 0, 0]]}
    history = read({"key": "a", "total": 6, "bots": 3, "buckets": days, "by": by}, ALL)
    assert (history.people, history.bots) == ({first: 6}, {first: 3})
    assert history.values == [("ref", first, "a", 6)]
