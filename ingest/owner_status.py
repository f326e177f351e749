"""What an owner tells of itself: for /readyz, /metrics and the log."""

from __future__ import annotations

from dataclasses import dataclass


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
    journal_bytes: int = 0
    lag_s: float = 0.0  # age of the oldest hit that is not in the store
