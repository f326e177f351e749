"""Conditional updates whose outcome nobody knows: done all the same, not done, or done much later."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from clickcurve.buckets.errors import OwnerFenced, StoreUnavailable
from storage.cassandra.cql import Statement, StatementKind
from storage.cassandra.store import CassandraStore
from storage.contract import CLOSED, OPEN, RETIRED, Held, Source, Store, StoredRow
from storage.memory_store import MemoryStore
from tests.storage.cassandra.cassandra_kit import Fault, Faulty, Keyspace
from tests.storage.stores import in_flush, record, rows, saved
from tests.storage.test_contract_histories import random_call

HELD = Held(1, 1, "h1")
CHANGES: dict[str, tuple[Callable[[Store], object], Callable[[Store], object], Callable[[Store], object]]] = {
    # what comes before, the change, and what shows it
    "create": (lambda store: None, lambda store: store.create_owner(record()), lambda store: store.owner(1)),
    "claim": (
        lambda store: store.create_owner(record()),
        lambda store: store.claim(record(), record(epoch=2, holder="h2")),
        lambda store: store.owner(1),
    ),
    "retire": (
        lambda store: store.create_owner(record()),
        lambda store: store.claim(record(), record(state=RETIRED)),
        lambda store: store.owner(1),
    ),
    "begin": (
        lambda store: store.create_owner(record()),
        lambda store: store.begin(HELD, 0, 7, 5),
        lambda store: store.owner(1),
    ),
    "close": (
        lambda store: store.create_owner(record()),
        lambda store: store.close_owner(HELD),
        lambda store: store.owner(1),
    ),
    "claim_source": (
        lambda store: store.create_owner(record()),
        lambda store: store.claim_source("log", HELD, None),
        lambda store: store.source("log"),
    ),
    "move a source": (
        lambda store: in_flush(store) and store.claim_source("log", HELD, None),
        lambda store: store.save_own(HELD, 1, {}, {"log": Source(1, 9, "tail")}),
        lambda store: store.source("log"),
    ),
    "claim_ids": (
        lambda store: in_flush(store),
        lambda store: store.claim_ids(HELD, 1, {"a": 100, "b": 120}, 50),
        lambda store: None,
    ),
    "claim_ids again": (
        lambda store: in_flush(store) and store.claim_ids(in_flush(store, 2), 1, {"a": 1, "b": 90}, 50),
        lambda store: store.claim_ids(HELD, 1, {"a": 100, "b": 120}, 50),
        lambda store: None,
    ),
}


@pytest.fixture
def faulty(cassandra_keyspace: Keyspace) -> Faulty:
    cassandra_keyspace.empty()
    return Faulty(cassandra_keyspace.cql)


def times(fault: Fault, how_often: int) -> Callable[[Statement], Fault | None]:
    """The first so many conditional updates go wrong."""
    left: Iterator[Fault] = iter([fault] * how_often)
    return lambda statement: next(left, None) if statement.kind is StatementKind.CONDITION else None


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.NEVER])
@pytest.mark.parametrize("change", CHANGES)
def test_an_unknown_outcome_comes_out_as_if_it_had_been_known(faulty: Faulty, change: str, fault: Fault) -> None:
    store, model = CassandraStore(faulty), MemoryStore()
    before, verb, shown = CHANGES[change]
    before(store)
    before(model)
    faulty.faults = times(fault, 3)
    assert verb(store) == verb(model)
    faulty.faults = lambda statement: None
    assert shown(store) == shown(model)
    if change != "retire":  # which answers False from then on
        assert verb(store) == verb(model)
        assert shown(store) == shown(model)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_never_carried_out_is_no_success(faulty: Faulty, change: str) -> None:
    store = CassandraStore(faulty)
    before, verb, shown = CHANGES[change]
    before(store)
    stored = shown(store)
    faulty.faults = times(Fault.NEVER, 1_000)
    with pytest.raises(StoreUnavailable):
        verb(store)
    assert shown(store) == stored
    assert len(faulty.late) < 20  # it gives up


@pytest.mark.parametrize("change", CHANGES)
def test_what_arrives_after_it_was_repeated_changes_nothing(faulty: Faulty, change: str) -> None:
    store = CassandraStore(faulty)
    before, verb, shown = CHANGES[change]
    before(store)
    faulty.faults = times(Fault.NEVER, 2)
    verb(store)
    faulty.faults = lambda statement: None
    stored = shown(store)
    for late in faulty.late:
        assert faulty.apply_if(*late) is False
    assert shown(store) == stored


def test_a_late_claim_does_not_bring_a_former_holder_back(faulty: Faulty) -> None:
    store = CassandraStore(faulty)
    store.create_owner(record())
    faulty.faults = times(Fault.NEVER, 1_000)
    with pytest.raises(StoreUnavailable):
        store.claim(record(), record(epoch=2, holder="slow"))
    faulty.faults = lambda statement: None
    assert store.claim(record(), record(epoch=2, holder="quick"))
    assert [faulty.apply_if(*late) for late in faulty.late] == [False] * len(faulty.late)
    assert store.owner(1) == record(epoch=2, holder="quick")


def test_a_late_begin_does_not_take_a_flush_back(faulty: Faulty) -> None:
    store = CassandraStore(faulty)
    store.create_owner(record())
    faulty.faults = times(Fault.NEVER, 1)
    assert store.begin(HELD, 0, 1, 5)
    assert store.begin(HELD, 1, 2, 6)
    assert [faulty.apply_if(*late) for late in faulty.late] == [False]
    assert store.owner(1) == replace(record(), begun=2, begun_at=6)


def test_a_late_close_does_not_close_the_next_holder(faulty: Faulty) -> None:
    store = CassandraStore(faulty)
    store.create_owner(record())
    faulty.faults = times(Fault.NEVER, 1)
    assert store.close_owner(HELD)
    assert store.claim(record(state=CLOSED), record(epoch=2, holder="next"))
    assert [faulty.apply_if(*late) for late in faulty.late] == [False]
    found = store.owner(1)
    assert found is not None and found.state == OPEN


def test_a_refusal_that_was_certain_is_raised_at_once(faulty: Faulty) -> None:
    store = CassandraStore(faulty)
    faulty.faults = times(Fault.DOWN, 1)
    with pytest.raises(StoreUnavailable):
        store.create_owner(record())
    assert store.owner(1) is None
    assert faulty.asked.count("CREATE_OWNER") == 1


def statements(faulty: Faulty) -> list[str]:
    """What was asked since this was last called."""
    found, faulty.asked = faulty.asked, []
    return found


@pytest.mark.parametrize(
    ("change", "asked"),
    [("create", ["CREATE_OWNER"]), ("claim", ["CLAIM"]), ("begin", ["BEGIN"]), ("close", ["CLOSE"])],
)
def test_a_change_that_is_applied_asks_nothing_else(faulty: Faulty, change: str, asked: list[str]) -> None:
    store = CassandraStore(faulty)
    before, verb, _ = CHANGES[change]
    before(store)
    statements(faulty)
    assert verb(store) is True
    assert statements(faulty) == asked


def test_what_is_written_right_after_a_begin_loses_against_a_takeover(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.cassandra.store.ROWS_PER_FENCE", 1)
    store, other = CassandraStore(faulty), CassandraStore(faulty)
    held = in_flush(store)
    taker = Held(1, 2, "other")
    assert other.claim(record(begun=1), record(epoch=2, holder="other", begun=1))
    assert other.begin(taker, 1, 1, 5)
    other.save_own(taker, 1, saved("a", data=b"theirs"), {})
    statements(faulty)
    store.save_own(held, 1, saved("a", data=b"late"), {})
    assert statements(faulty) == ["SAVE"], "that it may write was known from its begin"
    assert rows(other, "a").rows == (StoredRow(1, b"theirs"),)
    with pytest.raises(OwnerFenced):
        store.save_own(held, 1, saved("b"), {})
    assert rows(other, "b").rows == ()


@pytest.mark.parametrize("what", ["claim", "close"])
def test_what_this_process_has_given_away_it_writes_no_more(faulty: Faulty, what: str) -> None:
    store = CassandraStore(faulty)
    held = in_flush(store)
    if what == "claim":
        store.claim(record(begun=1), record(epoch=2, holder="other", begun=1))
    else:
        store.close_owner(held)
    with pytest.raises(OwnerFenced):
        store.save_own(held, 1, saved("a"), {})


# --- ids that a dead process, or a try that failed, has claimed ------------------------------------------------------
IDS = {f"id-{n}": 100 + n for n in range(60)}


def test_ids_that_a_dead_process_has_claimed_are_read_and_not_claimed_again(faulty: Faulty) -> None:
    former = CassandraStore(faulty)
    held = in_flush(former)
    other = in_flush(former, 2)
    assert former.claim_ids(other, 1, {"id-7": 107}, 50) == set()
    half = {id_: IDS[id_] for id_ in sorted(IDS)[:40]}
    taken = former.claim_ids(held, 1, half, 50)
    statements(faulty)
    assert CassandraStore(faulty).claim_ids(held, 1, IDS, 50) == taken | ({"id-7"} & IDS.keys()) == {"id-7"}
    asked = statements(faulty)
    assert asked.count("CLAIMED") == len(IDS)
    claimed_anew = len(IDS) - len(half | {"id-7": 0})
    assert asked.count("CLAIM_ID") == claimed_anew
    assert asked.count("CLAIMS") == 0, "none of them was refused"


def test_ids_of_a_new_flush_are_claimed_at_once_and_after_a_failure_read_first(faulty: Faulty) -> None:
    store = CassandraStore(faulty)
    held = in_flush(store)
    store.claim_ids(held, 1, {"first": 1}, 50)
    assert store.begin(held, 1, 2, 5)
    statements(faulty)
    assert store.claim_ids(held, 2, IDS, 50) == set()
    asked = statements(faulty)
    assert (asked.count("CLAIMED"), asked.count("CLAIM_ID")) == (0, len(IDS))

    assert store.begin(held, 2, 3, 5)
    again = {f"more-{id_}": at for id_, at in IDS.items()}
    faulty.faults = lambda statement: Fault.DOWN if statement.name == "CLAIM_ID" else None
    with pytest.raises(StoreUnavailable):
        store.claim_ids(held, 3, again, 50)
    faulty.faults = lambda statement: None
    statements(faulty)
    assert store.claim_ids(held, 3, again, 50) == set()
    assert statements(faulty).count("CLAIMED") == len(again)


def answer(call: Callable[[Store], object], store: Store) -> object:
    while True:
        try:
            return call(store)
        except OwnerFenced as error:
            return str(error)
        except StoreUnavailable:
            pass  # each may be repeated after any failure


@pytest.mark.parametrize("seed", range(3))
def test_any_history_with_unknown_outcomes_leaves_what_it_leaves_in_memory(faulty: Faulty, seed: int) -> None:
    rnd = random.Random(seed)
    hard = random.Random(seed)
    store, model = CassandraStore(faulty), MemoryStore()

    def sometimes(statement: Statement) -> Fault | None:
        return hard.choice([None, None, Fault.LOST, Fault.NEVER]) if statement.kind is StatementKind.CONDITION else None

    faulty.faults = sometimes
    for _ in range(150):
        call = random_call(rnd)
        assert answer(call, store) == answer(call, model)
    faulty.faults = lambda statement: None
    assert sorted(store.walk(None, 1_000)) == model.walk(None, 1_000)
    assert store.owners() == model.owners()


def test_claims_go_on_from_what_is_decided_when_some_questions_fail(faulty: Faulty) -> None:
    """As in bad times, when of all answers some get lost: asked whole, a flush would never come to its end."""
    store, chance = CassandraStore(faulty), random.Random(3)
    first, second = in_flush(store, 1), in_flush(store, 2)
    theirs = {f"id-{n:03}": 100 for n in range(0, 150, 2)}
    assert store.claim_ids(second, 1, theirs, 50) == set()
    ids = {f"id-{n:03}": 110 for n in range(150)}
    faulty.faults = lambda statement: Fault.NEVER if statement.name == "CLAIMS" and chance.random() < 0.05 else None
    for _ in range(100):
        with suppress(StoreUnavailable):
            assert store.claim_ids(first, 1, ids, 50) == theirs.keys()
            break
    else:
        raise AssertionError("it never came to its end")
    faulty.asked.clear()
    assert store.claim_ids(first, 1, ids, 50) == theirs.keys()
    assert faulty.asked == []


def test_two_that_claim_the_same_ids_never_both_have_one(faulty: Faulty) -> None:
    hard = random.Random(1)
    store = CassandraStore(faulty)
    first, second = in_flush(store, 1), in_flush(store, 2)
    faulty.faults = lambda statement: (
        hard.choice([None, Fault.LOST]) if statement.kind is StatementKind.CONDITION else None
    )
    ids = {f"id-{n}": 100 for n in range(60)}
    theirs = store.claim_ids(first, 1, dict(list(ids.items())[:40]), 50)
    ours = store.claim_ids(second, 1, ids, 50)
    assert theirs == set()
    assert ours == {f"id-{n}" for n in range(40)}


def test_a_save_that_failed_in_the_middle_is_done_by_the_next(faulty: Faulty) -> None:
    store = CassandraStore(faulty)
    held = in_flush(store)
    keys = [f"key-{n}" for n in range(20)]
    store.save_own(held, 1, saved(*keys, data=b"before"), {})
    store.load_own(1, keys)
    left = iter([None] * 7)
    faulty.faults = lambda statement: next(left, Fault.DOWN) if statement.name == "SAVE" else None
    with pytest.raises(StoreUnavailable):
        store.save_own(held, 1, saved(*keys, data=b"after"), {})
    faulty.faults = lambda statement: None
    assert sorted(row.data for row in store.load_own(1, keys).values() if row.data) == [b"after"] * 7 + [b"before"] * 13
    store.save_own(held, 1, saved(*keys, data=b"after"), {})
    assert {row.data for row in store.load_own(1, keys).values()} == {b"after"}
