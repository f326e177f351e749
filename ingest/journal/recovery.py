"""Recovery: reads a journal's folder as a stopped program or machine left it, and changes nothing.

The segment with the highest number is the last one. Its header says which segment came before and how long that one is,
and so on back to the first, or to one that a complete flush covers. Segments outside this chain were given up, or are
covered and were not removed yet: they count for nothing and are not read.

Every segment but the last must be valid exactly up to the length that its successor states. The last one may have a
torn tail, left by a write that was under way when everything stopped. Its hits were never answered, so it is cut off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from clickcurve.buckets.errors import JournalDamaged
from ingest.journal.disk import Disk
from ingest.journal.segment_format import (
    GROUP,
    STATE,
    DiskJournalState,
    Header,
    Malformed,
    decode_segment_header,
    decode_state,
    proof_of_damage,
    used_bytes,
    valid_frames,
)

_NAME = re.compile(r"segment-(\d{8,})")


@dataclass(slots=True)
class Segment:
    """The part of a segment that counts: frames in bytes [start, end), durable up to `durable`."""

    number: int
    salt: int
    start: int
    end: int
    durable: int
    hits: bool = False  # holds a group, so it belongs to a flush
    must_rewrite: bool = True  # before a sync, from `durable` on: a failed sync may have dropped it
    room_to: int = 0  # up to here the disk had room for the flush of its hits, too, when it was last asked


@dataclass(slots=True)
class RecoveredSegments:
    """The segments of a folder. `closed`: oldest first, those with hits that no complete flush covers.

    `obsolete`: all others with their sizes; they may go once a new segment repeats the state. `torn_bytes`: the length
    of the torn tail.
    """

    journal: bytes
    state: DiskJournalState
    closed: list[Segment]
    last_number: int
    obsolete: dict[Path, int]
    torn_bytes: int


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"segment-{number:08d}"


def damaged(path: Path, offset: int, what: str) -> JournalDamaged:
    return JournalDamaged(f"{path}, byte {offset}: {what}", field=str(path), value=offset)


def recover(folder: Path, disk: Disk) -> RecoveredSegments | None:
    """Reads the segments of a folder; None if it has none.

    Raises JournalDamaged where the bytes cannot be what was written.
    """
    numbers = [int(match[1]) for match in map(_NAME.fullmatch, disk.names(folder)) if match]
    if not numbers:
        return None
    last_number = max(numbers)
    header, last, state, torn_bytes = _read_last(folder, disk, last_number)
    segments, later = [last], header
    while later.predecessor > state.covered:
        later, segment = _read_sealed(folder, disk, later)
        segments.append(segment)
    closed = [segment for segment in reversed(segments) if segment.hits and segment.number > state.covered]
    kept = {segment.number for segment in closed}
    obsolete = [segment_path(folder, number) for number in numbers if number not in kept]
    return RecoveredSegments(
        header.journal, state, closed, last_number, {path: disk.size(path) for path in obsolete}, torn_bytes
    )


def _read_last(folder: Path, disk: Disk, number: int) -> tuple[Header, Segment, DiskJournalState, int]:
    path = segment_path(folder, number)
    view = disk.read(path)
    header, start = _read_header(path, view, number)
    state = header.state
    segment = Segment(number, header.salt, start, start, start)
    for frame in valid_frames(view, start, len(view), header.salt):
        if frame.kind == STATE:
            state = _read_state(path, view, frame.body, frame.length)
        elif frame.kind != GROUP:
            raise damaged(path, segment.end, f"a record of kind {frame.kind}, which this program does not know")
        segment.hits = segment.hits or frame.kind == GROUP
        segment.durable, segment.end = frame.durable, frame.end
    proof = proof_of_damage(view, segment.end, header.salt)
    if proof is not None:
        raise damaged(path, segment.end, f"the record here is damaged, but a later one, at byte {proof}, is whole")
    return header, segment, state, max(0, used_bytes(view) - segment.end)


def _read_sealed(folder: Path, disk: Disk, later: Header) -> tuple[Header, Segment]:
    path = segment_path(folder, later.predecessor)
    try:
        view = disk.read(path)
    except FileNotFoundError:
        raise damaged(path, 0, f"the segment is missing; segment {later.number} continues it") from None
    header, start = _read_header(path, view, later.predecessor)
    if (header.journal, header.salt) != (later.journal, later.predecessor_salt):
        raise damaged(path, 0, f"segment {later.number} does not continue this one; files of two journals are mixed")
    if header.predecessor >= header.number:
        raise damaged(path, 0, "the segment claims to continue a later one")
    segment = Segment(header.number, header.salt, start, start, later.sealed)
    if later.sealed <= len(view):
        for frame in valid_frames(view, start, later.sealed, header.salt):
            segment.hits = segment.hits or frame.kind == GROUP
            segment.end = frame.end
    if segment.end != later.sealed:
        raise damaged(path, segment.end, f"the record here is damaged; the segment holds records up to {later.sealed}")
    return header, segment


def _read_header(path: Path, view: memoryview, number: int) -> tuple[Header, int]:
    try:
        header, start = decode_segment_header(view)
    except Malformed as error:
        raise damaged(path, 0, str(error)) from error
    if header.number != number:
        raise damaged(path, 0, f"the file's name says segment {number}, its header says {header.number}")
    return header, start


def _read_state(path: Path, view: memoryview, body: int, length: int) -> DiskJournalState:
    try:
        return decode_state(view[body : body + length])
    except Malformed as error:
        raise damaged(path, body, str(error)) from error
