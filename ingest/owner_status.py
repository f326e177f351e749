"""What an owner tells of itself: for /readyz, /metrics and the log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from clickcurve.buckets.errors import JournalSuperseded, OwnerFenced, RowCorrupt, StoreUnavailable
from clickcurve.buckets.quarantine import AnyRow, decode_quarantined, quarantined_hits
from clickcurve.keys import ALL_LINKS, counts_key, group_of, is_breakdown, link_of
from ingest.buffer import Buffers
from storage.contract import Held, OwnRow


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
    quarantined: Mapping[str, int] = field(default_factory=dict)  # stored key of a row that cannot be read -> its hits


class Bookkeeping:
    """What an owner notes of its flushes, for its status."""

    def __init__(self) -> None:
        self.status = OwnerStatus()

    def claimed(self, held: Held) -> None:
        self.status = replace(self.status, owner=held.owner, epoch=held.epoch, state="open")

    def failed(self, error: BaseException) -> None:
        """Notes a flush that failed, whatever it failed with."""
        if isinstance(error, OwnerFenced | JournalSuperseded):
            self.status = replace(self.status, state="fenced")
        store_up, failed = not isinstance(error, StoreUnavailable), self.status.failed_flushes + 1
        self.status = replace(self.status, store_up=store_up, failed_flushes=failed)

    def lost(self) -> None:
        self.status = replace(self.status, state="fenced")

    def completed(self, started: float, now: float, rows: int, hits: int) -> None:
        self.status = replace(
            self.status,
            flushes=self.status.flushes + 1,
            last_flush_at=started,
            last_flush_s=now - started,
            last_flush_rows=rows,
            last_flush_hits=hits,
        )

    def quarantine(self, rows: Mapping[str, AnyRow]) -> None:
        self.status = replace(self.status, quarantined={key: sum(quarantined_hits(row)) for key, row in rows.items()})

    def found_quarantine(self, stored: OwnRow | None) -> None:
        """Notes what the store says is quarantined; if that is damaged, the next flush says so."""
        with suppress(RowCorrupt):
            self.quarantine(decode_quarantined(stored.data) if stored is not None and stored.data is not None else {})

    def damaged_links(self) -> set[str]:
        return {link for key in self.status.quarantined if (link := link_of(key)) is not None}

    def hides(self, key: str) -> bool:
        """Returns whether another process holds this owner, so that what is left here counts for nothing.

        Raises RowCorrupt if hits of this stored key are quarantined.
        """
        if self.status.state == "fenced":
            return True
        hits = self.status.quarantined.get(key)
        if hits is not None:
            counts = counts_key(key)
            link, group = link_of(counts), group_of(counts)
            whose = "of all links" if counts == ALL_LINKS else "of this link" if group is None else "of this group"
            what = f"the {'breakdown' if is_breakdown(key) else 'row'} {whose}"
            detail = f"{what}, of owner {self.status.owner}, is damaged, and {hits:,} hits wait until it is repaired"
            raise RowCorrupt(f"{detail}; `clickcurve repair` says more", field="key", value=group or link)
        return False

    def with_buffers(self, buffers: Buffers, journal_bytes: int, now: float) -> OwnerStatus:
        """Returns the status with what is buffered now."""
        since_us = buffers.since_us
        return replace(
            self.status,
            buffered_hits=sum(buffer.hits() for buffer in buffers.all()),
            buffered_entries=sum(buffer.entries() for buffer in buffers.all()),
            buffer_bytes=buffers.bytes_held(),
            buffer_bytes_max=buffers.bytes_max,
            buffer_full=buffers.full,
            journal_bytes=journal_bytes,
            lag_s=0.0 if since_us is None else max(0.0, now - since_us / 1e6),
        )
