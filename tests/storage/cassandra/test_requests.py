"""Requests over a driver whose answers the test gives: late, twice, never, after all have gone."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from clickcurve.buckets.errors import ClickcurveError, StoreMismatch, StoreUnavailable
from storage.cassandra.cql import Rows, Statement, StatementKind, Values
from storage.cassandra.requests import (
    ATTEMPTS,
    BYTES_PER_WRITE,
    MOST_FAILURES,
    PAUSE_S,
    ROWS_PER_READ,
    ROWS_PER_WRITE,
    SERIAL_IN_FLIGHT,
    Counters,
    Requests,
)

READ = Statement("READ", "a read", StatementKind.READ)
UPDATE = Statement("UPDATE", "an update", StatementKind.CONDITION)
SAVE = Statement("SAVE", "UPDATE rows SET data = ? WHERE short_key = ?", StatementKind.WRITE, key=1)
LOAD = Statement("LOAD", "SELECT data FROM rows WHERE short_key = ? AND owner = ?", StatementKind.READ, key=0)


class Late(Exception):
    """No answer came in time."""


class Refused(Exception):
    """Certainly not done."""


class Pending:
    """A request under way: the test answers it, as often as it likes, from whichever thread."""

    def __init__(self, values: Values, size: int | None, state: bytes | None) -> None:
        self.values, self.size, self.from_state = values, size, state
        self.state: bytes | None = None
        self._callbacks: list[tuple[Callable[[Any], None], Callable[[Exception], None]]] = []
        self.listened = threading.Event()

    def add_callbacks(self, callback: Callable[[Any], None], errback: Callable[[Exception], None]) -> None:
        self._callbacks.append((callback, errback))
        self.listened.set()

    def answer(self, rows: Rows | None, state: bytes | None = None) -> None:
        self.state = state
        for callback, _ in self._callbacks:
            callback(rows)

    def fail(self, error: Exception) -> None:
        for _, errback in self._callbacks:
            errback(error)


class Driver:
    """`answers`, if given, answers each request at once, in a thread of its own."""

    def __init__(self, answers: Callable[[Pending], None] | None = None) -> None:
        self.sent: list[Pending] = []
        self._answers = answers
        self._lock = threading.Lock()
        self.under_way = self.most_under_way = 0
        self.broken: Exception | None = None

    def send(self, statement: Statement, values: Values, size: int | None, state: bytes | None) -> Pending:
        if self.broken is not None:
            raise self.broken
        pending = Pending(values, size, state)
        with self._lock:
            self.sent.append(pending)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        if self._answers is not None:
            threading.Thread(target=self._answer, args=(pending,)).start()
        return pending

    def _answer(self, pending: Pending) -> None:
        assert self._answers is not None
        pending.listened.wait()
        with self._lock:
            self.under_way -= 1
        self._answers(pending)

    def first_replica(self, key: str) -> str:
        """The node is the key's first letter."""
        return key[:1]

    def state_after(self, pending: Any) -> bytes | None:
        state: bytes | None = pending.state
        return state

    def as_store_error(self, error: Exception) -> ClickcurveError:
        return StoreUnavailable(f"raised: {error}")

    def is_certain(self, error: Exception) -> bool:
        return isinstance(error, Refused)


def requests(
    driver: Driver, in_flight: int = 4, pause: Callable[[float], object] = lambda seconds: None
) -> tuple[Requests, Counters]:
    counters = Counters("store_requests_total", "store_unknown_total")
    return Requests(driver, in_flight, counters, pause), counters


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
    assert asked.apply_each_if(UPDATE, [(n,) for n in range(300)]) == [True] * 300
    assert driver.most_under_way <= SERIAL_IN_FLIGHT


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
    assert asked.apply_each_if(UPDATE, [(True,), (False,), (Late(),), (True,)]) == [True, False, None, True]
    assert counters.numbers()["store_unknown_total"] == 1
    with pytest.raises(StoreUnavailable, match="raised: too few replicas"):
        asked.apply_each_if(UPDATE, [(True,), (Refused("too few replicas"),)])


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


# --- rows that go together --------------------------------------------------------------------------------------------
def answered(pending: Pending) -> None:
    pending.answer([])


def test_rows_are_written_by_node_few_at_once_and_large_ones_alone() -> None:
    driver = Driver(answered)
    asked, counters = requests(driver)
    large = bytes(BYTES_PER_WRITE)
    rows: list[Values] = [(b"%d" % n, f"{'ab'[n % 3 == 0]}{n}") for n in range(60)]
    rows[20] = (large, "b20")
    assert asked.run_each(SAVE, rows) == [[]] * 60
    sent: list[Any] = [pending.values for pending in driver.sent]
    assert sorted(row for request in sent for row in request) == sorted(rows), "each once"
    for request in sent:
        assert len({row[1][0] for row in request}) == 1, "to the node that has all of them first"
        assert request == ((large, "b20"),) or sum(len(value) for row in request for value in row) <= BYTES_PER_WRITE
    # 40 less a large one of one node and 20 of another
    assert sorted(map(len, sent)) == sorted([1, *[ROWS_PER_WRITE] * 3, 9, *[ROWS_PER_WRITE] * 2])
    assert counters.numbers()["store_requests_total"] == len(sent)


def test_rows_that_are_large_together_go_in_several_requests() -> None:
    driver = Driver(answered)
    asked, _ = requests(driver)
    rows: list[Values] = [(bytes(BYTES_PER_WRITE // 3 - 2), f"a{n}") for n in range(9)]
    asked.run_each(SAVE, rows)
    assert [len(pending.values) for pending in driver.sent] == [3, 3, 3]


def test_rows_whose_write_failed_are_sent_again_together_and_the_same() -> None:
    seen: list[Values] = []

    def answer(pending: Pending) -> None:
        seen.append(pending.values)
        if ("7", "a7") in pending.values and seen.count(pending.values) < ATTEMPTS:
            pending.fail(Late("no answer"))
        else:
            pending.answer([])

    asked, _ = requests(Driver(answer))
    rows: list[Values] = [(f"{n}", f"a{n}") for n in range(3 * ROWS_PER_WRITE)]
    asked.run_each(SAVE, rows)
    first = tuple(rows[:ROWS_PER_WRITE])
    assert seen.count(first) == ATTEMPTS
    assert len(seen) == ATTEMPTS + 2


def test_rows_are_read_by_node_and_each_key_gets_its_own() -> None:
    def answer(pending: Pending) -> None:
        keys, owner = pending.values
        assert isinstance(keys, list) and len({key[0] for key in keys}) == 1
        rows = [(key, f"{n} of {key} and {owner}") for key in keys if key != "a3" for n in range(2)]
        pending.answer(rows[::-1])

    driver = Driver(answer)
    asked, counters = requests(driver)
    many: list[Values] = [(f"{'ab'[n % 2]}{n // 2}", owner) for n in range(100) for owner in (1, 2)]
    found = asked.run_each(LOAD, [*many, many[0]])
    for (key, owner), rows in zip([*many, many[0]], found, strict=True):
        assert rows == ([] if key == "a3" else [(f"{n} of {key} and {owner}",) for n in (1, 0)])
    assert counters.numbers()["store_requests_total"] == 2 * 2 * 50 // ROWS_PER_READ + 1


def test_a_read_of_one_key_is_turned_into_one_of_several() -> None:
    assert LOAD.several().text == "SELECT short_key, data FROM rows WHERE short_key IN ? AND owner = ?"


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


def test_an_error_is_raised_and_an_answer_after_it_is_ignored() -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_who_stops_waiting_leaves_the_place_taken_until_the_request_ends() -> None:
    async def main() -> None:
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

    asyncio.run(main())


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


def test_a_request_that_cannot_be_sent_fails_for_each_caller() -> None:
    async def main() -> None:
        driver = Driver()
        driver.broken = RuntimeError("the session is shut down")
        asked, _ = requests(driver, in_flight=1)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="shut down"):
                await asked.ask(READ, ())

    asyncio.run(main())
