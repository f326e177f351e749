"""One story, told again with the n-th call to the store or the disk failing, for n = 1, 2, 3 ... until none fails."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import ClickcurveError, JournalUnknown, StoreUnavailable
from clickcurve.keys import ALL_LINKS, group_key, link_key
from ingest.batch import Batch, SourceStep
from ingest.flush import Pace
from ingest.journal.cluster_journal import make_journal, take_journal
from ingest.owner import Owner
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.audit.attributes import batch_of, judge_words
from tests.audit.auditor import Auditor, Outcome, Sent
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.ingest.owner_kit import minute_of, read, read_words
from tests.power import sweep

NOW = 1_772_000_000.0
GROUP = group_key("g")


class FaultyDisk(TrackedDisk):
    """Fails the n-th call that changes the disk: with an error, or by ending the process before or after it."""

    CHANGES = ("allocate", "create", "open", "rename", "sync", "sync_folder", "truncate", "unlink", "write")

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.at = 0
        self.how: Callable[[str], None] | None = None
        self.when = "before"

    def __getattribute__(self, name: str) -> Any:
        real = super().__getattribute__(name)
        if name not in FaultyDisk.CHANGES:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            how = self.how if self.calls == self.at else None
            if how is not None and self.when == "before":
                how(name)
            answer = real(*args, **kwargs)
            if how is not None and self.when == "after":
                how(name)
            return answer

        return call


def no_room(name: str) -> None:
    raise OSError(errno.ENOSPC, f"{name}: no space left on device")


def broken(name: str) -> None:
    raise OSError(errno.EIO, f"{name}: input/output error")


def killed(name: str) -> None:
    raise Killed(name)


class ClusterProcess:
    """One owner process whose journal is in the cluster: each takes the owner of the one before."""

    def __init__(self, store: FaultyStore) -> None:
        self.store: Any = store
        self.tokens = 0
        self.start()

    def start(self) -> None:
        self.store.killed = False
        before = self.store.journals().record(1)
        token = self._token()
        if before is None:
            journal = make_journal(self.store, 1, token, "here", lambda: NOW, lambda: NOW)
        else:
            journal = take_journal(self.store, before, token, "here", lambda: NOW, lambda: NOW, False)
        assert journal is not None
        self.journal = journal
        pace = Pace(lambda: 0.0, 15.0, lambda: False)
        self.owner = Owner(journal, self.store, lambda: NOW, self._token, pace, "here", alone=True)

    def _token(self) -> str:
        self.tokens += 1
        return f"process {self.tokens}"


class Story:
    """Posts of every kind around three flushes. A kill restarts the process; whatever it was doing is unknown.

    folder: of the journal; None: it is in the cluster.
    """

    def __init__(self, folder: Path | None) -> None:
        self.store = FaultyStore(MemoryStore())
        self.disk = FaultyDisk()
        self.auditor: Auditor[Sent] = Auditor()
        self.with_id: dict[str, Sent] = {}
        self.node: OwnerProcess | ClusterProcess = (
            ClusterProcess(self.store)
            if folder is None
            else OwnerProcess(folder, self.store, lambda: NOW, alone=True, disk=self.disk)
        )
        self.position = 0

    async def tell(self) -> None:
        for turn in range(3):
            await self.post("ab", None)
            await self.post("a", f"id-{turn}")
            await self.post(["b", GROUP], f"id-{turn}-again")
            await self.post(["a", GROUP], None)
            await self.again(f"id-{turn}-again")
            await self.step()
            await self.flush()
            await self.again(f"id-{turn}")
        await self.until_flushed()
        for key in ("a", "b", GROUP):
            stored = key if key == GROUP else link_key(key)
            row = await read(self.store, [], stored, int(NOW))
            self.auditor.check(key, row.lifetime, "at the end")
            assert judge_words(key, *await read_words(self.store, [], key, int(NOW))) == []
        row = await read(self.store, [], ALL_LINKS, int(NOW))
        links = [await read(self.store, [], link_key(key), int(NOW)) for key in ("a", "b")]
        assert row.lifetime == sum(link.lifetime for link in links)
        _, of_all = await read_words(self.store, [], None, int(NOW))
        of_links = Counter[tuple[str, str]]()
        for key in ("a", "b"):
            _, values = await read_words(self.store, [], key, int(NOW))
            of_links.update({(name, value): n for name, some in values.items() for value, n in some.items()})
        assert of_links == {(name, value): n for name, some in of_all.items() for value, n in some.items()}
        with suppress(ClickcurveError, Killed):
            await self.node.owner.close()

    async def post(self, keys: Iterable[str], id_: str | None) -> None:
        sent = self.auditor.enter(Sent(self.auditor.next_hits(keys), id_ is not None))
        if id_ is not None:
            self.with_id[id_] = sent
        await self.send(sent, id_)

    async def again(self, id_: str) -> None:
        await self.send(self.with_id[id_], id_)

    async def go_on(self) -> None:
        """What a process does by itself: start after a kill, and flush where nothing is accepted before."""
        if self.store.killed:
            self.restart()
        if self.node.journal.must_flush:
            await self.flush()

    async def send(self, sent: Sent, id_: str | None) -> None:
        await self.go_on()
        await self.answer(batch_of(sent, minute_of(NOW), id_), sent)

    async def step(self) -> None:
        """A piece of an import, repeated until it is known to be in: it counts once."""
        sent = self.auditor.enter(Sent(self.auditor.next_hits("a"), repeatable=True))
        while True:
            await self.go_on()
            try:
                position = (await self.node.owner.source("log")).position
            except StoreUnavailable:
                await self.flush()
                continue
            except Killed:
                self.restart()
                continue
            if position != self.position:
                break
            batch = batch_of(sent, minute_of(NOW), None)
            batch.source = SourceStep("log", position, position + 10, "tail")
            await self.answer(batch, sent)
        self.position += 10
        self.auditor.tried(sent, Outcome.acknowledged)

    async def answer(self, batch: Batch, sent: Sent) -> None:
        try:
            await self.node.owner.accept(batch)
        except JournalUnknown:
            self.auditor.tried(sent, Outcome.unknown)
        except Killed:
            self.auditor.tried(sent, Outcome.unknown)
            self.restart()
        except ClickcurveError:
            self.auditor.tried(sent, Outcome.refused)
        else:
            self.auditor.tried(sent, Outcome.acknowledged)

    async def flush(self) -> None:
        try:
            await self.node.owner.flush()
        except Killed:
            self.restart()
        except ClickcurveError:
            return

    def restart(self) -> None:
        """Starts it again, twice if a call of the start is the one that fails."""
        self.disk.kill()
        try:
            self.node.start()
        except (Killed, ClickcurveError):
            self.disk.kill()
            self.node.start()

    async def until_flushed(self) -> None:
        for _ in range(5):
            await self.go_on()
            await self.flush()


def tell(folder: Path | None, prepare: Callable[[Story], None]) -> Story:
    story = Story(folder)
    prepare(story)
    asyncio.run(story.tell())
    return story


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [StoreUnavailable, Killed])
@pytest.mark.parametrize("journal", ["disk", "cluster"])
def test_any_failing_call_of_the_store_loses_and_doubles_nothing(
    when: str, error: type[BaseException], journal: str, tmp_path: Path
) -> None:
    for n in sweep(f"{error.__name__} {when} {journal}"):

        def fail(story: Story, n: int = n) -> None:
            story.store.fail_at[story.store.calls + n] = (when, error)

        if tell(tmp_path / str(n) if journal == "disk" else None, fail).store.fail_at:
            break
    assert n > 30, "the story must reach the store often enough to mean something"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", [no_room, broken, killed])
def test_any_failing_call_of_the_disk_loses_and_doubles_nothing(
    when: str, how: Callable[[str], None], tmp_path: Path
) -> None:
    for n in sweep(f"{how.__name__} {when}"):

        def fail(story: Story, n: int = n) -> None:
            disk = story.disk
            disk.at, disk.how, disk.when = disk.calls + n, how, when

        disk = tell(tmp_path / str(n), fail).disk
        if disk.calls < disk.at:
            break
    assert n > 40, "the story must reach the disk often enough to mean something"
