"""Acknowledged = counted: random histories with kills, a store that fails, ids repeated and links and groups erased."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from pathlib import Path

import pytest

from clickcurve.buckets.errors import ClickcurveError, JournalUnknown, OwnerFenced, StoreUnavailable
from clickcurve.keys import ALL_LINKS, OUTCOMES, group_key, limit_key, link_key
from ingest.batch import Batch
from ingest.owner import ID_WINDOW_S
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.audit.attributes import batch_of, judge_words
from tests.audit.auditor import Auditor, Hit, Outcome, Sent
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.ingest.owner_kit import counts, minute_of, read, read_words
from tests.power import at

START = 1_772_000_000  # 2026-02-25
GROUPS = [group_key("g"), group_key("ü")]
OTHERS = [limit_key("login", outcome) for outcome in OUTCOMES]  # rows that are no link's


class History:
    """One random history of one or two owners on one store."""

    def __init__(self, seed: int, folder: Path, owners: int) -> None:
        self.rnd = random.Random(seed)
        self.now = self.latest = float(START)
        self.unaware: dict[str, set[int]] = {}  # key -> the nodes that have not flushed since it was erased
        self.store = FaultyStore(MemoryStore())
        self.auditor: Auditor[Sent] = Auditor()
        self.keys = ["a", "b", "\0nul", "überlang" * 20][: self.rnd.randint(1, 4)]
        self.ids: dict[str, tuple[float, Sent]] = {}  # id -> when and what was sent under it first
        self.nodes = [
            OwnerProcess(folder / f"node-{n}", self.store, lambda: self.now, alone=owners == 1, disk=TrackedDisk())
            for n in range(owners)
        ]

    async def step(self) -> None:
        node = self.rnd.choice(self.nodes)
        action = self.rnd.choices(
            [
                self.single,
                self.batch,
                self.other,
                self.repeat,
                self.flush,
                self.erase,
                self.wait,
                self.outage,
                self.kill,
                self.look,
            ],
            [20, 20, 8, 10, 14, 2, 8, 3, 5, 18],
        )[0]
        await action(node)

    # --- what may happen -----------------------------------------------------------------------------------------
    async def single(self, node: OwnerProcess) -> None:
        # A single hit weighs 1, so it is the first one of its key.
        key = f"single-{self.rnd.getrandbits(40)}"
        self.keys.append(key)
        sent = self.auditor.enter(Sent([Hit(key, 0)]))
        await self.post(node, sent, node.owner.accept_one(key))

    async def batch(self, node: OwnerProcess) -> None:
        keys = [key for key in self.keys if self.auditor.has_room(key)]
        groups = [stored for stored in GROUPS if self.rnd.random() < 0.4 and self.auditor.has_room(stored)]
        hits = self.auditor.next_hits([*self.rnd.sample(keys, self.rnd.randint(1, len(keys))), *groups])
        id_ = f"id-{self.rnd.getrandbits(60)}" if self.rnd.random() < 0.5 else None
        sent = self.auditor.enter(Sent(hits, id_ is not None))
        if id_:
            self.ids[id_] = self.now, sent
        await self.send(node, sent, id_)

    async def other(self, node: OwnerProcess) -> None:
        """Counts of rows that are no link's."""
        keys = [stored for stored in OTHERS if self.rnd.random() < 0.7 and self.auditor.has_room(stored)]
        sent = self.auditor.enter(Sent(self.auditor.next_hits(keys)))
        at = minute_of(self.now - self.rnd.choice([0, 0, 60, 90_000]))
        await self.post(node, sent, node.owner.accept(Batch(others=counts(at, sent.counts))))

    async def repeat(self, node: OwnerProcess) -> None:
        in_window = [id_ for id_, (sent_at, _) in self.ids.items() if abs(self.now - sent_at) < ID_WINDOW_S - 3_600]
        if in_window:
            id_ = self.rnd.choice(in_window)
            await self.send(node, self.ids[id_][1], id_)

    async def send(self, node: OwnerProcess, sent: Sent, id_: str | None) -> None:
        at = minute_of(self.now - self.rnd.choice([0, 0, 0, 3_000, 90_000, 3_000_000, 50_000_000]))
        await self.post(node, sent, node.owner.accept(batch_of(sent, at, id_)))

    async def post(self, node: OwnerProcess, sent: Sent, answer: Awaitable[object]) -> None:
        try:
            await answer
        except JournalUnknown:
            self.auditor.tried(sent, Outcome.unknown)
        except ClickcurveError:
            self.auditor.tried(sent, Outcome.refused)
        else:
            self.auditor.tried(sent, Outcome.acknowledged)

    async def flush(self, node: OwnerProcess) -> None:
        n = self.store.calls + self.rnd.randint(1, 12)
        if self.rnd.random() < 0.4:
            self.store.fail_at[n] = (self.rnd.choice(["before", "after"]), self.rnd.choice([StoreUnavailable, Killed]))
        try:
            await node.owner.flush()
            for unaware in self.unaware.values():
                unaware.discard(id(node))
        except StoreUnavailable:
            pass
        except OwnerFenced as error:
            raise AssertionError("nobody else ever claims a journal here") from error
        except Killed:
            await self.restart(node)
        self.store.fail_at.clear()

    async def erase(self, node: OwnerProcess) -> None:
        key = self.rnd.choice([*self.keys, *GROUPS])
        self.now = self.latest = max(self.latest, self.now) + 1  # later than all that any owner has accepted
        try:
            await node.owner.erase(key if key in GROUPS else link_key(key))
        except StoreUnavailable:
            return
        self.auditor.erased(key)
        self.unaware[key] = {id(other) for other in self.nodes if other is not node}
        self.ids = {id_: sent for id_, sent in self.ids.items() if key not in sent[1].counts}
        self.now += 1

    async def wait(self, node: OwnerProcess) -> None:
        # Erasures are ordered by clocks, also across owners and restarts, so there the clock must not step back.
        back = -30 if len(self.nodes) == 1 and not self.unaware else 5
        self.now += self.rnd.choice([1, 15, 60, 3_600, 86_400, 86_400 * 9, back])
        self.latest = max(self.latest, self.now)

    async def outage(self, node: OwnerProcess) -> None:
        self.store.down = not self.store.down

    async def kill(self, node: OwnerProcess) -> None:
        await self.restart(node)

    async def restart(self, node: OwnerProcess) -> None:
        node.disk.kill()
        node.start()
        for unaware in self.unaware.values():
            unaware.add(id(node))  # the journal knows no erasures, the first flush reads them in the store

    async def look(self, node: OwnerProcess) -> None:
        """A reader at all nodes: nothing too much ever; nothing missing but what waits for its claim."""
        if self.store.down:
            return
        for key in self.keys[-4:]:
            if self.unaware.get(key):
                continue  # another owner hears of an erasure when it flushes
            row = await read(self.store, self.nodes, link_key(key), int(self.now))
            waiting = any(buffer.undecided for one in self.nodes for buffer in one.owner._buffers.all())
            self.auditor.check(key, row.lifetime, "read", may_be_missing=waiting)
            assert judge_words(key, *await read_words(self.store, self.nodes, key, int(self.now))) == []
        for stored in OTHERS:
            row = await read(self.store, self.nodes, stored, int(self.now))
            self.auditor.check(stored, row.lifetime, "read")
        for stored in GROUPS:
            if self.unaware.get(stored):
                continue
            row = await read(self.store, self.nodes, stored, int(self.now))
            waiting = any(buffer.undecided for one in self.nodes for buffer in one.owner._buffers.all())
            self.auditor.check(stored, row.lifetime, "read", may_be_missing=waiting)
            assert judge_words(stored, *await read_words(self.store, self.nodes, stored, int(self.now))) == []

    async def end(self) -> None:
        self.store.down = False
        for node in self.nodes:
            await node.owner.flush()
            await node.owner.flush()
        for key in self.keys:
            row = await read(self.store, [], link_key(key), int(self.now))
            self.auditor.check(key, row.lifetime, "at the end")
            assert judge_words(key, *await read_words(self.store, [], key, int(self.now))) == []
        for stored in (*OTHERS, *GROUPS):
            row = await read(self.store, [], stored, int(self.now))
            self.auditor.check(stored, row.lifetime, "at the end")
        for stored in GROUPS:
            assert judge_words(stored, *await read_words(self.store, [], stored, int(self.now))) == []
        rows = [await read(self.store, [], link_key(key), int(self.now)) for key in self.keys]
        everything = await read(self.store, [], ALL_LINKS, int(self.now))
        assert everything.lifetime >= sum(row.lifetime for row in rows)
        for node in self.nodes:
            await node.owner.close()


@pytest.mark.parametrize("owners", [1, 2])
@pytest.mark.parametrize("seed", range(at(quick=12, full=40)))
async def test_every_acknowledged_hit_counts_once_whatever_fails(seed: int, owners: int, tmp_path: Path) -> None:
    history = History(seed, tmp_path, owners)
    for _ in range(150):
        await history.step()
    await history.end()


def test_a_store_that_forgets_the_mark_is_caught(tmp_path: Path) -> None:
    """The canary: this history must notice a store that loses what it has acknowledged."""

    class Forgetful(MemoryStore):
        def save_own(self, *args: object, **kwargs: object) -> None:
            if random.Random(len(repr(args))).random() < 0.7:
                super().save_own(*args, **kwargs)  # type: ignore[arg-type]

    async def history() -> None:
        history = History(1, tmp_path, 1)
        history.store._store = Forgetful()
        for _ in range(150):
            await history.step()
        await history.end()

    with pytest.raises(AssertionError, match=r"counted [023] times|more than was ever sent"):
        asyncio.run(history())
