"""The limits that docs/compat.md names are those of the code."""

from __future__ import annotations

import pytest

from clickcurve.budget import KEYS, MATCH_STEPS, NAMES, POINTS, ROWS, SIGNS, VALUE_POINTS
from server.compat import expressions, links, otlp, otlp_body, statsd, syslog
from server.compat.foreign import doors, event
from server.compat.graphite import routes, series, targets
from server.compat.prometheus import increases, promql
from testing.server import ROOT

PAGE = (ROOT / "docs" / "compat.md").read_text()


@pytest.mark.parametrize(
    "sentence",
    [
        *(f"{cost.most:,} {cost.name}" for cost in (ROWS, POINTS, VALUE_POINTS, KEYS, NAMES, SIGNS, MATCH_STEPS)),
        f"at most {expressions.MOST_INSTRUCTIONS:,} instructions",
        f"may stand for {series.MOST_SERIES} links",
        f"first {links.MOST_LOOKED_AT:,} keys",
        f"at most {routes.MOST_TARGETS} targets",
        f"A target has at most {targets.MOST_CHARACTERS:,} characters",
        f"may select {increases.MOST_LINKS:,} links ({increases.MOST_WITH_BREAKDOWNS} with a dimension)",
        f"among {links.MOST_LOOKED_AT:,} keys",
        f"at most {promql.MOST_CHARACTERS:,} characters and {promql.MOST_TOKENS:,} words and signs",
        f"more than {event.LONGEST_URL:,} characters",
        f"at most {doors.MOST_BYTES >> 20} MiB and {doors.MOST_EVENTS:,} events",
        f"at most {otlp_body.MOST_BYTES >> 20} MiB and {otlp_body.OBJECTS.most:,} JSON objects",
        f"a point or record {otlp.POINT_BYTES >> 10} KiB",
        f"{syslog.MOST_WAITING:,} messages or {syslog.MOST_BYTES >> 20} MiB",
        f"Of {syslog.MOST_CONNECTIONS} connections",
        f"beyond {statsd.MOST_WAITING:,} lines in a second",
    ],
)
def test_a_limit_stands_in_the_page(sentence: str) -> None:
    assert sentence in " ".join(PAGE.split())
