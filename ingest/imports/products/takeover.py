"""What an export says of links, and how it becomes history that an import can count once.

Visits and buckets become lines in the order of time. So a later export of the same installation begins with the same
lines as the one before, and an import of it counts what came since. A total has no dates: what it has beyond the visits
and buckets of its link is an opening, a count of the link's life and of no curve.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from clickcurve.times import iso_seconds
from ingest.imports.access_log import SHOWN_BAD_LINES, BadLine
from ingest.imports.products.tables import ExportFile

Judge: TypeAlias = Callable[[str], bool]
Place: TypeAlias = tuple[str, int]  # a file's name, and the line or entry


@dataclass(slots=True)
class Takeover:
    """What was read of one or several files of a product.

    visits: (second, key, whether a bot's). buckets: (start, end, key, people, bots). totals: links' counts of all time.
    """

    visits: list[tuple[int, str, bool]] = field(default_factory=list)
    buckets: list[tuple[int, int, str, int, int]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    first_bad: list[BadLine] = field(default_factory=list)

    def visit(self, when: object, key: str, bot: bool, where: Place) -> None:
        """Adds one visit, or notes why it is none."""
        second = second_of(when)
        if second is None or not key:
            self.note_bad(where, f"no time: {when!r}" if key else "no link")
            return
        self.visits.append((second, key, bot))

    def bucket(self, start: object, width_s: int, key: str, count: object, where: Place) -> None:
        """Adds a count of people with a beginning and a length."""
        begin, number = second_of(start), whole_count(count)
        if begin is None or number is None or not key:
            self.note_bad(where, "no time, count or link")
        elif number:
            begin -= begin % width_s
            self.buckets.append((begin, begin + width_s, key, number, 0))

    def total(self, key: str, count: object, where: Place) -> None:
        """Sets a link's count of all time; the greatest, if there are several."""
        number = whole_count(count)
        if number is None or not key:
            self.note_bad(where, "no count or link")
        elif number:
            self.totals[key] = max(number, self.totals.get(key, 0))

    def totals_in(self, file: ExportFile, key: str, count: str) -> None:
        """Sets the counts of all time that a table has in one column, of the links in another."""
        for line, row in file.rows():
            self.total(row[key], row.get(count), (file.name, line))

    def note_bad(self, where: Place, reason: str) -> None:
        self.bad += 1
        if len(self.first_bad) < SHOWN_BAD_LINES:
            self.first_bad.append(BadLine(where[1], reason, where[0]))

    def openings(self) -> dict[str, int]:
        """Returns what the totals have beyond visits and buckets, by link, in the order of keys."""
        dated = Counter(key for _, key, _ in self.visits)
        for _, _, key, people, bots in self.buckets:
            dated[key] += people + bots
        return {key: total - dated[key] for key, total in sorted(self.totals.items()) if total > dated[key]}

    def history(self) -> Iterator[bytes]:
        """Yields the lines of history, each with its newline, in the order of time."""
        visits: list[tuple[int, int, Any]] = [(visit[0], n, visit) for n, visit in enumerate(self.visits)]
        buckets: list[tuple[int, int, Any]] = [(bucket[0], n, bucket) for n, bucket in enumerate(self.buckets)]
        for _, _, each in sorted(visits + buckets, key=lambda one: one[:2]):
            if len(each) == 3:
                second, key, bot = each
                yield history_bytes({"key": key, "ts": second} | ({"bot": True} if bot else {}))
            else:
                start, end, key, people, bots = each
                yield history_bytes({"key": key, "buckets": [[start, end, people, bots]]})


def history_bytes(line: dict[str, object]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def second_of(when: object) -> int | None:
    """Returns the epoch seconds of a time, UTC where it has no offset; None if it is none."""
    if isinstance(when, str):
        text = when.strip()
        return int(text) if len(text) == 10 and text.isascii() and text.isdigit() else iso_seconds(text)
    return int(when) if isinstance(when, int | float) and not isinstance(when, bool) and when == when else None


def whole_count(value: object) -> int | None:
    """Returns a count that is not below 0, also one that is written as text; None if it is none."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value) if len(value) < 20 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def key_of_address(address: object) -> str:
    """Returns the key that a short address names: the path without its leading slash and without the query."""
    if not isinstance(address, str):
        return ""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
    except ValueError:
        return ""
    return parts.path.removeprefix("/")
