"""One key's rows as text, with readable times, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, Ladder
from clickcurve.buckets.row import Cells, Row, check
from clickcurve.times import SECOND_US
from storage.contract import OwnerRecord, Store, StoredLink, StoredRow


async def dump(store: Store, key: str, ladder: Ladder, write: Callable[[str], object]) -> None:
    """Writes the rows of a stored key, line by line: per owner the row's header, then bucket by bucket.

    Times are UTC. A row that cannot be read is shown in hex. Raises StoreUnavailable.
    """
    link = await store.rows(key)
    for line in _link_lines(key, link, {record.owner: record for record in store.owners()}, ladder):
        write(line)


def _link_lines(key: str, link: StoredLink, owners: dict[int, OwnerRecord], ladder: Ladder) -> Iterator[str]:
    yield f"key {key!r}: rows of {len(link.rows)} owners"
    if link.erased_at:
        yield f"erased at {_utc(link.erased_at // SECOND_US)}: rows that do not know of it count for nothing"
    for stored in link.rows:
        yield ""
        yield _whose_row(stored, owners.get(stored.owner))
        try:
            row = decode(stored.data)
        except RowCorrupt as error:
            yield f"  CANNOT BE READ: {error.detail}: {stored.data.hex()}"
            continue
        if row.erased_at < link.erased_at:
            yield "  counts for nothing: it does not know of the erasure"
        yield from _header_lines(row)
        yield from (f"  BROKEN: {sentence}" for sentence in check(row, ladder))
        for series, cells in (("people", row.people_cells), ("bots", row.bot_cells)):
            for tier, some in zip(ladder.tiers, cells, strict=False):
                yield from _tier_lines(f"{series}, {tier.name}", tier.bucket, some)


def _whose_row(stored: StoredRow, record: OwnerRecord | None) -> str:
    whose = f"{record.state}, epoch {record.epoch}, at {record.place}" if record is not None else "UNKNOWN TO THE STORE"
    return f"owner {stored.owner} ({whose}): {len(stored.data)} bytes"


def _header_lines(row: Row) -> Iterator[str]:
    yield f"  mark {row.mark}, folded to {_utc(row.fold_day * DAY_S)}"
    yield f"  people {row.lifetime}, of them without dates {row.opening}; bots {row.bots}"
    if row.first is not None and row.last is not None:
        yield f"  first hit {_utc(row.first)}, last hit {_utc(row.last)}"
    if row.erased_at:
        yield f"  erased at {_utc(row.erased_at // SECOND_US)}: people {row.erased}, bots {row.erased_bots} until then"


def _tier_lines(name: str, bucket: Callable[[int], tuple[int, int]], cells: Cells) -> Iterator[str]:
    starts, counts = cells
    if starts:
        yield f"  {name}: {len(starts)} buckets, {sum(counts)} hits"
    for start, count in zip(starts, counts, strict=False):
        yield f"    {_utc(start)} .. {_utc(bucket(start)[1])}  {count}"


def _utc(t: int) -> str:
    try:
        return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return f"second {t}"  # not a time that any row should have
