"""Servers without a disk, over one store: owners are taken, adopted, lost and given back, and every answer is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from clickcurve.buckets.errors import (
    ImportElsewhere,
    ImportOutOfStep,
    JournalUnknown,
    SettingInvalid,
    StoreUnavailable,
)
from ingest.batch import Batch, SourceStep
from ingest.journal.cluster_journal import ClusterJournal
from ingest.journal.taking import DEAD_FOR_ADOPTERS
from server import clock
from server.app import serve, startup
from server.app.application import create_app
from server.app.shutdown import Signals, StoppedEarly
from server.app.worker import Worker
from server.process import cluster_owners, presence
from server.settings.reading import read_settings
from storage.cassandra.cql import Cql
from storage.cassandra.node_settings import forgetful
from storage.cassandra.store import CassandraStore
from storage.contract import CLOSED, OPEN, OwnerRecord
from storage.journals import JournalRecord
from storage.memory_journals import MemoryJournals
from storage.memory_store import MemoryStore


class Beats(MemoryJournals):
    """Shows a new beat of each process that lives whenever it is asked, so that a test waits for rounds only."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store._lock, store._owners)
        self.gone: set[str] = set()

    def beats(self) -> dict[str, int]:
        with self._lock:
            self._beats = {process: beat + (process not in self.gone) for process, beat in self._beats.items()}
            return dict(self._beats)


class Cluster(MemoryStore):
    """A store that several servers of one test share. `is_down`: no node answers about journals."""

    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.beats = self._journals = Beats(self)
        self.is_down = False

    def journals(self) -> MemoryJournals:
        if self.is_down:
            raise StoreUnavailable("no node answers")
        return super().journals()

    def record(self, owner: int) -> JournalRecord:
        record = self._journals.record(owner)
        assert record is not None
        return record


class Server:
    """A worker of one server, and a client of it."""

    def __init__(self, worker: Worker, store: Cluster) -> None:
        self.worker, self.store = worker, store
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=create_app(worker)), base_url="http://localhost"
        )

    @property
    def cluster(self) -> cluster_owners.ClusterOwners:
        assert self.worker.own.cluster is not None
        return self.worker.own.cluster

    async def get(self, path: str) -> Any:
        return (await self._client.get(path)).json()

    async def post(self, *keys: str) -> httpx.Response:
        return await self._client.post("/v1/hits", json=[{"key": key} for key in keys])

    async def total(self, key: str) -> int:
        return int((await self.get(f"/v1/links/{key}/total"))["total"])

    async def metric(self, name: str) -> float:
        (line,) = await self._samples(name)
        return float(line.rpartition(" ")[2])

    async def has_metric(self, name: str) -> bool:
        return bool(await self._samples(name))

    async def _samples(self, name: str) -> list[str]:
        lines = (await self._client.get("/metrics")).text.splitlines()
        return [each for each in lines if each.startswith(f"clickcurve_{name}{{")]

    async def die(self) -> None:
        """Does nothing more by itself, as a process that is killed, or suspended."""
        await self.cluster.presence.end()
        self.store.beats.gone.add(self.cluster.presence.process)

    async def rounds(self, many: int) -> None:
        for _ in range(many):
            await self.cluster.presence.next_round()

    async def look(self) -> None:
        """Does what is due every other second."""
        await self.worker.schedule.jobs["dead_workers"].function()

    async def empty(self) -> None:
        """Does what is due after the start, and then with each flush."""
        await self.worker.schedule.jobs["orphaned_journals"].function()

    def keep_journal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leaves the journal as it is when the server ends, as a kill does."""
        monkeypatch.setattr(self.worker.owner, "close", self.worker.owner.release)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    store = Cluster()
    monkeypatch.setattr(startup, "open_store", lambda *_, **__: store)
    monkeypatch.setattr(store, "close", lambda: None)
    for module in (presence, cluster_owners):
        monkeypatch.setattr(module, "ROUND_S", 0.001)
    return store


Start = Callable[..., Any]


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Start:
    """Starts a server with a folder of its own, or with this one; it ends with the block."""
    many = 0

    @asynccontextmanager
    async def begin(folder: Path | None = None, journal: str = "cluster") -> AsyncIterator[Server]:
        nonlocal many
        many += 1
        folder = folder or tmp_path / str(many)
        folder.mkdir(exist_ok=True)
        flags = {"data": str(folder), "store": "cassandra://h1/clicks", "journal": journal, "flush_s": "3600"}
        async with startup.running(read_settings(flags, {}), [0]) as worker:
            await worker.schedule.stop(10.0)  # of what is due at the start; the test says what comes then
            yield Server(worker, cluster)

    return begin


async def test_hits_of_a_server_that_is_gone_are_emptied_by_another(cluster: Cluster, start: Start) -> None:
    async with start() as first, start() as second:
        await second.post("launch")
        await second.worker.owner.flush()
        assert [first.worker.owner.number, second.worker.owner.number] == [1, 2]
        assert (await first.post("launch", "launch", "other")).status_code == 200
        assert await second.total("launch") == 1
        await first.die()
        await second.rounds(DEAD_FOR_ADOPTERS + 2)
        assert await second.metric("dead_owners") == 1
        await second.look()
        assert await second.metric("adopted_owners_total") == 1
        assert await second.metric("journal_bytes") <= await second.metric("buffer_limit_bytes")
        assert not await second.has_metric("journal_limit_bytes"), "that of a disk"
        assert [await second.total(key) for key in ("launch", "other")] == [3, 1]
        assert (cluster.record(1).record.state, cluster.record(1).record.epoch) == (CLOSED, 2)

        # The first one wakes up, and has heard of nothing: it shows nothing twice. The connection of a frame that it
        # sends is closed; from then on it refuses.
        assert [await first.total(key) for key in ("launch", "other")] == [3, 1]
        with pytest.raises(JournalUnknown):
            await first.post("launch")
        refused = await first.post("launch")
        assert (refused.status_code, refused.json()["title"]) == (503, "owner fenced")
        assert (await first._client.get("/readyz?for=write")).status_code == 503
    assert cluster.record(1).record.epoch == 2


async def test_an_import_goes_on_where_the_lost_server_had_come(cluster: Cluster, start: Start) -> None:
    async with start() as first, start() as second:
        one = Batch(people={0: {"launch": 3}}, source=SourceStep("log", 0, 10, "a"))
        assert (await first.worker.owner.source("log")).position == 0
        await first.worker.owner.accept(one)
        with pytest.raises(ImportElsewhere):
            await second.worker.owner.source("log")
        await first.die()
        await second.rounds(DEAD_FOR_ADOPTERS + 2)
        await second.look()
        found = await second.worker.owner.source("log")
        assert (found.position, found.tail, await second.total("launch")) == (10, "a", 3)
        await second.worker.owner.accept(Batch(people={0: {"launch": 4}}, source=SourceStep("log", 10, 20, "b")))
        with pytest.raises(ImportOutOfStep):
            await second.worker.owner.accept(one)
        assert await second.total("launch") == 7


def trusted_clock() -> clock.TrustedClock:
    return clock.TrustedClock(clock.now, clock.running)


async def test_a_server_that_gets_no_hits_hears_that_its_owner_is_lost(cluster: Cluster, start: Start) -> None:
    async with start() as first:
        lost: list[object] = []
        first.cluster.when_lost(lost.append)
        taken = cluster_owners.ClusterOwners(cluster, presence.Presence(cluster, "other"), "journal-1", trusted_clock())
        assert taken._take(cluster.record(1), emptying=True) is not None
        await first.rounds(2)
        assert [str(error) for error in lost] == [
            "another process has taken owner 1 over; restart to go on as another owner"
        ]
        late: list[object] = []
        first.cluster.when_lost(late.append)
        assert late == lost


async def test_a_start_takes_a_closed_owner_then_one_of_a_server_that_is_gone(cluster: Cluster, start: Start) -> None:
    async with start() as first:
        await first.post("launch")
    assert cluster.record(1).record.state == CLOSED
    async with AsyncExitStack() as stack:
        again = await stack.enter_async_context(start())
        assert (again.worker.owner.number, await again.total("launch")) == (1, 1)
        await again.post("launch")
        await again.die()
        third = await stack.enter_async_context(start())
        assert (third.worker.owner.number, third.worker.own.recovered) == (1, 1)
        assert await third.total("launch") == 2
        ready = await third.get("/readyz?for=write")
        assert (ready["owner"], ready["epoch"], ready["adopting"], ready["rounds_missed"]) == (1, 3, [], 0)
    assert len(cluster.owners()) == 1


async def test_a_closed_owner_is_folded_once_a_day_by_one_of_all(cluster: Cluster, start: Start) -> None:
    async with start() as first, start() as second:
        async with start():
            assert len(cluster.owners()) == 3
        for server in (first, second, first, second):
            await server.rounds(2)
            await server.look()
        assert (cluster.record(3).record.state, cluster.record(3).record.epoch) == (CLOSED, 2)
        assert [await each.metric("adopted_owners_total") for each in (first, second)] == [0, 0]


async def test_a_server_does_not_fold_the_owner_that_it_holds_as_a_closed_one(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as first:
        await first.post("launch")
    monkeypatch.setattr(presence, "ROUND_S", 3_600)  # what it knows of owners stays as it was before it took one
    async with start() as second:
        held = cluster.record(1).record
        await second.look()
        assert (await second.post("launch")).status_code == 200
        assert (cluster.record(1).record.last_claim, await second.total("launch")) == (held.last_claim, 2)


async def test_it_is_not_ready_while_the_cluster_does_not_answer(cluster: Cluster, start: Start) -> None:
    async with start() as server:
        assert (await server.get("/readyz?for=write"))["ready"]
        cluster.is_down = True
        await server.rounds(presence.MISSED_MOST + 1)
        answer = await server.get("/readyz?for=write")
        assert (answer["title"], answer["detail"][:28]) == ("not ready", "the cluster has not answered")
        cluster.is_down = False
        await server.rounds(2)
        assert (await server.get("/readyz?for=write"))["ready"]


async def test_a_start_waits_for_the_cluster_and_ends_when_it_is_told(cluster: Cluster, start: Start) -> None:
    cluster.is_down = True
    signals = Signals()
    owners = cluster_owners.ClusterOwners(cluster, presence.Presence(cluster, "process"), "journal-1", trusted_clock())

    def check() -> None:
        if owners.presence.missed == 3:
            signals.stop()
        signals.check()

    with pytest.raises(StoppedEarly):
        await owners.take(check)
    await owners.presence.end()
    assert not cluster.owners()


async def test_a_server_with_its_journal_in_the_cluster_now_empties_those_on_its_disk(
    cluster: Cluster, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(tmp_path, "disk") as server:
        await server.post("launch")
        await server.worker.owner.flush()
        await server.post("launch", "other")
        server.keep_journal(monkeypatch)
    assert [each.state for each in cluster.owners()] == [OPEN]
    async with start(tmp_path) as server:
        assert [await server.total(key) for key in ("launch", "other")] == [2, 1]
        await server.post("launch")
        for _ in range(2):
            await server.empty()
            assert [await server.total(key) for key in ("launch", "other")] == [3, 1]
        assert (await server.get("/readyz"))["adopting"] == []
        assert {each.owner: each.state for each in cluster.owners()} == {1: CLOSED, 2: OPEN}
    async with start(tmp_path, "disk") as server:
        assert (server.worker.own.recovered, server.worker.owner.number, await server.total("launch")) == (0, 1, 3)
    assert {each.owner: each.state for each in cluster.owners()} == {1: CLOSED, 2: CLOSED}


async def test_what_the_last_server_held_in_the_cluster_waits_there_for_one_that_has_its_journal_there(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        last = await stack.enter_async_context(start(tmp_path / "last"))
        await last.post("launch")
        await last.die()
        disk = await stack.enter_async_context(start(tmp_path, "disk"))
        await disk.post("launch")
        await disk.empty()
        assert await disk.total("launch") == 1
        assert {each.owner: each.state for each in cluster.owners()} == {1: OPEN, 2: OPEN}
        async with start() as helper:
            assert (helper.worker.owner.number, await helper.total("launch")) == (1, 1)
        assert await disk.total("launch") == 2
        assert {each.owner: each.state for each in cluster.owners()} == {1: CLOSED, 2: OPEN}


async def test_a_start_whose_claim_has_no_answer_repeats_it_and_holds_one_owner(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: list[int] = []

    def claim(before: OwnerRecord, after: OwnerRecord) -> bool:
        claimed.append(before.owner)
        if len(claimed) == 1:
            cluster.close_owner(held)  # another one is free now, and comes first
            raise StoreUnavailable("no answer")
        return MemoryStore.claim(cluster, before, after)

    async with start() as first:
        async with start():
            held = cast(ClusterJournal, first.cluster.own).held
        monkeypatch.setattr(cluster, "claim", claim)
        async with start() as second:
            assert (claimed, second.worker.owner.number) == ([2, 2], 2)


async def test_two_that_take_the_same_owner_get_one_each(cluster: Cluster, start: Start) -> None:
    async with start():
        pass
    both = [
        cluster_owners.ClusterOwners(cluster, presence.Presence(cluster, name), "journal-1", trusted_clock())
        for name in ("a", "b")
    ]
    await both[0].presence.begin()
    before = cluster.record(1)
    taken = [each._take(before, emptying=False) for each in both]
    assert [each is None for each in taken] == [False, True]
    other = await both[1].take(lambda: None)
    assert (other.held.owner, cluster.record(1).record.state) == (2, OPEN)
    for each in both:
        await each.presence.end()


def test_no_data_folder_is_needed_and_none_is_left() -> None:
    flags = {"store": "cassandra://h1/clicks", "journal": "cluster"}
    with serve.with_folder(read_settings(flags, {})) as settings:
        assert settings.data.is_dir() and settings.data != read_settings({}, {}).data
        kept = settings.data
    assert not kept.exists()
    with serve.with_folder(read_settings({**flags, "data": "here"}, {})) as settings:
        assert settings.data == Path("here")


@pytest.mark.parametrize("store", ["memory://", "sqlite:///clickcurve.db", None])
def test_another_store_than_a_cluster_is_refused(store: str | None) -> None:
    with pytest.raises(SettingInvalid, match=r"journal \(flag --journal\) is 'cluster': it needs a store cassandra://"):
        read_settings({"store": store, "journal": "cluster"}, {})


def test_a_node_that_forgets_what_it_acknowledged_is_refused() -> None:
    nodes = {"h1": [("commitlog_sync", "group")], "h2": [("commitlog_sync", "periodic")]}
    sentence = forgetful(nodes)
    assert sentence is not None and sentence.startswith("commitlog_sync is periodic on h2, so a power cut there loses")
    assert forgetful({"h1": nodes["h1"]}) is None
    store = CassandraStore(cast(Cql, NoRows()), forgetful=lambda: sentence)
    with pytest.raises(SettingInvalid, match="it must be group or batch"):
        store.journals()


class NoRows:
    """A cluster that has noted nothing."""

    def run(self, statement: object, values: object = ()) -> list[object]:
        return []
