"""The current row: pending hits, marks, owners, erasures, and rows that are found fat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from clickcurve.buckets.errors import RowCorrupt, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.ranges import Bots
from clickcurve.buckets.row import Pending
from query.reader import Reader
from storage.contract import StoredLink, StoredRow
from tests.query.queried_nodes import QueriedNodes, run

NOW = 1772407680  # 2026-03-01T23:28:00Z
DAY_S = 86_400


def lifetime(nodes: QueriedNodes, key: str = "k") -> int:
    return int(nodes.total(key)["total"])


def test_pending_hits_are_seen_at_once_and_never_twice_while_a_flush_is_under_way() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW)
    assert lifetime(nodes) == 1
    nodes.owners[0].begin(NOW)
    nodes.hit("k", NOW, 10)
    assert lifetime(nodes) == 11  # the row is written, but the flush is not complete
    nodes.owners[0].complete()
    assert lifetime(nodes) == 11
    nodes.flush()
    assert lifetime(nodes) == 11


def reader_during(nodes: QueriedNodes, before: Callable[[], None], after: Callable[[], None]) -> Reader:
    """A reader for which something happens just before or after the store looks at its rows."""

    async def rows(key: str) -> StoredLink:
        before()
        found = await nodes.store.rows(key)
        after()
        return found

    return Reader(rows, nodes.owners[0].pending, nodes.owners[0].revisit, lambda: CLICKS)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["begin", "complete", "flush"])
def test_a_flush_while_the_rows_are_read_changes_nothing(step: str, when: str) -> None:
    nodes = QueriedNodes(now=NOW)
    owner = nodes.owners[0]
    nodes.hit("k", NOW, 3)
    if step == "complete":
        owner.begin(NOW)
        nodes.hit("k", NOW, 4)
    steps = {"begin": lambda: owner.begin(NOW), "complete": owner.complete, "flush": lambda: owner.flush(NOW)}
    happens = {"before": lambda: None, "after": lambda: None, when: steps[step]}
    row = run(reader_during(nodes, **happens).row("k", NOW))
    assert row.lifetime == (7 if step == "complete" else 3)


def test_rows_of_several_owners_are_summed_whatever_day_they_are_folded_to() -> None:
    nodes = QueriedNodes(owners=3, now=NOW - 3 * DAY_S)
    for owner in (1, 2, 3):
        nodes.hit("k", nodes.now, owner, owner=owner)
        nodes.owners[owner - 1].flush(nodes.now)
        nodes.now += DAY_S
    nodes.now = NOW
    assert lifetime(nodes) == 6
    assert nodes.curve("k", "last=7d")["total"] == 6


def test_hits_of_the_marks_of_another_owner_are_not_confused_with_ones_own() -> None:
    nodes = QueriedNodes(owners=2, now=NOW)
    for _ in range(5):
        nodes.hit("k", NOW, owner=2)
        nodes.owners[1].flush(NOW)
    nodes.hit("k", NOW)
    nodes.owners[0].begin(NOW)  # flush 1, far below the other owner's mark
    assert lifetime(nodes) == 6


def test_rows_older_than_the_erasure_count_for_nothing_and_later_hits_count() -> None:
    nodes = QueriedNodes(owners=2, now=NOW)
    for owner in (1, 2):
        nodes.hit("k", NOW, 5, owner=owner)
    nodes.flush()
    nodes.now += 60
    nodes.erase("k")
    assert nodes.summary("k") == {
        "key": "k",
        **dict.fromkeys(("lifetime", "today", "yesterday", "last_7d", "last_30d", "bots"), 0),
        "first_hit": None,
        "last_hit": None,
        "opening": 0,
        "exact": True,
    }
    nodes.now += 60
    nodes.hit("k", nodes.now, 2)
    assert lifetime(nodes) == 2
    nodes.flush()
    assert lifetime(nodes) == 2
    assert nodes.total(None)["total"] == 12


def test_keys_of_other_namespaces_are_not_links() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("\0rules:x", NOW)
    assert lifetime(nodes, "\0rules:x") == 1
    nodes.flush()
    assert lifetime(nodes, "\0rules:x") == 1
    assert run(nodes.store.rows("\0rules:x")).rows == ()


def test_a_fat_row_is_asked_to_be_folded_once_a_day_and_a_folded_one_never() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW)
    nodes.flush()
    asked = nodes.owners[0].revisits
    nodes.curve("k")
    assert not asked
    nodes.now += 2 * DAY_S
    before = nodes.curve("k", "last=7d")
    assert asked == {"k"}
    asked.clear()
    nodes.curve("k")
    assert not asked
    nodes.flush()
    nodes.now += DAY_S
    nodes.curve("k")
    assert asked == {"k"}
    nodes.flush()
    assert not asked
    nodes.curve("k")
    assert not asked
    assert before["total"] == 1


def test_a_clock_that_steps_back_reads_the_row_as_it_was_folded() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - 60)
    nodes.now += 3 * DAY_S
    nodes.fold()
    nodes.now = NOW
    curve = nodes.curve("k", "last=2h")
    assert curve["total"] == 1
    assert {point["end"] - point["start"] for point in curve["points"]} == {3600}


def test_a_store_that_cannot_answer_and_a_corrupt_row_raise() -> None:
    async def down(key: str) -> StoredLink:
        raise StoreUnavailable("down")

    async def garbage(key: str) -> StoredLink:
        return StoredLink(0, (StoredRow(1, b"\xff\xff"),))

    def pending(key: str) -> Sequence[Pending]:
        return []

    for rows, error in ((down, StoreUnavailable), (garbage, RowCorrupt)):
        with pytest.raises(error):
            run(Reader(rows, pending, lambda keys: None, lambda: CLICKS).row("k", NOW))


def test_a_row_read_in_part_is_asked_to_be_folded_too() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW)
    nodes.flush()
    nodes.now += 9 * DAY_S
    assert nodes.curve("k", "last=60m")["total"] == 0
    assert nodes.owners[0].revisits == {"k"}


def test_what_is_left_out_of_a_row_is_never_asked_for() -> None:
    """Rows that are folded to now are decoded from the start of the range on only."""
    nodes = QueriedNodes(now=NOW)
    for age in range(0, 500 * DAY_S, 7 * 3600):
        nodes.hit("k", NOW - age, bot=age % 2 == 0)
    nodes.fold()
    for query in ("last=60m", "last=24h", "last=30d", "last=12mo", "from=0", f"to={NOW}", "last=2mo&tz=Asia/Kolkata"):
        for bots in ("exclude", "include", "only"):
            curve = nodes.curve("k", f"{query}&bots={bots}")
            spans = [(point["start"], point["end"]) for point in curve["points"]]
            assert [point["count"] for point in curve["points"]] == [
                nodes.counted("k", start, end, Bots(bots)) for start, end in spans
            ]
