"""Without events, rows and journals are byte for byte as before there were any, whether some are named or not."""

from __future__ import annotations

import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.ladder import DAY_S
from ingest.attributes.country import OFF, country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import JsonHit, Moment, PlainHit, RawHits
from ingest.reading.request_sums import RequestSums
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
# Written by the version before events. A new format of rows or of journals has others.
ROWS = "bc04c2516356b244091f5a0e9661f917bdb3f8e914070f7db5c4260995112167"
JOURNALS = "5a98a08afe5876ad8816800f98bb6cd43361096101bbd12ca4fd2df70fa5fbba"


class SameDisk(TrackedDisk):
    """A disk whose new journals have the same name."""

    def random(self, length: int) -> bytes:
        return bytes(range(length))


class SameProcess(OwnerProcess):
    def _token(self) -> str:
        return "the same"


class SameStore(MemoryStore):
    def uuid(self) -> str:
        return "the same"


def requests(step: int, now: int) -> list[tuple[str | None, RawHits]]:
    """Plain hits, hits that say something, bots, late ones, with ids, and one under a name."""
    plain: list[Any] = [PlainHit(f"k{n % 7}", now - n * 3_000) for n in range(20)]
    said = [
        JsonHit(
            f"k{n % 5}",
            ts=now - n * 40_000,
            count=1 + n % 3,
            bot=n % 4 == 0,
            ref=f"https://r{n % 6}.example/x" if n % 3 else None,
            source="qr" if n % 5 == 0 else None,
            groups=["g", f"h{n % 2}"][: n % 3] or None,
            id=f"id-{step}-{n}" if n % 7 == 0 else None,
        )
        for n in range(30)
    ]
    return [(None, RawHits(plain=plain)), (None, RawHits(json=said)), (f"batch-{step}", RawHits(json=said[:9]))]


async def written(folder: Path, events: tuple[str, ...]) -> tuple[str, str]:
    """Returns the digests of all rows and of what the journal held, after a history of two months."""
    now, store, journals = [NOW], SameStore(), sha256()
    reader = ProfileReader(("ref", "source"), country_reader(OFF), ReferrerReader(), events=events)
    process = SameProcess(folder, store, lambda: float(now[0]), alone=True, disk=SameDisk())
    for step in range(12):
        for name, raw in requests(step, now[0]):
            sums = RequestSums(Moment(now[0], now[0] - DAY_S, now[0] + 300), name, reader=reader)
            sums.add(raw, lambda agent: False)
            batch = sums.batch()
            assert batch is not None
            await process.owner.accept(batch)
        await process.owner.accept_one(f"alone{step % 2}")
        for segment in sorted(folder.glob("segment-*")):
            journals.update(segment.read_bytes())
        if step % 3 == 2:
            await process.owner.flush()
        now[0] += 5 * DAY_S + 60
    rows = sha256()
    with store.view() as view:
        for key, link in view.walk(None, 10_000, None):
            rows.update(key.encode() + b"".join(row.data for row in link.rows))
    await process.owner.close()
    return rows.hexdigest(), journals.hexdigest()


@pytest.mark.parametrize("events", [(), ("lead", "sale")])
async def test_without_events_rows_and_journals_are_as_they_were(
    tmp_path: Path, events: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    compress, compressobj = zlib.compress, zlib.compressobj  # what deflating makes differs between versions of zlib
    monkeypatch.setattr(zlib, "compress", lambda data, level: compress(data, 0))
    monkeypatch.setattr(zlib, "compressobj", lambda level, *more: compressobj(0, *more))
    assert await written(tmp_path / "journal", events) == (ROWS, JOURNALS)
