"""The files of an open journal: the current segment, those before it, the spare file, and obsolete ones.

Everything here raises OSError and nothing else; `disk_journal.py` knows what that means for the hits concerned. Rules:

1. A file whose write or sync failed takes no frame again: it is closed after its last good frame, and only a new
   segment, whose header states that length, makes this durable. Until there is one, `current` is None.
2. No two segments have the same number: one whose file may or may not have reached the disk is passed over.
3. The spare file's room is reserved before it is needed, so that a full disk does not prevent the next segment.
4. An obsolete file is removed only after the header that makes it obsolete is durable; if that fails, again later.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ingest.journal.disk import Disk
from ingest.journal.recovery import RecoveredSegments, Segment, segment_path
from ingest.journal.segment_format import DiskJournalState, Header, encode_segment_header, valid_frames

Encode = Callable[[Segment], tuple[bytes, bytes]]  # a frame for the end of a segment: head and body


class SegmentFiles:
    """The files of a journal's folder.

    closed: oldest first, each with hits, none covered by a complete flush. current: the segment that takes frames; None
    while unsettled. next_number: of the segment that `open_next` makes.
    """

    def __init__(self, folder: Path, disk: Disk, chunk_bytes: int) -> None:
        self.closed: list[Segment] = []
        self.current: Segment | None = None
        self.next_number = 1
        self._folder = folder
        self._disk = disk
        self._chunk_bytes = chunk_bytes
        self._journal = b""
        self._fd = -1  # of the current segment
        self._reserved = 0  # bytes of the current segment's file
        self._spare: int | None = None
        self._obsolete: dict[Path, int] = {}  # sizes of files that count for nothing and are to be removed

    @property
    def bytes_held(self) -> int:
        closed = sum(segment.end for segment in self.closed)
        return closed + sum(self._obsolete.values()) + (self.current.end if self.current else 0)

    def begin(self, journal: bytes) -> None:
        self._journal = journal

    def continue_after(self, recovered: RecoveredSegments) -> None:
        """Continues after what was found in the folder. No old file is written to again: `current` stays None."""
        self._journal, self.closed, self.next_number = recovered.journal, recovered.closed, recovered.last_number + 1
        self._obsolete = recovered.obsolete

    def append_frame(self, encode: Encode, *, durable: bool) -> None:
        """Appends a frame to the current segment; if that fails, closes the segment before it."""
        current = self.current
        assert current is not None
        head, body = encode(current)
        size = len(head) + len(body)
        self.reserve(size)
        try:
            self._write(self._fd, (head, body), current.end, durable=durable)
        except BaseException:
            self.seal_current()
            raise
        current.end += size
        if durable:
            current.durable = current.end

    def reserve(self, size: int) -> None:
        """Reserves room for a frame; changes nothing if that fails."""
        assert self.current is not None
        more = self.current.end + size - self._reserved
        if more > 0:
            more += -more % self._chunk_bytes
            self._disk.allocate(self._fd, self._reserved, more)
            self._reserved += more

    def make_spare(self) -> None:
        if self._spare is not None:
            return
        fd = self._disk.create(self._folder / "spare")
        try:
            self._disk.allocate(fd, 0, self._chunk_bytes)
        except BaseException:
            self._close(fd)
            raise
        self._spare = fd

    def open_next(self, state: DiskJournalState) -> None:
        """Closes the current segment, if there is one, and opens the next with `state` in its header, durably.

        If this fails before the new file may be visible, nothing has changed. If it fails later, there is no current
        segment.
        """
        last = self.current if self.current and self.current.hits else None
        last = last or (self.closed[-1] if self.closed else None)
        if last:
            self.make_durable(last)
        self.make_spare()
        fd, self._spare, number = self._spare, None, self.next_number
        assert fd is not None
        salt = int.from_bytes(self._disk.random(8), "little")
        before = (last.number, last.salt, last.end) if last else (0, 0, 0)
        header = encode_segment_header(Header(salt, self._journal, number, *before, state))
        try:
            self._write(fd, [header], 0, durable=False)
            self._disk.sync(fd)
            self.seal_current()
            self._publish(number, len(header))
        except BaseException:
            self._close(fd)
            raise
        self._fd, self._reserved = fd, max(self._chunk_bytes, len(header))
        self.current = Segment(number, salt, len(header), len(header), len(header), must_rewrite=False)
        self.remove(state.covered)
        if last in self.closed:
            self._trim(last)
        with suppress(OSError):  # the next group of hits tries again, and is refused if that fails
            self.make_spare()

    def seal_current(self) -> None:
        """Closes the current segment at its present end. Its file stays until a new segment is durable."""
        current, self.current = self.current, None
        if current is None:
            return
        self._close(self._fd)
        current.must_rewrite = True
        if current.hits:
            self.closed.append(current)
        else:  # the next header says all that it says
            self._obsolete[segment_path(self._folder, current.number)] = current.end

    def make_durable(self, segment: Segment) -> None:
        """Syncs all of a segment, so that a header may state its length.

        After a failed sync, in this process or one before it, the system may take unwritten pages for written, and a
        second sync leaves them out. Only writing them again brings them to the disk.
        """
        if segment.durable == segment.end:
            return
        mine = segment is self.current
        fd = self._fd if mine else self._disk.open(segment_path(self._folder, segment.number))
        try:
            if segment.must_rewrite:
                self._write_again(fd, segment)
            segment.must_rewrite = True
            self._disk.sync(fd)
        finally:
            if not mine:
                self._close(fd)
        segment.durable, segment.must_rewrite = segment.end, False

    def remove(self, covered: int) -> None:
        """Removes the segments that a complete flush covers and all obsolete files. Call it only when settled."""
        for segment in [segment for segment in self.closed if segment.number <= covered]:
            self.closed.remove(segment)
            self._obsolete[segment_path(self._folder, segment.number)] = segment.end
        for path in list(self._obsolete):
            try:
                self._disk.unlink(path)
            except FileNotFoundError:
                pass
            except OSError:
                continue
            del self._obsolete[path]

    def close(self) -> None:
        self.seal_current()
        if self._spare is not None:
            self._close(self._spare)
            self._spare = None

    def _publish(self, number: int, size: int) -> None:
        path = segment_path(self._folder, number)
        self.next_number += 1
        self._obsolete[path] = size  # until it is published
        self._disk.rename(self._folder / "spare", path)
        self._disk.sync_folder(self._folder)
        del self._obsolete[path]

    def _write(self, fd: int, buffers: Sequence[bytes], offset: int, *, durable: bool) -> None:
        left = sum(map(len, buffers))
        while True:
            written = self._disk.write(fd, buffers, offset, durable=durable)
            left -= written
            if not left:
                return
            if not written:
                raise OSError(errno.EIO, "the disk takes no more bytes and does not say why")
            offset += written
            buffers = [b"".join(buffers)[written:]]

    def _write_again(self, fd: int, segment: Segment) -> None:
        view = self._disk.read(segment_path(self._folder, segment.number))
        end = segment.durable
        for frame in valid_frames(view, segment.durable, segment.end, segment.salt):
            end = frame.end
        if end != segment.end:  # the pages were dropped before they could be written again; a recovery sees the same
            raise OSError(errno.EIO, f"segment {segment.number} can no longer be read from byte {end} on")
        self._write(fd, [bytes(view[segment.durable : end])], segment.durable, durable=False)

    def _trim(self, segment: Segment) -> None:
        path = segment_path(self._folder, segment.number)
        with suppress(OSError):
            if self._disk.size(path) > segment.end:
                self._disk.truncate(path, segment.end)

    def _close(self, fd: int) -> None:
        with suppress(OSError):
            self._disk.close(fd)
