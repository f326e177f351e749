"""Values and visitors as text: pure functions from an answer of the server and a width to lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from clickcurve.visible import visible
from server.cli.client.draw import LEAST_BAR, bar, columns_of, hits_text, name_of, range_text, title_line

NOT_GIVEN = "(not given)"


class DrawnCount(NamedTuple):
    """One line: a name, what is known of its count, and what is said after the bar."""

    name: str
    at_least: int
    at_most: int
    note: str = ""

    @property
    def number(self) -> str:
        if self.at_least == self.at_most:
            return f"{self.at_most:,}"
        return f"{self.at_least:,} to {self.at_most:,}"


def value_lines(answer: Any, tz: str | None, width: int, plain: bool = False) -> list[str]:
    """Lists values with their counts, one a line, then what is of no value that is shown, and the total.

    The first line says what is counted, and when.
    """
    dimension = answer["dimension"]
    hits = hits_text("only" if dimension == "bot" else None)
    head = title_line(name_of(answer), f": {hits} by {dimension}, {range_text(answer, tz)}", width)
    hidden = answer["not_shown"]
    rest = (
        (f"({hidden['values']:,} more values)", hidden["count"]),
        ("(other)", answer["other"]),
        ("(unrecorded)", answer["unrecorded"]),
    )
    drawn = [
        DrawnCount(visible(each["value"]) or NOT_GIVEN, each["at_least"], each["at_most"]) for each in answer["values"]
    ]
    drawn += [DrawnCount(name, count, count) for name, count in rest if count]
    return [head, *_lines(drawn, width, plain), f"total {answer['total']:,}", *_kept_since(answer)]


def _kept_since(answer: Any) -> list[str]:
    """Says from when on values are kept, where the range begins before; that is a midnight of UTC."""
    since = answer.get("kept_since")
    if since is None or (answer["from"] or 0) >= since:
        return []
    return [f"values are kept since {datetime.fromtimestamp(since, UTC):%Y-%m-%d} (UTC); older ones are (other)"]


def visitor_lines(answer: Any, width: int, plain: bool = False) -> list[str]:
    """Lists the days with their visitors, one a line, and the sum."""
    drawn = [_drawn_visitors(_days(day["start"], day["end"]), day["visitors"], day) for day in answer["days"]]
    whole = _drawn_visitors("visitor-days", answer["visitor_days"], answer)
    unknown = [f"unknown {answer['unknown']:,}"] if answer["unknown"] else []
    return [*_lines(drawn, width, plain), f"{whole.name} {whole.number} {whole.note}".rstrip(), *unknown]


def _drawn_visitors(name: str, visitors: int | None, answer: Any) -> DrawnCount:
    """Returns the visitors of one line: one number, or the bounds where there is none."""
    if visitors is None:
        return DrawnCount(name, answer["at_least"], answer["at_most"])
    note = "" if answer["exact"] else f"estimated, error {answer.get('error', 0):,}"
    return DrawnCount(name, visitors, visitors, note)


def _days(start: int, end: int) -> str:
    first, last = (datetime.fromtimestamp(at, UTC) for at in (start, end - 1))
    return f"{first:%Y-%m-%d}" if first.date() == last.date() else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _lines(drawn: Sequence[DrawnCount], width: int, plain: bool) -> list[str]:
    if not drawn:
        return []
    # A value of 100 bytes takes a line of its own, and the others stay aligned.
    left = min(max(columns_of(each.name) for each in drawn), max(LEAST_BAR, width // 2))
    right = max(len(each.number) for each in drawn)
    notes = max(len(each.note) for each in drawn)
    room = max(LEAST_BAR, width - left - right - notes - 5)
    most = max(each.at_most for each in drawn)
    return [
        f"{each.name}{' ' * (left - columns_of(each.name))}  {each.number:>{right}}  "
        f"{bar(each.at_most, most, room, plain):<{room}} {each.note}".rstrip()
        for each in drawn
    ]
