"""What only the Cassandra store does: its cache, its stamps, its lists by day. On a real node."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from clickcurve.buckets.errors import OwnerFenced, StoreUnavailable
from clickcurve.keys import ALL_LINKS, breakdown_key, link_key
from storage.cassandra.cql import Rows, Statement, StatementKind, Values
from storage.cassandra.session import Session
from storage.cassandra.statements import ADD_ERASURE, DUE_DAYS, NOW_MS, SAVE
from storage.cassandra.store import CassandraStore, pinned_stamp
from storage.cassandra.tables.day_index import DAYS_BY_TOUCHED
from storage.contract import CLOSED, Held, OwnRow, SavedRow, StoredLink, StoredRow
from tests.storage.cassandra.cassandra_kit import Fault, Faulty, Keyspace
from tests.storage.stores import due, in_flush, record, rows, saved, walked


@pytest.fixture
def faulty(cassandra_keyspace: Keyspace) -> Faulty:
    cassandra_keyspace.empty()
    return Faulty(cassandra_keyspace.cql)


@pytest.fixture
def session(cassandra_keyspace: Keyspace) -> Session:
    """The driver's connection to the keyspace, for what only tests look up."""
    return cassandra_keyspace.session


@pytest.fixture
def store(faulty: Faulty) -> CassandraStore:
    return CassandraStore(faulty)


def asked(faulty: Faulty) -> Counter[str]:
    """What was asked since this was last called."""
    found, faulty.asked = Counter(faulty.asked), []
    return found


def next_flush(store: CassandraStore, held: Held, flush: int) -> None:
    assert store.begin(held, flush - 1, flush, 0)


# --- rows and their stamps --------------------------------------------------------------------------------------------
def test_rows_have_pinned_stamps_that_rise_and_erasures_their_own(store: CassandraStore, session: Session) -> None:
    held, stamps = in_flush(store), []
    for _ in range(2):
        store.save_own(held, 1, saved("a", "b"), {})
        found = session.look_up("SELECT writetime(data), ttl(data) FROM rows WHERE short_key = 'a' AND owner = 1")
        assert found[0][1] is None
        stamps.append(found[0][0])
    assert stamps[0] >> 32 == stamps[1] >> 32 == held.epoch
    assert stamps[0] < stamps[1] < pinned_stamp(held.epoch)
    store.erase(["a"], 123_456)
    assert session.look_up("SELECT writetime(erased_at) FROM rows WHERE short_key = 'a' AND owner = 0") == [(123_456,)]


def test_what_arrives_late_loses_against_the_same_process_and_against_the_next(
    store: CassandraStore, faulty: Faulty
) -> None:
    held = in_flush(store)
    late = (pinned_stamp(1), b"late", "a", 1)
    store.save_own(held, 1, saved("a", data=b"first"), {})
    faulty.run(SAVE, late)
    assert rows(store, "a").rows == (StoredRow(1, b"first"),)
    slow = (pinned_stamp(1), b"slow", "a", 1)
    store.claim(record(begun=1), record(epoch=2, holder="h2", begun=1))
    store.save_own(Held(1, 2, "h2"), 1, saved("a", data=b"second"), {})
    faulty.run(SAVE, slow)
    faulty.run(SAVE, (pinned_stamp(1), b"slower", "a", 1))
    assert rows(store, "a").rows == (StoredRow(1, b"second"),)


# --- the cache --------------------------------------------------------------------------------------------------------
def test_a_row_that_was_read_or_written_is_not_read_again(store: CassandraStore, faulty: Faulty) -> None:
    held = in_flush(store)
    assert store.load_own(1, ["a", "b"]) == {}
    store.save_own(held, 1, saved("a", "b", data=b"one"), {})
    assert asked(faulty)["LOAD_OWN"] == 2
    next_flush(store, held, 2)
    assert store.load_own(1, ["a", "b"]) == {"a": OwnRow(b"one", 0), "b": OwnRow(b"one", 0)}
    assert asked(faulty)["LOAD_OWN"] == 0
    measures = store.measures()
    assert (measures["row_cache_hits_total"], measures["row_cache_misses_total"]) == (2, 2)
    assert measures["row_cache_bytes"] > 0
    assert measures["store_requests_total"] > 0


def test_a_flush_whose_rows_are_known_asks_for_little_more_than_to_write_them(
    store: CassandraStore, faulty: Faulty
) -> None:
    held = in_flush(store)
    keys = [f"key-{n}" for n in range(50)]
    for flush in (1, 2):
        if flush == 2:
            asked(faulty)
            next_flush(store, held, flush)
        store.load_own(1, keys)
        store.save_own(held, flush, saved(*keys, due_day=20_001, touched_day=20_000), {})
    once = {"BEGIN": 1, "NOW_MS": 1, "SAVE": 50}
    counted = asked(faulty)
    assert counted.pop("ERASURES") in (1, 2, 3)
    assert counted == once


def test_a_key_without_a_row_is_asked_for_each_time(store: CassandraStore, faulty: Faulty) -> None:
    in_flush(store)
    for _ in range(2):
        assert store.load_own(1, ["a"]) == {}
    assert asked(faulty)["LOAD_OWN"] == 2


def test_a_row_whose_write_failed_is_read_again(store: CassandraStore, faulty: Faulty) -> None:
    held = in_flush(store)
    store.load_own(1, ["a"])
    store.save_own(held, 1, saved("a", data=b"one"), {})
    store.load_own(1, ["a"])
    faulty.faults = lambda statement: Fault.LOST if statement.name == "SAVE" else None
    with pytest.raises(StoreUnavailable):
        store.save_own(held, 1, saved("a", data=b"two"), {})
    faulty.faults = lambda statement: None
    assert store.load_own(1, ["a"]) == {"a": OwnRow(b"two", 0)}


def test_an_erasure_of_this_process_shows_at_once(store: CassandraStore) -> None:
    held = in_flush(store)
    store.load_own(1, ["a"])
    store.save_own(held, 1, saved("a"), {})
    store.erase(["a"], 500)
    assert store.load_own(1, ["a"]) == {"a": OwnRow(b"row", 500)}


def test_an_erasure_of_another_process_shows_from_the_next_flush_on(store: CassandraStore, faulty: Faulty) -> None:
    held = in_flush(store)
    store.load_own(1, ["a", "b", ALL_LINKS])
    store.save_own(held, 1, saved("a", "b", ALL_LINKS), {})
    CassandraStore(faulty).erase(["a"], 500)
    CassandraStore(faulty).erase([ALL_LINKS], 600)
    next_flush(store, held, 2)
    asked(faulty)
    assert store.load_own(1, ["a", "b", ALL_LINKS]) == {
        "a": OwnRow(b"row", 500),
        "b": OwnRow(b"row", 0),
        ALL_LINKS: OwnRow(b"row", 600),
    }
    assert asked(faulty)["LOAD_OWN"] == 2


@pytest.mark.parametrize("cached", ["counts", "breakdown"])
def test_an_erasure_in_the_middle_of_a_flush_shows_in_both_rows_of_a_link_or_in_none(
    store: CassandraStore, faulty: Faulty, cached: str
) -> None:
    held = in_flush(store)
    counts, breakdown = link_key("a"), breakdown_key("a")
    store.save_own(held, 1, saved(counts, breakdown), {})
    store.load_own(1, [counts if cached == "counts" else breakdown])
    CassandraStore(faulty).erase([counts], 7)
    rows = store.load_own(1, [counts, breakdown])
    assert rows == {counts: OwnRow(b"row", 7), breakdown: OwnRow(b"row", 7)}


def test_an_erasure_that_is_only_logged_yet_is_seen_once_it_stands(store: CassandraStore, faulty: Faulty) -> None:
    """The eraser logs first; a flush that reads the row between the log and the erasure must not keep it for good."""
    held = in_flush(store)
    store.load_own(1, ["a"])
    store.save_own(held, 1, saved("a"), {})
    eraser = Faulty(faulty._cql, lambda statement: Fault.DOWN if statement.name == "ERASE" else None)
    with pytest.raises(StoreUnavailable):
        CassandraStore(eraser).erase(["a"], 500)
    next_flush(store, held, 2)
    assert store.load_own(1, ["a"]) == {"a": OwnRow(b"row", 0)}
    eraser.faults = lambda statement: Fault.DOWN if statement.name == "ADD_ERASURE" else None
    erase = "UPDATE rows SET erased_at = 500 WHERE short_key = 'a' AND owner = 0"
    eraser.run(Statement("ERASE", erase, StatementKind.WRITE))
    next_flush(store, held, 3)
    assert store.load_own(1, ["a"]) == {"a": OwnRow(b"row", 500)}


def test_a_process_that_did_not_look_for_long_drops_its_whole_cache(store: CassandraStore, faulty: Faulty) -> None:
    held = in_flush(store)
    store.load_own(1, ["a", "b"])
    store.save_own(held, 1, saved("a", "b"), {})
    assert store._erasures._looked_us is not None
    store._erasures._looked_us -= 8 * 86_400_000_000
    next_flush(store, held, 2)
    asked(faulty)
    store.load_own(1, ["a", "b"])
    assert asked(faulty)["LOAD_OWN"] == 2


def test_what_goes_last_is_erased_when_all_others_are(store: CassandraStore, faulty: Faulty) -> None:
    eraser, together = Faulty(faulty._cql), list[list[object]]()
    run_each = eraser.run_each

    def noted(statement: Statement, many: Sequence[Values]) -> list[Rows]:
        if statement.name == "ERASE":
            together.append([key for _, _, key in many])
        return run_each(statement, many)

    eraser.run_each = noted  # type: ignore[method-assign]
    CassandraStore(eraser).erase(["a", "b"], 500, ["c"])
    assert together == [["a", "b"], ["c"]]
    assert [rows(store, key).erased_at for key in "abc"] == [500, 500, 500]


@pytest.mark.parametrize(("clock_ms", "logged"), [((0, 3_600_000, 3_600_000, 3_600_100), 2), ((0, 301_000), 1)])
def test_an_erasure_that_took_long_is_logged_again(
    store: CassandraStore, faulty: Faulty, clock_ms: tuple[int, ...], logged: int
) -> None:
    """As when the process stood still in between: others have looked past the first entry. That one node's clock is
    five minutes ahead is not long."""
    clock = iter(clock_ms)
    eraser = Faulty(faulty._cql)
    run = eraser.run
    eraser.run = lambda statement, values=(): [(next(clock),)] if statement == NOW_MS else run(statement, values)  # type: ignore[method-assign]
    CassandraStore(eraser).erase(["a"], 500)
    assert eraser.asked.count(ADD_ERASURE.name) == logged
    assert rows(store, "a").erased_at == 500


def test_a_number_that_was_away_brings_no_old_rows_along(store: CassandraStore, faulty: Faulty) -> None:
    """Another process took a closed owner over, and gave it back."""
    held = in_flush(store)
    store.load_own(1, ["a"])
    store.save_own(held, 1, saved("a", data=b"ours"), {})
    store.close_owner(held)
    other = CassandraStore(faulty)
    other.claim(record(state=CLOSED, begun=1), record(epoch=2, holder="other", begun=1))
    other.save_own(Held(1, 2, "other"), 1, saved("a", data=b"theirs"), {})
    other.close_owner(Held(1, 2, "other"))
    before, after = record(epoch=2, holder="other", state=CLOSED, begun=1), record(epoch=3, holder="back", begun=1)
    assert store.claim(before, after)
    assert store.load_own(1, ["a"]) == {"a": OwnRow(b"theirs", 0)}


def test_who_was_fenced_forgets_the_rows(
    store: CassandraStore, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.cassandra.store.ROWS_PER_FENCE", 1)
    held = in_flush(store)
    store.load_own(1, ["a"])
    store.save_own(held, 1, saved("a", data=b"ours"), {})
    other = CassandraStore(faulty)
    other.claim(record(begun=1), record(epoch=2, holder="other", begun=1))
    other.save_own(Held(1, 2, "other"), 1, saved("a", data=b"theirs"), {})
    with pytest.raises(OwnerFenced):
        store.save_own(held, 1, saved("b"), {})
    assert store.load_own(1, ["a"]) == {"a": OwnRow(b"theirs", 0)}


# --- ids --------------------------------------------------------------------------------------------------------------
def test_claims_expire_after_the_window_the_oldest_journal_and_a_margin(
    store: CassandraStore, session: Session
) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    two_days_us, day_s = 2 * 86_400_000_000, 86_400
    store.claim_ids(first, 1, {"x": 10}, two_days_us)
    store.claim_ids(second, 1, {"x": 10 + two_days_us + 1}, two_days_us)
    store.claim_ids(first, 1, {"y": 10}, two_days_us)
    lives_s = [ttl_s for (ttl_s,) in session.look_up("SELECT ttl(claims) FROM ids")]
    assert len(lives_s) == 2
    assert all(8 * day_s - 600 < ttl_s <= 8 * day_s for ttl_s in lives_s)


def test_an_id_that_is_used_for_ever_keeps_few_claims(store: CassandraStore, session: Session) -> None:
    held = in_flush(store)
    day_us = 86_400_000_000
    for flush in range(1, 21):
        assert flush == 1 or store.begin(held, flush - 1, flush, 0)
        assert store.claim_ids(held, flush, {"x": flush * 3 * day_us}, 2 * day_us) == set()
    ((claims,),) = session.look_up("SELECT claims FROM ids WHERE id = 'x'")
    assert [tuple(claim) for claim in claims] == [(1, flush, flush * 3 * day_us) for flush in (18, 19, 20)]


def test_asking_for_many_ids_leaves_the_loop_to_others(store: CassandraStore) -> None:
    held = in_flush(store)
    store.claim_ids(held, 1, {"id-1": 5}, 1)

    async def main() -> tuple[set[str], int]:
        turns = 0
        asking = asyncio.ensure_future(store.claimed([f"id-{n}" for n in range(2_000)], 0))
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        return await asking, turns

    found, turns = asyncio.run(main())
    assert found == {"id-1"}
    assert turns > 100


async def test_asking_for_ids_fails_once_and_leaves_nothing_under_way(store: CassandraStore, faulty: Faulty) -> None:
    async def ask(statement: Statement, values: tuple[object, ...] = ()) -> Rows:
        await asyncio.sleep(0)
        raise StoreUnavailable("down")

    faulty.ask = ask  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable, match="down"):
        await store.claimed([f"id-{n}" for n in range(500)], 0)
    assert len(asyncio.all_tasks()) == 1


# --- lists by day -----------------------------------------------------------------------------------------------------
def test_what_was_visited_leaves_the_lists(store: CassandraStore, faulty: Faulty, session: Session) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved(*(f"key-{n}" for n in range(40)), due_day=10), {})
    store.save_own(held, 1, saved("b", due_day=9) | saved("later", due_day=11), {})
    assert len(due(store, 1, 10, 7)) == 41
    store.visited(held, 10)
    assert faulty.run(DUE_DAYS, (1, 99)) == [(11,)]
    assert session.look_up("SELECT short_key FROM due") == [("later",)]
    assert due(store, 1, 11, 7) == ["later"]


def test_what_becomes_due_during_a_pass_stays_on_the_list(store: CassandraStore) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", due_day=10), {})
    assert store.due(1, 10, None, 1) == ["a"]
    store.save_own(held, 1, saved("a", due_day=12) | saved("0", "b", due_day=10), {})
    store.visited(held, 10)
    assert sorted(due(store, 1, 10, 10)) == ["0", "b"]
    assert sorted(due(store, 1, 12, 10)) == ["0", "a", "b"]


def test_a_pass_that_another_process_began_forgets_nothing(store: CassandraStore, faulty: Faulty) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", due_day=10), {})
    assert due(store, 1, 10, 10) == ["a"]
    CassandraStore(faulty).visited(held, 10)
    assert due(store, 1, 10, 10) == ["a"]


def today(faulty: Faulty) -> int:
    ((now_ms,),) = faulty.run(NOW_MS)
    return int(now_ms) // 86_400_000


def test_a_walk_since_a_recent_day_reads_only_links_that_had_hits_since(store: CassandraStore, faulty: Faulty) -> None:
    held, now = in_flush(store), today(faulty)
    for ago in range(4):
        some = [f"{ago}-{n}" for n in range(30)]
        store.save_own(held, 1, saved(*some, "always", touched_day=now - ago), {})
    store.save_own(held, 1, saved("folded", ALL_LINKS), {})
    asked(faulty)
    found = walked(store, 8, now - 1)
    assert sorted(key for key, _ in found) == sorted([f"{ago}-{n}" for ago in (0, 1) for n in range(30)] + ["always"])
    assert all(link.rows for _, link in found)
    assert "WALK_FIRST" not in asked(faulty)
    assert len(walked(store, 8, now - DAYS_BY_TOUCHED - 1)) == 4 * 30 + 3
    assert "WALK_FIRST" in asked(faulty)


def test_a_walk_keeps_its_order_over_midnight(store: CassandraStore, faulty: Faulty) -> None:
    held, now = in_flush(store), today(faulty)
    keys = [f"key-{n}" for n in range(30)]
    store.save_own(held, 1, saved(*keys, touched_day=now - DAYS_BY_TOUCHED), {})
    first = store.walk(None, 10, now - DAYS_BY_TOUCHED)
    run, later_ms = faulty.run, (now + 1) * 86_400_000
    faulty.run = lambda statement, values=(): [(later_ms,)] if statement == NOW_MS else run(statement, values)  # type: ignore[method-assign]
    rest = store.walk(first[-1][0], 100, now - DAYS_BY_TOUCHED)
    assert sorted(key for key, _ in first + rest) == sorted(keys)
    assert len(walked(CassandraStore(faulty), 7, now - DAYS_BY_TOUCHED)) == 30  # which goes through everything
    later_ms += 8 * 86_400_000
    assert store._days.touched_days(now - DAYS_BY_TOUCHED) is None


def test_links_that_are_listed_and_not_stored_leave_no_gap_in_a_page(store: CassandraStore, faulty: Faulty) -> None:
    held, now = in_flush(store), today(faulty)
    faulty.faults = lambda statement: Fault.DOWN if statement == SAVE else None
    with pytest.raises(StoreUnavailable):
        store.save_own(held, 1, saved(*(f"lost-{n}" for n in range(50)), touched_day=now), {})
    faulty.faults = lambda statement: None
    store.save_own(held, 1, saved(*(f"key-{n}" for n in range(50)), touched_day=now), {})
    pages = []
    after = None
    while page := store.walk(after, 7, now):
        pages.append(len(page))
        after = page[-1][0]
    assert pages == [7] * 7 + [1]


def test_the_lists_of_touched_links_and_erasures_expire(store: CassandraStore, session: Session) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", touched_day=20_000), {})
    store.erase(["a"], 5)
    ttl = "SELECT {}_time_to_live FROM system_schema.tables WHERE keyspace_name = '{}' AND table_name = '{}'"
    keyspace = session.address.keyspace
    assert session.look_up(ttl.format("default", keyspace, "touched")) == [(40 * 86_400,)]
    assert session.look_up(ttl.format("default", keyspace, "erasures")) == [(7 * 86_400,)]
    assert session.look_up(ttl.format("default", keyspace, "rows")) == [(0,)]


def test_a_store_says_which_one_it_is(store: CassandraStore, faulty: Faulty) -> None:
    assert store.uuid() == CassandraStore(faulty).uuid()
    assert len(store.uuid()) == 36


def test_large_rows_come_back_whole(store: CassandraStore) -> None:
    held = in_flush(store)
    stored = {f"key-{n}": f"key-{n}".encode() * 1_500 for n in range(100)}
    store.save_own(held, 1, {key: SavedRow(data, None) for key, data in stored.items()}, {})
    assert {key: link.rows[0].data for key, link in walked(store, 70)} == stored

    async def each() -> list[StoredLink]:
        return await asyncio.gather(*map(store.rows, stored))

    assert [link.rows[0].data for link in asyncio.run(each())] == list(stored.values())
