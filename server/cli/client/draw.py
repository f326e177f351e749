"""Curves and lists as text: pure functions from an answer of the server and a width to lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from clickcurve.buckets.ladder import DAY_S

BLOCKS = "▏▎▍▌▋▊▉█"  # eighths of a character
PLAIN = "#"
LEAST_BAR = 4
UNKNOWN = "·"  # in place of a zero before the first hit


def bar(count: int, most: int, room: int, plain: bool = False) -> str:
    """Draws a bar of up to `room` characters for count of most. Anything above zero shows."""
    if count <= 0 or most <= 0:
        return ""
    if plain:
        return PLAIN * max(1, count * room // most)
    eighths = max(1, count * room * 8 // most)
    return BLOCKS[-1] * (eighths // 8) + (BLOCKS[eighths % 8 - 1] if eighths % 8 else "")


def curve_lines(answer: Any, width: int, plain: bool = False) -> list[str]:
    """Draws a curve's answer as lines of at most `width` characters (longer only where the terminal is tiny).

    One line a point: when it begins, its bar, its count, and its state unless it is complete.
    """
    zone: tzinfo = UTC if answer["tz"] == "UTC" else ZoneInfo(answer["tz"])
    points = answer["points"]
    first = answer["first_hit"]
    by_day = all(point["end"] - point["start"] >= DAY_S - 3_600 for point in points)
    labels = [_local_time(point["start"], zone, by_day) for point in points]
    counts = [UNKNOWN if first is None or point["end"] <= first else f"{point['count']:,}" for point in points]
    states = ["" if point["state"] == "complete" else point["state"] for point in points]
    left = max(map(len, labels), default=0)
    right = max(map(len, counts), default=0)
    mark = max(map(len, states), default=0)
    room = max(LEAST_BAR, width - left - right - mark - 4)
    most = max((point["count"] for point in points), default=0)
    lines = [_title_line(answer, zone)]
    for label, point, count, state in zip(labels, points, counts, states, strict=True):
        drawn = bar(point["count"], most, room, plain)
        lines.append(f"{label:<{left}}  {drawn:<{room}} {count:>{right}} {state}".rstrip())
    lines.append(_total_line(answer))
    return lines


def _title_line(answer: Any, zone: tzinfo) -> str:
    name = answer.get("key") or "all links"
    start, end = (_local_time(answer[edge], zone, by_day=False) for edge in ("from", "to"))
    return f"{name}: {start} to {end} {answer['tz']}, step {answer['step']}"


def _total_line(answer: Any) -> str:
    if answer["exact"]:
        return f"total {answer['total']:,}"
    between = f"between {answer['at_least']:,} and {answer['at_most']:,}"
    return f"{between}: the range cuts a bucket; partial points are whole buckets"


def _local_time(at: int, zone: tzinfo, by_day: bool) -> str:
    moment = datetime.fromtimestamp(at, zone)
    return f"{moment:%a %Y-%m-%d}" if by_day else f"{moment:%Y-%m-%d %H:%M}"


def total_lines(answer: Any) -> list[str]:
    """Writes the total of a range, or its bounds."""
    if answer["exact"]:
        return [f"{answer['total']:,}"]
    return [f"between {answer['at_least']:,} and {answer['at_most']:,} (the range cuts a bucket)"]


def top_lines(links: Sequence[Any], width: int, plain: bool = False) -> list[str]:
    """Lists links with their counts, one a line."""
    left = max((len(link["key"]) for link in links), default=0)
    right = max((len(f"{link['count']:,}") for link in links), default=0)
    room = max(LEAST_BAR, width - left - right - 4)
    most = max((link["count"] for link in links), default=0)
    return [
        f"{link['key']:<{left}}  {link['count']:>{right},}  {bar(link['count'], most, room, plain)}".rstrip()
        for link in links
    ]


def link_lines(answer: Any) -> list[str]:
    """Lists a link's totals, one a line."""
    sums = ("lifetime", "today", "yesterday", "last_7d", "last_30d", "bots", "opening")
    lines = [answer["key"], *(f"  {name:<10} {answer[name]:>15,}" for name in sums)]
    for name in ("first_hit", "last_hit"):
        at = answer[name]
        lines.append(f"  {name:<10} {UNKNOWN if at is None else _local_time(at, UTC, by_day=False):>15}")
    return lines
