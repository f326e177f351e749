"""What goes wrong in a campaign: nodes and owners die and stand still, answers get lost."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testing.cassandra.node import Node
from tests.cassandra.front import Front
from tests.cassandra.proxy import conditional
from tests.chaos.owners import Owner

_TABLES = "rows|owners|ids|sources|due|due_days|touched|erasures|frames|fences|beats|meta"
_OURS = re.compile(rf"\b(FROM|INTO|UPDATE)\s+(\w+\.)?({_TABLES})\b")
LONG_S = 45.0  # a process that stands still for so long is taken for lost


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each fault comes, and how long it lasts. Times in seconds, mostly averages."""

    node_every_s: float = 30.0  # one node is killed, and after that another one suspended
    node_down_s: float = 2.0  # until a killed node is started again
    node_suspended_s: float = 15.0
    overlap_s: float = 4.0  # how long two nodes are away at once, now and then
    owner_kill_every_s: float = 20.0
    owner_away_s: tuple[float, ...] = (0.0,)  # before a killed one starts again, beside a moment: one of these
    owner_pause_every_s: float = 25.0
    owner_paused_s: tuple[float, ...] = (4.0,)  # one of these
    reset_every_s: float = 8.0
    stall_every_s: float = 30.0
    stalled_s: float = 5.0
    lost_answers: float = 0.04  # share
    lost_conditional_answers: float = 0.05


@dataclass(slots=True)
class Done:
    """How many faults there were."""

    nodes_killed: int = 0
    nodes_suspended: int = 0
    owners_killed: int = 0
    owners_paused: int = 0
    connections_reset: int = 0
    stalls: int = 0
    answers_dropped: int = 0
    conditional_answers_dropped: int = 0


class Losses:
    """Which requests of one proxy lose their answer or their connection. Asked in the proxy's thread."""

    def __init__(self, rates: Rates, seed: int) -> None:
        self._rates = rates
        self._chance = random.Random(seed)
        self.reset_next = False

    def drops(self, text: str) -> bool:
        if _OURS.search(text) is None:
            return False  # what drivers ask about the cluster itself
        share = self._rates.lost_conditional_answers if conditional(text) else self._rates.lost_answers
        return self._chance.random() < share

    def resets(self, text: str) -> bool:
        if not self.reset_next or _OURS.search(text) is None:
            return False
        self.reset_next = False
        return True


class Faults:
    """Some kinds of faults, from `begin` to `end`, which leaves what they hit to mend itself."""

    def __init__(self, rates: Rates, chance: random.Random) -> None:
        self._rates = rates
        self._chance = chance
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = asyncio.Event()

    def _kinds(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Each makes one kind of fault until the end."""
        raise NotImplementedError

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Each kind of fault becomes a task of the group."""
        self._tasks += [group.create_task(kind) for kind in self._kinds()]

    async def end(self) -> None:
        """No further faults when this returns."""
        self._ending.set()
        await asyncio.wait(self._tasks)

    def _some(self, average_s: float) -> float:
        return average_s * self._chance.uniform(0.2, 1.8)

    async def _pass(self, seconds: float) -> bool:
        """Let that time pass; True if the end came meanwhile."""
        try:
            await asyncio.wait_for(self._ending.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        return True


class OwnerFaults(Faults):
    """Owners die, and are started again by their supervisors; owners stand still. One of them goes on at any time.

    lost: called when one is gone, or stands still for so long that it may be taken for gone, just before it is.
    """

    def __init__(
        self,
        owners: Sequence[Owner],
        rates: Rates,
        chance: random.Random,
        lost: Callable[[Owner, str], object] = lambda owner, how: None,
    ) -> None:
        super().__init__(rates, chance)
        self._owners = owners
        self._lost = lost

    def _kinds(self) -> Sequence[Coroutine[Any, Any, None]]:
        return self._kills(), self._pauses()

    async def end(self) -> None:
        await super().end()
        for owner in self._owners:
            owner.returns.set()
        for owner in self._owners:
            await owner.up.wait()

    async def _kills(self) -> None:
        """Mostly of one that serves; one in six may as well be in the middle of its start.

        One that is away starts at the same moment, half of the time: then two processes may want one owner.
        """
        rates = self._rates
        while not await self._pass(self._some(rates.owner_kill_every_s)):
            serving = [owner for owner in self._owners if owner.up.is_set()]
            if self._chance.random() < 1 / 6 or not serving:
                serving = self._running()
            dies = self._chance.choice(serving)
            away_s = self._some(self._chance.choice(rates.owner_away_s))
            others_start = self._chance.random() < 0.5
            if self._leaves_one(dies):
                self._lost(dies, "killed")
                dies.kill(away_s)
            for owner in self._owners:
                if others_start and owner is not dies:
                    owner.returns.set()

    def _running(self) -> list[Owner]:
        return [owner for owner in self._owners if owner.server.running] or list(self._owners)

    def _leaves_one(self, goes: Owner) -> bool:
        return any(owner.up.is_set() and not owner.suspended for owner in self._owners if owner is not goes)

    async def _pauses(self) -> None:
        rates = self._rates
        while not await self._pass(self._some(rates.owner_pause_every_s)):
            stands = self._chance.choice(self._running())
            seconds = self._some(self._chance.choice(rates.owner_paused_s))
            if not self._leaves_one(stands):
                continue
            if seconds >= LONG_S:
                self._lost(stands, "suspended")
            stands.suspend()
            await self._pass(seconds)
            stands.resume()


class RingFaults(Faults):
    """Nodes die and stand still; their proxies drop answers, reset connections and stall."""

    def __init__(self, front: Front, rates: Rates, chance: random.Random) -> None:
        super().__init__(rates, chance)
        self._front = front
        self._losses = [Losses(rates, chance.randrange(2**32)) for _ in front.proxies]
        self._done = Done()
        self._before = self._done_by_proxies()

    def begin(self, group: asyncio.TaskGroup) -> None:
        for proxy, losses in zip(self._front.proxies, self._losses, strict=True):
            proxy.drop(losses.drops)
            proxy.reset(losses.resets)
        super().begin(group)

    def _kinds(self) -> Sequence[Coroutine[Any, Any, None]]:
        return self._nodes(), self._resets(), self._stalls()

    async def end(self) -> None:
        await super().end()
        await asyncio.to_thread(self._front.heal)

    async def _nodes(self) -> None:
        """Each period one node dies and comes back, then another one stands still.

        Now and then that one still does when the next period begins: no quorum for a few seconds, as two are away.
        """
        rates, nodes = self._rates, self._front.ring.nodes
        stands: Node | None = None
        standing: asyncio.Task[None] | None = None
        while not self._ending.is_set():
            until = time.monotonic() + rates.node_every_s
            dies = self._chance.choice([node for node in nodes if node is not stands])
            await self._kill(dies)
            await asyncio.to_thread(dies.wait_ready)
            if standing is not None:
                await standing
            stands = self._chance.choice([node for node in nodes if node is not dies])
            longer_s = self._chance.choice((0.0, 0.0, rates.overlap_s))
            if await self._pass(until + longer_s - rates.node_suspended_s - time.monotonic()):
                return
            standing = asyncio.create_task(self._suspend(stands))
            await self._pass(max(until - time.monotonic(), rates.node_suspended_s - longer_s))
        if standing is not None:
            await standing

    async def _kill(self, node: Node) -> None:
        await asyncio.to_thread(node.kill)
        self._done.nodes_killed += 1
        await asyncio.sleep(self._rates.node_down_s)
        await asyncio.to_thread(node.start)

    async def _suspend(self, node: Node) -> None:
        await asyncio.to_thread(node.suspend)
        self._done.nodes_suspended += 1
        await self._pass(self._rates.node_suspended_s)
        node.resume()

    async def _resets(self) -> None:
        while not await self._pass(self._some(self._rates.reset_every_s)):
            self._chance.choice(self._losses).reset_next = True

    async def _stalls(self) -> None:
        while not await self._pass(self._some(self._rates.stall_every_s)):
            self._chance.choice(self._front.proxies).stall(self._some(self._rates.stalled_s))

    def _done_by_proxies(self) -> Counter[str]:
        total = self._front.total
        return Counter(
            answers_dropped=total(lambda proxy: proxy.counts.dropped),
            conditional_answers_dropped=total(lambda proxy: proxy.counts.dropped_conditional),
            connections_reset=total(lambda proxy: proxy.counts.resets),
            stalls=total(lambda proxy: proxy.counts.stalls),
        )

    def done(self) -> Done:
        """Returns how many there were."""
        return replace(self._done, **(self._done_by_proxies() - self._before))
