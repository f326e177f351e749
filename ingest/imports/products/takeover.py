"""The contents of an export, and how they become history that an import can count once.

Visits and buckets become lines in the order of time. So a later export of the same installation begins with the same
lines as the one before, and an import of it counts what came since. A total has no dates: what it has beyond the visits
and buckets of its link is an opening, a count of the link's life and of no curve. What came to a total since it was
taken over cannot be told from what was there. So the openings of one installation are one source: the same ones again
add nothing, and other ones are refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, Self, TypeAlias

from clickcurve.buckets.errors import shown
from clickcurve.hosts import Hosts
from clickcurve.keys import decoded_once, is_key
from ingest.batch import SourceStep
from ingest.hit import Judge
from ingest.imports.chunk import Chunk
from ingest.imports.importer import ImportSummary
from ingest.imports.log_sums import SHOWN_BAD_LINES, BadLine
from ingest.imports.products.attributes import Fields, HourValues, visit_fields
from ingest.imports.products.tables import second_of, whole_count
from ingest.imports.source import SourceUnreadable
from ingest.imports.target import ImportRefused, Sender, Taken

Place: TypeAlias = tuple[str, int]  # a file's name, and the line or entry
_Line: TypeAlias = dict[str, object]
_LINES_AT_ONCE = 20_000
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)  # of a file without a name


class Visit(NamedTuple):
    """One visit, with what it says."""

    second: int
    key: str
    bot: bool
    attributes: Fields = ()

    def line(self) -> _Line:
        """Returns it as an object of an import."""
        return {"key": self.key, "ts": self.second, **({"bot": True} if self.bot else {}), **dict(self.attributes)}


class CountedSpan(NamedTuple):
    """A count of people in [start, end), with what is known of them."""

    start: int
    end: int
    key: str
    people: int
    values: HourValues = ()

    def line(self) -> _Line:
        """Returns it as a line of history."""
        by = {
            dimension: [[self.start, self.end, dict(sorted(counts.items())), missing, missing]]
            for dimension, counts, missing in self.values
        }
        line: _Line = {"key": self.key, "buckets": [[self.start, self.end, self.people, 0]]}
        return line | ({"by": by} if by else {})


# What was read, in the order of its reading: `place` among the visits, or among the spans. ids: of links.
_TABLES = """
CREATE TABLE dated (second INTEGER, place INTEGER, is_span INTEGER, key BLOB, people INTEGER, bots INTEGER, line BLOB);
CREATE TABLE totals (key BLOB PRIMARY KEY, everyone INTEGER, people INTEGER, bots INTEGER) WITHOUT ROWID;
CREATE TABLE ids (id BLOB PRIMARY KEY, key BLOB) WITHOUT ROWID;
PRAGMA cache_size = -8192;
BEGIN;
"""
_OPENINGS = """
SELECT key, coalesce(totals.people - coalesce(came.people, 0),
                     totals.everyone - coalesce(came.people, 0) - coalesce(came.bots, 0)) AS beyond
FROM totals LEFT JOIN (SELECT key, sum(people) AS people, sum(bots) AS bots FROM dated GROUP BY key) AS came USING (key)
WHERE beyond > 0 ORDER BY key
"""
_BOTS_BEYOND = """
SELECT coalesce(sum(max(totals.bots - coalesce(came.bots, 0), 0)), 0)
FROM totals LEFT JOIN (SELECT key, sum(bots) AS bots FROM dated GROUP BY key) AS came USING (key)
"""
_LARGEST = 2**63 - 1


class Takeover:
    """What was read of one or several files of a product.

    It lies in a nameless file of the temporary folder, which SQLite sorts: an export may be of any length, and what
    visits say is not left behind by a kill. hosts: what keys say of the hosts of short addresses. is_bot: judges an
    agent. zone: of times without an offset.
    """

    def __init__(self, hosts: Hosts, is_bot: Judge, zone: tzinfo = UTC) -> None:
        self.hosts = hosts
        self.is_bot = is_bot
        self.zone = zone
        self.bad = 0
        self.first_bad: list[BadLine] = []
        # Keys of addresses that have escapes -> decoded once. Lines hold them as sent, as older versions counted them
        # and by which an export is known again; they are decoded as a chunk of lines is sent.
        self.decoded: dict[str, str] = {}
        self._visits = self._spans = 0
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._rows.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._rows.close()

    def key_of_address(self, address: object) -> str:
        """Returns the key that a short address names, as it is spelled there; "" if it names none."""
        return self.noted(self.hosts.key_of_address(address))

    def noted(self, key: str) -> str:
        """Returns a key that stood in an address, once it is noted how it is decoded."""
        if "%" in key and (decoded := decoded_once(key)) != key:
            self.decoded[key] = decoded
        return key

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
        second = second_of(when, self.zone)
        if second is None or not key or not -_LARGEST < second < _LARGEST:
            self.note_bad(where, f"no time: {shown(str(when))!r}" if key else "no link")
            return
        visit = Visit(second, key, bot, visit_fields(bot, agent, referrer, country))
        self._add(second, self._visits, False, key, 0 if bot else 1, 1 if bot else 0, visit.line())
        self._visits += 1

    def bucket(
        self, start: object, width_s: int, key: str, count: object, where: Place, values: HourValues = ()
    ) -> None:
        """Adds a count of people with a beginning and a length."""
        begin, number = second_of(start, self.zone), whole_count(count)
        if begin is None or number is None or not key or max(abs(begin) + width_s, number) > _LARGEST:
            self.note_bad(where, "no time, count or link")
        elif number:
            begin -= begin % width_s
            span = CountedSpan(begin, begin + width_s, key, number, values)
            self._add(begin, self._spans, True, key, number, 0, span.line())
            self._spans += 1

    def total(self, key: str, count: object, where: Place, of_people: bool = False) -> None:
        """Sets a link's count of all time; the greatest, if there are several. of_people: without bots."""
        number, key = whole_count(count), self.decoded.get(key, key)
        if number is None or not is_key(key) or number > _LARGEST:
            self.note_bad(where, "no count or link")
        elif number:
            self._total("people" if of_people else "everyone", key, number)

    def total_of_bots(self, key: str, count: object) -> None:
        """Sets how many bots a link's count of all time leaves out; what is no count says nothing."""
        number, key = whole_count(count), self.decoded.get(key, key)
        if number and is_key(key) and number <= _LARGEST:
            self._total("bots", key, number)

    def _total(self, column: str, key: str, number: int) -> None:
        self._write(
            f"INSERT INTO totals (key, {column}) VALUES (?, ?)"
            f" ON CONFLICT DO UPDATE SET {column} = max(excluded.{column}, coalesce({column}, 0))",
            (_stored(key), number),
        )

    def name_link(self, id_: str, key: str) -> None:
        """Notes the id by which other tables name a link; an empty one names none."""
        if id_:
            self._write("INSERT OR REPLACE INTO ids VALUES (?, ?)", (_stored(id_), _stored(key)))

    def key_of(self, id_: str) -> str:
        """Returns the key of the link with this id; "" if there is none."""
        with _failures_as_sentences():
            found = self._rows.execute("SELECT key FROM ids WHERE id = ?", (_stored(id_),)).fetchone()
        return _key(found[0]) if found else ""

    def note_bad(self, where: Place, reason: str) -> None:
        self.bad += 1
        if len(self.first_bad) < SHOWN_BAD_LINES:
            self.first_bad.append(BadLine(where[1], reason, where[0]))

    def openings(self) -> Iterator[tuple[str, int]]:
        """Yields what the totals have beyond visits and buckets, by link, in the order of keys.

        It counts as people: a count without dates is one of people only.
        """
        with _failures_as_sentences():
            for key, count in self._rows.execute(_OPENINGS):
                yield _key(key), count

    def bots_without_dates(self) -> int:
        """Returns how many visits of bots the totals tell of that came with no date: these count nowhere."""
        with _failures_as_sentences():
            return int(self._rows.execute(_BOTS_BEYOND).fetchone()[0])

    def history(self) -> Iterator[bytes]:
        """Yields the lines of history, each with its newline, in the order of time."""
        with _failures_as_sentences():
            for (line,) in self._rows.execute("SELECT line FROM dated ORDER BY second, place, is_span"):
                yield line

    def write_history(self, file: IO[bytes]) -> None:
        """Writes the lines of history into a file of the temporary folder."""
        try:
            file.writelines(self.history())
            file.flush()
        except OSError as error:
            raise _no_room(tempfile.gettempdir(), error.strerror or str(error)) from error

    def _add(self, second: int, place: int, is_span: bool, key: str, people: int, bots: int, line: _Line) -> None:
        decoded = _stored(self.decoded.get(key, key))
        row = (second, place, is_span, decoded, people, bots, history_bytes(line))
        self._write("INSERT INTO dated VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        with _failures_as_sentences():
            self._rows.execute(statement, values)


@contextmanager
def _failures_as_sentences() -> Iterator[None]:
    """Raises SourceUnreadable if the temporary folder is full, or counts add up to more than can be kept."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM:
            raise _no_room(_folder_of_sqlite(), str(error)) from error
        raise SourceUnreadable(f"what was read cannot be put in order: {error}") from error


@contextmanager
def nameless_file() -> Iterator[IO[bytes]]:
    """Opens a file of the temporary folder that has no name: a kill leaves nothing of it behind."""
    try:
        file = tempfile.TemporaryFile(prefix="clickcurve-")  # noqa: SIM115  # closed below, whatever the folder takes
    except OSError as error:
        raise SourceUnreadable(f"no folder for temporary files: {error.strerror}; name one with TMPDIR") from error
    try:
        yield file
    finally:
        with suppress(OSError):  # what a full folder did not take was told when it was written
            file.close()


def _no_room(folder: str, reason: str) -> SourceUnreadable:
    return SourceUnreadable(
        f"the temporary folder {folder} does not take what was read ({reason}): make room there or name another folder"
        " with TMPDIR, and import again"
    )


def _folder_of_sqlite() -> str:
    """Returns the folder that SQLite chooses for a file without a name."""
    named = os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp"
    return next((each for each in named if each and Path(each).is_dir() and os.access(each, os.W_OK | os.X_OK)), ".")


def _stored(key: str) -> bytes:
    """Returns a text as it is stored: in the order of its characters, also if it is not UTF-8."""
    return key.encode("utf-8", "surrogatepass")


def _key(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


@dataclass(eq=False)
class DecodingSender(Sender):
    """Sends lines of history with these keys decoded. Their place in the source stays that of the lines as made."""

    decoded: Mapping[str, str] = field(default_factory=dict)

    async def send(self, chunk: Chunk) -> Taken | None:
        return await super().send(replace(chunk, history=self._with_decoded_keys(chunk.history)))

    def _with_decoded_keys(self, lines: bytes) -> bytes:
        if not self.decoded:
            return lines
        return b"".join(map(self._line, lines.splitlines(keepends=True)))

    def _line(self, line: bytes) -> bytes:
        known = json.loads(line)
        key = self.decoded.get(known["key"])
        return line if key is None else history_bytes({**known, "key": key})


def history_bytes(line: _Line) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _opening_lines(takeover: Takeover) -> Iterator[bytes]:
    for key, count in takeover.openings():
        yield history_bytes({"key": key, "opening": count})


async def send_openings(sender: Sender, name: str, takeover: Takeover, summary: ImportSummary) -> None:
    """Sends the openings that are not counted yet; raises ImportRefused if the name was used for other ones."""
    hashed = blake2b(digest_size=16)
    for line in _opening_lines(takeover):
        hashed.update(line)
    digest = hashed.hexdigest()
    lines = _opening_lines(takeover)
    data = b"".join(islice(lines, _LINES_AT_ONCE))
    if not data:
        return
    kept = await sender.offset(name)
    if kept.offset and kept.tail != digest:
        raise ImportRefused(
            "totals without dates were taken over before, and these are others: what came since cannot be told from "
            "what was counted then. With --label NAME they are those of another installation, and count beside",
            value=name,
        )
    summary.from_byte = kept.offset
    at = 0
    while data:
        start, at = at, at + len(data)
        if start >= kept.offset:
            summary.lines += data.count(b"\n")
            summary.add_taken(await sender.send(Chunk(SourceStep(name, start, at, digest), history=data)))
        data = b"".join(islice(lines, _LINES_AT_ONCE))
    summary.to_byte = at
