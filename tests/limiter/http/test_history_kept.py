"""Over whole minutes the curve equals what was decided: through hand-overs, flushes, folds, clean stops and kills."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.answers.counts import CurveAnswer, TotalAnswer
from clickcurve.buckets.errors import EventUnknown
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import ALL, OUTCOMES
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from query.lists.listed_rows import GROUP, LINK
from query.lists.listing import Listing
from query.parameters import LIMIT_CURVE, LIMIT_TOTAL
from query.queries import Queries
from query.reader import Reader
from server.limiter.history import LimitHistory
from storage.contract import Store
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.power import examples
from tests.query.queried_nodes import Limits

START = 1_772_000_000
EVENTS = ("login", "shorten", "shadowed")
RULES = {
    "login": {"by": "ip", "rates": "3/m, 20/h"},
    "shorten": [{"by": "ip", "rates": "4/m", "strategy": "fixed"}, {"by": "ip", "rates": "9/h"}],
    "shadowed": {"by": "ip", "rates": "1/m", "shadow": True},
}
STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "clickcurve.db", CLICKS),
}

hits = st.tuples(st.just("hit"), st.sampled_from(EVENTS), st.integers(1, 5))
steps = st.one_of(
    hits,
    hits,
    st.tuples(st.sampled_from(["reserve", "peek"]), st.sampled_from(EVENTS), st.integers(1, 5)),
    st.tuples(st.just("pass"), st.just(""), st.sampled_from([1, 20, 59, 60, 3_600, 86_400, 9 * 86_400])),
    st.tuples(st.sampled_from(["hand_over", "flush", "stop", "kill"]), st.just(""), st.just(0)),
)


class RecordedLimiter:
    """A limiter, an owner and a store; and plain sums of what was decided. `kept` was handed over, `heard` was not."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.now = float(START)
        self.store = store
        self.disk = TrackedDisk()
        self.secret = folder / "callers.secret"
        self.node = OwnerProcess(folder / "journal", store, lambda: self.now, alone=True, disk=self.disk)
        self.kept: Counter[tuple[str, str, int]] = Counter()
        self.begin()

    def begin(self) -> None:
        """A process begins: its limiter and its history know nothing."""
        self.heard: Counter[tuple[str, str, int]] = Counter()
        self.history = LimitHistory(self.node.owner.accept, lambda: self.now, self.secret)
        self.limiter = Limiter(parse_rules(RULES), clock=lambda: self.now, listener=self.history.count)

    async def step(self, what: str, event: str, number: int) -> None:
        if what in ("hit", "reserve", "peek"):
            decision = getattr(self.limiter, what)(event, {"ip": "203.0.113.7"}, number)
            if what != "peek":
                minute = int(self.now) // 60 * 60
                self.heard[event, "asked", minute] += number
                self.heard[event, "admitted", minute] += number if decision.allowed else 0
        elif what == "pass":
            self.now += number
        elif what == "hand_over":
            await self.hand_over()
        elif what == "flush":
            await self.node.owner.flush()
        elif what == "stop":
            await self.hand_over()
            await self.node.owner.close()
            self.node.start()
            self.begin()
        else:
            self.disk.kill()
            self.node.start()
            self.begin()

    async def hand_over(self) -> None:
        await self.history.hand_over()
        self.kept += self.heard
        self.heard.clear()

    def queries(self) -> Queries:
        owner = self.node.owner
        store, buffered = self.store, owner.buffered_links
        links, groups = (Listing(kind, store, owner.pending, buffered, lambda: 0) for kind in (LINK, GROUP))
        return Queries(Reader(store.rows, owner.pending, owner.revisit, store.ladder), links, groups, lambda: self.now)

    async def check(self) -> None:
        queries = self.queries()
        for event in EVENTS:
            for outcome in OUTCOMES:
                query = f"outcome={outcome}&from={START // 60 * 60}&to={int(self.now) + 60}&step=native".encode()
                curve = await curve_of(queries, event, query)
                assert curve.key == event
                for point in curve.points:
                    assert point.count == self.decided(event, outcome, point.start, point.end)
                life = await total_of(queries, event, f"outcome={outcome}".encode(), Limits(*EVENTS))
                assert life.total == curve.total == self.decided(event, outcome, 0, int(self.now) + 60)
        assert (await queries.total(ALL, b"")).total == 0
        assert (await queries.links(b"")).links == []

    def decided(self, event: str, outcome: str, start: int, end: int) -> int:
        return sum(
            count for (of, what, at), count in self.kept.items() if (of, what) == (event, outcome) and start <= at < end
        )


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=examples(60))
@given(history=st.lists(steps, max_size=40))
def test_the_curve_equals_what_was_decided(kind: str, history: list[tuple[str, str, int]]) -> None:
    async def story(folder: Path) -> None:
        store = STORES[kind](folder)
        recorded = RecordedLimiter(folder, store)
        for step in history:
            await recorded.step(*step)
        await recorded.hand_over()
        await recorded.check()
        await recorded.node.owner.flush()
        await recorded.check()
        await recorded.node.owner.close()
        assert verify(store, CLICKS).broken == []
        store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))


def test_a_curve_that_is_not_what_was_decided_is_noticed(tmp_path: Path) -> None:
    """The canary: a hand-over that is made twice."""

    async def story() -> None:
        recorded = RecordedLimiter(tmp_path, MemoryStore())
        accept = recorded.node.owner.accept

        async def twice(batch: Any) -> object:
            await accept(batch)
            return await accept(batch)

        recorded.history.accept = twice
        await recorded.step("hit", "login", 1)
        await recorded.hand_over()
        await recorded.check()

    with pytest.raises(AssertionError):
        asyncio.run(story())


def test_an_event_without_a_rule_is_answered_if_it_has_a_history(tmp_path: Path) -> None:
    async def story() -> None:
        recorded = RecordedLimiter(tmp_path, MemoryStore())
        await recorded.step("hit", "login", 9)  # more than can ever pass: asked, never admitted
        await recorded.hand_over()
        for outcome, total in (("asked", 9), ("admitted", 0)):
            queries = recorded.queries()
            answer = await total_of(queries, "login", f"outcome={outcome}".encode(), Limits())
            assert answer.total == total
        with pytest.raises(EventUnknown, match=r"'shorten'.*events with rules: other"):
            await recorded.queries().limit_subject("shorten", b"", Limits("other"), LIMIT_TOTAL)

    asyncio.run(story())


async def curve_of(queries: Queries, event: str, query: bytes) -> CurveAnswer:
    subject = await queries.limit_subject(event, query, Limits(*EVENTS), LIMIT_CURVE)
    return await queries.curve(subject, query, LIMIT_CURVE)


async def total_of(queries: Queries, event: str, query: bytes, limits: Limits) -> TotalAnswer:
    return await queries.total(await queries.limit_subject(event, query, limits, LIMIT_TOTAL), query, LIMIT_TOTAL)
