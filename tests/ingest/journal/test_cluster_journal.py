"""The journal in the store, step by step: what is answered when, what is refused, and what the next holder finds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from clickcurve.buckets.errors import (
    JournalBroken,
    JournalDamaged,
    JournalFull,
    JournalUnknown,
    OwnerFenced,
    StoreUnavailable,
)
from ingest.claim import FLUSHES_PER_EPOCH
from ingest.journal.cluster_journal import ClusterJournal, make_journal, take_journal
from ingest.journal.contract import Frame
from ingest.journal.taking import claimed_record, take
from ingest.journal.unanswered import LOOK_S
from storage.contract import CLOSED, RETIRED
from storage.journals import EMPTYING, JournalRecord
from storage.memory_journals import MemoryJournals
from storage.memory_store import MemoryStore

NOW = 1_772_000_000
FIRST = FLUSHES_PER_EPOCH + 1  # the first flush of epoch 1


class Recorded(MemoryJournals):
    """Notes each call when it ends. before: what happens when a call of this name begins, such as a fault."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store._lock, store._owners)
        self.calls: list[str] = []
        self.before: dict[str, Callable[[], Any]] = {}
        self.after: dict[str, Callable[[], Any]] = {}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("append", "fence", "raise_fence", "frames", "drop", "record", "begin", "done"):
            return found
        if name in ("append", "fence"):

            async def awaited(*args: Any) -> Any:
                await _happen(self.before.get(name))
                answer = await found(*args)
                await _happen(self.after.get(name))
                self.calls.append(name)
                return answer

            return awaited

        def called(*args: Any) -> Any:
            if name in self.before:
                self.before[name]()
            answer = found(*args)
            if name in self.after:
                self.after[name]()
            self.calls.append(name)
            return answer

        return called


async def _happen(what: Callable[[], Any] | None) -> None:
    pending = what() if what else None
    if pending is not None:
        await pending


def down() -> None:
    raise StoreUnavailable("the cluster does not answer")


class Cluster:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.journals = self.store._journals = Recorded(self.store)
        self.now = float(NOW)
        self._claims = 0

    def passes(self, journal: ClusterJournal, seconds: float) -> None:
        """Lets so many seconds pass, in which the process runs."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + LOOK_S)
            with suppress(JournalFull):
                journal.check_timely()

    def token(self) -> str:
        self._claims += 1
        return f"process.{self._claims}"

    def made(self) -> ClusterJournal:
        journal = make_journal(self.store, 1, self.token(), "here", lambda: self.now, lambda: self.now)
        assert journal is not None
        return journal

    def ready(self) -> ClusterJournal:
        """With a first flush of nothing, so that it accepts."""
        return flushed(self.made())

    def taken(self, emptying: bool = False) -> ClusterJournal:
        journal = take_journal(
            self.store, self.record(), self.token(), "here", lambda: self.now, lambda: self.now, emptying
        )
        assert journal is not None
        return journal

    def record(self) -> JournalRecord:
        record = self.journals.record(1)
        assert record is not None
        return record


def flushed(journal: ClusterJournal) -> ClusterJournal:
    """After a flush of what it holds."""
    number = max(journal.state.last_flush, journal.held.epoch * FLUSHES_PER_EPOCH) + 1
    journal.complete_flush(journal.record_flush(number, 20_000).number)
    return journal


async def keep(journal: ClusterJournal, payload: bytes, accepted_us: int = 1) -> None:
    kept = journal.commit([payload], accepted_us)
    assert kept is not None
    await kept


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


# --- accepting --------------------------------------------------------------------------------------------------------
async def test_a_group_is_kept_after_a_read_of_the_fence_that_began_when_the_frame_was_there(cluster: Cluster) -> None:
    journal = cluster.ready()
    cluster.journals.calls.clear()
    await keep(journal, b"a")
    assert cluster.journals.calls == ["append", "fence"]


async def test_one_read_confirms_all_frames_that_were_acknowledged_before_it_began(cluster: Cluster) -> None:
    journal = cluster.ready()
    cluster.journals.calls.clear()
    reads = [asyncio.Event(), asyncio.Event()]
    begun = iter(reads)
    cluster.journals.before["fence"] = lambda: next(begun).wait()
    first = asyncio.create_task(keep(journal, b"a"))
    while journal._window.begin_read() == frozenset():
        await asyncio.sleep(0)
    others = [asyncio.create_task(keep(journal, b"b")) for _ in range(3)]
    while cluster.journals.calls.count("append") < 4:
        await asyncio.sleep(0)
    reads[0].set()
    await first
    assert not any(each.done() for each in others)
    reads[1].set()
    await asyncio.gather(*others)
    assert cluster.journals.calls.count("fence") == 2


async def test_nothing_is_accepted_before_a_flush_of_its_own_has_begun(cluster: Cluster) -> None:
    """So frames of two epochs never lie behind one flush."""
    journal = cluster.ready()
    await keep(journal, b"before")
    taken = cluster.taken()
    with pytest.raises(JournalBroken, match="no flush has begun since the journal was taken"):
        taken.commit([b"a"], 2)
    assert [*taken.frames()] == [Frame(1, b"before")]
    flushed(taken).drop_completed()
    await keep(taken, b"after", 3)
    assert cluster.journals.frames(1, FIRST) == {}
    assert len(cluster.journals.frames(1, taken.state.last_flush)) == 1


async def test_who_was_taken_over_answers_nothing_more(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"before")
    taken = cluster.taken()
    with pytest.raises(JournalUnknown):
        await keep(journal, b"unheard", 2)
    with pytest.raises(OwnerFenced, match="another process has taken owner 1 over"):
        journal.commit([b"a"], 3)
    with pytest.raises(OwnerFenced):
        journal.check_room()
    with pytest.raises(OwnerFenced):
        journal.record_flush(FIRST + 1, 20_000)
    assert [*taken.frames()] == [Frame(1, b"before")]


@pytest.mark.parametrize("call", ["append", "fence"])
async def test_after_a_frame_without_an_answer_it_refuses_until_a_flush_has_begun(cluster: Cluster, call: str) -> None:
    """What had no answer may be sent again: a holder must never find both."""
    journal = cluster.ready()
    await keep(journal, b"a")
    cluster.journals.before[call] = down
    with pytest.raises(JournalUnknown, match="nobody knows whether it counts: the cluster does not answer"):
        await keep(journal, b"unknown", 2)
    cluster.journals.before.clear()
    assert journal.must_flush
    with pytest.raises(JournalBroken, match="no flush has begun since a frame had no answer"):
        journal.check_room()
    with pytest.raises(JournalBroken, match="no flush has begun since a frame had no answer"):
        journal.commit([b"unknown"], 3)
    flush = journal.record_flush(FIRST + 1, 20_000)
    journal.check_room()
    await keep(journal, b"unknown", 4)
    taken = cluster.taken()
    assert taken.state.flush is not None and taken.state.flush.number == flush.number
    assert [*taken.frames(taken.state.flush)] == [Frame(1, b"a")]
    assert [*taken.frames()] == [Frame(4, b"unknown")]


async def test_a_defect_of_the_store_leaves_no_request_waiting(cluster: Cluster) -> None:
    journal = cluster.ready()

    def defect() -> None:
        raise ZeroDivisionError

    noted: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: noted.append(context))
    for call in ("append", "fence"):
        cluster.journals.before = {call: defect}
        journal._window.gave_up = False
        with pytest.raises(JournalUnknown):
            await keep(journal, b"a")
    await asyncio.sleep(0)


async def test_a_server_is_not_ready_while_a_frame_is_overdue(cluster: Cluster) -> None:
    journal = cluster.ready()
    go_on = asyncio.Event()
    cluster.journals.before["append"] = go_on.wait
    waiting = asyncio.create_task(keep(journal, b"a"))
    await asyncio.sleep(0)
    cluster.passes(journal, 0.9)
    journal.check_room()
    assert journal.stalled_s == 0.0
    cluster.passes(journal, 0.9)
    with pytest.raises(JournalFull, match=r"not acknowledged a frame for 2 s"):
        journal.check_room()
    assert journal.stalled_s == pytest.approx(1.8)
    go_on.set()
    await waiting
    journal.check_room()


# --- flushes ----------------------------------------------------------------------------------------------------------
async def test_a_begin_of_unknown_outcome_is_repeated_as_it_was_and_nothing_is_accepted_meanwhile(
    cluster: Cluster,
) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    cluster.journals.after["begin"] = down
    with pytest.raises(StoreUnavailable):
        journal.record_flush(FIRST + 1, 20_000)
    assert journal.must_flush
    with pytest.raises(JournalBroken, match="no flush has begun"):
        journal.commit([b"b"], 2)
    cluster.journals.after.clear()
    flush = journal.record_flush(FIRST + 1, 20_001)
    assert (flush.number, flush.fold_day) == (FIRST + 1, 20_000)
    assert [*journal.frames(flush)] == [Frame(1, b"a")]
    assert not journal.must_flush


async def test_frames_are_deleted_once_the_flush_is_recorded_as_done_and_not_before(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    journal.drop_completed()
    flush = journal.record_flush(FIRST + 1, 20_000)
    cluster.journals.calls.clear()
    cluster.journals.before["done"] = down
    with pytest.raises(StoreUnavailable):
        journal.complete_flush(flush.number)
    assert [*journal.frames(flush)] == [Frame(1, b"a")]
    cluster.journals.before.clear()
    journal.complete_flush(flush.number)
    journal.drop_completed()
    assert [call for call in cluster.journals.calls if call in ("done", "drop")] == ["done", "drop"]
    assert cluster.journals.frames(1, FIRST) == {}


async def test_what_could_not_be_deleted_is_deleted_before_the_next_flush_or_by_the_next_holder(
    cluster: Cluster,
) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    flushed(journal)
    cluster.journals.before["drop"] = down
    journal.drop_completed()
    with pytest.raises(StoreUnavailable):
        journal.record_flush(FIRST + 2, 20_000)
    cluster.journals.before.clear()
    assert len(cluster.journals.frames(1, FIRST)) == 1
    cluster.taken().drop_completed()
    assert cluster.journals.frames(1, FIRST) == {}


async def test_a_flush_that_began_is_done_before_the_next_one_begins(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"named")
    flush = journal.record_flush(FIRST + 1, 20_000)
    await keep(journal, b"behind", 2)
    taken = cluster.taken()
    assert taken.state.flush == flush
    assert [*taken.frames(flush)] == [Frame(1, b"named")]
    assert [*taken.frames()] == [Frame(2, b"behind")]
    with pytest.raises(ValueError, match="not complete"):
        taken.record_flush(2 * FLUSHES_PER_EPOCH + 1, 20_000)
    taken.complete_flush(flush.number)
    own = taken.record_flush(2 * FLUSHES_PER_EPOCH + 1, 20_000)
    assert [*taken.frames(own)] == [Frame(2, b"behind")]


async def test_frames_that_were_given_up_are_in_no_flush_of_their_writer(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    cluster.journals.after["append"] = down
    with pytest.raises(JournalUnknown):
        await keep(journal, b"unknown", 2)
    flush = journal.record_flush(FIRST + 1, 20_000)
    assert [*journal.frames(flush)] == [Frame(1, b"a")]
    assert cluster.record().frames == "0"
    taken = cluster.taken()
    assert [*taken.frames(taken.state.flush)] == [Frame(1, b"a")]


# --- taking -----------------------------------------------------------------------------------------------------------
def test_a_taker_reads_the_record_again_and_frames_last(cluster: Cluster) -> None:
    cluster.ready()
    before = cluster.record()
    cluster.journals.calls.clear()
    assert take_journal(cluster.store, before, "other.1", "here", lambda: NOW, lambda: NOW, False) is not None
    assert cluster.journals.calls == ["raise_fence", "record", "frames"]


async def test_a_flush_that_was_done_until_the_claim_is_not_carried_out_again(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    flush = journal.record_flush(FIRST + 1, 20_000)
    before = cluster.record()
    journal.complete_flush(flush.number)
    taken = take_journal(cluster.store, before, "other.1", "here", lambda: NOW, lambda: NOW, False)
    assert taken is not None
    assert (taken.state.flush, taken.state.last_flush) == (None, flush.number)


def test_of_two_that_claim_the_same_epoch_one_wins(cluster: Cluster) -> None:
    cluster.ready()
    before = cluster.record()
    first = claimed_record(before, "a.1", "here", NOW, emptying=False)
    second = replace(first, holder="b.1")
    assert take(cluster.store, cluster.journals, before, first) is not None
    assert take(cluster.store, cluster.journals, before, second) is None
    assert cluster.record().record.holder == "a.1"


def test_a_taker_that_was_itself_taken_over_reads_no_frames(cluster: Cluster) -> None:
    cluster.ready()
    before = cluster.record()

    def another() -> None:
        cluster.journals.before.clear()
        cluster.taken()

    cluster.journals.before["raise_fence"] = another
    assert take_journal(cluster.store, before, "other.1", "here", lambda: NOW, lambda: NOW, False) is None


@pytest.mark.parametrize("state", [RETIRED, CLOSED])
def test_a_retired_owner_is_never_taken(cluster: Cluster, state: str) -> None:
    cluster.ready()
    before = cluster.record().record
    assert cluster.store.claim(before, replace(before, epoch=2, state=state))
    taken = take_journal(cluster.store, cluster.record(), "other.1", "here", lambda: NOW, lambda: NOW, False)
    assert (taken is None) == (state == RETIRED)


async def test_a_named_frame_that_is_gone_is_an_error_that_says_so(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    await keep(journal, b"b")
    journal.record_flush(FIRST + 1, 20_000)
    del cluster.journals._frames[1, FIRST][1]
    with pytest.raises(JournalDamaged, match=rf"frames \[1\] of flush {FIRST + 1} of owner 1 are gone: 1 of 2"):
        cluster.taken()


async def test_a_named_frame_that_another_holder_has_deleted_means_fenced(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    flush = journal.record_flush(FIRST + 1, 20_000)

    def finished_by_another() -> None:
        cluster.journals.before.clear()
        other = cluster.taken()
        other.complete_flush(flush.number)
        other.drop_completed()

    cluster.journals.before["frames"] = finished_by_another
    with pytest.raises(OwnerFenced):
        cluster.taken()


def test_a_journal_that_is_being_emptied_accepts_nothing_and_is_given_back(cluster: Cluster) -> None:
    cluster.ready()
    taken = flushed(cluster.taken(emptying=True))
    assert cluster.record().record.journal == EMPTYING
    with pytest.raises(JournalBroken, match="is being emptied, and accepts nothing"):
        taken.commit([b"a"], 1)
    taken.give_back(cluster.store, taken.held, lambda call: call())
    assert cluster.record().record.state == CLOSED


async def test_once_its_numbers_are_used_up_it_takes_the_next_epoch_and_loses_nothing(cluster: Cluster) -> None:
    journal = cluster.ready()
    await keep(journal, b"a")
    last = 2 * FLUSHES_PER_EPOCH - 1
    flush = journal.record_flush(last, 20_000)
    await keep(journal, b"b", 2)
    journal.complete_flush(flush.number)
    held = journal.claim(cluster.store, "here", cluster.token, NOW, lambda call: call()).held
    assert (held.owner, held.epoch) == (1, 2)
    assert journal.state.identity.epoch == 2
    await keep(journal, b"c", 3)
    own = journal.record_flush(2 * FLUSHES_PER_EPOCH + 1, 20_000)
    assert [*journal.frames(own)] == [Frame(2, b"b"), Frame(3, b"c")]
    assert journal.claim(cluster.store, "here", cluster.token, NOW, lambda call: call()).held == held


def test_of_two_that_make_an_owner_one_gets_it(cluster: Cluster) -> None:
    cluster.made()
    assert make_journal(cluster.store, 1, "other.1", "here", lambda: NOW, lambda: NOW) is None


def test_an_owner_that_is_made_by_a_call_of_unknown_outcome_belongs_to_the_next_one(cluster: Cluster) -> None:
    cluster.journals.before["frames"] = down
    with pytest.raises(StoreUnavailable):
        make_journal(cluster.store, 1, "process.1", "here", lambda: NOW, lambda: NOW)
    cluster.journals.before.clear()
    assert make_journal(cluster.store, 1, "process.2", "here", lambda: NOW + 5, lambda: NOW) is not None
    assert [owner.holder for owner in cluster.store.owners()] == ["process.1"]
