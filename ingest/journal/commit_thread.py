"""The thread that a journal on a disk writes in: one call after the other, each answered on the loop that asked."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, get_running_loop
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from clickcurve.buckets.errors import JournalBroken

_Asked = tuple[Callable[[], None], AbstractEventLoop, "Future[None]"]


class CommitThread:
    """Makes the calls of one loop in turn. Its thread is started by the first, and keeps no process from its end.

    A pool of threads does so, too, but makes and locks two futures for each call, which at one connection is a fifth of
    the processor time of a hit.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_ended = False

    def call(self, made: Callable[[], None]) -> Future[None]:
        """Makes a call in the thread; the future has what it raises. Raises JournalBroken after `end`."""
        if self._is_ended:
            raise JournalBroken("the journal is closed")
        loop = get_running_loop()
        done: Future[None] = loop.create_future()
        self._asked.put((made, loop, done))
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return done

    def end(self) -> None:
        """Ends the thread after the calls that were asked for; does not wait."""
        self._is_ended = True
        self._asked.put(None)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            made, loop, done = asked
            error: BaseException | None = None
            try:
                made()
            except BaseException as raised:  # whatever it is, the loop is told
                error = raised
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, done, error)
            del asked, made, loop, done, error  # or it would hold the last group while it waits


def _settle(done: Future[None], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
