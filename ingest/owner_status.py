"""What an owner tells of itself: for /readyz, /metrics and the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from clickcurve.buckets.errors import JournalSuperseded, OwnerFenced, RowCorrupt, StoreUnavailable
from clickcurve.buckets.measures import clicks_row
from clickcurve.buckets.quarantine import AnyRow, quarantined_hits
from clickcurve.keys import ALL_LINKS, counts_key, group_of, link_of
from clickcurve.row_kinds.table import kind_of
from ingest.buffer import Buffers


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """What `/metrics`, `/readyz` and the log say of an owner. Times in epoch seconds, durations in seconds."""

    owner: int = 0
    epoch: int = 0
    state: str = "unclaimed"  # then open, fenced or closed
    store_up: bool = True
    flushes: int = 0
    failed_flushes: int = 0
    last_flush_at: float = 0.0
    last_flush_s: float = 0.0
    last_flush_rows: int = 0
    last_flush_hits: int = 0
    buffered_hits: int = 0
    buffered_entries: int = 0
    buffer_bytes: int = 0  # that they take in memory, with what their flush will
    buffer_bytes_max: int = 0
    buffer_full: bool = False
    journal_bytes: int = 0
    lag_s: float = 0.0  # age of the oldest hit that is not in the store
    oldest_us: int | None = None  # its accept stamp; None: all hits are in the store
    quarantined: Mapping[str, int] = field(default_factory=dict)  # stored key of a row that cannot be read -> its hits

    def after_failure(self, error: BaseException) -> OwnerStatus:
        """Returns the status after a flush that failed, whatever it failed with."""
        state = "fenced" if isinstance(error, OwnerFenced | JournalSuperseded) else self.state
        store_up, failed = not isinstance(error, StoreUnavailable), self.failed_flushes + 1
        return replace(self, state=state, store_up=store_up, failed_flushes=failed)

    def after_flush(self, started: float, seconds: float, rows: int, hits: int) -> OwnerStatus:
        return replace(
            self,
            flushes=self.flushes + 1,
            last_flush_at=started,
            last_flush_s=seconds,
            last_flush_rows=rows,
            last_flush_hits=hits,
        )

    def with_quarantine(self, rows: Mapping[str, AnyRow]) -> OwnerStatus:
        """Returns the status with these rows in quarantine, and no others."""
        return replace(self, quarantined={key: sum(quarantined_hits(row)) for key, row in rows.items()})

    def damaged_links(self) -> set[str]:
        return {link for key in self.quarantined if (link := link_of(key)) is not None}

    def hides(self, key: str) -> bool:
        """Returns whether another process holds this owner, so that what is left here counts for nothing.

        Raises RowCorrupt if hits of this stored key are quarantined.
        """
        if self.state == "fenced":
            return True
        hits = self.quarantined.get(key)
        if hits is not None:
            counts = clicks_row(counts_key(key))
            link, group = link_of(counts), group_of(counts)
            whose = "of all links" if counts == ALL_LINKS else "of this link" if group is None else "of this group"
            what = f"the {'breakdown' if kind_of(key).beside_counts else 'row'} {whose}"
            detail = f"{what}, of owner {self.owner}, is damaged, and {hits:,} hits wait until it is repaired"
            raise RowCorrupt(f"{detail}; `clickcurve repair` says more", field="key", value=group or link)
        return False

    def with_buffers(self, buffers: Buffers, journal_bytes: int, running: float) -> OwnerStatus:
        """Returns the status with what is buffered now. running: as `Buffers.measure` takes it."""
        return replace(
            self,
            buffered_hits=sum(buffer.hits() for buffer in buffers.all()),
            buffered_entries=sum(buffer.entries() for buffer in buffers.all()),
            buffer_bytes=buffers.bytes_held(),
            buffer_bytes_max=buffers.bytes_max,
            buffer_full=buffers.full,
            journal_bytes=journal_bytes,
            lag_s=buffers.lag_s(running),
            oldest_us=buffers.since_us,
        )
