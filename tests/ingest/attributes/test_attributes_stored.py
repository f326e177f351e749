"""What hits say, from an owner into the store's breakdowns: beside the counts, erased with them, folded with them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from clickcurve.buckets.breakdowns.parts import Parts, decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.keys import ALL_LINKS, breakdown_key
from retention.run import run_pass
from storage.contract import Held, SavedRow, Source
from storage.memory_store import MemoryStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.audit.attributes import Values, batch_of, judge_words
from tests.audit.auditor import Hit, Sent
from tests.ingest.owner_kit import minute_of, read_words

NOON = 1_772_000_000 // DAY_S * DAY_S + 12 * 3_600
SAID = Sent([Hit("a", 1), Hit("b", 2)])  # both say something


class Watched(MemoryStore):
    """A store that keeps what was saved last."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[str, SavedRow] = {}

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        super().save_own(held, flush, rows, sources)
        self.saved = {**self.saved, **rows}


class Node:
    def __init__(self, folder: Path, store: MemoryStore, alone: bool = True) -> None:
        self.now = float(NOON)
        self.store = store
        self.process = OwnerProcess(folder, store, lambda: self.now, alone=alone, disk=TrackedDisk())
        self.owner = self.process.owner

    def take(self, sent: Sent = SAID, late_s: int = 0) -> None:
        asyncio.run(self.owner.accept(batch_of(sent, minute_of(self.now - late_s), None)))

    def flush(self) -> None:
        asyncio.run(self.owner.flush())

    def breakdown(self, link: str) -> Parts:
        data = self.store.load_own(self.owner.status.owner, [breakdown_key(link)])[breakdown_key(link)].data
        assert data is not None
        return separate_parts(data)

    def words(self, link: str | None) -> tuple[int, Values]:
        return asyncio.run(read_words(self.store, [self.process], link, int(self.now)))


def test_a_closed_part_is_written_again_only_when_it_changes(tmp_path: Path) -> None:
    store = Watched()
    node = Node(tmp_path, store)
    node.take(late_s=5 * DAY_S)
    node.flush()
    assert store.saved[breakdown_key("a")].closed
    assert not store.saved[breakdown_key("a")].closed_stays
    node.take()
    node.flush()
    assert store.saved[breakdown_key("a")].closed_stays
    node.take(late_s=4 * DAY_S)
    node.flush()
    assert not store.saved[breakdown_key("a")].closed_stays
    total, values = node.words("a")
    assert total == 3 * SAID.counts["a"]
    assert judge_words("a", total, values) == []


def test_a_link_that_never_says_anything_has_no_breakdown(tmp_path: Path) -> None:
    node = Node(tmp_path, store := MemoryStore())
    node.take(Sent([Hit("plain", 0), Hit("plain", 3)]))
    node.flush()
    assert set(store._rows) == {ALL_LINKS, "plain"}


def test_an_erasure_empties_the_breakdowns_of_all_owners_when_they_next_write_the_link(tmp_path: Path) -> None:
    store = MemoryStore()
    one, other = Node(tmp_path / "1", store, alone=False), Node(tmp_path / "2", store, alone=False)
    for node in (one, other):
        node.take()
        node.flush()
        node.now += 60
    asyncio.run(one.owner.erase("a"))
    assert one.words("a") == other.words("a") == (0, {})
    one.flush()
    assert decode_parts(one.breakdown("a")).dimensions == {}
    assert decode_parts(other.breakdown("a")).dimensions != {}
    other.now += 60
    other.take(Sent([Hit("a", 0)]))  # which says nothing
    other.flush()
    assert decode_parts(other.breakdown("a")).dimensions == {}
    assert other.words("a") == (1, {})
    assert other.words("b") == one.words("b") != (0, {})
    assert other.words(None)[1] != {}, "all links together are not reduced"
    assert verify(store, CLICKS).broken == []


def test_the_daily_pass_folds_breakdowns_with_the_mark_of_their_counts(tmp_path: Path) -> None:
    node = Node(tmp_path, store := MemoryStore())
    node.take()
    node.flush()
    before = node.words("a")
    for days in (3, 40, 420):
        node.now = NOON + days * DAY_S
        report = asyncio.run(run_pass(node.owner, day := fold_day(int(node.now))))
        assert report.stopped is None
        for link in ("a", ALL_LINKS):
            parts = node.breakdown(link)
            counts = store.load_own(node.owner.status.owner, [link])[link].data
            assert counts is not None
            head = parts.head
            assert (head.mark, head.fold_day) == (decode(counts).mark, day)
        assert node.words("a") == before
        assert node.owner.due(day, None, 10) == []
        assert verify(store, CLICKS).broken == []
    assert [len(tier) for tier in decode_parts(node.breakdown("a")).dimensions["ref"]] == [0, 0, 0, 1]


def test_what_a_damaged_breakdown_lacks_is_quarantined_until_it_can_be_read(tmp_path: Path) -> None:
    node = Node(tmp_path, store := MemoryStore())
    node.take()
    node.flush()
    key, number = breakdown_key("a"), node.owner.status.owner
    sound = store._rows[key][number]
    store._rows[key][number] = SavedRow(sound.data[:-1] + b"?", sound.due_day, None, sound.closed)
    node.take(Sent([Hit("a", 5)]))
    node.flush()
    assert dict(node.owner.status.quarantined) == {key: 4**5}
    assert store.load_own(number, ["a"])["a"].data is not None
    assert asyncio.run(store.rows("a")).rows[0].data != b""
    assert "quarantined" in "".join(verify(store, CLICKS).broken)
    node.process.disk.kill()
    node.process.start()
    node.owner = node.process.owner
    store._rows[key][number] = sound
    node.take(Sent([Hit("a", 4)]))
    node.flush()
    assert dict(node.owner.status.quarantined) == {}
    assert judge_words("a", *node.words("a")) == []
    assert node.words("a")[0] == 4 + 4**4 + 4**5
    assert verify(store, CLICKS).broken == []
