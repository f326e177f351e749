"""What imports count into."""

from __future__ import annotations

import pytest

from tests.ingest.imports.import_kit import MemoryTarget


@pytest.fixture
def target() -> MemoryTarget:
    return MemoryTarget()
