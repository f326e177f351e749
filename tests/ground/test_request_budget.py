"""The budget of a request: what it may use, over all of its tasks, and that others have their turn meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import RequestTooLarge
from clickcurve.budget import PAUSE_AFTER_S, Work, budgeted, spend

MOST = {Work.rows: 10, Work.points: 100, Work.matches: 5}


@given(st.lists(st.tuples(st.sampled_from(Work), st.integers(0, 12)), max_size=30))
def test_a_request_ends_with_the_first_piece_of_work_that_is_too_much(pieces: list[tuple[Work, int]]) -> None:
    async def story() -> None:
        used = dict.fromkeys(Work, 0)
        with budgeted(MOST):
            for work, amount in pieces:
                used[work] += amount
                if used[work] > MOST[work]:
                    with pytest.raises(RequestTooLarge, match=f"more than {MOST[work]} {work}") as refused:
                        await spend(work, amount)
                    assert (refused.value.status, refused.value.field) == (422, work)
                    assert refused.value.rule == f"at most {MOST[work]} {work} in one request"
                    return
                await spend(work, amount)

    asyncio.run(story())


def test_all_tasks_of_a_request_have_one_budget_and_another_request_has_its_own() -> None:
    async def request() -> int:
        with budgeted(MOST):
            ended = await asyncio.gather(*(spend(Work.rows) for _ in range(12)), return_exceptions=True)
        return sum(isinstance(each, RequestTooLarge) for each in ended)

    async def story() -> None:
        assert list(await asyncio.gather(request(), request())) == [2, 2]

    asyncio.run(story())


def test_without_a_budget_nothing_is_too_much() -> None:
    async def story() -> None:
        with budgeted(MOST):
            pass
        await spend(Work.rows, 10**9)

    asyncio.run(story())


def test_others_have_their_turn_while_a_request_works() -> None:
    async def story() -> None:
        loop, turns = asyncio.get_running_loop(), 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def work() -> None:
            with budgeted(MOST):
                for _ in range(5):
                    until = loop.time() + 2 * PAUSE_AFTER_S
                    while loop.time() < until:
                        pass
                    await spend(Work.points)

        await during(other(), work())
        assert turns >= 5

    asyncio.run(story())


async def during(background: Coroutine[Any, Any, None], work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(background)
    try:
        await work
    finally:
        task.cancel()
