"""Requests over a driver whose answers the test gives: late, twice, never, after all have gone."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from clickcurve.buckets.errors import ClickcurveError, StoreMismatch, StoreUnavailable
from storage.cassandra.cql import Rows, Statement, StatementKind, Values
from storage.cassandra.gate import FEW
from storage.cassandra.requests import (
    ATTEMPTS,
    MOST_FAILURES,
    PAUSE_S,
    SERIAL_IN_FLIGHT,
)
from tests.storage.cassandra.driver_kit import Driver, Late, Pending, Refused, requests

READ = Statement("READ", "a read", StatementKind.READ)
OF_FLUSH = Statement("OF_FLUSH", "a read of rows to flush", StatementKind.READ, of_flush=True)
UPDATE = Statement("UPDATE", "an update", StatementKind.CONDITION)


def echo(pending: Pending) -> None:
    pending.answer([pending.values])


# --- threads ----------------------------------------------------------------------------------------------------------
def test_results_come_in_the_order_of_the_values_and_few_are_under_way_at_once() -> None:
    driver = Driver(echo)
    asked, counters = requests(driver, in_flight=4)
    many: list[Values] = [(n,) for n in range(200)]
    assert asked.run_each(READ, many) == [[values] for values in many]
    assert driver.most_under_way <= 4
    assert counters.numbers()["store_requests_total"] == 200
    assert asked.run_each(READ, []) == []


def test_conditional_updates_are_fewer_at_once() -> None:
    driver = Driver(lambda pending: pending.answer([(True,)]))
    asked, _ = requests(driver, in_flight=1_000)
    assert asked.apply_each_if(UPDATE, [(n,) for n in range(300)], 0) == [True] * 300
    assert driver.most_under_way <= SERIAL_IN_FLIGHT


@pytest.mark.parametrize(
    ("statement", "accepts_hits", "busy_s", "rests_s", "most"),
    [
        (READ, True, 0, 0.0, 64),
        (OF_FLUSH, False, 0, 0.0, 64),
        (OF_FLUSH, True, 0, 0.0, FEW),
        (OF_FLUSH, True, 3, 0.0, 2 * FEW),
        (OF_FLUSH, True, 6, 0.0, 4 * FEW),
        (OF_FLUSH, True, 60, 0.0, 64),
        (OF_FLUSH, True, 60, 0.1, FEW),
    ],
)
def test_a_flush_begins_with_few_requests_where_hits_are_accepted(
    statement: Statement, accepts_hits: bool, busy_s: int, rests_s: float, most: int
) -> None:
    driver, now = Driver(echo), 0.0
    asked, _ = requests(driver, in_flight=64, now=(lambda: now) if accepts_hits else None)
    for second in range(busy_s):
        asked.run_each(statement, [(0,)])
        now = second + 1.0
    now += rests_s
    driver.answers, first = None, len(driver.sent)
    sending = threading.Thread(target=asked.run_each, args=(statement, [(n,) for n in range(300)]), daemon=True)
    sending.start()
    reached = 0
    for answered in range(300):
        expected = min(most, 300 - answered)
        for _ in range(60_000):
            if (under_way := len(driver.sent) - first - answered) >= expected:
                break
            sending.join(0.001)
        reached = max(reached, under_way)
        driver.sent[first + answered].listened.wait()
        echo(driver.sent[first + answered])
    sending.join()
    assert reached == most


def test_what_fails_is_sent_again_alone_and_a_pause_lies_in_between() -> None:
    seen: Counter[Values] = Counter()
    pauses: list[float] = []

    def answer(pending: Pending) -> None:
        seen[pending.values] += 1
        if pending.values[0] in (3, 7) and seen[pending.values] < ATTEMPTS:
            pending.fail(Late("no answer"))
        else:
            echo(pending)

    asked, _ = requests(Driver(answer), pause=pauses.append)
    many: list[Values] = [(n,) for n in range(50)]
    assert asked.run_each(READ, many) == [[values] for values in many]
    assert seen == {values: ATTEMPTS if values in ((3,), (7,)) else 1 for values in many}
    assert pauses == [PAUSE_S] * (ATTEMPTS - 1)


def test_what_keeps_failing_is_raised_and_the_others_were_done_once() -> None:
    seen: Counter[Values] = Counter()

    def answer(pending: Pending) -> None:
        seen[pending.values] += 1
        if pending.values == (7,):
            pending.fail(Late("no answer"))
        else:
            echo(pending)

    asked, _ = requests(Driver(answer))
    with pytest.raises(StoreUnavailable, match="raised: no answer") as raised:
        asked.run_each(READ, [(n,) for n in range(50)])
    assert isinstance(raised.value.__cause__, Late)
    assert seen == {(n,): ATTEMPTS if n == 7 else 1 for n in range(50)}


def test_after_many_failures_no_more_is_sent_and_what_was_sent_is_waited_for() -> None:
    ended = list[Values]()

    def answer(pending: Pending) -> None:
        ended.append(pending.values)
        pending.fail(Late("no answer"))

    driver = Driver(answer)
    asked, _ = requests(driver, in_flight=2)
    with pytest.raises(StoreUnavailable):
        asked.run_each(READ, [(n,) for n in range(500)])
    assert len(driver.sent) <= ATTEMPTS * (MOST_FAILURES + 1 + 2)
    assert len(ended) == len(driver.sent)


def test_what_waiting_does_not_mend_is_raised_at_once() -> None:
    class Wrong(Driver):
        def as_store_error(self, error: Exception) -> ClickcurveError:
            return StoreMismatch("there is no such table")

    driver = Wrong(lambda pending: pending.fail(Late("no table")))
    asked, _ = requests(driver)
    with pytest.raises(StoreMismatch):
        asked.run_each(READ, [(1,)])
    assert len(driver.sent) == 1


def test_what_calls_back_twice_is_heard_once() -> None:
    def answer(pending: Pending) -> None:
        pending.answer([("first",)])
        pending.answer([("second",)])
        pending.fail(Late("a speculative request"))

    asked, _ = requests(Driver(answer), in_flight=1)
    for _ in range(20):  # each place would be given back three times
        assert asked.run_each(READ, [(), ()]) == [[("first",)], [("first",)]]


def test_a_request_that_cannot_be_sent_is_a_failure_like_others() -> None:
    driver = Driver(echo)
    asked, _ = requests(driver, in_flight=1)
    driver.broken = RuntimeError("the session is shut down")
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="shut down"):
            asked.run_each(READ, [(1,)])
    driver.broken = None
    assert asked.run_each(READ, [(1,)]) == [[(1,)]]


def test_an_update_was_applied_or_not_or_nobody_knows_or_it_was_refused() -> None:
    def answer(pending: Pending) -> None:
        what = pending.values[0]
        if isinstance(what, Exception):
            pending.fail(what)
        else:
            pending.answer([(what, "what is stored", 3)])

    asked, counters = requests(Driver(answer))
    assert asked.apply_each_if(UPDATE, [(True,), (False,), (Late(),), (True,)], 0) == [True, False, None, True]
    assert counters.numbers()["store_unknown_total"] == 1
    with pytest.raises(StoreUnavailable, match="raised: too few replicas"):
        asked.apply_each_if(UPDATE, [(True,), (Refused("too few replicas"),)], 0)


def paged(pending: Pending) -> None:
    page = int(pending.from_state or b"0")
    pending.answer([(page,)], str(page + 1).encode() if page < 3 else None)


def test_rows_come_from_all_pages() -> None:
    asked, _ = requests(Driver(paged))
    assert asked.run_each(READ, [(), ()]) == [[(0,), (1,), (2,), (3,)]] * 2


def test_a_page_is_asked_for_when_it_is_needed() -> None:
    driver = Driver(paged)
    asked, _ = requests(driver)
    pages = asked.pages(READ, (), 7)
    assert next(pages) == [(0,)]
    assert [pending.size for pending in driver.sent] == [7]
    assert list(pages) == [[(1,)], [(2,)], [(3,)]]
    assert [pending.size for pending in driver.sent] == [7] * 4


def test_a_result_without_rows_is_no_rows() -> None:
    asked, _ = requests(Driver(lambda pending: pending.answer(None)))
    assert asked.run_each(READ, [()]) == [[]]


def test_several_statements_are_under_way_at_once_and_what_failed_of_them_is_sent_again() -> None:
    together = threading.Event()
    failed: list[Values] = []

    def answer(pending: Pending) -> None:
        if len(driver.sent) == 5:
            together.set()
        assert together.wait(10), "what comes later waits for what came first"
        if pending.values == (2,) and not failed:
            failed.append(pending.values)
            pending.fail(Late("no answer"))
        else:
            echo(pending)

    driver = Driver(answer)
    asked, _ = requests(driver, in_flight=8)
    other = Statement("OTHER", "another read", StatementKind.READ)
    assert asked.run_all([(READ, [(0,), (1,)]), (other, []), (other, [(2,), (3,), (4,)])]) == [
        [[(0,)], [(1,)]],
        [],
        [[(2,)], [(3,)], [(4,)]],
    ]
    assert [pending.values for pending in driver.sent[5:]] == [(2,)]


def test_what_is_sent_is_under_way_until_it_is_waited_for_and_a_fault_in_it_is_mended_then() -> None:
    driver = Driver()
    asked, _ = requests(driver, in_flight=8)
    results = asked.send_all([(READ, [(0,), (1,)])])
    first, second = driver.sent
    second.fail(Late("no answer"))
    first.answer([(0,)])
    assert len(driver.sent) == 2, "it is sent again when somebody waits"
    driver.answers = echo
    assert results() == [[[(0,)], [(1,)]]]
    assert [pending.values for pending in driver.sent[2:]] == [(1,)]


def test_entries_of_one_list_go_together_below_what_a_node_takes() -> None:
    entry = Statement("ENTRY", "an entry", StatementKind.WRITE, partition=1)
    for key, requests_needed in (("k" * 10, 1), ("k" * 1_024, 5)):
        driver = Driver(lambda pending: pending.answer(None))
        asked, _ = requests(driver)
        asked.run_each(entry, [("list", f"{key}{n:03}") for n in range(125)])
        assert len(driver.sent) == requests_needed


def test_a_conditional_update_says_how_often_it_was_tried() -> None:
    driver = Driver(lambda pending: pending.answer([(True,)]))
    asked, _ = requests(driver)
    asked.apply_each_if(UPDATE, [(1,)], 3)
    assert [pending.attempt for pending in driver.sent] == [3]


# --- event loops ------------------------------------------------------------------------------------------------------
async def turns(many: int = 5) -> None:
    for _ in range(many):
        await asyncio.sleep(0)


def test_asking_gives_all_pages() -> None:
    asked, _ = requests(Driver(paged))
    assert asyncio.run(asked.ask(READ, ())) == [(0,), (1,), (2,), (3,)]


def test_a_second_answer_to_a_page_is_not_taken_for_the_next_page() -> None:
    async def main() -> Rows:
        driver = Driver()
        asked, _ = requests(driver)
        asking = asyncio.ensure_future(asked.ask(READ, ()))
        await turns()
        driver.sent[0].answer([("page 1",)], b"1")
        await turns()
        driver.sent[0].answer([("page 1 again",)], b"1")
        await turns()
        assert len(driver.sent) == 2
        driver.sent[1].answer([("page 2",)])
        return await asking

    assert asyncio.run(main()) == [("page 1",), ("page 2",)]


async def test_an_error_is_raised_and_an_answer_after_it_is_ignored() -> None:
    driver = Driver()
    asked, _ = requests(driver)
    asking = asyncio.ensure_future(asked.ask(READ, ()))
    await turns()
    driver.sent[0].fail(Late("no answer"))
    driver.sent[0].answer([("too late",)])
    with pytest.raises(StoreUnavailable, match="raised: no answer"):
        await asking
    driver.sent[0].answer([("much too late",)])
    await turns()


async def test_who_stops_waiting_leaves_the_place_taken_until_the_request_ends() -> None:
    driver = Driver()
    asked, _ = requests(driver, in_flight=2)
    first = [asyncio.ensure_future(asked.ask(READ, (n,))) for n in range(2)]
    await turns()
    for each in first:
        each.cancel()
    later = asyncio.ensure_future(asked.ask(READ, ("later",)))
    waiting = asyncio.ensure_future(asked.ask(READ, ("given up",)))
    await turns()
    waiting.cancel()
    await turns()
    assert len(driver.sent) == 2
    driver.sent[0].answer([])
    await turns()
    assert [pending.values for pending in driver.sent[2:]] == [("later",)]
    driver.sent[1].answer([])
    driver.sent[2].answer([("there",)])
    assert await later == [("there",)]
    assert await asyncio.gather(*first, waiting, return_exceptions=True)
    again = [asyncio.ensure_future(asked.ask(READ, (n,))) for n in range(3)]
    await turns()
    assert len(driver.sent) == 5  # both places are free again, and no more than both
    for pending in driver.sent[3:]:
        pending.answer([])
    await turns()
    driver.sent[5].answer([])
    await asyncio.gather(*again)


def test_answers_after_the_loop_was_closed_disturb_nobody() -> None:
    driver = Driver()
    asked, _ = requests(driver, in_flight=1)

    loop = asyncio.new_event_loop()
    asking = loop.create_task(asked.ask(READ, ()))
    loop.run_until_complete(turns())
    asking.cancel()
    loop.run_until_complete(turns())
    loop.close()
    driver.sent[0].answer([("late",)])
    driver.sent[0].fail(Late())

    async def ask_again() -> Rows:
        asking = asyncio.ensure_future(asked.ask(READ, ()))
        await turns()
        driver.sent[1].answer([("here",)])
        return await asking

    assert asyncio.run(ask_again()) == [("here",)]  # another loop has places of its own


def test_answers_from_the_drivers_thread_wake_the_loop() -> None:
    driver = Driver(echo)
    asked, _ = requests(driver, in_flight=8)

    async def main() -> list[Rows]:
        return await asyncio.gather(*(asked.ask(READ, (n,)) for n in range(100)))

    assert asyncio.run(main()) == [[(n,)] for n in range(100)]
    assert driver.most_under_way <= 8


async def test_a_request_that_cannot_be_sent_fails_for_each_caller() -> None:
    driver = Driver()
    driver.broken = RuntimeError("the session is shut down")
    asked, _ = requests(driver, in_flight=1)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="shut down"):
            await asked.ask(READ, ())
