"""The retention pass over a small owner: it visits what is due and nothing else, may end anywhere, and keeps totals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from clickcurve.buckets import codec
from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S
from clickcurve.buckets.quarantine import encode_quarantined
from clickcurve.buckets.row import EMPTY, Delta, Row, apply, check, next_due
from clickcurve.keys import ALL_LINKS, QUARANTINE, link_key
from retention.run import PassReport, Preview, preview, run_pass
from storage.contract import OPEN, Held, OwnerRecord, SavedRow
from storage.memory_store import MemoryStore

DAY = 20_000  # 2024-10-04
NOTHING = Delta({}, {})
HELD = Held(7, 1, "h")


class SmallOwner:
    """An owner without a journal: `revisit` and `flush` as a pass uses them. `fail_at`: that flush finds no store."""

    def __init__(self, store: MemoryStore, day: int = DAY) -> None:
        self.store = store
        self.day = day
        self.flushes = 0
        self.seen: list[str] = []
        self.sizes: list[int] = []
        self.fail_at = 0
        self.days_visited: list[int] = []
        self._asked: set[str] = set()
        store.create_owner(OwnerRecord(7, 1, "h", "j", "here", OPEN, 0, 0))

    def hit(self, key: str, minutes: dict[int, int], bots: dict[int, int] | None = None, day: int = DAY) -> None:
        self._write({key: Delta(minutes, bots or {})}, day)

    def revisit(self, keys: Iterable[str]) -> None:
        self._asked.update(keys)

    async def flush(self) -> None:
        if self.flushes + 1 == self.fail_at:
            self.fail_at = 0
            raise StoreUnavailable("the store is down")
        asked, self._asked = self._asked, set()
        self.seen += sorted(asked)
        self.sizes.append(len(asked))
        self._write(dict.fromkeys(asked, NOTHING), self.day)

    def _write(self, deltas: dict[str, Delta], day: int) -> None:
        self.flushes += 1
        assert self.store.begin(HELD, self.flushes - 1, self.flushes, 0)
        rows = {}
        own = self.store.load_own(7, list(deltas))
        for key, delta in deltas.items():
            own_row = own.get(key)
            row = codec.decode(own_row.data) if own_row is not None and own_row.data is not None else EMPTY
            row = apply(row, delta, self.flushes, day, 0, CLICKS)
            rows[key] = SavedRow(codec.encode(row), next_due(row, CLICKS))
        self.store.save_own(HELD, self.flushes, rows, {})

    def due(self, fold_day: int, after: str | None, limit: int) -> list[str]:
        return self.store.due(7, fold_day, after, limit)

    def visited(self, fold_day: int) -> None:
        self.days_visited.append(fold_day)

    def row(self, key: str) -> Row:
        data = self.store.load_own(7, [key])[key].data
        assert data is not None
        return codec.decode(data)

    def bring(self, day: int, step_rows: int = 3) -> PassReport:
        self.day = day
        return asyncio.run(run_pass(self, day, step_rows))


def minutes_of(day: int, *counts: int) -> dict[int, int]:
    return {day * DAY_S + 3600 + 60 * n: count for n, count in enumerate(counts)}


def filled() -> SmallOwner:
    """Twenty links with hits on their day, at day DAY: k00 to k09 today, the others one day older each."""
    owner = SmallOwner(MemoryStore())
    for n in range(20):
        owner.hit(link_key(f"k{n:02}"), minutes_of(DAY - max(0, n - 9), 1, 2, 3), minutes_of(DAY, 4))
    owner.hit(ALL_LINKS, minutes_of(DAY, 50))
    return owner


@pytest.fixture
def owner() -> SmallOwner:
    return filled()


def lifetimes(owner: SmallOwner) -> dict[str, tuple[int, int]]:
    rows = [(key, codec.decode(link.rows[0].data)) for key, link in owner.store.walk(None, 100)]
    assert all(check(row, CLICKS) == [] for _, row in rows)
    return {key: (row.lifetime, row.bots) for key, row in rows}


def test_it_visits_the_rows_that_are_due_once_and_no_others(owner: SmallOwner) -> None:
    before = lifetimes(owner)
    due = owner.store.due(7, DAY + 1, None, 100)
    assert 0 < len(due) <= 21
    report = owner.bring(DAY + 1)
    assert owner.seen == due
    assert report == PassReport(DAY + 1, -(-len(due) // 3), len(due))
    assert owner.store.due(7, DAY + 1, None, 100) == []
    assert lifetimes(owner) == before


def test_a_second_pass_on_the_same_day_visits_nothing(owner: SmallOwner) -> None:
    owner.bring(DAY + 1)
    visited = len(owner.seen)
    assert owner.bring(DAY + 1) == PassReport(DAY + 1, 0, 0)
    assert len(owner.seen) == visited


def test_steps_are_bounded(owner: SmallOwner) -> None:
    owner.bring(DAY + 40, step_rows=4)
    assert max(owner.sizes) == 4


@pytest.mark.parametrize("days", [1, 2, 3, 34, 35, 40, 126, 140, 500])
def test_after_a_standstill_one_pass_folds_as_daily_passes_do(days: int) -> None:
    daily, late = SmallOwner(MemoryStore()), SmallOwner(MemoryStore())
    for owner in (daily, late):
        for n in range(6):
            owner.hit(f"k{n}", minutes_of(DAY - n * 8, 1, 2), minutes_of(DAY, 1))
    for day in range(DAY + 1, DAY + days + 1):
        daily.bring(day)
    assert late.bring(DAY + days).stopped is None
    for n in range(6):
        assert late.row(f"k{n}")._replace(mark=0, fold_day=0) == daily.row(f"k{n}")._replace(mark=0, fold_day=0)
        assert check(late.row(f"k{n}"), CLICKS) == []


def test_it_may_be_stopped_at_any_flush_and_the_next_pass_goes_on(owner: SmallOwner) -> None:
    before = lifetimes(owner)
    rows = len(owner.store.due(7, DAY + 1, None, 100))
    for nth in range(1, 100):
        other = filled()
        other.fail_at = other.flushes + nth
        first = other.bring(DAY + 1)
        other.fail_at = 0
        second = other.bring(DAY + 1)
        assert lifetimes(other) == before
        assert other.store.due(7, DAY + 1, None, 100) == []
        assert second.stopped is None
        if first.stopped is None:
            assert nth == -(-rows // 3) + 2  # it failed at each flush of a pass, and then at none
            return
        assert first.stopped == "the store is down"
    pytest.fail("a pass never went through")


def test_keys_asked_for_before_a_failure_are_visited_at_the_latest_by_the_next_flush(owner: SmallOwner) -> None:
    owner.fail_at = owner.flushes + 2
    report = owner.bring(DAY + 1)
    assert (report.rows, report.stopped) == (0, "the store is down")
    asyncio.run(owner.flush())
    assert len(owner.seen) == 3


def test_it_can_be_cancelled_between_steps(owner: SmallOwner) -> None:
    async def cancelled() -> None:
        asked = 0

        async def in_thread(call: Callable[..., list[str]], *rest: object) -> list[str]:
            nonlocal asked
            asked += 1
            if asked == 3:
                task.cancel()
                await asyncio.Event().wait()
            return call(*rest)

        task = asyncio.ensure_future(run_pass(owner, DAY + 1, 3, in_thread))
        with pytest.raises(asyncio.CancelledError):
            await task

    owner.day = DAY + 1
    before = lifetimes(owner)
    asyncio.run(cancelled())
    assert len(owner.seen) == 6
    assert lifetimes(owner) == before
    assert owner.bring(DAY + 1).stopped is None
    assert owner.store.due(7, DAY + 1, None, 100) == []


def test_a_store_that_never_gets_rid_of_a_key_does_not_make_a_pass_endless(owner: SmallOwner) -> None:
    class Stuck(SmallOwner):
        def _write(self, deltas: dict[str, Delta], day: int) -> None:
            super()._write(deltas, DAY)  # a clock that stepped back

    stuck = Stuck(MemoryStore())
    for n in range(10):
        stuck.hit(f"k{n}", minutes_of(DAY, 1))
    assert stuck.bring(DAY + 1).rows == 10


def test_a_dry_run_says_what_a_pass_then_does(owner: SmallOwner) -> None:
    before: Preview = preview(owner.store.walk, DAY + 1, CLICKS)
    assert (before.rows, before.due_rows) == (21, len(owner.store.due(7, DAY + 1, None, 100)))
    assert before.hits_before == before.hits_after > 0
    assert before.changed_totals == []
    assert sum(tier.people_out for tier in before.tiers) == sum(tier.people_in for tier in before.tiers)
    assert before.tiers[0].buckets_out > before.tiers[0].buckets_in == 0
    owner.bring(DAY + 1)
    after = preview(owner.store.walk, DAY + 1, CLICKS)
    assert (after.due_rows, after.bytes_before) == (0, before.bytes_after)


def test_a_dry_run_prints_tiers_bytes_and_that_the_total_stays(owner: SmallOwner) -> None:
    lines = list(preview(owner.store.walk, DAY + 1, CLICKS).lines())
    assert [line.split()[0] for line in lines[:7]] == ["tier", *(tier.name for tier in CLICKS.tiers)]
    assert "bytes saved" in lines[8]
    assert lines[9].startswith("the total stays: ")


def test_a_dry_run_leaves_out_what_was_erased(owner: SmallOwner) -> None:
    owner.store.erase([link_key("k00")], 5)
    assert preview(owner.store.walk, DAY + 1, CLICKS).rows == 20


def test_a_dry_run_passes_over_what_is_quarantined_of_damaged_rows(owner: SmallOwner) -> None:
    owner.store._rows[QUARANTINE] = {7: SavedRow(encode_quarantined({"k00": EMPTY}), None)}
    assert preview(owner.store.walk, DAY + 1, CLICKS).rows == 21


def test_a_dry_run_of_an_empty_store_is_nothing() -> None:
    assert list(preview(MemoryStore().walk, DAY, CLICKS).lines())[-1] == (
        "the total stays: 0 hits in those rows before, 0 after"
    )
