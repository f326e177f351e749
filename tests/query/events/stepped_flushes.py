"""Flushes that stop before each write, and histories in which questions are asked in between.

A write is that of one link, group or all links: their rows of one call stand in no order, as in a cluster.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from threading import Semaphore
from typing import Any

from clickcurve.keys import ALL, Subject, counts_key, group_subject, link_subject
from storage.contract import Held, Save, SavedRow, Source, Store, StoredLink
from storage.memory_store import MemoryStore
from tests.query.events.event_nodes import NOW, Asker, EventHit, EventNodes

VALUE = 7
SUBJECTS = (link_subject("k"), group_subject("g"), ALL)
REFS = ("", "a.example")
LONGEST_S = 30  # that a flush stands still in a test that fails

State = Counter[tuple[str, str]]  # what was counted, of which referrer -> how often


class SteppedStore:
    """A store that writes the rows of one flush step by step: each waits for a permit while `steps`."""

    def __init__(self, store: Store, drawn: random.Random) -> None:
        self._store, self._drawn = store, drawn
        self._permits = Semaphore(0)
        self.steps = False
        self.waits = asyncio.Event()  # a write, for its permit
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def permit(self) -> None:
        """Lets the next write happen."""
        self.waits.clear()
        self._permits.release()

    def save_own(
        self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source], **more: Any
    ) -> None:
        by_link: dict[str, dict[str, SavedRow]] = {}
        for key, row in rows.items():
            by_link.setdefault(counts_key(key), {})[key] = row
        some = [*by_link.values()]
        self._drawn.shuffle(some)
        for place, each in enumerate(some or [{}], 1):
            if self.steps:
                self._loop.call_soon_threadsafe(self.waits.set)
                assert self._permits.acquire(timeout=LONGEST_S), "nobody lets the flush go on"
            self._store.save_own(held, flush, each, sources if place == len(some) else {}, **more)

    @contextmanager
    def saving(self, held: Held, flush: int) -> Iterator[Save]:
        yield lambda rows: self.save_own(held, flush, rows, {})


class Moments:
    """A history of two workers whose flushes go on in the middle of questions.

    states: of each worker and subject, what it had counted after each request that it accepted.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.drawn = random.Random(seed)
        self.nodes = EventNodes(folder, MemoryStore(), owners=2)
        self.stepped = []
        for process in self.nodes.processes:
            process.store = SteppedStore(self.nodes.store, random.Random(seed))
            self.stepped.append(process.store)
            process.disk.kill()
            process.start()
        self._stepping = asyncio.Lock(), asyncio.Lock()
        self.flushes: list[asyncio.Task[None] | None] = [None, None]
        self.states: dict[tuple[int, Subject], list[State]] = {
            (owner, subject): [Counter()] for owner in range(2) for subject in SUBJECTS
        }
        self.shops = {1} if self.drawn.random() < 0.3 else set[int]()  # workers that hear of events alone
        self.exact = self.unsettled = 0
        first, others = self.nodes.processes[:1], self.nodes.processes[1:]
        clock = lambda: NOW + 0.5  # noqa: E731
        moving: Any = _MovingRows(self)
        self.askers = Asker(moving, clock, lambda: first, lambda: others), Asker(moving, clock, tuple)

    # --- what happens -----------------------------------------------------------------------------------------------
    async def accept(self, owner: int) -> None:
        """One request: clicks, sales, or both, of one link or another."""
        brought = [(0, 1)] if owner in self.shops else [(1, 1), (1, 1), (2, 2), (1, 0), (0, 1)]
        clicks, sales = self.drawn.choice(brought)
        ref, key = self.drawn.choice(REFS), self.drawn.choice(["k", "k", "other"])
        groups = ("g",) if self.drawn.random() < 0.7 else ()
        said = {"ref": ref, "groups": groups}
        hits = [EventHit(key, NOW, **said) for _ in range(clicks)]  # type: ignore[arg-type]
        hits += [EventHit(key, NOW, "sale", VALUE, **said) for _ in range(sales)]  # type: ignore[arg-type]
        added = Counter({("clicks", ref): clicks, ("sale", ref): sales, ("value", ref): VALUE * sales})
        await self.nodes.accept(*hits, owner=owner)
        for subject in SUBJECTS:
            states = self.states[owner, subject]
            is_of = subject == ALL or subject.name == key or subject.name in groups
            states.append(states[-1] + added if is_of else states[-1])

    async def step(self, owner: int) -> None:
        """Begins a flush, or lets the next write of the one under way happen."""
        async with self._stepping[owner]:  # rows that are read beside each other step beside each other
            await self._step(owner)

    async def _step(self, owner: int) -> None:
        task = self.flushes[owner]
        if task is None:
            self.stepped[owner].steps = True
            task = self.flushes[owner] = asyncio.create_task(self.nodes.processes[owner].owner.flush())
        elif self.stepped[owner].waits.is_set():
            self.stepped[owner].permit()
        waiting = asyncio.ensure_future(self.stepped[owner].waits.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            await task
            self.flushes[owner] = None

    async def complete(self) -> None:
        """Ends the flushes that are under way."""
        for owner in range(2):
            while self.flushes[owner] is not None:
                await self.step(owner)

    async def move(self) -> None:
        """What may happen while a question waits for a row."""
        if self.drawn.random() < 0.15:
            await self.accept(self.drawn.randrange(2))
        if self.drawn.random() < 0.5:
            owner = self.drawn.randrange(2)
            for _ in range(self.drawn.randrange(1, 4)):
                await self.step(owner)

    # --- what is asked ----------------------------------------------------------------------------------------------
    async def ask(self) -> None:
        """Asks of a subject; where the answer is exact, it is what was counted at one moment."""
        subject, place, by = self.drawn.choice(SUBJECTS), self.drawn.randrange(2), self.drawn.random() < 0.5
        began = [len(self.states[owner, subject]) - 1 for owner in range(2)]
        answer = await self.askers[place].ask("events/by/ref" if by else "events", subject)
        if not answer["exact"]:
            self.unsettled += 1
            return
        self.exact += 1
        first = [0, 0] if place else began  # another node hears of hits when they are flushed
        moments = [self.states[owner, subject][first[owner] :] for owner in range(2)]
        possible = [one + other for one, other in product(*moments)]
        found = state_of(answer)
        known = possible if by else [without_refs(each) for each in possible]
        assert found in known, f"this never was: {found}, in {answer}"

    async def live(self, steps: int) -> None:
        """Lives, and asks; then all is flushed, and every answer is exact."""
        for _ in range(steps):
            await self.move()
            await self.ask()
        await self.complete()
        for stepped in self.stepped:
            stepped.steps = False
        for subject, asker in product(SUBJECTS, self.askers):
            await self._ask_at_rest(subject, asker)
        await self.nodes.flush()
        for subject, asker in product(SUBJECTS, self.askers):
            await self._ask_at_rest(subject, asker, is_all=True)

    async def _ask_at_rest(self, subject: Subject, asker: Asker, is_all: bool = False) -> None:
        moving, self.move = self.move, _nothing  # type: ignore[method-assign]
        for what in ("events", "events/by/ref"):
            answer = await asker.ask(what, subject)
            assert answer["exact"], "no flush is under way"
            if is_all or asker is self.askers[0]:
                whole = self.states[0, subject][-1] + self.states[1, subject][-1]
                assert state_of(answer) == (whole if what != "events" else without_refs(whole))
        self.move = moving  # type: ignore[method-assign]

    async def end(self) -> None:
        for stepped in self.stepped:
            stepped.steps = False
            for _ in range(50):
                stepped.permit()
        await asyncio.gather(*(task for task in self.flushes if task is not None), return_exceptions=True)
        await self.nodes.close()


class _MovingRows:
    """The rows of a store, before each of which something happens."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._moments.nodes.store, name)

    async def rows(self, key: str) -> StoredLink:
        await self._moments.move()
        return await self._moments.nodes.store.rows(key)


async def _nothing() -> None:
    """What happens at rest."""


def state_of(answer: dict[str, Any]) -> State:
    """What an exact answer says was counted, by referrer if it says that."""
    found: State = Counter()
    for each in answer.get("values", [answer | {"value": ""}]):
        (sale,) = (event for event in each["events"] if event["event"] == "sale")
        ref = each["value"]
        found[("clicks", ref)] += each["clicks"]["at_least"]
        found[("sale", ref)] += sale["at_least"]
        found[("value", ref)] += sale["value"]["at_least"]
    return +found


def without_refs(state: State) -> State:
    found: State = Counter()
    for (what, _), count in state.items():
        found[what, ""] += count
    return found
