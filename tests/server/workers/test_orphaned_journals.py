"""Former journals beside the own one: each accepted hit shows once, before, during and after its flush."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from clickcurve.buckets.errors import JournalError, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.keys import link_key
from ingest.owner import Owner
from ingest.stamps import Stamps
from query.reader import Reader
from server.process.jobs import DailyFold
from server.workers.orphaned_journals import OrphanedJournals
from server.workers.pending import PendingHits
from storage.contract import Held, OwnerRecord, OwnRow
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess
from tests.ingest.claim_kit import NOW, die, hit, lifetime, start
from tests.ingest.faulty_store import FaultyStore, Killed

DAY = fold_day(int(NOW))


class Readable(MemoryStore):
    """A store that can be read; owners can be claimed and flushes begun while it is `up`."""

    up = True

    def claim(self, before: OwnerRecord, after: OwnerRecord, *, rewrites: bool = False) -> bool:
        if not self.up:
            raise StoreUnavailable("no quorum")
        return super().claim(before, after, rewrites=rewrites)

    def begin(self, held: Held, previous: int, flush: int, now: int) -> bool:
        if not self.up:
            raise StoreUnavailable("no quorum")
        return super().begin(held, previous, flush, now)


def never_quarantined(number: int) -> Path:
    raise AssertionError(f"journal {number} was quarantined")


def former_of(
    nodes: dict[int, OwnerProcess],
    folder: Path,
    store: Readable,
    stamps: Stamps | None = None,
    numbers: Sequence[int] = (2,),
) -> OrphanedJournals:
    async def open_owner(number: int) -> Owner:
        nodes[number] = start(folder / f"journal-{number}", store, stamps)
        return nodes[number].owner

    return OrphanedJournals(
        lambda: [*numbers],
        open_owner,
        never_quarantined,
        lambda owner: DailyFold(lambda: DAY).visit(owner),
        lambda: DAY,
    )


async def killed_with_hits(folder: Path, store: Readable, number: int = 2) -> None:
    """Leaves a journal with three hits in the store, and five that are not."""
    node = start(folder / f"journal-{number}", store)
    await hit(node, 3)
    await node.owner.flush()
    await hit(node, 5)
    die(node)


def test_hits_of_a_former_journal_show_until_they_are_in_the_store(tmp_path: Path) -> None:
    async def played() -> list[int]:
        store = Readable()
        await killed_with_hits(tmp_path, store)
        store.up = False
        own = start(tmp_path / "journal-1", store)
        former = former_of({}, tmp_path, store)
        await former.take_up()
        unstored = PendingHits(own.owner, [former])
        reader = Reader(store.rows, unstored.pending, own.owner.revisit, lambda: CLICKS)

        async def total() -> int:
            return (await reader.row(link_key("a"), int(NOW))).lifetime

        seen = [await total()]
        with pytest.raises(StoreUnavailable):
            await former.visit()
        await hit(own, 1)
        seen.append(await total())
        assert (unstored.status.buffered_hits, [*filter(None, unstored.buffered_links())]) == (6, [{"a": 1}, {"a": 5}])
        store.up = True
        before = unstored.flushes
        await former.visit()
        assert not former.owners and unstored.flushes > before
        seen.append(await total())
        await own.owner.flush()
        seen.append(await total())
        await former.visit()
        seen.append(await total())
        return seen

    assert asyncio.run(played()) == [8, 9, 9, 9, 9]


def test_a_link_that_is_erased_here_goes_from_former_journals_too(tmp_path: Path) -> None:
    async def played() -> list[int]:
        store = Readable()
        await killed_with_hits(tmp_path, store)
        stamps = Stamps(lambda: NOW, [0])
        own = start(tmp_path / "journal-1", store, stamps)
        former = former_of({}, tmp_path, store, stamps)
        await former.take_up()
        unstored = PendingHits(own.owner, [former])
        reader = Reader(store.rows, unstored.pending, own.owner.revisit, lambda: CLICKS)
        await own.owner.erase("a")
        await unstored.erased_here("a")
        seen = [(await reader.row(link_key("a"), int(NOW))).lifetime]
        await former.visit()
        seen.append((await reader.row(link_key("a"), int(NOW))).lifetime)
        return seen

    assert asyncio.run(played()) == [0, 0]


@pytest.mark.parametrize("up", [True, False])
def test_a_link_that_was_erased_before_the_adoption_does_not_come_back(tmp_path: Path, up: bool) -> None:
    """The flush learns of it. Before its end nothing shows; where it failed, the hits show that were not erased."""

    async def played() -> tuple[list[int], int]:
        store, seen = Readable(), list[int]()
        await killed_with_hits(tmp_path, store)
        own = start(tmp_path / "journal-1", store)
        former = former_of({}, tmp_path, store)
        unstored = PendingHits(own.owner, [former])

        async def total() -> int:
            reader = Reader(store.rows, unstored.pending, own.owner.revisit, lambda: CLICKS)
            return (await reader.row(link_key("a"), int(NOW))).lifetime

        load_own = store.load_own

        def looking(owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
            seen.append(asyncio.run_coroutine_threadsafe(total(), loop).result())
            return load_own(owner, keys)

        loop = asyncio.get_running_loop()
        store.load_own = looking  # type: ignore[method-assign]
        if up:
            store.erase(["a"], int(NOW * 1e6) + 1_000)
            await former.visit()
        else:
            store.up = False
            with pytest.raises(StoreUnavailable):
                await former.visit()
        return seen, await total()

    seen, last = asyncio.run(played())
    if up:
        assert seen and {*seen} == {0} and last == 0
    else:
        assert last == 8


def test_a_journal_whose_disk_is_broken_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, "the disk is broken")

    async def played() -> list[int]:
        store, nodes = Readable(), dict[int, OwnerProcess]()
        for number in (2, 3):
            await killed_with_hits(tmp_path, store, number)
        former = former_of(nodes, tmp_path, store, numbers=(2, 3))
        await former.take_up()
        seen = [await lifetime(store)]
        with monkeypatch.context() as breaking:
            breaking.setattr(nodes[2].disk, "write", broken)
            with pytest.raises(JournalError):
                await former.visit()
        seen.append(await lifetime(store))
        await former.visit()
        seen.append(await lifetime(store))
        return seen

    assert asyncio.run(played()) == [6, 11, 16]


def test_the_next_start_takes_up_what_a_stop_has_released(tmp_path: Path) -> None:
    async def played() -> list[int]:
        store = Readable()
        await killed_with_hits(tmp_path, store)
        seen = []
        for _ in range(2):
            former = former_of({}, tmp_path, store)
            await former.take_up()
            seen.append(sum(owner.status.buffered_hits for owner in former.owners))
            await former.release()
        return seen

    assert asyncio.run(played()) == [5, 5]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_adopter_that_dies_at_any_call_leaves_the_rest_to_the_next_and_each_hit_counts_once(
    tmp_path: Path, when: str
) -> None:
    """And where it was only asleep, it adds nothing when it wakes."""

    async def played(nth: int) -> tuple[bool, int]:
        folder, memory = tmp_path / str(nth), Readable()
        await killed_with_hits(folder, memory)
        faulty = FaultyStore(memory)
        faulty.fail_at[nth] = (when, Killed)
        nodes: dict[int, OwnerProcess] = {}
        first = former_of(nodes, folder, cast(Readable, faulty))
        try:
            await first.visit()
        except Killed:
            die(nodes[2])
        else:
            return False, await lifetime(memory)
        second = former_of({}, folder, memory)
        await second.visit()
        if nodes[2].owner._closed is None:  # it did not die while it closed the journal
            with suppress(JournalError, StoreUnavailable):
                await nodes[2].owner.flush()
        return True, await lifetime(memory)

    for nth in range(1, 100):
        died, counted = asyncio.run(played(nth))
        assert counted == 8
        if not died:
            break
    assert 10 < nth < 99, "it has died at each call"
