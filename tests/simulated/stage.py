"""One thread of time for many processes: whatever may happen next lies in a pool, and a seed draws what does.

The program runs as it is: coroutines on an event loop, and threads that block in calls to the store. But the loop, when
it has nothing to do, asks the stage for the next event instead of waiting, and each thread of a store runs only while
the stage waits for it. So exactly one of them runs at a time, in an order that the seed alone decides.

A **life** is one run of one process. Killed, none of its code runs on and nothing that was meant for it arrives; what
it had sent lives on. Paused, what is meant for it waits.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, Generic, TypeVar
from unittest import mock

from ingest.journal.commit_thread import CommitThread
from tests.ingest.journal.faulty_disk import Stopped

T = TypeVar("T")
Event = Callable[[], None]

STUCK_S = 120.0  # of real time: a thread that runs so long waits for something that only the stage could give it


class Life:
    """One run of a process. name: for people."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.held: list[Event] = []  # came while it was paused
        self.threads: list[Thread] = []  # those at work for it
        self.tasks: set[asyncio.Task[Any]] = set()

    def check(self) -> None:
        if not self.alive:
            raise Stopped(f"{self.name} is dead")


LIFE: ContextVar[Life] = ContextVar("LIFE")  # whose code runs on the loop


class Thread:
    """Runs one job after the other, each piece of it only while the stage waits."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._go = threading.Semaphore(0)
        self._job: Event | None = None
        self.life = stage.nobody
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            if self._job is None:
                return
            self._job()
            self.life.threads.remove(self)
            self._stage.idle.append(self)
            self._stage.back.release()

    def begin(self, life: Life, job: Event) -> None:
        self.life, self._job = life, job
        life.threads.append(self)
        self.run_on()

    def run_on(self) -> None:
        """Called by the stage: the thread runs until it parks or its job is done."""
        stage = self._stage
        before, stage.thread = stage.thread, self
        self._go.release()
        if not stage.back.acquire(timeout=STUCK_S):
            raise TimeoutError(f"a thread of {self.life.name} waits for something outside the simulation")
        stage.thread = before

    def park(self) -> None:
        """Called in the thread: until the stage lets it run on. Stopped if its process was killed meanwhile."""
        self._stage.back.release()
        self._go.acquire()
        self.life.check()

    def end(self) -> None:
        self._job = None
        self._go.release()
        self._thread.join()


class Stage:
    """See the module's text. `late` events are those that may come much later, also when nobody waits for them."""

    def __init__(self, rnd: Random, late_share: float = 0.02) -> None:
        self.rnd = rnd
        self.late_share = late_share
        self.journals_block = False  # as those that lie in the store
        self.turns = 0
        self.thread: Thread | None = None  # the one that runs now; None: the loop
        self.back = threading.Semaphore(0)
        self.idle: list[Thread] = []
        self.late: list[Event] = []
        self.broken: list[BaseException] = []  # what nobody caught
        self.story: list[tuple[object, ...]] = []
        self._soon: list[tuple[Life | None, Event]] = []
        self._alarms: list[tuple[int, Event]] = []
        self.nobody = Life("nobody")  # for what no process does
        self._lives = [self.nobody]
        self.loop = Loop(self)

    def note(self, *what: object) -> None:
        """Shows what went wrong, and whether two runs of one seed are the same."""
        self.story.append((self.turns, *what))

    # --- events ---------------------------------------------------------------------------------------------------
    def soon(self, event: Event, life: Life | None = None) -> None:
        """Happens among the next events. One that belongs to a life waits while that is paused, and ends with it."""
        self._soon.append((life, event))

    def turn(self) -> None:
        """One event happens."""
        self.turns += 1
        if self._alarms and self._alarms[0][0] <= self.turns:
            self._alarms.pop(0)[1]()
        if self.late and self.rnd.random() < self.late_share:
            self._draw(self.late)()
        elif self._soon:
            life, event = self._draw(self._soon)
            if life is None or (life.alive and not life.paused):
                event()
            elif life.paused:
                life.held.append(event)

    def _draw(self, pool: list[T]) -> T:
        at = self.rnd.randrange(len(pool))
        pool[at], pool[-1] = pool[-1], pool[at]
        return pool.pop()

    def after(self, turns: int, event: Event) -> None:
        """Happens when so many events have happened."""
        self._alarms.append((self.turns + turns, event))
        self._alarms.sort(key=lambda due: due[0])

    async def pass_turns(self, turns: int) -> None:
        passed = self.loop.create_future()
        self.after(turns, lambda: _settle(passed, None, None))
        await passed

    def turns_until_ready(self) -> None:
        """Called by the loop when it has nothing to do."""
        before = self.turns
        while not self.loop.is_ready():
            self.turn()
            if not self._soon and not self._alarms and not self.late and not self.loop.is_ready():
                raise AssertionError("the simulation stands still: everybody waits, and nothing is under way")
            if self.turns - before > 200_000:
                raise AssertionError("the simulation stands still: only others' events happen")

    # --- lives ----------------------------------------------------------------------------------------------------
    def life(self, name: str) -> Life:
        life = Life(name)
        self._lives.append(life)
        return life

    def spawn(self, life: Life, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this life."""
        token = LIFE.set(life)
        try:
            return self.loop.create_task(work)
        finally:
            LIFE.reset(token)

    def resume(self, life: Life) -> None:
        life.paused = False
        for event in life.held:
            self.soon(event, life)
        life.held.clear()

    async def bury(self, life: Life) -> None:
        """Nothing of this process runs on. What it had sent lives on."""
        life.alive, life.paused = False, False
        for thread in list(life.threads):
            while thread in life.threads:
                thread.run_on()
        while tasks := list(life.tasks):
            for task in tasks:
                task.cancel()
            await self.pass_turns(3)

    def in_thread(self, life: Life, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call that may block in a thread of its own; the answer arrives as an event."""
        answer: asyncio.Future[T] = self.loop.create_future()

        def job() -> None:
            try:
                result, error = call(), None
            except BaseException as raised:
                result, error = None, raised
            self.soon(lambda: _settle(answer, result, error), life)

        def begin() -> None:
            (self.idle.pop() if self.idle else Thread(self)).begin(life, job)

        self.soon(begin, life)
        return answer

    def on_loop(self, life: Life, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call that does not block as an event."""
        answer: asyncio.Future[T] = self.loop.create_future()

        def event() -> None:
            try:
                result, error = call(), None
            except BaseException as raised:
                result, error = None, raised
            _settle(answer, result, error)

        self.soon(event, life)
        return answer

    def wait_for(self, start: Callable[[Event], None]) -> None:
        """Start something that calls back when it is done, and wait: in a thread by parking, else by turning."""
        thread, done = self.thread, []
        if thread is None:
            start(lambda: done.append(True))
            while not done:
                self.turn()
            return
        life = thread.life
        life.check()
        start(lambda: self.soon(thread.run_on, life))
        thread.park()

    # --- running --------------------------------------------------------------------------------------------------
    @contextmanager
    def running(self) -> Iterator[Loop]:
        """The loop of this stage, closed at the end; threads that call back into it are under its rule."""
        self.loop.set_exception_handler(self._uncaught)
        with (
            mock.patch("asyncio.run_coroutine_threadsafe", self._run_from_thread),
            mock.patch.object(CommitThread, "call", lambda _, made: self.loop.call_of_journal(made)),
        ):
            try:
                yield self.loop
            finally:
                self.loop.run_until_complete(self._clear())
                for thread in self.idle:
                    thread.end()
                self.loop.close()

    async def _clear(self) -> None:
        for life in self._lives:
            await self.bury(life)

    def _uncaught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and not isinstance(error, (Stopped, asyncio.CancelledError)):
            self.broken.append(error)

    def _run_from_thread(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> _Answer[T]:
        assert self.thread is not None
        return _Answer(self, self.thread.life, work)


class _Answer(Generic[T]):
    """Stands for the future that `asyncio.run_coroutine_threadsafe` gives."""

    def __init__(self, stage: Stage, life: Life, work: Coroutine[Any, Any, T]) -> None:
        self._stage, self._life, self._work = stage, life, work

    def result(self) -> T:
        task = self._stage.spawn(self._life, self._work)
        self._stage.wait_for(lambda done: task.add_done_callback(lambda _: done()))
        return task.result()


def _settle(answer: asyncio.Future[T], result: T | None, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
        answer.exception()  # the task that asked may be gone
    else:
        answer.set_result(result)  # type: ignore[arg-type]


class _Selector(selectors.BaseSelector):
    """Waits for nothing: when the loop is idle, events happen."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._map: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._map[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._map.pop(fileobj)

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return self._map

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            if self._stage.rnd.random() < 0.3:
                self._stage.turn()
        else:
            self._stage.turns_until_ready()
        return []


def _task_of_a_life(loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> asyncio.Task[Any]:
    """Makes a task that dies with the process whose code began it, also where that shields it from a cancellation."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **named)
    life = LIFE.get(None)
    if life is not None:
        life.tasks.add(task)
        task.add_done_callback(life.tasks.discard)
    return task


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose executors are threads of the stage. Calls of a disk's journal are events: they are quick.

    Its time stands still, so that no timer rings: what rang by the time of this machine would be another history.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        super().__init__(_Selector(stage))
        self.set_task_factory(_task_of_a_life)

    def time(self) -> float:
        return 0.0

    def is_ready(self) -> bool:
        return bool(self._ready)  # type: ignore[attr-defined]

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        name = getattr(executor, "_thread_name_prefix", "")
        if name.startswith("journal"):
            return self.call_of_journal(lambda: func(*args))
        return self._stage.in_thread(_living(), lambda: func(*args))

    def call_of_journal(self, call: Callable[[], T]) -> asyncio.Future[T]:
        run = self._stage.in_thread if self._stage.journals_block else self._stage.on_loop
        return run(_living(), call)


def _living() -> Life:
    life = LIFE.get()
    life.check()
    return life
