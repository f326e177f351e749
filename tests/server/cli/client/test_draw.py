"""Curves and lists as text: nothing wider than the terminal, every count and state said."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from server.cli.client import draw


def answer(counts: list[int], first_hit: int | None = 0, **changed: Any) -> dict[str, Any]:
    points = [{"start": 3600 * n, "end": 3600 * (n + 1), "count": c, "state": "complete"} for n, c in enumerate(counts)]
    return {
        "key": "launch",
        "from": 0,
        "to": 3600 * len(counts),
        "step": "1h",
        "tz": "UTC",
        "first_hit": first_hit,
        "total": sum(counts),
        "at_least": sum(counts),
        "at_most": sum(counts),
        "exact": True,
        "points": points,
        **changed,
    }


def test_a_curve_says_what_when_how_many_and_in_all() -> None:
    assert draw.curve_lines(answer([4, 0, 2]), width=60) == [
        "launch: 1970-01-01 00:00 to 1970-01-01 03:00 UTC, step 1h",
        "1970-01-01 00:00  " + "█" * 39 + " 4",
        "1970-01-01 01:00  " + " " * 39 + " 0",
        "1970-01-01 02:00  " + "█" * 19 + "▌" + " " * 19 + " 2",
        "total 6",
    ]


@pytest.mark.parametrize("width", [44, 60, 80, 133, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    found = answer([1, 10, 123_456_789, 7] * 6)
    found["points"][-1]["state"] = "partial"
    assert max(map(len, draw.curve_lines(found, width)[1:-1])) <= width


def test_the_longest_bar_fills_its_room_and_the_least_still_shows() -> None:
    assert draw.bar(1_000, 1_000, 20) == "█" * 20
    assert draw.bar(1, 1_000_000, 20) == "▏"
    assert draw.bar(0, 1_000, 20) == ""
    assert draw.bar(0, 0, 20) == ""


def test_states_other_than_complete_are_named() -> None:
    found = answer([1, 2, 3])
    found["points"][0]["state"], found["points"][2]["state"] = "partial", "open"
    lines = draw.curve_lines(found, 80)
    assert [line.split()[-1] for line in lines[1:4]] == ["partial", "2", "open"]


def test_runs_of_zeros_are_one_line_and_differ_from_before_the_first_hit() -> None:
    lines = draw.curve_lines(answer([0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0], first_hit=4 * 3_600 + 60), 60)
    assert [line[18:] for line in lines[1:-1]] == [
        "4 points before the first hit",
        "█" * 39 + " 5",
        "3 points of 0",
        "█" * 15 + "▌" + " " * 23 + " 2",
        " " * 39 + " 0",
        " " * 39 + " 0",
    ]


def test_a_point_that_still_grows_is_drawn_also_if_it_is_empty() -> None:
    found = answer([1, 0, 0, 0])
    found["points"][-1]["state"] = "open"
    assert draw.curve_lines(found, 60)[-2].endswith(" 0 open")


def test_a_link_without_hits_says_so_instead_of_drawing_nothing() -> None:
    assert draw.curve_lines(answer([0] * 288, first_hit=None), 60) == ["launch: no hits yet"]


DAY = 86_400
NOON = 1_790_000_000 // DAY * DAY  # Mon 2026-09-21


def widening(*widths: int, first_hit: int = NOON) -> dict[str, Any]:
    """Ten hits a day, in points of so many days."""
    edges = [NOON + DAY * sum(widths[:n]) for n in range(len(widths) + 1)]
    points = [
        {"start": start, "end": end, "count": 10 * (end - start) // DAY, "state": "complete"}
        | ({"wide": True} if end - start > DAY else {})
        for start, end in pairwise(edges)
    ]
    found = answer([], points=points, step="1d", first_hit=first_hit, total=10 * sum(widths))
    return {**found, "from": edges[0], "to": edges[-1]}


def test_ten_hits_a_day_are_a_flat_curve_where_days_are_no_longer_kept() -> None:
    lines = draw.curve_lines(widening(7, 3, 1, 1), 60)
    assert lines[1:] == [
        "21-27 Sep 2026  " + "█" * 40 + " 70",
        "28-30 Sep 2026  " + "█" * 40 + " 30",
        "Thu 2026-10-01  " + "█" * 40 + " 10",
        "Fri 2026-10-02  " + "█" * 40 + " 10",
        "total 120",
        "only weeks before 2026-10-01 are kept; their bars show hits per 1d",
    ]


def test_what_is_kept_is_said_from_the_newest_to_the_oldest() -> None:
    # 10 days to the end of September, all of October, a week that a month cut to a day, weeks, days.
    lines = draw.curve_lines(widening(10, 31, 1, 7, 7, 1, 1), 80)
    assert lines[-1] == ("only weeks before 2026-11-16, months before 2026-11-01 are kept; their bars show hits per 1d")
    assert [line[:16].strip() for line in lines[1:5]] == [
        "21-30 Sep 2026",
        "Oct 2026",
        "Sun 2026-11-01",
        "02-08 Nov 2026",
    ]
    assert "are kept" not in draw.curve_lines(widening(1, 1, 1), 80)[-1]
    none_wide = widening(7, 7, 1, first_hit=NOON + 14 * DAY)
    assert "are kept" not in draw.curve_lines(none_wide, 80)[-1], "before the first hit nothing is missing"


def test_weeks_of_a_zone_that_are_no_buckets_are_drawn_by_their_length_and_no_months_are_claimed() -> None:
    """13 days: a week of New York that ends with the piece in which the next one begins."""
    found = {**widening(13, 6, 2, 12, 7), "step": "1w", "tz": "UTC"}
    for point in found["points"]:
        point.pop("wide", None)
    found["points"][0]["wide"] = found["points"][3]["wide"] = True
    lines = draw.curve_lines(found, 80)
    bars = {line[20:].strip(" 0123456789,") for line in lines[1:6]}
    assert len(bars) == 1, "as high as their hits per week"
    assert lines[3].startswith("10-11 Oct 2026")
    assert lines[1].startswith("21 Sep-03 Oct 2026") and lines[-1] == "total 400"


def test_an_hour_more_in_autumn_is_no_wider_point() -> None:
    day = {"start": 1_792_879_200, "end": 1_792_969_200, "count": 5, "state": "complete"}  # 2026-10-25 in Vienna
    lines = draw.curve_lines(answer([], points=[day], tz="Europe/Vienna", step="1d"), 60)
    assert lines[1].startswith("Sun 2026-10-25  ") and lines[-1].startswith("total")


def test_a_start_that_is_no_midnight_shows_its_time() -> None:
    edges = [1_794_960_000 - 1_800 + n * DAY for n in range(3)]  # 23:30 in Kolkata is kept as an hour from 18:00 UTC
    edges = [edge - edge % 3_600 for edge in edges]
    points = [{"start": a, "end": b, "count": 10, "state": "complete"} for a, b in pairwise(edges)]
    lines = draw.curve_lines(answer([], points=points, tz="Asia/Kolkata", step="1d"), 80)
    assert [line[:20] for line in lines[1:3]] == ["Wed 2026-11-18 04:30", "Thu 2026-11-19 04:30"]


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("2026-10-05", "2026-10-12", "05-11 Oct 2026"),
        ("2026-09-28", "2026-10-05", "28 Sep-04 Oct 2026"),
        ("2026-10-01", "2026-11-01", "Oct 2026"),
        ("2026-10-01", "2026-12-01", "01 Oct-30 Nov 2026"),
        ("2026-12-31", "2027-01-01", "31 Dec 2026"),
        ("2026-10-05T05:30", "2026-10-12T05:30", "05 Oct 2026 05:30-12 Oct 05:30"),
        ("2026-10-05T05:00", "2026-10-05T06:00", "05 Oct 2026 05:00-06:00"),
    ],
)
def test_a_span_is_written_as_people_write_it(start: str, end: str, said: str) -> None:
    first, last = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (start, end))
    point = {"start": int(first.timestamp()), "end": int(last.timestamp()), "count": 1, "state": "complete"}
    point["wide"] = True
    narrow = {"start": int(last.timestamp()), "end": int(last.timestamp()) + 60, "count": 1, "state": "complete"}
    lines = draw.curve_lines(answer([], points=[point, narrow], step="1m"), 100)
    assert lines[1].startswith(said + "  ")


def test_the_step_is_the_finest_that_fits_the_screen() -> None:
    day = answer([1] * 288, step="5m", to=DAY)
    assert draw.step_that_fits(day, 50) == "1h"
    assert draw.step_that_fits(day, 55) == "30m"
    assert draw.step_that_fits({**day, "first_hit": DAY - 7_200}, 24) == "10m", (
        "what is before the first hit is one line"
    )
    assert draw.step_that_fits(day, 24) == "2h"
    assert draw.step_that_fits(answer([1] * 100, step="1y", to=100 * 366 * DAY), 24) is None


def test_keys_of_strangers_are_shown_and_cut_to_the_width() -> None:
    found = answer([1, 2, 3], key="\x1b[31m" + "k" * 1_000)
    lines = draw.curve_lines(found, 80)
    assert lines[0].startswith(r"\x1b[31mkkk") and len(lines[0]) == 80
    links = [{"key": "\x1b[2J\n", "count": 3}, {"key": "日本", "count": 2}, {"key": "k" * 200, "count": 1}]
    listed = draw.top_lines(links, 60)
    assert [line.index(str(3 - n)) for n, line in enumerate(listed)] == [32, 30, 202]
    assert listed[0].startswith(r"\x1b[2J\n ")


def test_times_of_a_link_are_in_the_asked_zone_and_say_which() -> None:
    sums = {"lifetime": 5, "today": 2, "yesterday": 0, "last_7d": 2, "last_30d": 2, "bots": 0, "opening": 0}
    found = {"key": "launch", **sums, "first_hit": 1_767_222_000, "last_hit": 1_767_222_060, "exact": True}
    assert draw.link_lines(found, "Europe/Vienna")[-2:] == [
        "  first_hit  2026-01-01 00:00 Europe/Vienna",
        "  last_hit   2026-01-01 00:01 Europe/Vienna",
    ]
    nothing = {**found, **dict.fromkeys(sums, 0), "first_hit": None, "last_hit": None}
    assert draw.link_lines(nothing) == ["launch: no hits yet"]
    assert draw.undated_lines({**nothing, "opening": 7}) == ["launch: 7 hits without dates, and none with one"]


def test_totals_that_are_not_exact_say_so() -> None:
    sums = {"lifetime": 5, "today": 2, "yesterday": 0, "last_7d": 3, "last_30d": 5, "bots": 0, "opening": 0}
    found = {"key": "launch", **sums, "first_hit": 1_767_222_000, "last_hit": 1_767_222_060, "exact": False}
    assert draw.link_lines(found, "Asia/Kolkata")[-1] == (
        "  not exact: a day of Asia/Kolkata begins inside a bucket, which counts whole"
    )


def test_a_range_that_cuts_a_bucket_gets_bounds_instead_of_a_total() -> None:
    lines = draw.curve_lines(answer([1, 2], exact=False, total=3, at_least=2, at_most=3), 60)
    assert lines[-1].startswith("between 2 and 3")


def test_days_are_named_in_the_asked_zone() -> None:
    day = {"start": 1_767_222_000, "end": 1_767_308_400, "count": 1, "state": "complete"}  # 2026-01-01 in Vienna
    found = answer([], points=[day], tz="Europe/Vienna", step="1d")
    found["from"], found["to"] = day["start"], day["end"]
    lines = draw.curve_lines(found, 60)
    assert lines[0] == "launch: 2026-01-01 00:00 to 2026-01-02 00:00 Europe/Vienna, step 1d"
    assert lines[1].startswith("Thu 2026-01-01")


def test_a_terminal_without_block_characters_gets_plain_ones() -> None:
    assert all(line.isascii() for line in draw.curve_lines(answer([1, 2]), 60, plain=True))


def test_all_links_together_and_an_empty_curve_can_be_drawn() -> None:
    found = answer([])
    del found["key"]
    assert draw.curve_lines(found, 60) == ["all links: 1970-01-01 00:00 to 1970-01-01 00:00 UTC, step 1h", "total 0"]


def test_a_list_of_links_lines_up() -> None:
    assert draw.top_lines([{"key": "launch", "count": 2_000}, {"key": "b", "count": 500}], 40) == [
        "launch  2,000  " + "█" * 25,
        "b         500  ██████▎",
    ]
    assert draw.top_lines([], 40) == []
