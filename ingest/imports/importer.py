"""An import from its source to its target: find the offset, send chunk after chunk, go on after any failure.

What makes it exact is that the offset in the source moves with the hits, in one journal frame, on the other side. So
nothing is kept here: an import may be killed at any moment and asks for the offset when it is started again; and where
the outcome of a chunk is not known it asks as well.
"""

from __future__ import annotations

import asyncio
import io
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from clickcurve.buckets.errors import ImportOutOfStep
from ingest.batch import SourceStep
from ingest.imports.access_log import AccessLog, count_fields
from ingest.imports.chunk import Chunk, DatedHit
from ingest.imports.fingerprint import PREFIX_BYTES, Likeness, tail_of
from ingest.imports.log_sums import SHOWN_BAD_LINES, BadLine, LineSums, LogSums
from ingest.imports.logs.line_reader import looks_like
from ingest.imports.rule_lines import FIELD, without_rules
from ingest.imports.source import CHUNK_BYTES, SourceChanged, SourceLines, SourceUnreadable, Stream, open_reader
from ingest.imports.target import SHOWN_REFUSALS, ImportRefused, KeptOffset, Sender, Taken

POLL_S = 1.0  # how often a followed log is looked at
FAMILY_MEMBERS = 1000  # sources that begin alike, as far as they go
LONGEST_LOG_LINE = 256 << 10  # four header fields of 8 KiB, all of it escaped; the patterns take 140 bytes for each
MOVES = 20  # how often another import of the same source may come between, in one run

Openable = Path | io.BufferedReader
_NO_LINES = ("comment", "blank line")  # skipped, and no sign that a file is a log


def dated_hits(sums: LogSums) -> list[DatedHit]:
    """Returns the hits of some lines, those that say the same summed."""
    hits = []
    for (key, minute, bot, ip, ref, ua, campaign), count in sums.hits.items():
        hit = DatedHit(key, minute, count, None, ua, bot or None, ref, ip)
        if campaign is not None:
            hit.source, hit.utm = campaign.source, dict(campaign.utm) if campaign.utm else None
        hits.append(hit)
    return hits


class SourceKind(StrEnum):
    log = "log"
    history = "history"


@dataclass(slots=True)
class ImportSummary(LineSums):
    """What one run did with one source.

    `counted`, `late`, `refused` and `adjusted` are what the other side said, in hits; of `unanswered` chunks it is
    known that they count, but their receipt was lost. Bytes up to `from_byte` were counted before this run;
    `left_bytes` are a last line that has no end yet. `looks_like`: where no line could be read, what the first one
    seems to be. `proposed`: patterns of keys that no shortener gives and that were counted.
    """

    kind: SourceKind | None = None
    chunks: int = 0
    unanswered: int = 0
    counted: int = 0
    late: int = 0
    refused: int = 0
    adjusted: int = 0
    reasons: list[str] = field(default_factory=list)
    from_byte: int = 0
    to_byte: int = 0
    left_bytes: int = 0
    is_part: bool = False  # of a known source: it ends before the offset that was counted already
    damage: str | None = None  # why a packed source could not be read to its end
    looks_like: str | None = None
    proposed: list[str] = field(default_factory=list)

    @property
    def is_all_bad(self) -> bool:
        """No line was good: the source is most likely something else."""
        return all_bad(self) and not (self.counted or self.from_byte)

    def add(self, reading: LineSums) -> None:
        for bad in reading.first_bad[: SHOWN_BAD_LINES - len(self.first_bad)]:
            self.first_bad.append(BadLine(self.lines + bad.line, bad.reason, bad.text))
        self.lines += reading.lines
        self.people_hits += reading.people_hits
        self.bot_hits += reading.bot_hits
        self.skipped.update(reading.skipped)
        self.formats.update(reading.formats)
        self.bad += reading.bad

    def add_taken(self, taken: Taken | None) -> None:
        self.chunks += 1
        if taken is None:
            self.unanswered += 1
            return
        self.counted += taken.counted
        self.late += taken.late
        self.refused += taken.refused
        self.adjusted += taken.adjusted
        self.reasons += taken.reasons[: SHOWN_REFUSALS - len(self.reasons)]


def all_bad(sums: LineSums) -> bool:
    """Tells whether no line was good, though there were some."""
    return bool(sums.bad) and sums.bad >= sums.lines - sum(map(sums.skipped.__getitem__, _NO_LINES))


@dataclass(eq=False)
class Importer:
    """Imports sources one after the other. `label` gives them other names, so that they count anew.

    `kind`: None finds out from the first line. `progress` hears how many bytes of the file are done.
    """

    sender: Sender
    log: AccessLog
    kind: SourceKind | None = None
    label: str = ""
    progress: Callable[[int], None] = lambda raw_at: None
    chunk_bytes: int = CHUNK_BYTES
    _unsent: int | None = None  # where lines begin that were all bad so far, and are sent with the first good ones

    async def run(self, source: Openable, summary: ImportSummary | None = None) -> ImportSummary:
        """Imports what is there now; raises ImportRefused, SourceUnreadable, and what the sender gives up with.

        summary: is filled as it goes on, so that one who interrupts the import knows how far it came.
        """
        summary = ImportSummary() if summary is None else summary
        stream = await self._open(source)
        try:
            for _ in range(MOVES):
                try:
                    await self._run_once(stream, summary)
                    return summary
                except ImportOutOfStep:
                    _require(await asyncio.to_thread(stream.rewind), "another import of this pipe goes on")
                except SourceChanged:
                    assert isinstance(source, Path)  # a pipe is never written anew
                    stream.reader.close()
                    stream = await self._open(source)
            raise ImportRefused("another import of the same source is running; stop one of the two")
        finally:
            stream.reader.close()

    async def follow(self, path: Path, summary: ImportSummary) -> None:
        """Imports a log and goes on as it is written, through rotations and truncations, until cancelled.

        Waits for a file that is not there. Raises SourceUnreadable if the first one cannot be read; once one was, the
        next may take its time to get its rights.
        """
        followed = False
        unreadable = 0
        while True:
            try:
                stream = await self._open(path)
            except SourceUnreadable:
                unreadable = unreadable + 1 if path.exists() else 0  # once: it came between the two looks
                if unreadable > 1 and not followed:
                    raise
                await self.sender.wait(POLL_S)
                continue
            followed = True
            try:
                await self._follow_one(path, stream, summary)
            except SourceChanged:
                continue
            finally:
                stream.reader.close()
            if stream.reader.final:
                return

    async def _follow_one(self, path: Path, stream: Stream, summary: ImportSummary) -> None:
        """Follows one file until another one has its path."""
        moved = False
        name = ""
        while True:
            try:
                name = name or await self._find(stream, summary)
                if name:
                    await self._send_all(stream, name, summary)
            except ImportOutOfStep:
                name = ""
            if moved or stream.reader.final:
                if name:
                    await self._send_last(stream, name, summary)
                return
            # A file that was moved away is read until another one has its name, and looked at once more then: its
            # writer may have it open a little longer.
            moved = stream.reader.is_replaced(path)
            await self.sender.wait(POLL_S)
            if not stream.reader.still_has(stream.at, stream.before):
                raise SourceChanged(f"{path} was truncated")
            if not name:
                await asyncio.to_thread(stream.rewind)

    async def _open(self, source: Openable) -> Stream:
        return Stream(await asyncio.to_thread(open_reader, source), self.label, self.chunk_bytes)

    async def _run_once(self, stream: Stream, summary: ImportSummary) -> None:
        name = await self._find(stream, summary)
        if name:
            await self._send_all(stream, name, summary)
            await self._send_last(stream, name, summary)

    # --- the offset -----------------------------------------------------------------------------------------------
    async def _find(self, stream: Stream, summary: ImportSummary) -> str:
        """Returns the name of the source, with the stream at its offset; "" if there is nothing to do (yet)."""
        begin = await asyncio.to_thread(stream.look, PREFIX_BYTES[-1])
        summary.kind = self.kind or kind_of(begin)
        if summary.kind is SourceKind.log:
            stream.longest_line = LONGEST_LOG_LINE
        summary.is_part = False
        self._unsent = None
        families = stream.beginning.families()
        if not families:
            summary.left_bytes = len(begin)  # too little to be told from other sources
            return ""
        free = []
        for family in families:
            numbers = (f"{family}-{member}" for member in range(FAMILY_MEMBERS))  # as older versions named them
            name, is_known = await self._seek(stream, numbers, summary)
            if is_known:
                return name
            free.append(name)
        firsts = [f"{family}-0" for family in families]
        if free != firsts:  # only then may it have the name of a level
            name, is_known = await self._seek(stream, stream.beginning.levels(), summary)
            if is_known:
                return name
            # A number is the last choice: it takes as many questions to find it again.
            free = [free[0] if free[0] == firsts[0] else name or free[0]]
        _require(bool(free[0]), f"{FAMILY_MEMBERS} others begin like it; give it a label")
        if stream.at:
            _require(await asyncio.to_thread(stream.rewind), "it looks like another one; a pipe cannot be read again")
        summary.from_byte = 0
        self.log.begin()
        return free[0]

    async def _seek(self, stream: Stream, names: Iterable[str], summary: ImportSummary) -> tuple[str, bool]:
        """Returns the name that the source has, and True; or the first name that none has, and False.

        "" with True: there is nothing to do, for it is a part of what was counted; with False: each has another source.
        """
        for name in names:
            kept = await self.sender.offset(name)
            self.log.use(kept.fields, kept.people)
            self.log.use_hosts(kept.hosts_in_key)
            if kept.offset == 0:
                return name, False
            likeness = await asyncio.to_thread(_likeness, stream, kept)
            if likeness is not Likeness.other:
                summary.is_part = likeness is Likeness.shorter
                summary.from_byte = kept.offset
                self.log.begin(tail_of(kept.tail).log, stream.recent)
                return "" if summary.is_part else name, True
        return "", False

    # --- the chunks -----------------------------------------------------------------------------------------------
    async def _send_all(self, stream: Stream, name: str, summary: ImportSummary) -> None:
        """Sends all whole lines that there are now."""
        async with aclosing(_ahead(stream)) as chunks:
            async for lines in chunks:
                await self._send(name, lines, summary)
                self.progress(stream.reader.raw_at)
        summary.left_bytes = stream.unfinished_bytes
        summary.damage = stream.reader.damage

    async def _send_last(self, stream: Stream, name: str, summary: ImportSummary) -> None:
        """Sends a last line without a newline, if nothing can follow it or if it is whole."""
        last = stream.last_line() if summary.damage is None else None
        if last is not None and (stream.reader.final or self._is_whole(last, stream, summary)):
            await self._send(name, last, summary)
            summary.left_bytes = 0

    def _is_whole(self, lines: SourceLines, stream: Stream, summary: ImportSummary) -> bool:
        """Tells whether a line that has no newline yet has all the same all that its writer will put there.

        Programs that write through stdio put out 4,096 bytes at a time: what is there of a combined line can look like
        a whole common one, and a bot's visit like a person's. So text must have as many fields as the line before it.
        """
        if lines.too_long:
            return False
        if summary.kind is SourceKind.log:
            if not self.log.is_line(lines.data):
                return False
            fields = count_fields(lines.data)
            is_json = lines.data.startswith(b"{")  # it was read, so its brace is closed
            return is_json or (fields > 0 and fields == count_fields(stream.reader.line_before(lines.start)))
        try:
            return isinstance(msgspec.json.decode(lines.data), dict)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False

    async def _send(self, name: str, lines: SourceLines, summary: ImportSummary) -> None:
        if summary.kind is SourceKind.log:
            reading = self.log.read(lines.data)
        else:
            reading = LogSums(lines=lines.data.count(b"\n") + (bool(lines.data) and not lines.ended))
        for _ in range(lines.too_long):
            reading.lines += 1
            reading.note_bad(reading.lines, "too long", "")
        if self._is_unsent(lines, reading, summary):
            summary.add(reading)
            return
        start, self._unsent = lines.start if self._unsent is None else self._unsent, None
        step = SourceStep(name, start, lines.end, lines.tail._replace(log=self.log.kept).text())
        if summary.kind is SourceKind.log:
            chunk = Chunk(step, dated_hits(reading))
        else:
            history = lines.data.removeprefix(BOM_UTF8) if not lines.start else lines.data
            chunk = Chunk(step, history=without_rules(history))
        taken = await self.sender.send(chunk)
        summary.add(reading)
        summary.add_taken(taken)
        summary.to_byte = lines.end
        summary.looks_like = None
        summary.proposed = sorted(self.log.proposed)

    def _is_unsent(self, lines: SourceLines, reading: LogSums, summary: ImportSummary) -> bool:
        """Tells whether no line of a log was good so far: its offset stays, so that it can be read otherwise."""
        if summary.kind is not SourceKind.log or (lines.start and self._unsent is None) or not all_bad(reading):
            return False
        if self._unsent is None:
            self._unsent = lines.start
            first = next((line for line in lines.data.split(b"\n", 100) if line.strip() and line[:1] != b"#"), b"")
            summary.looks_like = looks_like(first.decode("utf-8", "replace"))
        return True


def kind_of(begin: bytes) -> SourceKind:
    """Tells history from a log: its first line is an object with a key, or with a group, or a rule."""
    try:
        first = msgspec.json.decode(begin.removeprefix(BOM_UTF8).lstrip().partition(b"\n")[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return SourceKind.log
    is_history = isinstance(first, dict) and not {"key", "group", FIELD}.isdisjoint(first)
    return SourceKind.history if is_history else SourceKind.log


def _likeness(stream: Stream, kept: KeptOffset) -> Likeness:
    """Compares a kept offset with the stream, which is there afterwards if it is the same source."""
    beginning, tail = stream.beginning, tail_of(kept.tail)
    if beginning.likeness(kept.offset, tail, None) is Likeness.other:
        return Likeness.other
    if stream.at > kept.offset:
        _require(stream.rewind(), "it looks like another one; a pipe cannot be read again")
    reached = stream.skip(kept.offset)
    return beginning.likeness(kept.offset, tail, stream.before if reached else None)


async def _ahead(stream: Stream) -> AsyncGenerator[SourceLines, None]:
    """Yields the lines, each read and unpacked in a thread while those before it are under way."""
    reading = asyncio.ensure_future(asyncio.to_thread(stream.next_lines))
    try:
        while (lines := await reading) is not None:
            reading = asyncio.ensure_future(asyncio.to_thread(stream.next_lines))
            yield lines
    finally:
        await asyncio.wait({reading})


def _require(possible: bool, why_not: str) -> None:
    if not possible:
        raise ImportRefused(f"this source cannot be imported: {why_not}")
