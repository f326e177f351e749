"""Several worker processes on one socket, and the parent that keeps them alive.

The parent binds the socket and forks. It does nothing else, so there is no thread and no loop at a fork. A worker that
dies is replaced. One that refuses to start (it prints why and ends with REFUSED) ends all, unless all have listened
before: then it was to replace another, and is tried again while the others go on. If the parent dies, its workers
notice by a pipe that closes, flush and end; the data folder stays held until the last of them is gone.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ingest.stamps import Slots
from server import clock
from server.logs import log
from server.process import systemd

REFUSED = 2
CRASHED = 1
LOST_OWNER = 3  # to another process: the log has said so
PAUSE_S = 1.0  # before a worker that died is replaced, so that one that cannot live does not spin
REFUSED_PAUSE_S = 30.0  # before one that refused to start is tried again: somebody may have corrected what it names
_STOP = (signal.SIGTERM, signal.SIGINT)
# Sent by a worker to its parent when it listens. Real-time signals queue, so none is lost where several come at once.
_LISTENS = signal.SIGRTMIN
_WATCHED = (*_STOP, signal.SIGHUP, signal.SIGCHLD, _LISTENS)


@dataclass(frozen=True, slots=True)
class ParentProcess:
    """A worker's parent, as the worker sees it. `gone` is the end of a pipe that closes when the parent has ended.

    served: all workers have listened before, so this one replaces another. slots: for the stamps of all workers.
    """

    pid: int
    gone: int
    served: bool
    slots: Slots

    def tell_listening(self) -> None:
        """Tells the parent that this worker listens, if the parent still is there."""
        if os.getppid() == self.pid:
            os.kill(self.pid, _LISTENS)


Work = Callable[[ParentProcess], int]  # returns the exit code


class Parent:
    """Forks `count` workers and waits for signals until all have ended. At a stop it kills them after `patience_s`.

    ready: called when all workers listen, and again when they all do after one was replaced.
    """

    def __init__(
        self, count: int, listener: socket.socket, patience_s: float, work: Work, ready: Callable[[], None]
    ) -> None:
        self._count = count
        self._patience_s = patience_s
        self._listener = listener
        self._work = work
        self._ready = ready
        self._alive: set[int] = set()
        self._listening: set[int] = set()
        self._alarm, self._alarm_end = os.pipe()
        self._slots = memoryview(mmap.mmap(-1, 8 * count)).cast("Q")  # shared by all that are forked
        self._code = 0
        self._served = False  # all workers have listened at one time
        self._stopping = False
        self._replace_at: float | None = None

    def run(self) -> int:
        """Returns the exit code of the whole: 0 after a clean stop."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        for _ in range(self._count):
            self._fork()
        while self._alive or not self._stopping:
            self._handle(self._wait())
        return self._code

    def _wait(self) -> signal.struct_siginfo | None:
        if self._replace_at is None:
            return signal.sigwaitinfo(_WATCHED)
        return signal.sigtimedwait(_WATCHED, max(0.0, self._replace_at - clock.monotonic()))

    def _handle(self, signal_info: signal.struct_siginfo | None) -> None:
        number = None if signal_info is None else signal_info.si_signo
        if signal_info is not None and number == _LISTENS:
            self._listens(signal_info.si_pid)
        elif number in _STOP:
            self._stop(number)
        elif number == signal.SIGHUP:
            self._signal(number)  # each worker reads the rules again
        elif number == signal.SIGCHLD:
            self._reap()
        elif self._stopping:
            log.warning(
                "workers killed", extra={"after_s": self._patience_s, "then": "what they held is in their journals"}
            )
            self._signal(signal.SIGKILL)
            self._replace_at = None
        else:
            self._replace_at = None
            while len(self._alive) < self._count:
                self._fork()

    def _listens(self, worker: int) -> None:
        """Notes that a worker listens; when all do, the server is ready."""
        if worker in self._alive:
            self._listening.add(worker)
        if len(self._listening) == self._count and not self._stopping:
            self._served = True
            self._ready()

    def _fork(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = ParentProcess(os.getpid(), self._alarm, self._served, self._slots)
        child = os.fork()
        if child:
            self._alive.add(child)
            return
        code = CRASHED
        try:
            os.close(self._alarm_end)
            # Until the worker listens to it. It reads the rules again when it does, so none is missed.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            code = self._work(parent)
        except BaseException:
            log.exception("worker crashed")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while self._alive:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            self._alive.discard(child)
            self._listening.discard(child)
            code = os.waitstatus_to_exitcode(status)
            if self._stopping:
                continue
            if code == REFUSED and not self._served:
                self._code = REFUSED
                self._stop(signal.SIGTERM)
                continue
            pause_s = REFUSED_PAUSE_S if code == REFUSED else PAUSE_S
            then = f"another one takes its journal in {pause_s:.0f} s"
            if code != LOST_OWNER:
                log.error("worker died", extra={"worker": child, "code": code, "then": then})
            at = clock.monotonic() + pause_s
            self._replace_at = at if self._replace_at is None else min(at, self._replace_at)

    def _stop(self, number: int) -> None:
        if not self._stopping:
            self._stopping = True
            systemd.stopping()
            self._listener.close()
            self._replace_at = clock.monotonic() + self._patience_s
        self._signal(number)

    def _signal(self, number: int) -> None:
        for child in self._alive:
            os.kill(child, number)
