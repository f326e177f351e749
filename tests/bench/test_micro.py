"""The small measurements, as far as they are about what changes most: they run to their end."""

from __future__ import annotations

import pytest

from bench.micro import query_parts


def test_the_parts_of_every_query_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """A curve of thousands of points makes its grid in a thread, and so needs an event loop once."""
    query_parts.measure(rounds=1, now=1_772_407_680)
    told = capsys.readouterr().out
    assert told.count("all of it ") == 3 * len(query_parts.QUERIES)
