"""Of all processes that share a store one has a duty; when it is gone another one takes it, within some looks."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import StoreUnavailable
from server.alerts.watching import ALERTS_S
from server.job import DutyWork, Job
from server.process.duty import DUTIES_S, GONE_LOOKS, Duties, Duty
from storage.memory_store import MemoryStore


class FaultyStore(MemoryStore):
    """before, after: what happens around a change of a note."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    def noted(self, name: str) -> str | None:
        self.before()
        return super().noted(name)

    def note(self, name: str, value: str, kept_s: int | None = None) -> str:
        self.before()
        noted = super().note(name, value, kept_s)
        self.after()
        return noted

    def change_note(self, name: str, before: str, after: str) -> str | None:
        self.before()
        noted = super().change_note(name, before, after)
        self.after()
        return noted


def down() -> None:
    raise StoreUnavailable("down")


def processes(store: MemoryStore, count: int) -> list[Duty]:
    return [Duty(store, "alerts", ["an alert"]) for _ in range(count)]


async def test_the_first_one_has_it_and_keeps_it() -> None:
    one, two = processes(MemoryStore(), 2)
    for _ in range(3 * GONE_LOOKS):
        assert (await one.look(), await two.look()) == (True, False)


async def test_another_one_takes_it_when_the_holder_is_gone_within_an_interval_of_alerts() -> None:
    one, two = processes(MemoryStore(), 2)
    assert await one.look() and not await two.look()
    assert await one.look()  # and is killed
    looks = 0
    while not await two.look():
        looks += 1
    assert looks == GONE_LOOKS
    *_, look = Duties(MemoryStore(), [Job("alerts", two.give_back, ALERTS_S, duty=DutyWork([]))], print).jobs()
    assert (looks + 1) * look.period_s <= (GONE_LOOKS + 1) * DUTIES_S <= ALERTS_S


async def test_a_holder_that_stops_in_order_gives_it_back_at_once() -> None:
    one, two = processes(MemoryStore(), 2)
    assert await one.look() and not await two.look()
    await two.give_back()
    assert await one.look(), "only the holder gives it back"
    await one.give_back()
    assert await two.look() and not await one.look()


async def test_a_holder_that_was_suspended_finds_that_it_has_lost_the_duty_and_ends_its_work() -> None:
    ended: list[str] = []

    async def end() -> None:
        ended.append("work")

    store = MemoryStore()
    one, two = Duty(store, "alerts", ["an alert"], end), processes(store, 1)[0]
    await one.look()
    for _ in range(GONE_LOOKS + 1):
        await two.look()
    assert two.is_held and one.is_held and not ended, "it stands still"
    assert not await one.look() and ended == ["work"]
    await one.give_back()
    for _ in range(GONE_LOOKS):
        assert (await two.look(), await one.look()) == (True, False)


async def test_an_outage_of_the_store_makes_no_holder_look_gone() -> None:
    store = FaultyStore()
    one, two = processes(store, 2)
    await one.look()
    await two.look()
    store.before = down
    for _ in range(3 * GONE_LOOKS):
        for each in (two, one):
            with pytest.raises(StoreUnavailable):
                await each.look()
    assert (one.is_held, two.is_held) == (True, False), "as of the last look that was answered"
    store.before = lambda: None
    assert (await two.look(), await one.look(), await two.look()) == (False, True, False)


async def test_a_look_whose_outcome_is_unknown_is_its_own_when_the_store_answers_again() -> None:
    store = FaultyStore()
    one, two = processes(store, 2)
    for fails in (True, False, True, True):
        store.after = down if fails else lambda: None
        with suppress(StoreUnavailable):
            await one.look()
        store.after = lambda: None
        assert not await two.look()
    assert await one.look()


async def test_what_only_another_servers_settings_name_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    same = Duty(store, "alerts", ["a", "b"])
    await same.look()
    caplog.clear()  # "duty taken", where an earlier test has let informative lines through
    with caplog.at_level(logging.WARNING, "clickcurve"):
        await Duty(store, "alerts", ["b", "a"]).look()
        assert not caplog.records, "their order says nothing"
        differs = Duty(store, "alerts", ["a"])
        for _ in range(2):
            assert not await differs.look() and await same.look()
    assert [record.message for record in caplog.records] == ["other settings"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["look", "unknown", "down", "restart", "stop"]))))
def test_in_the_end_one_has_it_and_nobody_else_believes_so(story: list[tuple[int, str]]) -> None:
    """After any looks, kills, stops and faults, in any order."""

    async def tell() -> None:
        store = FaultyStore()
        each = processes(store, 4)
        for number, what in story:
            store.before = down if what == "down" else lambda: None
            store.after = down if what == "unknown" else lambda: None
            if what == "restart":
                each[number] = processes(store, 1)[0]
            with suppress(StoreUnavailable):
                if what == "stop":
                    await each[number].give_back()
                elif await each[number].look():
                    noted = json.loads(store.noted("duty:alerts") or "")
                    assert noted[0] == each[number]._process, "who is told so has it at that moment"
        store.before = store.after = lambda: None
        for _ in range(GONE_LOOKS + 1):
            holders = [number for number, duty in enumerate(each) if await duty.look()]
        assert len(holders) == 1
        assert [number for number, duty in enumerate(each) if await duty.look()] == holders
        assert [duty.is_held for duty in each].count(True) == 1

    asyncio.run(tell())
