"""What /readyz says of an owner, from its status alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.owner_status import OwnerStatus
from server.http.health_routes import NotReady, Readiness
from storage.memory_store import MemoryStore

OPEN = OwnerStatus(owner=7, state="open")


def ready(status: OwnerStatus) -> Readiness:
    return Readiness(lambda: status, 1_000, 15.0, MemoryStore().rows, lambda: False)


def test_a_flush_is_called_stuck_after_four_intervals_and_hits_are_still_accepted() -> None:
    assert ready(replace(OPEN, lag_s=60.0)).for_write() == {"ready": True, "store": "up", "flush": "ok", "owner": 7}
    found = ready(replace(OPEN, lag_s=60.1, store_up=False)).for_write()
    assert found == {"ready": True, "store": "down", "flush": "stuck", "owner": 7}


def test_a_full_journal_is_not_ready_stuck_or_not() -> None:
    with pytest.raises(NotReady, match="the journal is full"):
        ready(replace(OPEN, lag_s=60.1, journal_bytes=1_000)).for_write()


def test_a_full_buffer_is_not_ready() -> None:
    full = replace(OPEN, buffer_bytes=1_000, buffer_bytes_max=900, buffer_full=True)
    with pytest.raises(NotReady, match="the buffer is full: 1,000 of 900 bytes"):
        ready(full).for_write()
