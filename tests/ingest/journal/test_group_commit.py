"""Turns at the journal: who waits for the commit under way gets the journal alone, also when others give up waiting.

And who waits until requests are answered is called back then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from ingest.attributes.profile import Profile
from ingest.batch import Batch, decode_batch
from ingest.hit import Hit
from ingest.hit_sums import close_group
from ingest.journal.group_commit import Group, GroupCommit


class Appended:
    """A journal that takes everything at once."""

    def __init__(self) -> None:
        self.groups: list[list[bytes]] = []

    def commit(self, payloads: Sequence[bytes], accepted_us: int) -> None:
        self.groups.append(list(payloads))


@pytest.mark.parametrize("cancelled", [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
async def test_a_turn_that_is_given_up_is_passed_on(cancelled: tuple[int, ...]) -> None:
    """Cancelled in the very step in which the turn before ends, as at a stop."""
    had = []

    async def turn(commits: GroupCommit, name: int) -> None:
        async with commits.exclusive():
            had.append(name)

    commits = GroupCommit(Appended().commit, lambda: 0.0, lambda: 1, close_group, lambda *_: iter(()))
    async with commits.exclusive():
        waiting = [asyncio.ensure_future(turn(commits, name)) for name in range(3)]
        await asyncio.sleep(0)
        for name in cancelled:
            waiting[name].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert had == [name for name in range(3) if name not in cancelled]
    await asyncio.wait_for(commits.add_single("launch"), 600)


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_turn_that_is_given_up_just_as_it_comes_is_passed_on(cancelled: int) -> None:
    commits = GroupCommit(Appended().commit, lambda: 0.0, lambda: 1, close_group, lambda *_: iter(()))

    async def turn() -> None:
        async with commits.exclusive():
            pass

    async with commits.exclusive():
        waiting = [asyncio.ensure_future(turn()) for _ in range(2)]
        await asyncio.sleep(0)
    waiting[cancelled].cancel()  # the first has been handed the journal, but has not run yet
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.wait_for(commits.add_single("launch"), 600)


async def test_the_loop_calls_back_when_the_hits_that_it_has_at_hand_are_answered() -> None:
    told: list[str] = []

    def committed(*_: object) -> Iterator[None]:
        told.append("committed")
        yield from ()

    commits = GroupCommit(Appended().commit, lambda: 0.0, lambda: 1, close_group, committed)

    async def request() -> None:
        await commits.add_single("launch")
        told.append("answered")

    waiting = asyncio.ensure_future(request())
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    await asyncio.to_thread(loop.call_soon_threadsafe, commits.after_requests, called.set)
    await asyncio.wait_for(called.wait(), 600)
    assert told == ["committed", "answered"]
    await waiting


def test_single_hits_that_say_something_are_one_batch_of_their_group() -> None:
    """So they are summed, written and counted once: as a batch of its own each took twice the time."""
    said = [Profile(("ref",), (host,)) for host in ("a.example", "b.example", "a.example")]
    hits = [Hit("launch", 60, 1, None, False, profile) for profile in said]
    sent: list[str | Hit] = [*hits, "other", Hit("b", 120, 1, None, bot=True)]
    counted: list[Batch] = []

    def committed(group: Group, *_: object) -> Iterator[None]:
        counted.extend(batch for batch, _, _ in group.batches)
        yield from ()

    async def story() -> None:
        journal = Appended()
        commits = GroupCommit(journal.commit, lambda: 0.0, lambda: 1, close_group, committed)
        waiting = [commits.add_single(hit) for hit in sent]
        await asyncio.wait_for(asyncio.gather(*waiting), 600)
        ((singles, payload),) = journal.groups
        assert decode_batch(singles) == (0, ["other"])
        assert [decode_batch(payload)] == counted

    asyncio.run(story())
    (batch,) = counted
    assert batch.attributes is not None
    assert (batch.people, batch.bots) == ({60: {"launch": 3}}, {120: {"b": 1}})
    assert [profile.values for profile in batch.attributes.table()] == [("a.example",), ("b.example",)]
    assert list(batch.attributes.links.hours[0].cells()) == [("launch", 0, 1), ("launch", 1, 1), ("launch", 0, 1)]


async def test_a_large_group_is_counted_in_steps_while_others_go_on_and_no_turn_comes_in_between() -> None:
    """A turn is a flush, an erasure, a stop: all that is in the journal is in the buffer then."""
    told: list[str] = []

    def committed(group: Group, *_: object) -> Iterator[None]:
        name = group.keys[0]
        for step in range(20 if name == "large" else 0):
            told.append(f"large {step}")
            yield
        told.append(f"{name} counted")

    commits = GroupCommit(Appended().commit, lambda: 0.0, lambda: 1, close_group, committed)
    loop = asyncio.get_running_loop()

    async def hit(name: str) -> None:
        await commits.add_single(name)
        told.append(f"{name} answered")

    async def turn() -> None:
        async with commits.exclusive():
            told.append("turn")

    large = loop.create_task(hit("large"))
    while not told:
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(large, hit("small"), turn()), 600)
    assert told.index("small answered") < told.index("large counted") < told.index("turn")
    assert told.index("large counted") < told.index("large answered")
    given_up = [loop.create_task(hit("large")) for _ in range(2)]
    while told.count("large 0") < 2:
        await asyncio.sleep(0)
    waiting = loop.create_task(turn())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(asyncio.gather(*given_up, hit("after")), 600)
    await asyncio.wait_for(turn(), 600)


async def test_a_group_that_cannot_be_counted_fails_and_holds_up_nobody() -> None:
    def committed(group: Group, *_: object) -> Iterator[None]:
        if group.keys[0] == "bad":
            yield
            raise ValueError("planted")

    commits = GroupCommit(Appended().commit, lambda: 0.0, lambda: 1, close_group, committed)
    with pytest.raises(ValueError, match="planted"):
        await asyncio.wait_for(commits.add_single("bad"), 600)
    async with commits.exclusive():
        pass
    await asyncio.wait_for(commits.add_single("good"), 600)
