"""One key's rows: as text with readable times for people, as plain objects for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, Ladder
from clickcurve.buckets.measures import measured
from clickcurve.buckets.row import Row, check
from clickcurve.row_kinds.names import row_name
from clickcurve.times import SECOND_US
from storage.contract import OwnerRecord, Store, StoredLink, StoredRow


@dataclass(frozen=True, slots=True)
class LinkDump:
    """The rows of a stored key as they are kept, and the owners that the store knows, by number."""

    key: str
    link: StoredLink
    owners: Mapping[int, OwnerRecord]


async def read_rows(store: Store, key: str) -> LinkDump:
    """Reads what the store has of a stored key. Raises StoreUnavailable."""
    return LinkDump(key, await store.rows(key), {record.owner: record for record in store.owners()})


def dump_lines(dump: LinkDump, ladder: Ladder) -> Iterator[str]:
    """Writes the rows line by line: per owner the row's header, then bucket by bucket.

    Times are UTC. A row that cannot be read is shown in hex.
    """
    link, owners = dump.link, dump.owners
    what = row_name(dump.key) if measured(dump.key)[0].event else f"key {dump.key!r}"
    yield f"{what}: rows of {len(link.rows)} owner{'s' if len(link.rows) != 1 else ''}"
    if link.erased_at:
        yield f"erased at {utc(link.erased_at // SECOND_US)}: rows that do not know of it count for nothing"
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


def dump_object(dump: LinkDump, ladder: Ladder) -> dict[str, object]:
    """Returns the same as an object, with times in epoch seconds; stamps of erasures in microseconds."""
    rows = [_row_object(stored, dump.owners.get(stored.owner), ladder) for stored in dump.link.rows]
    return {"key": dump.key, "erased_at_us": dump.link.erased_at, "rows": rows}


def _row_object(stored: StoredRow, record: OwnerRecord | None, ladder: Ladder) -> dict[str, object]:
    whose = {"owner": stored.owner, "state": record and record.state, "epoch": record and record.epoch}
    head = {**whose, "place": record and record.place, "bytes": len(stored.data)}
    try:
        row = decode(stored.data)
    except RowCorrupt as error:
        return {**head, "unreadable": error.detail, "hex": stored.data.hex()}
    return {
        **head,
        "mark": row.mark,
        "folded_to": row.fold_day * DAY_S,
        "people": row.lifetime,
        "opening": row.opening,
        "bots": row.bots,
        "first_hit": row.first,
        "last_hit": row.last,
        "erased_at_us": row.erased_at,
        "erased": row.erased,
        "erased_bots": row.erased_bots,
        "broken": check(row, ladder),
        "people_buckets": _bucket_objects(row.people_cells, ladder),
        "bot_buckets": _bucket_objects(row.bot_cells, ladder),
    }


def _bucket_objects(cells: Sequence[Cells], ladder: Ladder) -> list[list[object]]:
    """Returns [tier, start, end, count] of each bucket, finest tier first."""
    return [
        [tier.name, *tier.bucket(start), count]
        for tier, (starts, counts) in zip(ladder.tiers, cells, strict=False)
        for start, count in zip(starts, counts, strict=True)
    ]


def _whose_row(stored: StoredRow, record: OwnerRecord | None) -> str:
    whose = f"{record.state}, epoch {record.epoch}, at {record.place}" if record is not None else "UNKNOWN TO THE STORE"
    return f"owner {stored.owner} ({whose}): {len(stored.data)} bytes"


def _header_lines(row: Row) -> Iterator[str]:
    yield f"  mark {row.mark}, folded to {utc(row.fold_day * DAY_S)}"
    yield f"  people {row.lifetime}, of them without dates {row.opening}; bots {row.bots}"
    if row.first is not None and row.last is not None:
        yield f"  first hit {utc(row.first)}, last hit {utc(row.last)}"
    if row.erased_at:
        yield f"  erased at {utc(row.erased_at // SECOND_US)}: people {row.erased}, bots {row.erased_bots} until then"


def _tier_lines(name: str, bucket: Callable[[int], tuple[int, int]], cells: Cells) -> Iterator[str]:
    starts, counts = cells
    if starts:
        yield f"  {name}: {len(starts)} buckets, {sum(counts)} hits"
    for start, count in zip(starts, counts, strict=False):
        yield f"    {utc(start)} .. {utc(bucket(start)[1])}  {count}"


def utc(t: int) -> str:
    """Returns a time for people to read; a number that is not a valid time stays a number."""
    try:
        return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return f"second {t}"  # not a time that any row should have
