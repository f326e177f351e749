"""One table names all limits; the parts that enforce them have the same numbers."""

from __future__ import annotations

import pytest

from ingest import asgi, element, encoding, hit, journal, owner, receipt, tally
from query import asked, layout
from ratelimit.backends import memory
from ratelimit.http import wire
from server import limits
from server.limits import LIMITS


@pytest.mark.parametrize(
    ("limit", "enforced"),
    [
        (limits.KEY_BYTES, hit.KEY_BYTES),
        (limits.COUNT, hit.COUNT_MAX),
        (limits.ID_BYTES, hit.ID_CHARACTERS),
        (limits.FUTURE_S, hit.FUTURE_S),
        (limits.BODY_BYTES, encoding.BODY_BYTES),
        (limits.RECEIPT_ITEMS, receipt.RECEIPT_ITEMS),
        (limits.HIT_BYTES, element.HIT_BYTES),
        (limits.IDENTIFIED_HITS, tally.IDENTIFIED_HITS),
        (limits.WAITING_BYTES, asgi.WAITING_BYTES),
        (limits.IDS_WINDOW_S, owner.ID_WINDOW_S),
        (limits.TOP_LINKS, asked.MAX_TOP),
        (limits.POINTS, layout.MAX_POINTS),
        (limits.QUESTION_BYTES, wire.BODY_BYTES),
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
