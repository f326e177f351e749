from __future__ import annotations

import pytest

from clickcurve.limiter.backends.breaker import Breaker


class Hand:
    """A timer that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def timer() -> Hand:
    return Hand()


@pytest.fixture
def breaker(timer: Hand) -> Breaker:
    """Opens after three failures in a row, for 1 s at first and 5 s at most."""
    return Breaker(timer, 3, 1.0, 5.0)


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        assert breaker.lets()
        breaker.failed()


def test_it_opens_after_so_many_failures_in_a_row(breaker: Breaker) -> None:
    fail(breaker, 2)
    assert breaker.lets()
    breaker.answered()
    fail(breaker, 2)
    assert (breaker.is_open, breaker.opened) == (False, 0)
    fail(breaker)
    assert (breaker.is_open, breaker.opened) == (True, 1)
    assert not breaker.lets()
    assert breaker.left_s() == 1.0


def test_after_the_pause_one_may_try(breaker: Breaker, timer: Hand) -> None:
    fail(breaker, 3)
    timer.now_s += 0.999
    assert not breaker.lets()
    timer.now_s += 0.001
    assert [breaker.lets() for _ in range(3)] == [True, False, False]
    breaker.answered()
    assert [breaker.lets() for _ in range(3)] == [True, True, True]
    assert not breaker.is_open


def test_the_pause_doubles_up_to_a_bound_and_begins_anew(breaker: Breaker, timer: Hand) -> None:
    fail(breaker, 3)
    pauses_s = []
    for _ in range(5):
        pauses_s.append(breaker.left_s())
        timer.now_s += breaker.left_s()
        fail(breaker)
    assert pauses_s == [1.0, 2.0, 4.0, 5.0, 5.0]
    timer.now_s += 5.0
    assert breaker.lets()
    breaker.answered()
    fail(breaker, 3)
    assert breaker.left_s() == 1.0
    assert breaker.opened == 2


def test_a_question_from_before_it_opened_lengthens_no_pause(breaker: Breaker) -> None:
    assert all(breaker.lets() for _ in range(10))
    for _ in range(10):
        breaker.failed()
    assert breaker.left_s() == 1.0
    breaker.answered()  # one of them was answered after all
    assert not breaker.is_open


def test_a_question_that_is_given_up_lets_the_next_one_try(breaker: Breaker, timer: Hand) -> None:
    fail(breaker, 3)
    timer.now_s += 1.0
    assert breaker.lets()
    breaker.gave_up()
    assert breaker.lets()
