"""Hits that are accepted and not confirmed yet, in memory that is bounded; safe between threads.

Hits of one minute with the same fields are one line with a count. The open lines are closed into a batch that has an
id, and whatever becomes of a try, the same lines go out again under the same id: so each counts once. Batches go out in
the order in which they were closed, one at a time.

No method does I/O, or anything else that may take long, while it holds the lock: a redirect waits for `add`.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

BATCH_LINES = 1_000
BATCH_BYTES = 256 * 1024  # below the 1 MiB of a body that nginx lets through by default
LINE_BYTES = 500  # what a line takes in memory beside its text
MOST_COUNTS = 1_000_000_000  # of one hit, by the server's rule

FULL = "the buffer is full"
REFUSED = "refused by the server"
CLOSED = "the client is closed"


class OpenLine(NamedTuple):
    """What hits of one minute say. private: fields that stay out of a spool file. number: keeps hits with ids apart."""

    minute: int
    public: bytes
    private: bytes
    number: int

    def json(self, count: int) -> bytes:
        return b'{%s%s,"ts":%d,"count":%d}' % (self.public, self.private, self.minute, count)

    def record(self, count: int) -> bytes:
        return b"%c%d %d %s\n" % (b"*" if self.number else b"+", count, self.minute, self.public)

    @property
    def size(self) -> int:
        return len(self.public) + len(self.private) + LINE_BYTES


class ClosedBatch:
    """Lines that are sent together under one id, until they are answered."""

    def __init__(self, id_: str, lines: dict[OpenLine, int]) -> None:
        self.id = id_
        self.lines = lines
        self.hits = sum(lines.values())
        self.size = sum(line.size for line in lines)
        self.doubt_at: float | None = None  # when the first try began that may have been counted

    def records(self) -> list[bytes]:
        """Returns what a spool file says of it."""
        id_ = self.id.encode()
        doubt = [] if self.doubt_at is None else [b"?%s %d\n" % (id_, self.doubt_at)]
        return [*(line.record(count) for line, count in self.lines.items()), b"=%s\n" % id_, *doubt]

    def body(self) -> bytes:
        return b"[" + b",".join([line.json(count) for line, count in self.lines.items()]) + b"]"


class Outbox:
    """Keeps accepted hits in order, and wakes the threads that send them and that write them down."""

    def __init__(self, max_bytes: int, timer: Callable[[], float], with_records: bool) -> None:
        self._max_bytes = max_bytes
        self._timer = timer
        self._lock = threading.Lock()
        self._to_send = threading.Condition(self._lock)
        self._to_write = threading.Condition(self._lock)
        self._settled = threading.Condition(self._lock)
        self._open: dict[OpenLine, int] = {}
        self._open_bytes = 0
        self._closed: deque[ClosedBatch] = deque()
        self._bytes = 0  # of all lines, open and closed
        self._accepted = 0
        self._answered = 0
        self._singles = 0
        self._sender_idle = False
        self._hurry = False
        self.ending = False
        self.delivered = 0
        self.adjusted = 0
        self.dropped: Counter[str] = Counter()
        # What a spool file is to hold next, in order; None where there is no file.
        self._records: list[bytes] | None = [] if with_records else None
        self._record_bytes = 0

    # --- from redirects -----------------------------------------------------------------------------------------
    def add(self, minute: int, public: bytes, private: bytes, count: int, single: bool) -> None:
        """Takes hits, or counts them as dropped where there is no room."""
        with self._lock:
            if self.ending:
                self.dropped[CLOSED] += count
                return
            if single:
                self._singles += 1
            line = OpenLine(minute, public, private, self._singles if single else 0)
            before = self._open.get(line, 0)
            if before + count > MOST_COUNTS:
                self._close_batch()
                before = 0
            if not before:
                if self._bytes + line.size > self._max_bytes:
                    self.dropped[FULL] += count
                    return
                self._bytes += line.size
                self._open_bytes += line.size
            self._open[line] = before + count
            self._accepted += count
            if self._records is not None:
                self._record(line.record(count))
            text_bytes = self._open_bytes - len(self._open) * LINE_BYTES
            if len(self._open) >= BATCH_LINES or text_bytes >= BATCH_BYTES:
                self._close_batch()
                self._to_send.notify()
            elif self._sender_idle:
                self._to_send.notify()

    def drop(self, reason: str, count: int) -> None:
        with self._lock:
            self.dropped[reason] += count
            if self._sender_idle:
                self._to_send.notify()

    # --- to the server ------------------------------------------------------------------------------------------
    def next_batch(self, gather_s: float) -> ClosedBatch | None:
        """Waits for the batch to send. What is open may gather so long. None: the client has ended."""
        with self._lock:
            while not self._open and not self._closed:
                if self.ending:
                    return None
                self._sender_idle = True
                self._to_send.wait()
                self._sender_idle = False
            until = self._timer() + gather_s
            while not self._closed and not self.ending and (left_s := until - self._timer()) > 0:
                self._to_send.wait(left_s)
            if not self._closed:
                self._close_batch()
            return self._closed[0]

    def answer(self, batch: ClosedBatch, delivered: int, dropped: int, reason: str, adjusted: int = 0) -> None:
        """Takes the batch out: it was answered, or is given up. adjusted: hits delivered without a word of theirs."""
        with self._lock:
            if batch not in self._closed:
                return  # the client ended without it
            self._closed.remove(batch)
            self._bytes -= batch.size
            self._answered += batch.hits
            self.delivered += delivered
            self.adjusted += adjusted
            if dropped:
                self.dropped[reason] += dropped
            self._record(b"-%s\n" % batch.id.encode())
            self._settled.notify_all()

    def begin_try(self, batch: ClosedBatch, now: float) -> bool:
        """Notes that from now on the batch may have been counted; False if it may have been before."""
        with self._lock:
            if batch.doubt_at is not None:
                return False
            batch.doubt_at = now
            self._record(b"?%s %d\n" % (batch.id.encode(), now))
            return True

    def not_counted(self, batch: ClosedBatch) -> None:
        """Notes that no try was counted, for certain."""
        with self._lock:
            batch.doubt_at = None
            self._record(b"!%s\n" % batch.id.encode())

    def pause(self, seconds: float, may_hurry: bool) -> None:
        """Waits before the next try. The end of the client cuts it short, and so does a flush if it may."""
        with self._lock:
            until = self._timer() + seconds
            while not self.ending and not (self._hurry and may_hurry) and (left_s := until - self._timer()) > 0:
                self._to_send.wait(left_s)
            self._hurry = False

    # --- to a spool file ----------------------------------------------------------------------------------------
    def wait_for_records(self) -> bool:
        """Waits until there is something to write down; False once the client has ended."""
        with self._lock:
            while not self._records:
                if self.ending:
                    return False
                self._to_write.wait()
            return True

    def take_records(self) -> list[bytes] | None:
        """Returns what is to be written next; None if that was too much, and a snapshot must be written instead."""
        with self._lock:
            if self._record_bytes > self._max_bytes:
                return None
            records, self._records, self._record_bytes = self._records or [], [], 0
            return records

    def snapshot(self) -> list[bytes]:
        """Returns records of all that is not answered yet, which stand for all that was to be written."""
        with self._lock:
            self._records, self._record_bytes = [], 0
            batches = list(self._closed)
            last = dict(self._open)
        kept = [record for batch in batches for record in batch.records()]
        return kept + [line.record(count) for line, count in last.items()]

    def take_over(self, batches: list[ClosedBatch]) -> None:
        """Puts batches of an earlier life in front."""
        with self._lock:
            self._closed.extendleft(reversed(batches))
            self._bytes += sum(batch.size for batch in batches)
            self._accepted += sum(batch.hits for batch in batches)
            self._to_send.notify()

    # --- from the owner -----------------------------------------------------------------------------------------
    @property
    def waiting(self) -> int:
        """Hits that are accepted and not answered."""
        with self._lock:
            return self._accepted - self._answered

    def flush(self, timeout_s: float) -> bool:
        """Waits until all that was accepted before this call is answered; False if that took longer."""
        with self._lock:
            wanted = self._accepted
            self._close_batch()
            self._hurry = True
            self._to_send.notify_all()
            return self._settled.wait_for(lambda: self._answered >= wanted, timeout_s)

    def end(self) -> None:
        """Takes no more hits; what is open becomes the last batch."""
        with self._lock:
            self.ending = True
            self._close_batch()
            for condition in (self._to_send, self._to_write, self._settled):
                condition.notify_all()

    def abandon(self, reason: str) -> None:
        """Drops all that was not answered."""
        with self._lock:
            left = sum(batch.hits for batch in self._closed)
            self._closed.clear()
            self._answered += left
            self._bytes = 0
            self.dropped[reason] += left
            self._settled.notify_all()

    def _close_batch(self) -> None:
        if self._open:
            batch = ClosedBatch(uuid4().hex, self._open)
            self._closed.append(batch)
            self._open, self._open_bytes = {}, 0
            self._record(b"=%s\n" % batch.id.encode())

    def _record(self, text: bytes) -> None:
        if self._records is None:
            return
        self._record_bytes += len(text)
        if self._record_bytes > self._max_bytes:
            self._records.clear()  # the disk stands still; a snapshot is as long as what waits, not as what happened
        self._records.append(text)
        self._to_write.notify()
