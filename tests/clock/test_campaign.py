"""A short campaign of a clock that jumps at random; `make chaos` plays a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clock.campaign import play


@pytest.mark.needs("compiler")
def test_a_clock_that_jumps_at_random_changes_no_count_no_bucket_and_no_stamp(tmp_path: Path) -> None:
    report = play(tmp_path, seed=7, seconds=20)
    assert report.wrong == []
    assert report.done["jumps"] > 1
    assert report.hits["acknowledged"] > 100
