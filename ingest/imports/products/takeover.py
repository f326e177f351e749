"""The contents of an export, and how they become history that an import can count once.

Visits and buckets become lines in the order of time. So a later export of the same installation begins with the same
lines as the one before, and an import of it counts what came since. A total has no dates: what it has beyond the visits
and buckets of its link is an opening, a count of the link's life and of no curve. What came to a total since it was
taken over cannot be told from what was there. So the openings of one installation are one source: the same ones again
add nothing, and other ones are refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from clickcurve.hosts import Hosts
from ingest.batch import SourceStep
from ingest.hit import Judge
from ingest.imports.access_log import SHOWN_BAD_LINES, BadLine
from ingest.imports.chunk import Chunk
from ingest.imports.importer import ImportSummary
from ingest.imports.products.attributes import Fields, HourValues, visit_fields
from ingest.imports.products.tables import second_of, whole_count
from ingest.imports.target import ImportRefused, Sender

Place: TypeAlias = tuple[str, int]  # a file's name, and the line or entry
_LINES_AT_ONCE = 20_000


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

    hosts: what keys say of the hosts of short addresses. is_bot: judges an agent. keys: of links, by the ids that other
    tables name them by. totals: links' counts of all time, of people and bots; people: of people alone, where the
    product tells them apart.
    """

    hosts: Hosts
    is_bot: Judge
    keys: dict[str, str] = field(default_factory=dict)
    visits: list[Visit] = field(default_factory=list)
    buckets: list[CountedSpan] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    people: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    first_bad: list[BadLine] = field(default_factory=list)

    def visit(
        self,
        when: object,
        key: str,
        bot: bool,
        where: Place,
        agent: object = None,
        referrer: object = None,
        country: object = None,
    ) -> None:
        """Adds one visit, or notes why it does not count."""
        second = second_of(when)
        if second is None or not key:
            self.note_bad(where, f"no time: {when!r}" if key else "no link")
            return
        self.visits.append(Visit(second, key, bot, visit_fields(bot, agent, referrer, country)))

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


async def send_openings(sender: Sender, name: str, openings: Mapping[str, int], summary: ImportSummary) -> None:
    """Sends the openings that are not counted yet; raises ImportRefused if the name was used for other ones."""
    lines = [history_bytes({"key": key, "opening": count}) for key, count in openings.items()]
    if not lines:
        return
    digest = blake2b(b"".join(lines), digest_size=16).hexdigest()
    kept = await sender.offset(name)
    if kept.offset and kept.tail != digest:
        raise ImportRefused(
            "totals without dates were taken over before, and these are others: what came since cannot be told from "
            "what was counted then. With --label NAME they are those of another installation, and count beside",
            value=name,
        )
    summary.from_byte = kept.offset
    at = 0
    for first in range(0, len(lines), _LINES_AT_ONCE):
        data = b"".join(lines[first : first + _LINES_AT_ONCE])
        start, at = at, at + len(data)
        if start < kept.offset:
            continue
        summary.lines += data.count(b"\n")
        summary.add_taken(await sender.send(Chunk(SourceStep(name, start, at, digest), history=data)))
    summary.to_byte = at
