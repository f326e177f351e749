"""The files of an open journal: the current segment, those before it, the spare one, and those to be removed.

Everything here raises OSError and nothing else; `journal.py` knows what that means for the hits concerned.
Rules.

1. A file whose write or sync failed takes no frame again: it is closed where it was good, and only a new segment,
   whose header states that length, makes this durable. Until there is one, `current` is None.
2. A number is never used for two segments: one whose appearance on the disk is uncertain is passed over.
3. The spare file has its room reserved before it is needed, so that a full disk does not prevent the next segment.
4. A file that counts for nothing is removed only after the header that says so is durable. If that fails, it waits.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ingest.journal.disk import Disk
from ingest.journal.recovery import Remains, Segment, segment_path
from ingest.journal.segment_format import Header, JournalState, encode_segment_header, valid_frames

Encode = Callable[[Segment], tuple[bytes, bytes]]  # a frame for the end of a segment: head and body


class SegmentFiles:
    """closed: oldest first, each with hits, none covered by a complete flush. current: takes frames; None = unsettled.

    next_number: of the segment that `open_next` makes. spare: whether one lies ready.
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
        self._doomed: dict[Path, int] = {}  # files that count for nothing: their sizes

    @property
    def bytes_held(self) -> int:
        closed = sum(segment.end for segment in self.closed)
        return closed + sum(self._doomed.values()) + (self.current.end if self.current else 0)

    def begin(self, journal: bytes) -> None:
        self._journal = journal

    def take_up(self, remains: Remains) -> None:
        """Continue after what was found in the folder. No old file is written to again, so `current` stays None."""
        self._journal, self.closed, self.next_number = remains.journal, remains.closed, remains.last_number + 1
        self._doomed = remains.strays

    def put(self, encode: Encode, size: int, *, durable: bool) -> None:
        """Write a frame of `size` bytes to the current segment; if that fails, the segment is closed before it."""
        current = self.current
        assert current is not None
        self.make_room(size)
        try:
            self._write(self._fd, encode(current), current.end, durable=durable)
        except BaseException:
            self.retire()
            raise
        current.end += size
        if durable:
            current.durable = current.end

    def make_room(self, size: int) -> None:
        """Reserve room for a frame. Changes nothing if it fails."""
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

    def open_next(self, state: JournalState) -> None:
        """Close the current segment, if there is one, and open the next one with `state` in its header, durably.

        If this fails before the new file may be visible, nothing has changed. If later, there is no current segment.
        """
        last = self.current if self.current and self.current.hits else None
        last = last or (self.closed[-1] if self.closed else None)
        if last:
            self.harden(last)
        self.make_spare()
        fd, self._spare, number = self._spare, None, self.next_number
        assert fd is not None
        salt = int.from_bytes(self._disk.random(8), "little")
        before = (last.number, last.salt, last.end) if last else (0, 0, 0)
        header = encode_segment_header(Header(salt, self._journal, number, *before, state))
        try:
            self._write(fd, [header], 0, durable=False)
            self._disk.sync(fd)
            self.retire()
            self._publish(number, len(header))
        except BaseException:
            self._close(fd)
            raise
        self._fd, self._reserved = fd, max(self._chunk_bytes, len(header))
        self.current = Segment(number, salt, len(header), len(header), len(header), doubted=False)
        self.remove(state.covered)
        if last in self.closed:
            self._trim(last)
        with suppress(OSError):  # Missed at the next group of hits, which is then refused.
            self.make_spare()

    def retire(self) -> None:
        """Close the current segment where it ends now. Its file stays until a new segment is durable."""
        current, self.current = self.current, None
        if current is None:
            return
        self._close(self._fd)
        current.doubted = True
        if current.hits:
            self.closed.append(current)
        else:  # The next header says all that it does.
            self._doomed[segment_path(self._folder, current.number)] = current.end

    def harden(self, segment: Segment) -> None:
        """Have all of a segment on the disk, so that a header may vouch for its length.

        After a failed sync, here or in a process before this one, pages may pass for written that are not, and a second
        sync leaves them out: only writing them again brings them to the disk.
        """
        if segment.durable == segment.end:
            return
        mine = segment is self.current
        fd = self._fd if mine else self._disk.open(segment_path(self._folder, segment.number))
        try:
            if segment.doubted:
                self._write_again(fd, segment)
            segment.doubted = True
            self._disk.sync(fd)
        finally:
            if not mine:
                self._close(fd)
        segment.durable, segment.doubted = segment.end, False

    def remove(self, covered: int) -> None:
        """Remove segments that a complete flush covers and all that counts for nothing. Only when settled."""
        for segment in [segment for segment in self.closed if segment.number <= covered]:
            self.closed.remove(segment)
            self._doomed[segment_path(self._folder, segment.number)] = segment.end
        for path in list(self._doomed):
            try:
                self._disk.unlink(path)
            except FileNotFoundError:
                pass
            except OSError:
                continue
            del self._doomed[path]

    def close(self) -> None:
        self.retire()
        if self._spare is not None:
            self._close(self._spare)
            self._spare = None

    def _publish(self, number: int, size: int) -> None:
        path = segment_path(self._folder, number)
        self.next_number += 1
        self._doomed[path] = size  # unless all goes well
        self._disk.rename(self._folder / "spare", path)
        self._disk.sync_folder(self._folder)
        del self._doomed[path]

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
        for found in valid_frames(view, segment.durable, segment.end, segment.salt):
            end = found.end
        if end != segment.end:  # The pages went before they could be written again; a recovery will see the same.
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
