"""Counts and breakdowns are two rows: what is read while flushes write both, and when they are damaged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import ALL_LINKS, breakdown_key
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import TRIES, BreakdownReader
from storage.contract import StoredLink
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import run

NOW = 1_772_407_680
SAID = (("ref", "a"),)


class Interrupted:
    """Reads of a store, with something that happens before some of them."""

    def __init__(self, nodes: AttributeNodes, happens: Callable[[int], None]) -> None:
        self.reads: list[str] = []
        self._nodes = nodes
        self._happens = happens
        mine = nodes.owners[0]
        reader = BreakdownReader(self._rows, mine.pending, mine.pending_breakdowns, nodes.store.ladder, nodes.bounded)
        nodes.breakdowns = BreakdownQueries(reader, ("ref",), nodes.since.__getitem__, lambda: nodes.now)

    async def _rows(self, key: str) -> StoredLink:
        self._happens(len(self.reads))
        self.reads.append(key)
        return await self._nodes.store.rows(key)


def nodes_with(owners: int = 2) -> AttributeNodes:
    nodes = AttributeNodes(NOW, {"ref": 0}, owners)
    for owner in range(1, owners + 1):
        nodes.accept(AttributeHit("k", NOW, 2, said=SAID), owner)
        nodes.accept(AttributeHit("k", NOW, 1), owner)
        nodes.owners[owner - 1].flush(NOW)
    return nodes


def values(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {each["value"]: (each["at_least"], each["at_most"]) for each in answer["values"]}


@pytest.mark.parametrize("owner", [1, 2])
@pytest.mark.parametrize("read", range(4))
def test_a_flush_between_two_reads_makes_no_hit_a_silent_one(owner: int, read: int) -> None:
    nodes = nodes_with()
    nodes.accept(AttributeHit("k", NOW, 5, said=SAID), owner)

    def flush(number: int) -> None:
        if number == read:
            nodes.owners[owner - 1].begin(NOW)

    interrupted = Interrupted(nodes, flush)
    answer = nodes.by("k", "ref")
    assert values(answer)[""] == (2, 2)
    assert values(answer)["a"] in ((4, 4), (9, 9))
    if owner == 1:
        assert values(answer)["a"] == (9, 9)  # its own hits are in every answer
    assert answer["exact"]
    assert len(interrupted.reads) <= 1 + 2 * TRIES


def test_equal_marks_need_no_further_read() -> None:
    nodes = nodes_with()
    interrupted = Interrupted(nodes, lambda number: None)
    nodes.by("k", "ref")
    assert interrupted.reads == [breakdown_key("k"), "k"]
    nodes.accept(AttributeHit("k", NOW, 7), 2)  # says nothing: a later mark on the counts alone
    nodes.owners[1].flush(NOW)
    assert values(nodes.by("k", "ref")) == {"": (9, 9), "a": (4, 4)}
    assert interrupted.reads[2:] == [breakdown_key("k"), "k", breakdown_key("k")]


def test_rows_that_never_settle_say_what_is_true_of_both() -> None:
    """Owner 2 flushes before each read: what is counted and not recorded may have said anything."""
    nodes = nodes_with()

    def flush(number: int) -> None:
        nodes.accept(AttributeHit("k", NOW, 1, said=SAID), 2)
        nodes.owners[1].flush(NOW)

    interrupted = Interrupted(nodes, flush)
    answer = nodes.by("k", "ref")
    assert len(interrupted.reads) == 1 + 2 * TRIES
    shown = values(answer)
    assert shown[""][0] == 0
    assert shown[""][0] <= 2 <= shown[""][1]
    assert not answer["exact"]
    assert sum(at_least for at_least, _ in shown.values()) + answer["unrecorded"] == answer["total"]


def test_a_breakdown_that_was_written_before_its_counts_is_no_larger_than_the_total() -> None:
    nodes = nodes_with(1)
    rows = nodes.store.rows
    before = run(rows("k"))
    nodes.accept(AttributeHit("k", NOW, 5, said=SAID))
    nodes.owners[0].flush(NOW)

    async def torn(key: str) -> StoredLink:
        return before if key == "k" else await rows(key)

    reader = BreakdownReader(torn, lambda key: [], lambda key: [], nodes.store.ladder, nodes.bounded)
    nodes.breakdowns = BreakdownQueries(reader, ("ref",), nodes.since.__getitem__, lambda: NOW)
    answer = nodes.by("k", "ref")
    assert values(answer)["a"] == (7, 7)
    assert answer["total"] == 7


def test_an_owner_whose_clock_is_ahead_folds_both_rows() -> None:
    nodes = nodes_with()
    nodes.accept(AttributeHit("k", NOW, 1, said=SAID), 2)
    nodes.owners[1].flush(NOW + 5 * DAY_S, ("k",))
    answer = nodes.by("k", "ref", "last=1h")
    assert (answer["from"], answer["to"]) == (NOW // DAY_S * DAY_S, (NOW // DAY_S + 1) * DAY_S)
    assert values(answer) == {"": (2, 2), "a": (5, 5)}


@pytest.mark.parametrize("key", ["k", None])
def test_a_damaged_breakdown_is_named_with_its_owner(key: str | None) -> None:
    nodes = nodes_with()
    rows = nodes.store.rows

    async def damaged(stored: str) -> StoredLink:
        link = await rows(stored)
        if not stored.startswith(breakdown_key("")):
            return link
        first, second = link.rows
        return replace(link, rows=(first, replace(second, data=second.data[:-1] + b"?")))

    reader = BreakdownReader(damaged, lambda key: [], lambda key: [], nodes.store.ladder, nodes.bounded)
    with pytest.raises(RowCorrupt, match="of owner 2, is damaged") as caught:
        run(reader.read(key or ALL_LINKS, NOW, ("ref",)))
    assert caught.value.value == key


def test_an_erasure_of_the_counts_alone_hides_the_breakdown_too() -> None:
    """The two are erased one after the other."""
    nodes = nodes_with()
    nodes.store.erase(["k"], NOW * 1_000_000)
    assert nodes.by("k", "ref")["total"] == 0
    assert nodes.by("k", "ref")["values"] == []


def test_large_breakdowns_are_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = nodes_with()
    nodes.accept(AttributeHit("k", NOW, 5, said=SAID))
    asked = nodes.by("k", "ref")
    threads: list[str] = []
    merge = BreakdownReader._merged

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return merge(*arguments)

    monkeypatch.setattr(BreakdownReader, "_merged", noted)
    for most in (10_000, 10):
        monkeypatch.setattr("query.breakdowns.reader.AT_ONCE_BYTES", most)
        assert nodes.by("k", "ref") == asked
    assert [name == threading.main_thread().name for name in threads] == [True, False]
