"""Values and visitors as text: every hit is on a line, and nothing is wider than the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from server.cli.client import draw

DAY = 86_400


def values(*counts: tuple[str, int, int], **changed: Any) -> dict[str, Any]:
    shown = [{"value": value, "at_least": low, "at_most": high} for value, low, high in counts]
    total = sum(low for _, low, _ in counts)
    rest = {"not_shown": {"values": 0, "count": 0}, "other": 0, "unrecorded": 0}
    asked = {"key": "launch", "dimension": "ref", "from": None, "to": None}
    return {**asked, "values": shown, "total": total, **rest, **changed}


def test_values_are_listed_with_what_is_of_no_value() -> None:
    found = values(
        ("news.example", 1_200, 1_204),
        ("", 300, 300),
        total=1_642,
        not_shown={"values": 81, "count": 120},
        other=20,
        unrecorded=2,
    )
    assert draw.value_lines(found, None, 60) == [
        "launch: hits of people by ref, all time",
        "news.example      1,200 to 1,204  " + "█" * 25,
        "(not given)                  300  " + "█" * 6 + "▏",
        "(81 more values)             120  " + "█" * 2 + "▍",
        "(other)                       20  ▍",
        "(unrecorded)                   2  ▏",
        "total 1,642",
    ]


def test_a_range_that_begins_before_values_are_kept_says_so() -> None:
    kept = {"kept_since": 1_769_904_000, "other": 3, "total": 3}
    said = "values are kept since 2026-02-01 (UTC); older ones are (other)"
    for start in (None, 1_769_903_000):
        assert draw.value_lines(values(**kept, **{"from": start, "to": 1_770_000_000}), None, 80)[-1] == said
    later = values(**kept, **{"from": 1_769_904_000, "to": 1_770_000_000})
    assert draw.value_lines(later, None, 80)[-1] == "total 3"


def test_no_hits_are_a_total_of_nothing() -> None:
    assert draw.value_lines(values(), None, 80)[1:] == ["total 0"]
    no_visitors = {"days": [], "visitor_days": 0, "at_least": 0, "at_most": 0, "exact": True, "unknown": 0}
    assert draw.visitor_lines(no_visitors, 80) == ["visitor-days 0"]


@pytest.mark.parametrize("width", [44, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    found = values(("a.example", 7, 9), ("東京.example", 123_456_789, 123_456_789), ("", 1, 1))
    assert max(len(line) for line in draw.value_lines(found, None, width)) <= width
    assert max(len(line) for line in draw.value_lines(found, None, width, plain=True)) <= width


def test_strangers_values_are_made_visible() -> None:
    (_, line, _) = draw.value_lines(values(("\x1b[31m\u202e", 1, 1)), None, 80)
    assert line.startswith("\\x1b[31m\\u202e ")


def test_visitors_are_listed_by_days_with_what_is_known_of_each() -> None:
    first = 20_000 * DAY
    days = [
        {"start": first, "end": first + 7 * DAY, "visitors": None, "at_least": 40, "at_most": 55, "exact": False},
        {
            "start": first + 7 * DAY,
            "end": first + 8 * DAY,
            "visitors": 310,
            "at_least": 280,
            "at_most": 900,
            "exact": False,
            "error": 8,
        },
        {"start": first + 8 * DAY, "end": first + 9 * DAY, "visitors": 3, "at_least": 3, "at_most": 3, "exact": True},
    ]
    whole = {"days": days, "visitor_days": None, "at_least": 323, "at_most": 958, "exact": False, "unknown": 12}
    assert draw.visitor_lines(whole, 70) == [
        "2024-10-04 to 2024-10-10  40 to 55  ██▋",
        "2024-10-11                     310  " + "█" * 15 + " estimated, error 8",
        "2024-10-12                       3  ▏",
        "visitor-days 323 to 958",
        "unknown 12",
    ]
