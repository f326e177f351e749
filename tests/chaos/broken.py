"""`clickcurve` over a store with a fault, as a bug would be, which a campaign must catch. BROKEN names the fault."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from clickcurve.keys import ALL_LINKS
from server.cli.main import main
from storage.cassandra import store
from storage.cassandra.store import CassandraStore
from storage.contract import Held, SavedRow

_send_own = CassandraStore._send_own


def everything_is_mine(
    self: CassandraStore, held: Held, flush: int, ids: Mapping[str, int], window_us: int
) -> set[str]:
    """Every id is this flush's, even if another flush has claimed it."""
    return set()


def forgets_a_row(self: CassandraStore, held: Held, flush: int, rows: Mapping[str, SavedRow]) -> Callable[[], None]:
    """One row in twenty is not written."""
    kept = {key: row for n, (key, row) in enumerate(rows.items()) if n % 20 != 7 or key == ALL_LINKS}
    return _send_own(self, held, flush, kept)


def without_epoch(epoch: int) -> int:
    """Stamps begin again with each process, so a new one's rows lose against an old one's."""
    return _pinned_stamp(0)


_pinned_stamp = store.pinned_stamp

FAULTS: Mapping[str, tuple[Any, str, Any]] = {
    "everything is mine": (CassandraStore, "claim_ids", everything_is_mine),
    "forgets a row": (CassandraStore, "_send_own", forgets_a_row),
    "stamps without epoch": (store, "pinned_stamp", without_epoch),
}

if __name__ == "__main__":
    with patch.object(*FAULTS[os.environ["BROKEN"]]):
        main()
