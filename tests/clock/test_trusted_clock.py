"""The trusted clock: what it follows at once, what later, and what it knows at a start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.clock import AHEAD_S, HELD_S, NEAR_S
from tests.clock.machine import RAN, TRUE, Machine
from tests.power import examples

MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0
STEPS = [-400 * DAY_S, -DAY_S, -HOUR_S, -MINUTE_S, MINUTE_S, HOUR_S, 3 * DAY_S, 400 * DAY_S]


@pytest.mark.parametrize("step_s", STEPS)
def test_a_step_that_is_put_right_within_ten_minutes_leaves_no_trace(step_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.off_s = step_s
    machine.look(clock, 599)
    assert (clock.now(), clock.careful()) == (machine.true, machine.true)
    assert (clock.status().state, clock.status().off_s) == ("stepped", step_s)
    machine.off_s = 0.0
    machine.look(clock, 1)
    assert (clock.now(), clock.status().state, clock.status().off_s) == (machine.true, "ok", 0.0)
    assert (clock.steps, clock.settled, clock.followed) == (1, 1, False)


@pytest.mark.parametrize("step_s", STEPS)
def test_a_step_that_holds_is_followed_after_ten_minutes_and_by_what_cannot_be_undone_in_a_day(step_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.off_s = step_s
    machine.look(clock, 602)
    assert clock.now() == machine.wall()
    assert clock.status().state == "ok"
    assert clock.careful() == min(machine.wall(), machine.true + AHEAD_S)
    assert clock.status().folding_held == (step_s > AHEAD_S)
    machine.look(clock, HELD_S - 602, every_s=30)
    assert clock.careful() == min(machine.wall(), machine.true + AHEAD_S)
    machine.look(clock, 700)
    assert clock.careful() == machine.wall()
    assert not clock.status().folding_held


def test_a_clock_that_jumps_again_must_hold_anew() -> None:
    machine = Machine()
    clock = machine.clock()
    for jump in range(20):
        machine.off_s = (-1) ** jump * jump * HOUR_S
        machine.look(clock, 590)
        assert clock.now() == machine.true
    assert clock.steps == 19


def test_with_no_time_to_settle_a_step_is_followed_at_once_but_not_by_what_cannot_be_undone() -> None:
    machine = Machine()
    clock = machine.clock(settle_s=0)
    machine.off_s = 3 * DAY_S
    machine.look(clock, 1)
    assert (clock.now(), clock.careful()) == (machine.wall(), machine.true + AHEAD_S)


def test_an_operator_accepts_a_step_and_all_follows() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.off_s = 3 * DAY_S
    machine.look(clock, 5)
    assert clock.accept() == 3 * DAY_S
    assert (clock.now(), clock.careful(), clock.status().state) == (machine.wall(), machine.wall(), "ok")


@pytest.mark.parametrize("step_s", [-NEAR_S + 1, -2.0, 0.5, NEAR_S - 1])
def test_a_time_service_that_mends_some_seconds_is_followed_at_once(step_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.off_s = step_s
    machine.look(clock, 1)
    assert (clock.now(), clock.steps) == (machine.wall(), 0)


@pytest.mark.parametrize("rate", [0.9, 1.1])
def test_a_clock_that_runs_a_tenth_fast_or_slow_is_followed_and_pulls_the_careful_one_along(rate: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.rate = rate
    for _ in range(3 * 24):
        machine.look(clock, HOUR_S, every_s=2)
        assert clock.now() == machine.wall()
        behind_s = clock.now() - clock.careful()
        assert behind_s <= max(0.0, rate - 1) * (HELD_S + 10) - AHEAD_S + MINUTE_S if rate > 1 else behind_s == 0
    assert clock.steps == 0


def test_a_clock_that_runs_twice_as_fast_is_not_believed() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.rate = 2.0
    machine.look(clock, 2 * HOUR_S)
    assert clock.now() == pytest.approx(machine.true, abs=NEAR_S)
    assert clock.status().state == "stepped"
    assert clock.steps == 1, "one that goes on is told once"


def test_a_suspended_machine_has_not_jumped() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(3 * DAY_S)
    assert (clock.now(), clock.careful(), clock.steps) == (machine.true, machine.true, 0)


@pytest.mark.parametrize("step_s", STEPS)
def test_a_start_in_the_same_boot_knows_the_time_whatever_the_wall_clock_says(step_s: float) -> None:
    machine = Machine()
    known = machine.clock().known()
    machine.run(3 * HOUR_S)
    machine.off_s = step_s
    clock = machine.clock(known)
    assert (clock.now(), clock.careful()) == (machine.true, machine.true)
    is_behind = machine.wall() < known.careful
    assert clock.status().state == ("behind" if is_behind else "stepped")
    assert clock.status().is_unready == is_behind
    machine.look(clock, 61)
    assert not clock.status().is_unready
    machine.look(clock, 540)
    assert clock.now() == (machine.true if is_behind else machine.wall())


def test_a_process_that_is_killed_in_a_step_does_not_begin_to_wait_anew() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.off_s = 3 * DAY_S
    machine.look(clock, 400)
    clock = machine.clock(clock.known())
    machine.look(clock, 199)
    assert clock.now() == machine.true
    machine.look(clock, 2)
    assert clock.now() == machine.wall()
    assert clock.careful() == machine.true + AHEAD_S
    clock = machine.clock(clock.known())
    assert clock.careful() == machine.true + AHEAD_S, "nor is what cannot be undone forgotten by a kill"


def test_after_a_boot_a_wall_clock_that_is_not_before_what_is_known_is_believed_for_stamps() -> None:
    machine = Machine()
    known = machine.clock().known()
    machine.boot(off_for_s=9 * HOUR_S)
    clock = machine.clock(known)
    assert clock.now() == machine.true
    assert clock.careful() == TRUE + AHEAD_S
    assert clock.status().folding_held
    machine.look(clock, HELD_S + 5, every_s=30)
    assert clock.careful() == machine.true


def test_what_cannot_be_undone_waits_for_running_time_over_boots() -> None:
    """A machine that is off each night folds nevertheless: each night's hours wait for a day of running time."""
    machine = Machine()
    clock = machine.clock()
    for _ in range(10):
        machine.look(clock, 8 * HOUR_S, every_s=30)
        known = clock.known()
        machine.boot(off_for_s=16 * HOUR_S)
        clock = machine.clock(known)
    assert machine.true - clock.careful() == 4 * 16 * HOUR_S - AHEAD_S, "of three days, and of the last night"


def test_after_a_boot_in_1970_hits_are_stamped_from_the_newest_flush_until_the_clock_is_mended() -> None:
    machine = Machine()
    known = machine.clock().known()
    machine.boot(off_for_s=600)
    machine.off_s = 1_000.0 - machine.true
    clock = machine.clock(known)
    assert clock.now() == TRUE
    assert clock.status().state == "behind"
    machine.look(clock, 7_200)
    assert clock.now() == TRUE + 7_200, "it does not hold its way back to 1970"
    machine.off_s = 0
    machine.look(clock, 1)
    assert (clock.now(), clock.status().state) == (machine.true, "ok")


def test_after_a_boot_far_ahead_a_time_service_is_believed_at_once() -> None:
    machine = Machine()
    known = machine.clock().known()
    machine.boot(off_for_s=60)
    machine.off_s = 400 * DAY_S
    clock = machine.clock(known)
    assert clock.now() == machine.wall()
    assert clock.careful() == TRUE + AHEAD_S
    machine.look(clock, 50)
    machine.off_s = 0
    machine.look(clock, 1)
    assert (clock.now(), clock.status().state) == (machine.true, "ok")
    assert clock.careful() == machine.true
    machine.off_s = -30 * DAY_S
    machine.look(clock, 60)
    assert clock.now() == machine.true, "but no time before what the store has"


def test_a_store_whose_last_flush_was_ahead_is_behind_for_a_day_or_until_an_operator_accepts() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.learn_flush(TRUE + 400 * DAY_S)  # by an older version, whose clock was ahead
    assert (clock.now(), clock.status().state) == (TRUE + 400 * DAY_S, "behind")
    machine.look(clock, HELD_S + 2, every_s=30)
    assert (clock.now(), clock.careful()) == (machine.true, machine.true)


def test_each_start_is_behind_what_the_last_process_has_flushed_whatever_it_was_behind_of_itself() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(DAY_S)
    machine.off_s = -2 * HOUR_S
    clock = machine.clock(clock.known())
    clock.learn_flush(machine.true - HOUR_S)
    assert clock.status().state == "behind"
    machine.look(clock, 30)
    known = clock.known()
    machine.run(900)
    assert machine.clock(known).now() == machine.true, "it has held for ten minutes, and is before what was flushed"


def test_a_clock_that_was_set_back_while_the_server_was_down_is_followed_when_it_has_passed_the_newest_flush() -> None:
    machine = Machine()
    machine.off_s = HOUR_S
    known = machine.clock().known()
    machine.run(10)
    machine.off_s = 0
    clock = machine.clock(known)
    machine.look(clock, HOUR_S - 60)
    assert clock.now() == machine.true + HOUR_S
    machine.look(clock, 60)
    assert (clock.now(), clock.status().state) == (machine.true, "ok")


def test_what_cannot_be_undone_does_not_follow_a_time_that_the_wall_clock_denies() -> None:
    """A start that is behind goes on by a time that held for 21 hours; what the wall clock denies does not count."""
    machine = Machine()
    clock = machine.clock()
    machine.off_s = 3 * DAY_S
    machine.look(clock, 21 * HOUR_S, every_s=30)
    flushed = clock.careful()
    machine.off_s = -400 * DAY_S
    machine.run(1)
    clock = machine.clock(clock.known())
    clock.learn_flush(flushed)
    machine.look(clock, 9 * HOUR_S, every_s=30)
    assert clock.status().state == "behind"
    assert clock.now() == machine.true + 3 * DAY_S
    assert clock.careful() == machine.true + AHEAD_S
    machine.off_s = 3 * DAY_S
    machine.look(clock, 2.9 * HOUR_S, every_s=30)
    assert (clock.now(), clock.careful()) == (machine.wall(), machine.true + AHEAD_S)
    machine.look(clock, 0.4 * HOUR_S, every_s=30)
    assert clock.careful() == machine.wall()


def test_a_first_start_beside_an_older_versions_store_learns_when_that_was_flushed() -> None:
    machine = Machine()
    machine.off_s = 3 * DAY_S
    clock = machine.clock()
    assert clock.careful() == machine.wall(), "nothing is known yet"
    clock.learn_flush(TRUE - 15)
    assert (clock.now(), clock.careful()) == (machine.wall(), TRUE - 15 + AHEAD_S)


def test_another_machine_that_flushed_at_this_time_confirms_it() -> None:
    machine = Machine()
    known = machine.clock().known()
    machine.boot(off_for_s=5 * DAY_S)
    clock = machine.clock(known)
    assert not clock.learn_others([TRUE, machine.true + 2 * HOUR_S])
    assert clock.careful() == TRUE + AHEAD_S
    assert clock.learn_others([TRUE, machine.true - 20])
    assert (clock.careful(), clock.status().folding_held) == (machine.true, False)


def test_most_readings_look_at_the_wall_clock_alone() -> None:
    machine, looks = Machine(), 0

    def running() -> float:
        nonlocal looks
        looks += 1
        return machine.ran

    clock = machine.clock()
    clock._running = running
    for _ in range(1_000):
        machine.run(0.01)
        assert (clock.now(), clock.careful()) == (machine.true, machine.true)
    assert looks <= 11


Action = tuple[str, float]
ACTIONS = st.one_of(
    st.tuples(st.just("run"), st.sampled_from([0.5, 1.0, 30.0, 300.0, 599.0, HOUR_S, 20 * HOUR_S])),
    st.tuples(st.just("set"), st.sampled_from([0.0, *STEPS, -TRUE + 1_000])),
    st.tuples(st.just("right"), st.just(0.0)),
    st.tuples(st.just("restart"), st.sampled_from([1.0, 30.0, HOUR_S])),
    st.tuples(st.just("boot"), st.sampled_from([20.0, HOUR_S, 10 * DAY_S])),
)


@settings(max_examples=examples(1_000))
@given(st.lists(ACTIONS, max_size=40))
def test_careful_never_runs_ahead_by_more_than_an_hour_on_a_jumps_word(actions: list[Action]) -> None:
    """The oracle: for how long of running time the wall clock has said this time or a later one."""
    machine = Machine()
    clock = machine.clock()
    ran = RAN  # over all boots
    said: list[tuple[float, float]] = [(ran, machine.wall() - ran)]

    def look(seconds: float) -> None:
        nonlocal ran
        for _ in range(max(1, min(40, int(seconds)))):
            step = seconds / max(1, min(40, int(seconds)))
            machine.run(step)
            ran += step
            before = clock.careful()
            assert clock.careful() <= clock.now()
            said.append((ran, clock.now() - ran))
            lately = [offset for at, offset in said if at >= ran - HELD_S]
            assert before <= ran + min(lately) + AHEAD_S + MINUTE_S, "each within the last day of running"

    for what, value in actions:
        match what:
            case "run":
                look(value)
            case "set":
                machine.off_s = value
                look(1.0)
            case "right":
                machine.off_s = 0.0
                look(1.0)
            case "restart":
                known = clock.known()
                machine.run(value)
                ran += value
                clock = machine.clock(known)
                look(1.0)
            case "boot":
                known = clock.known()
                machine.boot(value)
                clock = machine.clock(known)
                look(1.0)
