"""Curves and lists as text: nothing wider than the terminal, every count and state said."""

from __future__ import annotations

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


def test_zero_differs_from_before_the_first_hit() -> None:
    lines = draw.curve_lines(answer([0, 5, 0], first_hit=3_660), 60)
    assert [line.split()[-1] for line in lines[1:4]] == ["·", "5", "0"]
    assert [line.split()[-1] for line in draw.curve_lines(answer([0, 0], first_hit=None), 60)[1:3]] == ["·", "·"]


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
