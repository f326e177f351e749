"""One table names all limits."""

from __future__ import annotations

from server.app.limits import LIMITS


def test_every_limit_says_its_unit_and_what_happens_at_it() -> None:
    assert len(LIMITS) >= 15
    for name, limit in LIMITS.items():
        assert limit.value > 0 and limit.unit and limit.over, name
