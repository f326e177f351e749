"""The contents of an export, and how they become history that an import can count once.

Visits and buckets become lines in the order of time. So a later export of the same installation begins with the same
lines as the one before, and an import of it counts what came since. A total has no dates: what it has beyond the visits
and buckets of its link is an opening, a count of the link's life and of no curve.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from clickcurve.hosts import HOSTS_IGNORED, Hosts
from ingest.imports.access_log import SHOWN_BAD_LINES, BadLine
from ingest.imports.products.attributes import Fields, HourValues
from ingest.imports.products.numbers import second_of, whole_count
from ingest.imports.products.tables import ExportFile

Judge: TypeAlias = Callable[[str], bool]
Place: TypeAlias = tuple[str, int]  # a file's name, and the line or entry


class Visit(NamedTuple):
    """One visit, with what it says."""

    second: int
    key: str
    bot: bool
    attributes: Fields = ()

    def line(self) -> dict[str, object]:
        """Returns it as an object of an import."""
        return {"key": self.key, "ts": self.second, **({"bot": True} if self.bot else {}), **dict(self.attributes)}


class CountedSpan(NamedTuple):
    """A count of people in [start, end), with what is known of them."""

    start: int
    end: int
    key: str
    people: int
    values: HourValues = ()

    def line(self) -> dict[str, object]:
        """Returns it as a line of history."""
        by = {
            dimension: [[self.start, self.end, dict(sorted(counts.items())), missing, missing]]
            for dimension, counts, missing in self.values
        }
        line: dict[str, object] = {"key": self.key, "buckets": [[self.start, self.end, self.people, 0]]}
        return line | ({"by": by} if by else {})


@dataclass(slots=True)
class Takeover:
    """What was read of one or several files of a product.

    hosts: what keys say of the hosts of short addresses. totals: links' counts of all time, of people and bots; people:
    of people alone, where the product tells them apart.
    """

    hosts: Hosts = HOSTS_IGNORED
    visits: list[Visit] = field(default_factory=list)
    buckets: list[CountedSpan] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    people: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    first_bad: list[BadLine] = field(default_factory=list)

    def visit(self, when: object, key: str, bot: bool, where: Place, attributes: Fields = ()) -> None:
        """Adds one visit, or notes why it does not count."""
        second = second_of(when)
        if second is None or not key:
            self.note_bad(where, f"no time: {when!r}" if key else "no link")
            return
        self.visits.append(Visit(second, key, bot, attributes))

    def bucket(
        self, start: object, width_s: int, key: str, count: object, where: Place, values: HourValues = ()
    ) -> None:
        """Adds a count of people with a beginning and a length."""
        begin, number = second_of(start), whole_count(count)
        if begin is None or number is None or not key:
            self.note_bad(where, "no time, count or link")
        elif number:
            begin -= begin % width_s
            self.buckets.append(CountedSpan(begin, begin + width_s, key, number, values))

    def total(self, key: str, count: object, where: Place, of_people: bool = False) -> None:
        """Sets a link's count of all time; the greatest, if there are several."""
        totals = self.people if of_people else self.totals
        number = whole_count(count)
        if number is None or not key:
            self.note_bad(where, "no count or link")
        elif number:
            totals[key] = max(number, totals.get(key, 0))

    def totals_in(self, file: ExportFile, key: str, count: str) -> None:
        """Sets the counts of all time that a table has in one column, of the links in another."""
        for line, row in file.rows():
            self.total(self.hosts.key(row[key]), row.get(count), (file.name, line))

    def note_bad(self, where: Place, reason: str) -> None:
        self.bad += 1
        if len(self.first_bad) < SHOWN_BAD_LINES:
            self.first_bad.append(BadLine(where[1], reason, where[0]))

    def openings(self) -> dict[str, int]:
        """Returns what the totals have beyond visits and buckets, by link, in the order of keys.

        It counts as people: a count without dates is one of people only.
        """
        people = Counter(visit.key for visit in self.visits if not visit.bot)
        for bucket in self.buckets:
            people[bucket.key] += bucket.people
        bots = Counter(visit.key for visit in self.visits if visit.bot)
        beyond = {key: total - people[key] - bots[key] for key, total in self.totals.items()}
        beyond |= {key: total - people[key] for key, total in self.people.items()}
        return {key: count for key, count in sorted(beyond.items()) if count > 0}

    def history(self) -> Iterator[bytes]:
        """Yields the lines of history, each with its newline, in the order of time."""
        dated: list[tuple[int, int, Visit | CountedSpan]] = [
            (each.second, n, each) for n, each in enumerate(self.visits)
        ]
        dated += [(each.start, n, each) for n, each in enumerate(self.buckets)]
        for _, _, each in sorted(dated, key=lambda one: one[:2]):
            yield history_bytes(each.line())


def history_bytes(line: dict[str, object]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
