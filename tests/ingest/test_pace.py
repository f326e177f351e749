"""The pauses of a flush, with a clock in the hand and an event loop that takes as long as it is told to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest.flush import LONGEST_PAUSE_S, SLICE_S, Pace

INTERVAL_S = 15.0


def call(callback: Callable[..., object], *args: object) -> None:
    """Calls at once, as a loop in another thread that has nothing to do."""
    callback(*args)


class Flushing:
    """A flush whose rows take `row_s` each, beside a loop that answers after `answer_s`."""

    def __init__(self, row_s: float, answer_s: float, served: bool = True) -> None:
        self.now_s = self.paused_s = 0.0
        self.pauses = 0
        self._row_s, self._answer_s = row_s, answer_s
        self._pause = Pace(lambda: self.now_s, INTERVAL_S, lambda: served).over(call, self._answer)

    def _answer(self, answered: Callable[[], object]) -> None:
        self.now_s += self._answer_s
        self.paused_s += self._answer_s
        self.pauses += 1
        answered()

    def write(self, rows: int) -> None:
        for _ in range(rows):
            self.now_s += self._row_s
            self._pause()


@pytest.mark.parametrize("row_s", [0.000_02, 0.000_1, 0.001, 0.1])
def test_the_loop_gets_its_turn_after_each_slice_of_work_however_much_a_row_takes(row_s: float) -> None:
    flushing = Flushing(row_s, answer_s=0.0)
    flushing.write(1_000)
    assert flushing.pauses == pytest.approx(min(1_000, 1_000 * row_s / SLICE_S), abs=1, rel=0.1)


@pytest.mark.parametrize("answer_s", [0.000_05, 0.001, 0.005])
@pytest.mark.parametrize("rows", [8, 1_000, 30_000, 300_000])
def test_all_pauses_of_a_flush_take_at_most_their_share_of_the_interval(rows: int, answer_s: float) -> None:
    flushing = Flushing(SLICE_S / 8 * 1.001, answer_s)
    flushing.write(rows)
    meant_s = min(0.4 * INTERVAL_S, rows // 8 * answer_s)
    assert meant_s * 0.99 <= flushing.paused_s <= meant_s + answer_s


def test_nothing_is_waited_for_where_nobody_is_served() -> None:
    flushing = Flushing(0.001, 0.001, served=False)
    flushing.write(1_000)
    assert flushing.pauses == 0


def test_a_loop_that_never_answers_holds_a_flush_up_for_a_moment_at_a_time() -> None:
    asked: list[object] = []
    ticks = iter([0.0, SLICE_S, SLICE_S + LONGEST_PAUSE_S])
    Pace(lambda: next(ticks), INTERVAL_S, lambda: True).over(call, asked.append)()
    assert len(asked) == 1
