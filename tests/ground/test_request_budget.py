"""A request's budget: it has an end for each kind of work, and others run while it is used up."""

from __future__ import annotations

import asyncio

import pytest

from clickcurve.budget import TURN_US, Budget, Cost, RequestTooCostly, budgeted, spend
from clickcurve.problem import error_body

ROWS = Cost("rows read", 10, TURN_US / 2)
POINTS = Cost("points made", 1_000_000, 1)


def test_each_kind_of_work_has_its_own_end() -> None:
    budget = Budget()
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
    Budget().charge(ROWS, 10)
    Budget().charge(ROWS, 10)


@pytest.mark.parametrize(("each", "times", "turns"), [(1, 10, 4), (TURN_US, 10, 9), (10, 1_000, 5), (1, 1_000, 0)])
def test_others_run_in_proportion_to_the_work(each: int, times: int, turns: int) -> None:
    cost = ROWS if (each, times) == (1, 10) else POINTS
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    async def story() -> int:
        budget, task = Budget(), asyncio.create_task(other())
        await asyncio.sleep(0)
        begun = others
        for _ in range(times):
            await budget.spend(cost, each)
        task.cancel()
        return others - begun

    assert asyncio.run(story()) == pytest.approx(turns, abs=1)


async def test_all_tasks_of_a_request_have_one_budget_and_another_request_has_its_own() -> None:
    async def request() -> int:
        with budgeted():
            ended = await asyncio.gather(*(spend(ROWS) for _ in range(12)), return_exceptions=True)
        return sum(isinstance(each, RequestTooCostly) for each in ended)

    assert list(await asyncio.gather(request(), request())) == [2, 2]


async def test_what_no_request_asked_for_has_no_budget() -> None:
    with budgeted():
        pass
    await spend(ROWS, 10**9)
