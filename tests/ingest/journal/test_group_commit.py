"""Turns at the journal: who waits for the commit under way gets the journal alone, also when others give up waiting.

And who waits until requests are answered is called back then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest.journal.group_commit import GroupCommit


class Appended:
    """A journal that takes everything at once."""

    sync_s = 0.0

    def append(self, payloads: Sequence[bytes], accepted_us: int) -> None:
        pass


@pytest.mark.parametrize("cancelled", [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_a_turn_that_is_given_up_is_passed_on(cancelled: tuple[int, ...]) -> None:
    """Cancelled in the very step in which the turn before ends, as at a stop."""
    had = []

    async def turn(commits: GroupCommit, name: int) -> None:
        async with commits.exclusive():
            had.append(name)

    async def story() -> None:
        with ThreadPoolExecutor(1) as thread:
            commits = GroupCommit(Appended(), lambda: 0.0, lambda: 1, lambda *_: None, thread)
            async with commits.exclusive():
                waiting = [asyncio.ensure_future(turn(commits, name)) for name in range(3)]
                await asyncio.sleep(0)
                for name in cancelled:
                    waiting[name].cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert had == [name for name in range(3) if name not in cancelled]
            await asyncio.wait_for(commits.add_single("launch"), 5.0)

    asyncio.run(story())


@pytest.mark.parametrize("cancelled", [0, 1])
def test_a_turn_that_is_given_up_just_as_it_comes_is_passed_on(cancelled: int) -> None:
    async def story() -> None:
        with ThreadPoolExecutor(1) as thread:
            commits = GroupCommit(Appended(), lambda: 0.0, lambda: 1, lambda *_: None, thread)

            async def turn() -> None:
                async with commits.exclusive():
                    pass

            async with commits.exclusive():
                waiting = [asyncio.ensure_future(turn()) for _ in range(2)]
                await asyncio.sleep(0)
            waiting[cancelled].cancel()  # the first has been handed the journal, but has not run yet
            await asyncio.gather(*waiting, return_exceptions=True)
            await asyncio.wait_for(commits.add_single("launch"), 5.0)

    asyncio.run(story())


def test_the_loop_calls_back_when_the_hits_that_it_has_at_hand_are_answered() -> None:
    async def story() -> None:
        with ThreadPoolExecutor(1) as thread:
            commits = GroupCommit(Appended(), lambda: 0.0, lambda: 1, lambda *_: told.append("committed"), thread)
            told: list[str] = []

            async def request() -> None:
                await commits.add_single("launch")
                told.append("answered")

            waiting = asyncio.ensure_future(request())
            loop, called = asyncio.get_running_loop(), asyncio.Event()
            await asyncio.to_thread(loop.call_soon_threadsafe, commits.after_requests, called.set)
            await asyncio.wait_for(called.wait(), 5.0)
            assert told == ["committed", "answered"]
            await waiting

    asyncio.run(story())
