"""What every journal keeps of its contract, whatever keeps it: a disk, one that is slow, or a cluster; on every store.

A driver that loses power at a crash, and whose answers get lost, must find each group that was acknowledged, none that
was refused, and of the others whole ones, for good.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clickcurve.buckets.errors import JournalBroken, JournalFull, JournalHeld, JournalUnknown
from ingest.batch import Batch
from ingest.flush import Pace
from ingest.journal.contract import Frame, Journal
from ingest.owner import Owner
from storage.contract import CLOSED, Held, Store
from tests.ingest.claim_kit import NOW, lifetime
from tests.ingest.journal.drivers import DISKS, DRIVERS, Driver, driven
from tests.ingest.owner_kit import counts, minute_of
from tests.storage.stores import MemoryFactory


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    with driven(request.param, tmp_path, request.getfixturevalue) as driver:
        yield driver


async def opened(driver: Driver) -> tuple[Journal, Held]:
    """A journal that accepts groups: as an owner makes it ready."""
    journal = driver.open()
    held = await claimed(journal, driver.store)
    if journal.must_flush:
        number = max(journal.state.last_flush, held.epoch << 20) + 1
        journal.complete_flush(journal.record_flush(number, 20_000).number)
    return journal, held


async def commit(journal: Journal, payloads: Sequence[bytes], accepted_us: int = 1) -> None:
    kept = journal.commit(payloads, accepted_us)
    if kept is not None:
        await kept


def found(journal: Journal) -> list[Frame]:
    """What no flush covers, in the order of the stamps: frames may come in any order."""
    return sorted(journal.frames())


async def claimed(journal: Journal, store: Store) -> Held:
    """Claims as an owner does, from a thread."""
    names = iter(map(str, range(100)))
    with ThreadPoolExecutor(1) as thread:
        loop = asyncio.get_running_loop()
        now = int(NOW)
        return await loop.run_in_executor(
            thread, lambda: journal.claim(store, "here", lambda: f"{random.random()}-{next(names)}", now, at_once).held
        )


def at_once(call: Callable[[], None]) -> None:
    call()


async def test_what_was_acknowledged_is_found_whole_by_the_next_process(driver: Driver) -> None:
    journal, _ = await opened(driver)
    await commit(journal, [b"one", b"", b"two"], 17)
    await commit(journal, [], 18)
    await commit(journal, [b"#" * 1_000], 19)
    everything = [Frame(17, b""), Frame(17, b"one"), Frame(17, b"two"), Frame(19, b"#" * 1_000)]
    assert found(journal) == everything
    for _ in range(2):
        driver.crash()
        assert found(driver.open()) == everything


async def test_a_group_that_was_refused_never_comes_back(driver: Driver) -> None:
    journal, _ = await opened(driver)
    await commit(journal, [b"before"])
    driver.refuse()
    with pytest.raises((JournalFull, JournalBroken)):
        await commit(journal, [b"refused"] * 3, 2)
    driver.heal()
    assert found(journal) == [Frame(1, b"before")]
    await commit(journal, [b"after"], 3)
    driver.crash()
    assert found(driver.open()) == [Frame(1, b"before"), Frame(3, b"after")]


@pytest.mark.parametrize("kept", [False, True])
async def test_a_group_whose_answer_was_lost_is_there_whole_or_not_at_all_and_stays_so(
    driver: Driver, kept: bool
) -> None:
    journal, _ = await opened(driver)
    await commit(journal, [b"before"])
    driver.lose_answers(kept=kept)
    with pytest.raises(JournalUnknown):
        await commit(journal, [b"unknown"] * 3, 2)
    driver.heal()
    driver.crash()
    first = found(driver.open())
    assert first in ([Frame(1, b"before")], [Frame(1, b"before"), *[Frame(2, b"unknown")] * 3])
    for _ in range(2):
        driver.crash()
        assert found(driver.open()) == first


@pytest.mark.parametrize("name", DISKS)
async def test_one_process_at_a_time_holds_it(name: str, tmp_path: Path) -> None:
    """A journal in the cluster is taken instead, and its holder hears of it before the next answer."""
    driver = DISKS[name](MemoryFactory(tmp_path))
    journal = driver.open()
    with pytest.raises(JournalHeld):
        driver.open()
    journal.close()
    driver.open().close()


async def test_a_flush_covers_what_came_before_it_also_after_crashes_until_it_is_complete(driver: Driver) -> None:
    journal, held = await opened(driver)
    before = journal.state.last_flush
    number = max(before, held.epoch << 20)
    await commit(journal, [b"before"])
    flush = journal.record_flush(number + 1, 20_000)
    await commit(journal, [b"after"], 2)
    assert (flush.number, flush.previous, flush.fold_day) == (number + 1, before, 20_000)
    with pytest.raises(ValueError, match="not complete"):
        journal.record_flush(number + 2, 20_000)
    for _ in range(2):
        assert journal.state.flush == flush
        assert [*journal.frames(flush)] == [Frame(1, b"before")]
        assert found(journal) == [Frame(2, b"after")]
        driver.crash()
        journal = driver.open()
    for _ in range(2):
        journal.complete_flush(number + 1)
    with pytest.raises(ValueError, match="does not come after"):
        journal.record_flush(number + 1, 20_000)
    with pytest.raises(ValueError, match="not the unfinished one"):
        journal.frames(flush)
    driver.crash()
    journal = driver.open()
    assert (journal.state.flush, journal.state.last_flush) == (None, number + 1)
    assert found(journal) == [Frame(2, b"after")]
    assert journal.record_flush(number + 2, 20_000).previous == number + 1


async def test_each_process_claims_one_epoch_later_and_gives_the_number_back_at_its_end(driver: Driver) -> None:
    store = driver.store
    journal = driver.open()
    before = await claimed(journal, store)
    driver.crash()
    journal = driver.open()
    after = await claimed(journal, store)
    assert (after.owner, after.epoch) == (before.owner, before.epoch + 1)
    assert (journal.state.identity.owner, journal.state.identity.epoch) == (after.owner, after.epoch)
    journal.give_back(store, after, at_once)
    (record,) = store.owners()
    assert record.state == CLOSED


HISTORIES = [(name, seed) for name in DRIVERS for seed in range(5 if name == "cassandra" else 20)]


@pytest.mark.parametrize(("driver", "seed"), HISTORIES, indirect=["driver"])
def test_an_owner_counts_each_hit_once_whatever_keeps_its_journal(driver: Driver, seed: int) -> None:
    """Random histories of hits, faults, flushes and crashes; a hit whose answer was lost may count or not."""
    chance, store = random.Random(seed), driver.store
    acknowledged = unknown = 0

    def started() -> Owner:
        pace = Pace(lambda: 0.0, 15.0, lambda: False)
        return Owner(driver.open(), store, lambda: NOW, lambda: str(chance.random()), pace, "here", alone=False)

    async def life() -> None:
        nonlocal acknowledged, unknown
        owner = started()
        await owner.flush()
        for _ in range(chance.randrange(12)):
            step = chance.choice(["hit", "hit", "hit", "flush", "refuse", "lose"])
            if step == "hit":
                try:
                    await owner.accept(Batch(people=counts(minute_of(NOW), {"a": 1})))
                    acknowledged += 1
                except JournalUnknown:
                    unknown += 1
                except (JournalFull, JournalBroken):
                    pass
            elif step == "refuse":
                driver.refuse()
            elif step == "lose":
                driver.lose_answers(kept=chance.random() < 0.5)
            else:
                driver.heal()
                await owner.flush()
        driver.heal()
        driver.crash()

    async def last() -> int:
        await started().close()
        return await lifetime(store)

    for _ in range(4):
        asyncio.run(life())
    assert acknowledged <= asyncio.run(last()) <= acknowledged + unknown
