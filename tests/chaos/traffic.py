"""Clients of several nodes: they post and read all the time, and enter every answer at the auditor."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

from tests.audit.auditor import Outcome, Sent
from tests.audit.several_nodes import Holder, NodesAuditor
from tests.chaos.availability import Availability
from tests.chaos.owners import Owner
from tests.crash.load import Request, Requests, pause, send
from tests.crash.wire import Unanswered, Unreachable, Wire

RECENT_KEYS = 300
PATIENCE_S = 10.0  # of a writer: then it closes its connection
REPEAT_S = 0.2  # until the next try to deliver what no node has acknowledged
UNANSWERED_S = 0.2  # until the next read after one that could not be answered
OLD_READS = 0.15  # share of the reads that ask for any key, however old
ALL_LINKS_READS = 0.01  # share of the reads that ask for all links together


class Clients:
    """What writers and readers share: the owners, the auditor, one stop. Each client is a task of the group."""

    def __init__(
        self, group: asyncio.TaskGroup, owners: Sequence[Owner], auditor: NodesAuditor, chance: random.Random
    ) -> None:
        self._group = group
        self.owners = owners
        self.auditor = auditor
        self.chance = chance
        self.stopping = False
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, client: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(self._group.create_task(client))

    async def stop(self) -> None:
        """Begin nothing new, finish what must be finished, and end."""
        self.stopping = True
        await asyncio.wait(self.tasks)

    async def rest(self, pace_s: float) -> None:
        await asyncio.sleep(2 * pace_s * self.chance.random())


class Writers(Clients):
    """Some writers a node. A request without ids goes to the writer's own node, once. One with ids goes to two nodes,
    at the same moment or one after the other, and again until one of them has acknowledged it."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        owners: Sequence[Owner],
        auditor: NodesAuditor,
        requests: Requests,
        chance: random.Random,
        each: int,
        pace_s: float,
    ) -> None:
        super().__init__(group, owners, auditor, chance)
        self.repeats = 0
        self.outcomes: Counter[Outcome] = Counter()  # of single tries
        self.sent_to_two = 0
        self.available = Availability(len(owners), time.monotonic)
        self._requests = requests
        self._pace_s = pace_s
        for owner in owners:
            for _ in range(each):
                self.spawn(self._write(owner))

    async def _write(self, home: Owner) -> None:
        wires = [Wire(owner.server.port) for owner in self.owners]
        try:
            while not self.stopping:
                request = self._requests.next()
                sent = self.auditor.enter(Sent(request.hits, request.repeatable))
                if request.repeatable:
                    other = self.chance.choice([owner for owner in self.owners if owner is not home])
                    await self._deliver_twice(wires, request, sent, home, other)
                else:
                    await home.up.wait()
                    await self._try(wires, request, sent, home)
                self.auditor.settle(sent)
                await self.rest(self._pace_s)
        finally:
            for wire in wires:
                wire.close()

    async def _deliver_twice(
        self, wires: Sequence[Wire], request: Request, sent: Sent, home: Owner, other: Owner
    ) -> None:
        self.sent_to_two += 1
        if self.chance.random() < 0.5:
            # A connection carries one request at a time, and both may be sent to by this client only.
            await asyncio.gather(*(self._try(wires, request, sent, owner) for owner in (home, other)))
        else:
            await self._try(wires, request, sent, home)
            await self.rest(self._pace_s)
            await self._try(wires, request, sent, other)
        while not sent.acknowledged:
            self.repeats += 1
            await asyncio.sleep(REPEAT_S)
            await self._try(wires, request, sent, self.chance.choice((home, other)))

    async def _try(self, wires: Sequence[Wire], request: Request, sent: Sent, owner: Owner) -> None:
        one = self.auditor.begin(sent, owner.number)
        wire = wires[owner.number]
        try:
            async with asyncio.timeout(PATIENCE_S):
                outcome = await send(wire, request)
        except TimeoutError:
            wire.close()
            outcome = Outcome.unknown
            self.auditor.give_up(one)
        else:
            self.auditor.end(one, outcome)
        self.outcomes[outcome] += 1
        if outcome is Outcome.acknowledged:
            self.available.succeeded(owner.number)
        else:
            await pause(self.chance)


class Readers(Clients):
    """One reader a node. Each read is judged when its answer comes; what is wrong is kept in `wrong`."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        owners: Sequence[Owner],
        auditor: NodesAuditor,
        chance: random.Random,
        pace_s: float,
    ) -> None:
        super().__init__(group, owners, auditor, chance)
        self.reads = 0
        self.certain = 0  # hits that a read had to show
        self.unanswered = 0
        self.all_links_reads = 0
        self.wrong: list[str] = []
        self.available = Availability(len(owners), time.monotonic)
        self._pace_s = pace_s
        for owner in owners:
            self.spawn(self._read(owner))

    async def _read(self, owner: Owner) -> None:
        wire = Wire(owner.server.port)
        try:
            while not self.stopping:
                if self.chance.random() < ALL_LINKS_READS:
                    went = await self._read_all(wire, owner)
                else:
                    went = await self._read_one(wire, owner)
                if went:
                    self.available.succeeded(owner.number)
                    await self.rest(self._pace_s)
                else:
                    self.unanswered += 1
                    await asyncio.sleep(UNANSWERED_S)
        finally:
            wire.close()

    def _key(self) -> str | None:
        known = self.auditor.keys
        if not known:
            return None
        if self.chance.random() < OLD_READS:
            return self.chance.choice(known)
        return known[-1 - self.chance.randrange(min(len(known), RECENT_KEYS))]

    async def _read_one(self, wire: Wire, owner: Owner) -> bool:
        key = self._key()
        if key is None:
            return True
        certain = self.auditor.certain(key, owner.number)
        total = await ask_total(wire, f"/v1/links/{key}/total")
        if total is None:
            return False
        must = certain.after(self._holder_now(owner))
        self.reads += 1
        self.certain += len(must)
        for misfit in self.auditor.judge_read(key, total, must):
            self.wrong.append(f"read {self.reads}, at node {owner.number}: {misfit}")
        return True

    def _holder_now(self, owner: Owner) -> Holder | None:
        self.auditor.holders.look()
        return self.auditor.holders.current(owner.number)

    async def _read_all(self, wire: Wire, owner: Owner) -> bool:
        holder = self._holder_now(owner)
        least_anywhere, least_here = self.auditor.all_least(owner.number)
        total = await ask_total(wire, "/v1/total")
        if total is None:
            return False
        least = least_here if self._holder_now(owner) == holder else least_anywhere
        self.reads += 1
        self.all_links_reads += 1
        most = self.auditor.all_most()
        if not least <= total <= most:
            said = f"read {self.reads}, at node {owner.number}: all links together are {total}, not {least} to {most}"
            self.wrong.append(said)
        return True


async def ask_total(wire: Wire, path: str) -> int | None:
    """People and bots of a whole life; None if it cannot be answered now."""
    try:
        status, body = await wire.get(f"{path}?bots=include")
    except (Unreachable, Unanswered):
        return None
    if status == 503:
        return None
    assert status == 200, f"{path}: {status} {body[:500]!r}"
    total: int = json.loads(body)["total"]
    return total
