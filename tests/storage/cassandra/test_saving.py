"""Pieces of a flush on their way to a cluster whose answers the test gives: one under way while the next is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from clickcurve.buckets.errors import OwnerFenced, StoreUnavailable
from storage.cassandra.cql import Rows, Statement, StatementKind, Values, Work
from storage.cassandra.store import CassandraStore
from storage.contract import OwnRow
from tests.storage.stores import in_flush, saved


class Node:
    """A connection to a node that has nothing. `happened` notes loads, and for each save when it was sent and heard.

    lost: the saves, by number, that fail when they are waited for. taken: another process has taken the owner over.
    """

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.lost: set[int] = set()
        self.taken = False
        self._saves = 0

    def apply_if(self, statement: Statement, values: Values, attempt: int = 0) -> bool:
        return True

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        if statement.kind is StatementKind.SERIAL_READ:
            return [(1, 2, "other", "journal-1", "/data/1", "open", 1, 5)] if self.taken else []
        return [(0,)]

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        return [[] for _ in many]

    def run_all(self, work: Sequence[Work]) -> list[list[Rows]]:
        if any(statement.name == "LOAD_OWN" and many for statement, many in work):
            self.happened.append("load")
        return [self.run_each(statement, many) for statement, many in work]

    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        self._saves += 1
        number = self._saves
        self.happened.append(f"{number} sent")

        def results() -> list[list[Rows]]:
            self.happened.append(f"{number} heard")
            if number in self.lost:
                raise StoreUnavailable(f"save {number} is lost")
            return []

        return results

    def measures(self) -> dict[str, float]:
        return {}


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def store(node: Node) -> CassandraStore:
    connection: Any = node
    return CassandraStore(connection)


def test_a_piece_is_under_way_while_the_next_is_read_and_made(node: Node, store: CassandraStore) -> None:
    held = in_flush(store)
    with store.saving(held, 1) as save:
        for key in "ab":
            store.load_own(1, [key])
            save(saved(key))
    store.save_own(held, 1, saved("all"), {})
    assert node.happened == [
        *("load", "1 sent", "load"),
        *("1 heard", "2 sent"),  # one at a time
        *("2 heard", "3 sent", "3 heard"),  # the row of all links goes when all others are there
    ]


@pytest.mark.parametrize(
    ("lost", "happened"),
    [
        pytest.param(1, ["1 sent", "1 heard"], id="by the next, which is not sent"),
        pytest.param(2, ["1 sent", "1 heard", "2 sent", "2 heard"], id="at the end"),
    ],
)
def test_a_lost_piece_is_raised(node: Node, store: CassandraStore, lost: int, happened: list[str]) -> None:
    held = in_flush(store)
    node.lost = {lost}
    with pytest.raises(StoreUnavailable, match=f"save {lost} is lost"), store.saving(held, 1) as save:
        save(saved("a"))
        save(saved("b"))
    assert node.happened == happened


@pytest.mark.parametrize("lost", [set(), {1}])
def test_nothing_is_under_way_after_a_failure_of_the_caller(node: Node, store: CassandraStore, lost: set[int]) -> None:
    """Also where the piece fails too: the caller's own failure is the one that is raised."""
    held = in_flush(store)
    node.lost = lost
    with pytest.raises(KeyError, match="mine"), store.saving(held, 1) as save:
        save(saved("a"))
        raise KeyError("mine")
    assert node.happened == ["1 sent", "1 heard"]


def test_a_flush_that_was_taken_over_waits_for_its_piece_and_forgets_its_rows(
    node: Node, store: CassandraStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.cassandra.store.ROWS_PER_FENCE", 1)
    held = in_flush(store)
    store.load_own(1, ["a"])
    with pytest.raises(OwnerFenced), store.saving(held, 1) as save:
        save(saved("a"))
        node.taken = True
        save(saved("b"))
    assert node.happened == ["load", "1 sent", "1 heard"]
    assert store.measures()["row_cache_bytes"] == 0


def test_a_row_is_in_memory_only_when_it_is_written(node: Node, store: CassandraStore) -> None:
    held = in_flush(store)
    store.load_own(1, ["a", "b"])
    node.lost = {2}
    with pytest.raises(StoreUnavailable), store.saving(held, 1) as save:
        save(saved("a", data=b"written"))
        assert store.measures()["row_cache_bytes"] == 0, "the piece is under way"
        save(saved("b", data=b"lost"))
    assert store.load_own(1, ["a", "b"]) == {"a": OwnRow(b"written", 0)}
