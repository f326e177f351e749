"""The simulated cluster by itself: it does to statements what a real one may do, and takes none that it knows not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from storage.cassandra.cql import Statement, StatementKind
from storage.cassandra.statements import (
    ADD_DUE,
    ADD_ERASURE,
    CLAIM_ID,
    CLAIM_ID_AGAIN,
    CLAIMED,
    CLAIMS,
    DROP_DUE,
    DROP_NOTE,
    DUE,
    ERASURES,
    LINK,
    LOAD_OWN,
    NOTE,
    NOTED,
    OWNER_NUMBERS,
    SAVE,
    WALK_FIRST,
)
from tests.simulated.cluster import Cluster, Faults
from tests.simulated.connection import Connection
from tests.simulated.cql_text import NotUnderstood, parse, parse_table
from tests.simulated.product import make_cluster
from tests.simulated.stage import Stage

PAIRS = ((0, 1), (0, 2), (1, 2))


class Stand:
    """A cluster, a connection, and a clock moved by hand."""

    def __init__(self) -> None:
        self.stage = Stage(Random(1))
        self.now = 1_772_000_000.0
        self.cluster: Cluster = make_cluster(self.stage, lambda: self.now)
        self.connection = Connection(self.cluster, self.stage.nobody, 64)

    def suffer(self, **faults: float) -> None:
        self.cluster.faults = replace(Faults(repair=False), **faults)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Everything that was late comes."""
        while self.stage.late:
            self.stage.late.pop()()

    def of_pairs(self) -> list[list[bytes]]:
        return [[row[1] for row in self.cluster.at(pair, LINK, ("a",))] for pair in PAIRS]


@pytest.fixture
def stand() -> Iterator[Stand]:
    standing = Stand()
    with standing.stage.running():
        yield standing


# --- cells --------------------------------------------------------------------------------------------------------
def test_the_larger_stamp_wins_and_at_equal_stamps_the_larger_bytes(stand: Stand) -> None:
    for stamp, data in ((5, b"five"), (4, b"zero"), (5, b"fine"), (5, b"fiver")):
        stand.connection.run(SAVE, (stamp, data, "a", 1))
    assert stand.connection.run(LINK, ("a",)) == [(1, b"fiver", None)]


def test_a_partition_that_is_deleted_keeps_what_has_a_later_stamp(stand: Stand) -> None:
    for key, stamp in (("a", 1), ("b", 2), ("c", 3)):
        stand.connection.run(ADD_DUE, (1, 20_000, 3, key, stamp))
    stand.connection.run(DROP_DUE, (2, 1, 20_000, 3))
    assert stand.connection.run(DUE, (1, 20_000, 3, "", 10)) == [("c",)]


def test_what_has_a_time_to_live_expires_by_the_clusters_clock(stand: Stand) -> None:
    stand.connection.run(ADD_ERASURE, (1, 2, "a"))
    stand.now += 7 * 86_400 - 1
    assert stand.connection.run(ERASURES, (1, 0)) == [("a",)]
    stand.now += 2
    assert stand.connection.run(ERASURES, (1, 0)) == []


def test_pages_go_on_where_the_one_before_ended_though_rows_come_in_between(stand: Stand) -> None:
    for n in range(10):
        stand.connection.run(SAVE, (1, b"row", f"key {n}", 1))
    found = []
    for page in stand.connection.pages(WALK_FIRST, (), 3):
        found += page
        stand.connection.run(SAVE, (1, b"row", f"more {len(found)}", 1))
        stand.connection.run(SAVE, (2, b"changed", found[-1][1], 1))
    assert {f"key {n}" for n in range(10)} <= {row[1] for row in found}
    assert len(found) == len({row[1] for row in found})


# --- the network --------------------------------------------------------------------------------------------------
def test_a_write_that_one_replica_took_has_failed_and_is_seen_by_some(stand: Stand) -> None:
    stand.suffer()
    heard: list[object] = []
    stand.cluster.start(SAVE, (1, b"row", "a", 1), heard.append, only=0)
    while not heard:
        stand.stage.turn()
    assert stand.of_pairs() == [[b"row"], [b"row"], []]


def test_reads_repair_what_they_find_different(stand: Stand) -> None:
    heard: list[object] = []
    stand.cluster.start(SAVE, (1, b"row", "a", 1), heard.append, only=0)
    while not heard:
        stand.stage.turn()
    while stand.connection.run(LINK, ("a",)) == []:
        pass  # the two that lack it were asked
    assert stand.of_pairs() == [[b"row"]] * 3


def test_a_write_that_comes_late_is_told_as_failed_and_lives_on(stand: Stand) -> None:
    stand.suffer(late=1.0)
    with pytest.raises(StoreUnavailable):
        stand.connection.run(SAVE, (1, b"row", "a", 1))
    assert stand.of_pairs() == [[], [], []]
    stand.settle()
    assert stand.of_pairs() == [[b"row"]] * 3


def test_a_write_that_is_lost_or_whose_answers_are_has_failed(stand: Stand) -> None:
    for faults, there in ((Faults(lost=1.0), []), (Faults(answer_lost=1.0), [b"row"])):
        stand.cluster.faults = faults
        with pytest.raises(StoreUnavailable):
            stand.connection.run(SAVE, (1, b"row", "a", 1))
        assert stand.of_pairs() == [there] * 3


def test_without_two_replicas_nothing_is_begun(stand: Stand) -> None:
    stand.cluster.down = {0, 2}
    with pytest.raises(StoreUnavailable):
        stand.connection.run(LOAD_OWN, ("a", 1))
    with pytest.raises(StoreUnavailable):
        stand.connection.apply_if(CLAIM_ID, ("id", [(1, 1, 1)], 60))
    stand.cluster.down.clear()
    assert stand.connection.run(CLAIMS, ("id",)) == []


# --- conditional updates ------------------------------------------------------------------------------------------
def test_a_conditional_update_is_applied_once(stand: Stand) -> None:
    mine, others = [(1, 1, 1)], [(2, 2, 2)]
    assert stand.connection.apply_if(CLAIM_ID, ("id", mine, 60)) is True
    assert stand.connection.apply_if(CLAIM_ID, ("id", others, 60)) is False
    assert stand.connection.apply_if(CLAIM_ID_AGAIN, (60, others, "id", others)) is False
    assert stand.connection.apply_if(CLAIM_ID_AGAIN, (60, others, "id", mine)) is True
    assert stand.connection.run(CLAIMS, ("id",)) == [(others,)]


def test_nobody_knows_whether_an_update_was_applied_whose_answer_is_lost(stand: Stand) -> None:
    stand.suffer(answer_lost=1.0)
    assert stand.connection.apply_if(CLAIM_ID, ("id", [(1, 1, 1)], 60)) is None
    stand.suffer()
    seen = {bool(stand.connection.run(CLAIMED, ("id",))) for _ in range(50)}
    assert seen == {True, False}, "a plain read may see what was before"
    assert stand.connection.run(CLAIMS, ("id",)) == [([(1, 1, 1)],)]
    assert all(stand.connection.run(CLAIMED, ("id",)) for _ in range(50)), "a serial read has settled it"


def test_a_serial_read_finishes_or_ends_what_lies_unfinished(stand: Stand) -> None:
    outcomes = set()
    for n in range(40):
        stand.suffer(stalled=1.0)
        assert stand.connection.apply_if(CLAIM_ID, (f"id {n}", [(1, 1, 1)], 60)) is None
        stand.suffer()
        found = stand.connection.run(CLAIMS, (f"id {n}",))
        outcomes.add(bool(found))
        assert stand.connection.apply_if(CLAIM_ID, (f"id {n}", [(2, 2, 2)], 60)) is not bool(found)
    assert outcomes == {True, False}


def test_an_update_that_comes_late_finds_whether_its_condition_stands_then(stand: Stand) -> None:
    stand.suffer(late=1.0)
    assert stand.connection.apply_if(CLAIM_ID, ("id", [(1, 1, 1)], 60)) is None
    assert stand.connection.apply_if(CLAIM_ID, ("other", [(1, 1, 1)], 60)) is None
    stand.suffer()
    assert stand.connection.apply_if(CLAIM_ID, ("id", [(2, 2, 2)], 60)) is True
    stand.settle()
    assert stand.connection.run(CLAIMS, ("id",)) == [([(2, 2, 2)],)]
    assert stand.connection.run(CLAIMS, ("other",)) == [([(1, 1, 1)],)]


def test_claims_expire(stand: Stand) -> None:
    stand.connection.apply_if(CLAIM_ID, ("id", [(1, 1, 1)], 60))
    stand.now += 61
    assert stand.connection.run(CLAIMS, ("id",)) == []
    assert stand.connection.apply_if(CLAIM_ID, ("id", [(2, 2, 2)], 60)) is True


def test_a_conditional_deletion_removes_what_is_there_and_only_that(stand: Stand) -> None:
    assert stand.connection.apply_if(DROP_NOTE, ("a",)) is False
    assert stand.connection.apply_if(NOTE, ("a", "first")) is True
    assert stand.connection.apply_if(DROP_NOTE, ("a",)) is True
    assert stand.connection.run(NOTED, ("a",)) == []
    assert stand.connection.apply_if(NOTE, ("a", "second")) is True
    assert stand.connection.run(NOTED, ("a",)) == [("second",)]


# --- what it refuses ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (Statement("NEW", "SELECT owner FROM rows WHERE short_key = ?", StatementKind.READ), ("a",)),
        (SAVE, (1, b"row", "a")),
        (SAVE, (1 << 63, b"row", "a", 1)),
        (SAVE, (1, "row", "a", 1)),
        (SAVE, (1, b"row", "", 1)),
        (SAVE, (1, b"row", "a", 1 << 31)),
        (CLAIM_ID, ("id", [(1, 1)], 60)),
        (DUE, (1, 20_000, None, "", 10)),
    ],
)
def test_a_statement_that_it_does_not_know_or_a_value_that_does_not_fit(
    stand: Stand, statement: Statement, values: tuple[object, ...]
) -> None:
    with pytest.raises(NotUnderstood):
        stand.connection.run(statement, values)
    assert stand.cluster.refused, "so it is noticed even where it is caught"


TABLES = ("CREATE TABLE k.rows (key text, owner int, data blob, PRIMARY KEY ((key), owner))",)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("DELETE FROM rows USING TIMESTAMP ? WHERE key = ?", StatementKind.WRITE),
        ("UPDATE rows SET data = ? WHERE key = ? AND owner = ?", StatementKind.WRITE),
        ("UPDATE rows USING TIMESTAMP ? AND TTL ? SET data = ? WHERE key = ? AND owner = ?", StatementKind.WRITE),
        ("UPDATE rows USING TIMESTAMP ? SET data = ? WHERE key = ? AND owner = ?", StatementKind.READ),
        ("UPDATE rows USING TIMESTAMP ? SET lost = ? WHERE key = ? AND owner = ?", StatementKind.WRITE),
        ("SELECT data FROM nowhere WHERE key = ?", StatementKind.READ),
        ("SELECT data FROM rows WHERE key = ? ALLOW FILTERING", StatementKind.READ),
        ("SELECT count(*) FROM rows", StatementKind.READ),
        ("TRUNCATE rows", StatementKind.WRITE),
        ("UPDATE rows SET data = ? WHERE key = ? IF data = ?", StatementKind.WRITE),
    ],
)
def test_statements_that_break_a_rule_of_the_tables(text: str, kind: StatementKind) -> None:
    stage = Stage(Random(1))
    with stage.running(), pytest.raises(NotUnderstood):
        Cluster(stage, Faults(), lambda: 0.0, TABLES, [Statement("IT", text, kind)])


def test_a_table_is_changed_by_conditional_updates_alone_or_without_them() -> None:
    tables = ["CREATE TABLE k.ids (id text PRIMARY KEY, owner int)"]
    both = [
        Statement("CLAIM", "INSERT INTO ids (id, owner) VALUES (?, ?) IF NOT EXISTS", StatementKind.CONDITION),
        Statement("PUT", "INSERT INTO ids (id, owner) VALUES (?, ?)", StatementKind.WRITE),
    ]
    stage = Stage(Random(1))
    with stage.running(), pytest.raises(NotUnderstood, match="by conditional updates, and without"):
        Cluster(stage, Faults(), lambda: 0.0, tables, both)


def test_statements_and_tables_as_data() -> None:
    table = parse_table("CREATE TABLE IF NOT EXISTS k.t (a int, b text, c blob, PRIMARY KEY ((a, b), c)) WITH x = {}")
    assert (table.name, table.partition, table.clustering, table.ttl_s) == ("t", ("a", "b"), ("c",), None)
    plan = parse("UPDATE t USING TTL ? SET a = 1, b = 'it''s' WHERE c = ? IF a != ? AND b = null")
    assert (plan.assigned, plan.markers) == ({"a": 1, "b": "it's"}, 3)
    assert [(each.op, each.terms[0]) for each in plan.conditions or ()][1] == ("=", None)


def test_a_plain_read_of_all_owners_asks_no_round_of_agreement(stand: Stand) -> None:
    assert stand.connection.run(OWNER_NUMBERS) == []
