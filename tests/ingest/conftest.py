"""Folders of these tests: in memory also where all tests run, since they fail the calls of a disk themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import MEMORY, has_room


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder where a sync takes no time, if this machine has one: these tests sync thousands of commits."""
    if not has_room(MEMORY):
        yield tmp_path
        return
    with TemporaryDirectory(dir=MEMORY, prefix="clickcurve-") as folder:
        yield Path(folder)
