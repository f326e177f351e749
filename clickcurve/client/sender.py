"""The threads of a client: one sends batches until they are answered, one writes the spool file."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from clickcurve.client.outbox import REFUSED, ClosedBatch, Outbox
from clickcurve.client.post import HitsPost, Tried
from clickcurve.client.spool import Spool

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0
LONGEST_ASKED_PAUSE_S = 600.0
LAST_PAUSE_S = 0.2  # between tries while the client ends
SPOOL_PAUSE_S = 1.0  # before a disk that refused is tried again
SAY_EVERY_S = 60.0
# The server knows an id for 48 hours from when it counted. Up to here a repeat cannot count again.
REPEATABLE_S = 47 * 3600

UNDECIDED = "without an answer for so long that a repeat could count twice"

log = logging.getLogger("clickcurve.client")


@dataclass(eq=False)
class BatchSender:
    """Sends the batches of an outbox, in order, each until it is answered."""

    outbox: Outbox
    post: HitsPost
    spool: Spool | None
    gather_s: float
    clock: Callable[[], float]
    timer: Callable[[], float]

    def __post_init__(self) -> None:
        self._over = threading.Event()  # the time to send what is left is up
        self._said: dict[str, float] = {}
        self._dropped_before = 0
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        works = [self._send_all] if self.spool is None else [self._send_all, self._write_all]
        self._threads = [threading.Thread(target=work, name="clickcurve-client", daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def end(self, within_s: float) -> bool:
        """Waits until all is sent and written; then it cuts what is under way. Returns whether all was sent."""
        self.outbox.end()
        self._threads[0].join(within_s)
        self._over.set()
        self.post.cut()
        for thread in self._threads:
            thread.join(LAST_PAUSE_S)
        self._write()
        return not self.outbox.waiting

    # --- sending ------------------------------------------------------------------------------------------------
    def _send_all(self) -> None:
        while (batch := self.outbox.next_batch(self.gather_s)) is not None:
            if not self._deliver(batch):
                break
            self._say_dropped()
        self.post.close()

    def _deliver(self, batch: ClosedBatch) -> bool:
        """Tries until the batch is answered; False if the client ended before."""
        pause_s = FIRST_PAUSE_S
        body = batch.body()
        while True:
            now = self.clock()
            if batch.doubt_at is not None and now - batch.doubt_at > REPEATABLE_S:
                self.outbox.answer(batch, 0, batch.hits, UNDECIDED)
                return True
            tried = self._try(batch, body, now)
            if tried.done:
                dropped = max(0, batch.hits - tried.taken)
                self.outbox.answer(batch, batch.hits - dropped, dropped, REFUSED, tried.adjusted)
                self._write()
                if tried.adjusted:
                    self._say("%d hits counted without a word of theirs: %s", tried.adjusted, tried.lost)
                if tried.why:
                    self._say("%d hits were not taken: %s", dropped, tried.why)
                return True
            self._say("%d hits wait: %s", self.outbox.waiting, tried.why)
            if self.outbox.ending:
                if self._over.wait(LAST_PAUSE_S):
                    return False
                continue
            asked_s = tried.pause_s
            wait_s = pause_s * random.uniform(0.5, 1.0) if asked_s is None else min(asked_s, LONGEST_ASKED_PAUSE_S)
            self.outbox.pause(wait_s, may_hurry=asked_s is None)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _try(self, batch: ClosedBatch, body: bytes, now: float) -> Tried:
        is_first = self.outbox.begin_try(batch, now)
        self._write()
        tried = self.post.send(batch.id, body)
        if is_first and not tried.done and tried.certain:
            self.outbox.not_counted(batch)
        return tried

    # --- the spool file -----------------------------------------------------------------------------------------
    def _write_all(self) -> None:
        while self.outbox.wait_for_records():
            self._write()
            if self.spool is not None and self.spool.broken:
                self._over.wait(SPOOL_PAUSE_S)

    def _write(self) -> None:
        if self.spool is not None:
            self.spool.append(self.outbox.take_records, self.outbox.snapshot)
            if self.spool.broken:
                self._say("the spool file cannot be written: %s; a kill now would lose what waits", self.spool.broken)

    # --- the log ------------------------------------------------------------------------------------------------
    def _say(self, text: str, *values: object) -> None:
        """Logs a warning, the same at most once a minute."""
        now = self.timer()
        if now - self._said.get(text, float("-inf")) >= SAY_EVERY_S:
            self._said[text] = now
            log.warning(text, *values)

    def _say_dropped(self) -> None:
        dropped = dict(self.outbox.dropped)
        if sum(dropped.values()) > self._dropped_before:
            self._dropped_before = sum(dropped.values())
            self._say("hits dropped so far: %s", ", ".join(f"{count} ({why})" for why, count in dropped.items()))
