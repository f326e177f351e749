"""A data folder on a disk: in memory, where most tests have theirs, no write waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ingest.journal.disk import Disk

ON_DISK = Path("/var/tmp")


@pytest.fixture
def data() -> Iterator[Path]:
    assert not Disk().is_memory(ON_DISK), f"{ON_DISK} is in memory"
    with TemporaryDirectory(prefix="clickcurve-", dir=ON_DISK) as folder:
        yield Path(folder) / "data"
