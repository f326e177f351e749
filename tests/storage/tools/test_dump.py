from __future__ import annotations

import asyncio

from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.row import Delta
from storage.contract import SavedRow, Store
from storage.tools.dump import dump_lines, read_rows
from tests.storage.flushes import NOON, Flusher, hits

EXPECTED = """\
key 'a': rows of 2 owners

owner 1 (open, epoch 1, at /data/1): {} bytes
  mark 1, folded to 2026-01-01 00:00:00
  people 18, of them without dates 10; bots 4
  first hit 2025-12-31 12:02:00, last hit 2026-01-01 12:01:00
  people, minute: 2 buckets, 7 hits
    2026-01-01 12:00:00 .. 2026-01-01 12:01:00  5
    2026-01-01 12:01:00 .. 2026-01-01 12:02:00  2
  people, five_minute: 1 buckets, 1 hits
    2025-12-31 12:00:00 .. 2025-12-31 12:05:00  1
  bots, minute: 1 buckets, 4 hits
    2026-01-01 12:00:00 .. 2026-01-01 12:01:00  4

owner 2 (open, epoch 1, at /data/2): {} bytes
  mark 1, folded to 2026-01-01 00:00:00
  people 1, of them without dates 0; bots 0
  first hit 2026-01-01 12:00:00, last hit 2026-01-01 12:00:00
  people, minute: 1 buckets, 1 hits
    2026-01-01 12:00:00 .. 2026-01-01 12:01:00  1"""


def dumped(store: Store, key: str) -> list[str]:
    return list(dump_lines(asyncio.run(read_rows(store, key)), CLICKS))


def test_a_dump_shows_rows_by_owner_and_tier_with_readable_times(store: Store) -> None:
    people = {NOON: 5, NOON + 60: 2, NOON - 86_400 + 120: 1}
    Flusher(store, 1).flush({"a": Delta(people, {NOON: 4}, opening=10)})
    Flusher(store, 2).flush({"a": hits((0, 1))})
    sizes = [len(store.load_own(owner, ["a"])["a"].data or b"") for owner in (1, 2)]
    assert dumped(store, "a") == EXPECTED.format(*sizes).split("\n")


def test_a_dump_of_an_unknown_key_says_so(store: Store) -> None:
    assert dumped(store, "nobody") == ["key 'nobody': rows of 0 owners"]


def test_a_dump_tells_rows_that_were_erased_or_cannot_be_read(store: Store) -> None:
    first, second = Flusher(store, 1), Flusher(store, 2)
    first.flush({"a": hits((0, 5))})
    second.flush({"a": hits((0, 5))})
    store.erase(["a"], NOON * 1_000_000)
    store.save_own(second.held, 1, {"a": SavedRow(b"?!", None)}, {})
    lines = dumped(store, "a")
    assert lines[1] == "erased at 2026-01-01 12:00:00: rows that do not know of it count for nothing"
    assert "  counts for nothing: it does not know of the erasure" in lines
    assert lines[-1].startswith("  CANNOT BE READ: not a row") and lines[-1].endswith("3f21")
