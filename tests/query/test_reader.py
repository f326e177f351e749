"""The current row: pending hits, marks, owners, erasures, and rows that are found fat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from clickcurve.buckets import codec
from clickcurve.buckets.errors import RowCorrupt, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.ranges import Bots
from clickcurve.keys import link_subject
from clickcurve.pending import Pending
from query import reader
from query.queries import Queries
from query.reader import MergedLinks, Reader, stored
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


# --- links of several owners ------------------------------------------------------------------------------------------
OWNERS = 3


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The rows that were decoded with their buckets, in order."""
    seen: list[bytes] = []

    def decode(data: bytes, *args: object) -> object:
        seen.append(data)
        return codec.decode(data, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "decode", decode)
    return seen


def counted_by_all(key: str = "k") -> QueriedNodes:
    nodes = QueriedNodes(owners=OWNERS, now=NOW)
    for owner in range(1, OWNERS + 1):
        for age in range(0, 500 * DAY_S, owner * 9 * 3600 - 2):
            nodes.hit(key, NOW - age, owner, bot=age % 4 == 0, owner=owner)
    nodes.flush()
    return nodes


def test_a_row_is_decoded_once_while_its_bytes_are_the_same(decoded: list[bytes]) -> None:
    nodes = counted_by_all()
    nodes.curve("k", "last=30d")
    assert len(decoded) == OWNERS
    for query in ("last=30d", "last=7d", "last=60m"):
        nodes.curve("k", query)
    assert len(decoded) == OWNERS, "what is asked for is in what was decoded"
    with_bots = nodes.curve("k", "last=7d&bots=include")
    assert with_bots["total"] == nodes.counted("k", with_bots["from"], with_bots["to"], Bots.include)
    assert len(decoded) == 2 * OWNERS, "bots were not"
    nodes.hit("k", NOW, 100, owner=2)
    nodes.owners[1].flush(NOW)
    before = len(decoded)
    assert nodes.curve("k", "last=60m")["total"] == nodes.counted("k", NOW // 60 * 60 - 59 * 60, NOW + 60, Bots.exclude)
    assert len(decoded) == before + 1, "of the owner that has flushed"


def test_an_answer_is_the_same_whatever_was_asked_before() -> None:
    nodes = counted_by_all()
    chance = Random(7)
    queries = ("last=60m", "last=24h", "last=30d", "last=12mo", "from=0", f"to={NOW}", "last=2mo&tz=Asia/Kolkata")
    for step in range(120):
        what = chance.randrange(8)
        if what == 0:
            nodes.hit("k", nodes.now - chance.randrange(40 * DAY_S), step + 1, owner=chance.randint(1, OWNERS))
        elif what == 1:
            nodes.owners[chance.randrange(OWNERS)].flush(nodes.now)
        elif what == 2 and step % 3 == 0:
            nodes.now += chance.choice((60, 3_600, DAY_S))
        elif what == 3 and step % 5 == 0:
            nodes.erase("k")
        else:
            query = f"{chance.choice(queries)}&bots={chance.choice(('exclude', 'include', 'only'))}".encode()
            mine = nodes.owners[0]
            anew = Reader(nodes.store.rows, mine.pending, mine.revisit, nodes.store.ladder)
            asked = Queries(anew, nodes.links, nodes.groups, lambda: nodes.now + 0.5)
            assert run(nodes.queries.curve(link_subject("k"), query)) == run(asked.curve(link_subject("k"), query))


def test_the_links_that_were_read_last_are_kept_up_to_a_number_of_buckets(decoded: list[bytes]) -> None:
    nodes = counted_by_all()
    link = run(nodes.store.rows("k"))
    day = NOW // DAY_S * DAY_S
    one = MergedLinks(10**9)
    found = one.stored("k", link, NOW, CLICKS, day, False)
    assert found == stored(link, NOW, CLICKS, since=day, bots=False)
    (kept,) = one._links.values()
    rows = [*(row for row, _ in kept.rows), found.row]
    buckets = sum(len(starts) for row in rows for starts, _ in (*row.people_cells, *row.bot_cells))
    assert one._buckets == buckets > 0

    few = MergedLinks(2 * buckets)
    for key in ("a", "b", "a", "c"):
        few.stored(key, link, NOW, CLICKS, day, False)
    decoded.clear()
    for key in ("c", "a"):
        few.stored(key, link, NOW, CLICKS, day, False)
    assert not decoded
    few.stored("b", link, NOW, CLICKS, day, False)
    assert len(decoded) == OWNERS, "b was read before a was read again"
    assert few._buckets == 2 * buckets

    none = MergedLinks(buckets - 1)
    assert none.stored("a", link, NOW, CLICKS, day, False) == found
    assert (none._buckets, len(none._links)) == (0, 0), "a link that is larger than all that may be kept"
