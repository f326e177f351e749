"""Servers move from journals on disks to the cluster's and back, one by one, while hits come in at all of them."""

from __future__ import annotations

import asyncio
import json
import random
from functools import partial
from pathlib import Path

from storage.journals import EMPTYING, IN_STORE
from testing.server import RunningServer, run
from tests.audit.auditor import Auditor, Sent
from tests.audit.hit_source import HitSource
from tests.cassandra.test_diskless import PATIENCE_S
from tests.chaos.campaign import MIX
from tests.crash.load import Load
from tests.crash.test_kill import audit_stored
from tests.server.conftest import events, wait_until

SETTINGS = {"CLICKCURVE_FLUSH_S": "1", "CLICKCURVE_BREAKDOWN_DIMENSIONS": "ref,source"}
NAMES = ("first", "second", "third")


class Mover:
    """A server that is started again with another journal, and its clients: they wait only while it is down."""

    def __init__(self, data: Path, store: str, auditor: Auditor[Sent]) -> None:
        self.data, self.store = data, store
        self.server = self._with_journal("disk", None)
        name = data.parent.name  # of its ids, too
        source = HitSource(f"{name}-", random.Random(name), open_keys=60)
        self.load = Load(self.server.port, auditor, source, random.Random(name), 2, MIX, pace_s=0.05)

    def _with_journal(self, journal: str, port: int | None) -> RunningServer:
        flags = ("--store", self.store, "--journal", journal)
        return RunningServer(self.data, *flags, settings=SETTINGS, port=port)

    async def start(self) -> None:
        self.server.launch()
        await asyncio.to_thread(wait_until, self.server._ready, PATIENCE_S)
        self.load.up.set()

    async def stop(self) -> None:
        """Ends it with SIGTERM; once more where this machine is too slow for the last flush, so its owner is closed."""
        while True:
            before = self._unflushed()
            assert await asyncio.to_thread(self.server.stop, PATIENCE_S) == 0, self.server.output()[-4000:]
            self.load.up.clear()
            if self._unflushed() == before:
                return
            await self.start()

    def _unflushed(self) -> int:
        return sum(each["event"].startswith("last flush") for each in events(self.server))

    async def kill(self) -> None:
        await asyncio.to_thread(self.server.kill)
        self.load.up.clear()

    async def start_with(self, journal: str) -> None:
        self.server = self._with_journal(journal, self.server.port)
        await self.start()


async def move_all(first: Mover, second: Mover, third: Mover) -> None:
    """Each to the cluster and back; the first one is killed there, the second one with its journal on the disk."""
    await first.stop()
    await first.start_with("cluster")
    await second.kill()
    await second.start_with("cluster")
    emptied = partial(events, second.server, "orphaned journal emptied")
    await asyncio.to_thread(wait_until, lambda: bool(emptied()), PATIENCE_S)
    await first.kill()
    await first.start_with("disk")
    await third.stop()
    await third.start_with("cluster")  # which takes the owner that the first one held there
    for mover in (second, third):
        await mover.stop()
        await mover.start_with("disk")


def owners(store: str) -> dict[bool, list[str]]:
    """The states of the owners whose journals are in the cluster (True), and of those on disks."""
    listed = run("owners", "list", "--store", store, "--json")
    states: dict[bool, list[str]] = {True: [], False: []}
    for owner in map(json.loads, listed.stdout.splitlines()):
        states[owner["journal"] in (IN_STORE, EMPTYING)].append(owner["state"])
    return states


def test_servers_move_to_the_cluster_and_back_while_all_serve(cassandra_uri: str, tmp_path: Path) -> None:
    auditor: Auditor[Sent] = Auditor()

    async def story() -> None:
        movers = [Mover(tmp_path / name / "data", cassandra_uri, auditor) for name in NAMES]
        try:
            await asyncio.gather(*[mover.start() for mover in movers])
            await move_all(*movers)
            for mover in movers:
                await mover.load.stop()
                await mover.stop()
        finally:
            for mover in movers:
                mover.server.kill()

    asyncio.run(story())
    sums = auditor.sums()
    print({outcome.name: hits for outcome, hits in sums.items()})
    assert audit_stored(auditor, 10, tmp_path / "first" / "data", "--store", cassandra_uri)
    found = owners(cassandra_uri)
    assert found[False] == ["closed"] * len(NAMES)
    assert set(found[True]) == {"closed"} and len(found[True]) <= len(NAMES), "no more than ever ran at once"
