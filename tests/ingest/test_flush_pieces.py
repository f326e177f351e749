"""The pieces in which a flush reads and writes: small reads between pauses, few saves, a link's two rows together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import ALL_LINKS, breakdown_of, counts_key
from clickcurve.row_kinds.table import apart, kind_of
from ingest import flush
from storage.contract import Held, OwnRow, SavedRow, Source
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.audit.attributes import batch_of
from tests.audit.auditor import Hit, Sent

NOW = 1_772_000_000 // DAY_S * DAY_S + 12 * 3_600
LINKS_PER_LOAD, ROWS_PER_SAVE = 50, 200
LINKS = 3 * ROWS_PER_SAVE // 2


class Pieces(MemoryStore):
    """A store that notes what it is asked for at once."""

    links_per_load = LINKS_PER_LOAD

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[list[str]] = []
        self.saves: list[list[str]] = []

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        self.loads.append([*keys])
        return super().load_own(owner, keys)

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        self.saves.append([*rows])
        super().save_own(held, flush, rows, sources)


def test_a_flush_reads_a_few_hundred_links_at_once_and_saves_about_two_thousand_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "ROWS_PER_SAVE", ROWS_PER_SAVE)  # a tenth of what they are
    store = Pieces()
    owner = OwnerProcess(tmp_path, store, lambda: float(NOW), alone=True, disk=TrackedDisk()).owner
    sent = Sent([Hit(f"link-{n}", n % 4) for n in range(LINKS)])
    asyncio.run(owner.accept(batch_of(sent, NOW, None)))
    asyncio.run(owner.flush())
    assert max(len([key for key in keys if not kind_of(key).beside_counts]) for keys in store.loads) == LINKS_PER_LOAD
    sizes = [len(keys) for keys in store.saves[:-1]]
    assert max(sizes) <= ROWS_PER_SAVE + LINKS_PER_LOAD, "what a write-ahead log has room for"
    assert min(sizes[:-1]) > ROWS_PER_SAVE - LINKS_PER_LOAD, "each save is a transaction"
    assert ALL_LINKS in store.saves[-1]
    divided = {key for keys in store.saves for key in keys if kind_of(key).beside_counts}
    assert len(divided) > LINKS // 2
    for keys in store.saves:
        for key in apart(keys)[1]:
            assert counts_key(key) in keys and breakdown_of(counts_key(key)) == key
