"""One table names all limits; the parts that enforce them have the same numbers."""

from __future__ import annotations

import pytest

from clickcurve import keys
from clickcurve.limiter.backends import memory
from clickcurve.limiter.http import json_shapes
from ingest import hit, owner
from ingest.journal import journal
from ingest.reading import content_encoding, hit_endpoint, json_hit, receipt, request_sums
from query import grid, parameters
from server import limits
from server.limits import LIMITS


@pytest.mark.parametrize(
    ("limit", "enforced"),
    [
        (limits.KEY_BYTES, keys.KEY_BYTES),
        (limits.COUNT, hit.COUNT_MAX),
        (limits.ID_BYTES, hit.ID_CHARACTERS),
        (limits.FUTURE_S, hit.FUTURE_S),
        (limits.BODY_BYTES, content_encoding.BODY_BYTES),
        (limits.RECEIPT_ITEMS, receipt.RECEIPT_ITEMS),
        (limits.HIT_BYTES, json_hit.HIT_BYTES),
        (limits.IDENTIFIED_HITS, request_sums.IDENTIFIED_HITS),
        (limits.WAITING_BYTES, hit_endpoint.WAITING_BYTES),
        (limits.IDS_WINDOW_S, owner.ID_WINDOW_S),
        (limits.TOP_LINKS, parameters.MAX_TOP),
        (limits.POINTS, grid.MAX_POINTS),
        (limits.QUESTION_BYTES, json_shapes.BODY_BYTES),
        (limits.LIMIT_KEYS, memory.MAX_KEYS),
        (limits.LIMIT_BYTES, memory.MAX_BYTES),
        (limits.LIMIT_RESERVATIONS, memory.MAX_RESERVATIONS),
        (limits.JOURNAL_MIB, journal.MAX_BYTES // (1024 * 1024)),
    ],
)
def test_the_table_says_what_the_parts_do(limit: limits.Limit, enforced: int) -> None:
    assert limit.value == enforced


def test_every_limit_says_its_unit_and_what_happens_at_it() -> None:
    assert len(LIMITS) >= 15
    for name, limit in LIMITS.items():
        assert limit.value > 0 and limit.unit and limit.over, name
