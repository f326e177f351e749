"""The days of a summary, in zones whose midnights lie inside an hour."""

from __future__ import annotations

from itertools import pairwise

import pytest

from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S, Ladder
from query.zones import DAY, zone
from tests.query.queried_nodes import QueriedNodes

BASE = 1_795_219_200  # 2026-11-21


@pytest.mark.parametrize("tz", ["Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "UTC"])
def test_yesterday_is_the_raw_count_at_every_hour(tz: str) -> None:
    """One hit a minute for four days; it was 1,410 of 1,440 in India, from 01:00 to 18:30 UTC."""
    nodes = QueriedNodes()
    hours = range(BASE - 3 * DAY_S, BASE + DAY_S + 1, HOUR_S)
    for start, end in pairwise(hours):
        for minute in range(start, end, MINUTE_S):
            nodes.hit("k", minute)
        nodes.now = end - 30
        nodes.flush()
        today, before = (DAY.back(nodes.now, days, zone(tz)) for days in (0, 1))
        summary = nodes.summary("k", f"tz={tz}")
        assert summary["yesterday"] == nodes.counted("k", before, today)
        assert summary["today"] == nodes.counted("k", today, nodes.now + HOUR_S)


def test_an_imported_total_without_dates_is_of_people() -> None:
    nodes = QueriedNodes(now=BASE + 12 * HOUR_S)
    nodes.hit("k", nodes.now - 60, 2, bot=True)
    nodes.owners[0].opening("k", 5)
    assert [nodes.summary("k", f"bots={bots}")["opening"] for bots in ("exclude", "include", "only")] == [5, 5, 0]
    assert [nodes.summary("k", f"bots={bots}")["lifetime"] for bots in ("exclude", "include", "only")] == [5, 7, 2]


def test_a_day_that_begins_inside_a_kept_hour_counts_it_whole_and_says_so() -> None:
    """The hit at 23:50 there is of the day before the seven, in an hour that is kept whole."""
    nodes = QueriedNodes(now=BASE + 12 * HOUR_S)
    first_of_7 = DAY.back(nodes.now, 6, zone("Asia/Kolkata"))
    nodes.hit("k", first_of_7 - 10 * MINUTE_S, 3)
    only_before = nodes.summary("k", "tz=Asia/Kolkata")
    assert (only_before["last_7d"], only_before["last_30d"], only_before["exact"]) == (0, 3, True)
    nodes.hit("k", first_of_7 + 10 * MINUTE_S, 4)
    both = nodes.summary("k", "tz=Asia/Kolkata")
    assert (both["last_7d"], both["last_30d"], both["exact"]) == (7, 7, False)
    assert nodes.summary("k")["exact"] is True


def test_a_store_that_keeps_5_minutes_for_one_day_says_that_yesterday_is_not_exact() -> None:
    nodes = QueriedNodes(now=BASE + 12 * HOUR_S, ladder=Ladder.parse("60:1,300:1,3600:31,week:366,month"))
    yesterday = DAY.back(nodes.now, 1, zone("Asia/Kolkata"))
    for minute, count in ((-10, 3), (10, 4)):
        nodes.hit("k", yesterday + minute * MINUTE_S, count)
    summary = nodes.summary("k", "tz=Asia/Kolkata")
    assert (summary["yesterday"], summary["exact"]) == (7, False)
