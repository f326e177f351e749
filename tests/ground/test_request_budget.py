"""A request's budget: it has an end for each kind of work, and others run while it is used up."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from clickcurve.budget import TURN_S, Budget, Cost, RequestTooCostly, budgeted, spend
from clickcurve.problem import error_body

ROWS = Cost("rows read", 10)
POINTS = Cost("points made", 1_000_000)


def at_rest() -> float:
    return 0.0


def test_each_kind_of_work_has_its_own_end() -> None:
    budget = Budget(at_rest)
    budget.charge(ROWS, 10)
    budget.charge(POINTS, 999_999)
    with pytest.raises(RequestTooCostly) as refused:
        budget.charge(ROWS)
    budget.charge(POINTS)
    with pytest.raises(RequestTooCostly):
        budget.charge(POINTS)
    assert refused.value.status == 422
    assert b"more than 10 rows read" in error_body(refused.value)


def test_a_new_request_has_all_of_it() -> None:
    Budget(at_rest).charge(ROWS, 10)
    Budget(at_rest).charge(ROWS, 10)


@pytest.mark.parametrize(
    ("each_s", "times", "turns"),
    [(TURN_S / 2, 10, 4), (TURN_S, 10, 9), (TURN_S / 256, 1_024, 3), (TURN_S / 2048, 1_024, 0)],
)
def test_others_run_in_proportion_to_the_time_that_the_work_takes(each_s: float, times: int, turns: int) -> None:
    others, now_s = 0, 0.0

    async def other() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    async def story() -> int:
        nonlocal now_s
        budget, task = Budget(lambda: now_s), asyncio.create_task(other())
        await asyncio.sleep(0)
        begun = others
        for _ in range(times):
            await budget.spend(POINTS)
            now_s += each_s
        task.cancel()
        return others - begun

    assert asyncio.run(story()) == pytest.approx(turns, abs=0)


async def test_tasks_that_work_at_once_share_their_turns_too() -> None:
    now_s, begun, turns = 0.0, 0, list[int]()
    budget = Budget(lambda: now_s)

    async def work() -> None:
        nonlocal now_s, begun
        await budget.spend(POINTS)
        begun += 1
        now_s += TURN_S / 2

    async def other() -> None:
        while begun < 30:
            turns.append(begun)
            await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(30)), other())
    assert max(after - before for before, after in pairwise(turns)) == 2


async def test_all_tasks_of_a_request_have_one_budget_and_another_request_has_its_own() -> None:
    async def request() -> int:
        with budgeted(at_rest):
            ended = await asyncio.gather(*(spend(ROWS) for _ in range(12)), return_exceptions=True)
        return sum(isinstance(each, RequestTooCostly) for each in ended)

    assert list(await asyncio.gather(request(), request())) == [2, 2]


async def test_what_no_request_asked_for_has_no_budget() -> None:
    with budgeted(at_rest):
        pass
    await spend(ROWS, 10**9)
