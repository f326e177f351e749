"""The pauses of a flush, with a clock in the hand and sleeps that take longer than they should."""

from __future__ import annotations

import pytest

from ingest.flush import ROWS_PER_PAUSE, Pace


def slept(rows: int, takes: float, served: bool = True) -> float:
    """Returns how long the pauses of a flush of so many rows take, if each takes `takes` times what was asked for."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 0.001
        now[0] += seconds * takes

    pause = Pace(sleep, lambda: now[0], 15.0, lambda: served).over(rows)
    for _ in range(rows // ROWS_PER_PAUSE):
        pause()
    return now[0]


@pytest.mark.parametrize("takes", [1.0, 1.5, 3.0, 100.0])
@pytest.mark.parametrize("rows", [8, 1_000, 30_000, 300_000, 3_000_000])
def test_all_pauses_of_a_flush_take_at_most_their_share_of_the_interval(rows: int, takes: float) -> None:
    meant = min(6.0, rows // ROWS_PER_PAUSE * 0.001)
    assert meant * 0.99 <= slept(rows, takes) <= meant + 0.001 * takes


def test_nothing_is_slept_where_nobody_waits() -> None:
    assert slept(300_000, 1.0, served=False) == 0.0
