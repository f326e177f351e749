from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.limiter.places import BACKENDS, Place


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each backend, empty."""
    with BACKENDS[request.param]() as found:
        yield found
