"""Random histories of clicks and events on real owners over a real file, and every answer held against the raw hits.

Owners are killed and begin again, writes fail, ids come twice, hits come late, the clock goes on by years, values
are kept for a time only, links are deleted. Nothing here knows how answers are made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, fold_day
from clickcurve.buckets.measures import Measure, measures_of
from clickcurve.buckets.ranges import Bots
from clickcurve.keys import ALL, Subject, group_subject, link_key, link_subject
from ingest.owner import ID_WINDOW_S
from retention.run import run_pass
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.query.events.event_nodes import (
    EVENTS,
    MEASURES,
    NOW,
    Asker,
    EventHit,
    EventNodes,
    asking,
    batch_of,
    counted,
    counted_minutes,
)

KEYS = ("a", "b", "c/x", "\0nul", "never")
GROUPS = ("g", "ü")
REFS = ("", "", *(f"{name}.example" for name in "abcdef"))
SOURCES = ("", "", "qr", "mail")
VALUES = (0, 1, 250, 4_990, 10**9)
AGES_S = (0, 0, 60, HOUR_S, DAY_S, 2 * DAY_S, 6 * DAY_S, 29 * DAY_S, 80 * DAY_S, 300 * DAY_S, 900 * DAY_S, -200)
LATER_S = (1, 60, HOUR_S, DAY_S, 9 * DAY_S, 40 * DAY_S, 200 * DAY_S, 400 * DAY_S)
SPANS = ("", "last=1h", "last=24h", "last=1d", "last=7d", "last=30d", "last=90d", "last=12mo", "last=3y")
SMALL = BoundedLadder(BREAKDOWN.ladder, (2, 1, 2, 1))  # so that every bucket loses values
KEPT = BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", 30),))


class EventHistory:
    """One history. questions: how many answers were held against the raw hits, and exact ones of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.drawn = random.Random(seed)
        store = SqliteStore(folder / "clickcurve.db", CLICKS)
        self.faulty = FaultyStore(store)
        bounded = self.drawn.choice([BREAKDOWN, SMALL, KEPT])
        written: Any = self.faulty
        self.nodes = EventNodes(folder, store, 1 + seed % 2, NOW, bounded, written)
        self.ids: dict[str, EventHit] = {}
        self.sent_at: dict[str, int] = {}
        self.unaware: set[int] = set()  # processes that began again since a link was deleted
        self.questions = self.exact = 0

    # --- what happens -----------------------------------------------------------------------------------------------
    async def step(self) -> None:
        steps: Sequence[tuple[Callable[[], Any], int]] = (
            (self._accept, 12),
            (self._repeat, 3),
            (self._flush, 6),
            (self._fold, 2),
            (self._wait, 4),
            (self._kill, 2),
            (self._delete, 1),
        )
        await self.drawn.choices([step for step, _ in steps], [often for _, often in steps])[0]()

    def _hit(self) -> EventHit:
        drawn = self.drawn
        event = drawn.choice(["", "", "", "sale", "sale", "lead"])
        return EventHit(
            key=drawn.choice(KEYS[:-1]),
            t=self.nodes.now - drawn.choice(AGES_S),
            event=event,
            value=drawn.choice(VALUES) if event else 0,
            count=drawn.randrange(1, 6),
            bot=drawn.random() < 0.15,
            ref=drawn.choice(REFS),
            source=drawn.choice(SOURCES),
            groups=drawn.choice([(), (), GROUPS[:1], GROUPS]),
            id=f"order-{drawn.getrandbits(60)}" if drawn.random() < 0.3 else None,
        )

    async def _accept(self) -> None:
        hits = [self._hit() for _ in range(self.drawn.randrange(1, 9))]
        await self.nodes.accept(*hits, owner=self.drawn.randrange(len(self.nodes.processes)))
        for hit in hits:
            if hit.id is not None:
                self.ids[hit.id], self.sent_at[hit.id] = hit, self.nodes.now

    async def _repeat(self) -> None:
        """A webhook is sent again, to any worker."""
        known = [id_ for id_, at in self.sent_at.items() if self.nodes.now - at < ID_WINDOW_S - HOUR_S]
        if known:
            hit = self.ids[self.drawn.choice(known)]
            await self.drawn.choice(self.nodes.processes).owner.accept(batch_of([hit], self.nodes.now))

    async def _flush(self) -> None:
        """A flush that may fail, or be the last thing that its process does."""
        process = self.drawn.choice(self.nodes.processes)
        if self.drawn.random() < 0.4:
            kind = self.drawn.choice(["before", "after"]), self.drawn.choice([StoreUnavailable, Killed])
            self.faulty.fail_at[self.faulty.calls + self.drawn.randint(1, 12)] = kind
        try:
            await process.owner.flush()
            self.unaware.discard(id(process))
        except StoreUnavailable:
            pass
        except Killed:
            self._restart(process)
        self.faulty.fail_at.clear()

    async def _fold(self) -> None:
        process = self.drawn.choice(self.nodes.processes)
        await process.owner.flush()  # claimed
        await run_pass(process.owner, fold_day(self.nodes.now))
        self.unaware.discard(id(process))

    async def _wait(self) -> None:
        self.nodes.now += self.drawn.choice(LATER_S)

    async def _kill(self) -> None:
        self._restart(self.drawn.choice(self.nodes.processes))

    def _restart(self, process: OwnerProcess) -> None:
        process.disk.kill()
        process.start()
        self.unaware.add(id(process))

    async def _delete(self) -> None:
        key = self.drawn.choice(KEYS)
        self.nodes.now += 301  # later than all that was accepted
        await self.nodes.delete(link_key(key))
        self.sent_at = {id_: at for id_, at in self.sent_at.items() if self.ids[id_].key != key}
        self.nodes.now += 1

    async def settle(self) -> None:
        """Lets processes that began again, or that do not know yet whether an id was counted, learn it."""
        for process in self.nodes.processes:
            is_open = any(buffer.undecided for buffer in process.owner._buffers.all())
            if is_open or id(process) in self.unaware:
                await process.owner.flush()
                self.unaware.discard(id(process))

    # --- questions --------------------------------------------------------------------------------------------------
    async def ask(self, asker: Asker) -> None:
        """Asks anything, and holds the answer against the raw hits."""
        subject = self.drawn.choice([*map(link_subject, KEYS), *map(group_subject, GROUPS), ALL, ALL])
        measure, bots = self.drawn.choice(MEASURES), self.drawn.choice([*Bots, Bots.exclude])
        check: Callable[[Asker, Subject, Measure, Bots], Any] = self.drawn.choice(
            [
                self._total,
                self._curve,
                self._summary,
                self._by,
                self._value_curve,
                self._why,
                self._events,
                self._events_by,
                self._list,
                self._sum,
            ]
        )
        if check == self._summary and subject == ALL:
            check = self._total
        await check(asker, subject, measure, bots)

    async def _answer(self, asker: Asker, what: str, subject: Subject, *query: str) -> dict[str, Any]:
        answer = await asker.ask(what, subject, "&".join(filter(None, query)))
        self.questions += 1
        self.exact += bool(answer.get("exact"))
        return answer

    def _span(self) -> str:
        if self.drawn.random() < 0.5:
            return self.drawn.choice(SPANS)
        tz = self.drawn.choice(["", "&tz=Asia/Kolkata"])
        moments = sorted(self.nodes.now - self.drawn.choice(AGES_S) - self.drawn.randrange(-60, 7_200) for _ in "12")
        return f"from={moments[0]}&to={moments[1] + 1}{tz}"

    async def _total(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        answer = await self._answer(asker, "total", subject, asking(measure), self._span(), f"bots={bots}")
        hits = self.nodes.of(subject, bots)
        bounds_hold(answer, measured_in(hits, measure, answer), answer["exact"])
        assert answer["total"] == (answer["at_most"] if answer["exact"] else None)
        if answer["from"] is None:
            assert answer["total"] == counted(hits, measure)

    async def _summary(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        answer = await self._answer(asker, "", subject, asking(measure), f"bots={bots}")
        hits, today = self.nodes.of(subject, bots), self.nodes.now - self.nodes.now % DAY_S
        assert answer["lifetime"] == counted(hits, measure)
        assert answer["bots"] == counted(self.nodes.of(subject, Bots.only), measure)
        assert answer["exact"], "days of UTC are kept for a month"
        for name, first, end in (("today", 0, 1), ("yesterday", -1, 0), ("last_7d", -6, 1), ("last_30d", -29, 1)):
            assert answer[name] == counted(hits, measure, today + first * DAY_S, today + end * DAY_S)

    async def _curve(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        step = self.drawn.choice(["auto", "1h", "1d", "1w", "1mo"])
        span = self._span() if step in ("auto", "1mo") else self.drawn.choice(SPANS[1:6])
        answer = await self._answer(asker, "curve", subject, asking(measure), span, f"bots={bots}&step={step}")
        curve_holds(answer, self.nodes.of(subject, bots), measure)

    async def _sum(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        keys = self.drawn.sample(KEYS, self.drawn.randrange(1, 4))
        query = "&".join(filter(None, (asking(measure), self.drawn.choice(SPANS[1:]), f"bots={bots}")))
        answer = await asker.sum(keys, query)
        self.questions += 1
        self.exact += bool(answer["exact"])
        hits = [hit for key in keys for hit in self.nodes.of(link_subject(key), bots)]
        curve_holds(answer, hits, measure)

    async def _by(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        dimension, limit = self.drawn.choice(["ref", "source"]), self.drawn.choice([1, 3, 100])
        answer = await self._answer(asker, f"by/{dimension}", subject, asking(measure), self._span(), f"limit={limit}")
        hits = self.nodes.of(subject)
        parts = sum(each["at_least"] for each in answer["values"]) + answer["not_shown"]["count"]
        whole = counted_minutes(hits, measure, answer["from"], answer["to"])
        assert parts + answer["other"] + answer["unrecorded"] == answer["total"] == whole
        for each in answer["values"]:
            true = measured_in(saying(hits, dimension, each["value"]), measure, answer, in_minutes=True)
            bounds_hold(each, true, answer["exact"])

    async def _value_curve(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        dimension, value = self.drawn.choice([("ref", self.drawn.choice(REFS)), ("source", "qr")])
        span = self.drawn.choice(SPANS[2:])
        answer = await self._answer(asker, f"by/{dimension}/curve", subject, asking(measure), span, f"value={value}")
        hits = saying(self.nodes.of(subject), dimension, value)
        bounds_hold(answer, measured_in(hits, measure, answer), answer["exact"])
        for point in answer["points"]:
            bounds_hold(point, counted_minutes(hits, measure, point["start"], point["end"]), False)

    async def _why(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        span = self.drawn.choice(["last=1d", "last=7d", "last=30d", "last=12mo"])
        answer = await self._answer(asker, "why", subject, asking(measure), span)
        hits, before = self.nodes.of(subject), answer["before"]
        spans = (before["from"], before["to"]), (answer["from"], answer["to"])
        was, now = (counted_minutes(hits, measure, *each) for each in spans)
        assert answer["total"] == {"before": was, "after": now, "change": now - was}
        for each in answer["dimensions"]:
            changes = sum(cause["change"] for cause in each["causes"]) + each["not_shown"]["change"]
            assert changes + each["other"] + each["unrecorded"] == now - was
            for cause in each["causes"]:
                said = saying(hits, each["dimension"], cause["value"])
                old, new = (counted_minutes(said, measure, *span) for span in spans)
                bounds_hold(cause, new - old, answer["exact"])
        for link in answer["by_link"]:
            of_link = self.nodes.of(link_subject(link["key"]))
            old, new = (counted_minutes(of_link, measure, *span) for span in spans)
            assert (link["before"], link["after"]) == (old, new)

    async def _events(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        answer = await self._answer(asker, "events", subject, self._span(), f"bots={bots}")
        hits = self.nodes.of(subject, bots)
        clicks = measured_in(hits, MEASURES[0], answer)
        bounds_hold(answer["clicks"], clicks, answer["exact"])
        events_hold(answer["events"], answer["clicks"], hits, clicks, answer, in_minutes=False)

    async def _events_by(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        dimension, limit = self.drawn.choice(["ref", "source"]), self.drawn.choice([1, 3, 100])
        span = self._span()
        answer = await self._answer(asker, f"events/by/{dimension}", subject, span, f"limit={limit}")
        hits = self.nodes.of(subject)
        clicks = measured_in(hits, MEASURES[0], answer, in_minutes=True)
        assert answer["clicks"] == {"at_least": clicks, "at_most": clicks}
        events_hold(answer["events"], answer["clicks"], hits, clicks, answer, in_minutes=True)
        for each in answer["values"]:
            said = saying(hits, dimension, each["value"])
            clicks = measured_in(said, MEASURES[0], answer, in_minutes=True)
            bounds_hold(each["clicks"], clicks, answer["exact"])
            events_hold(each["events"], each["clicks"], said, clicks, answer, in_minutes=True)
        parts_add_up(answer)

    async def _list(self, asker: Asker, subject: Subject, measure: Measure, bots: Bots) -> None:
        kind, of_name = self.drawn.choice([("links", link_subject), ("links", link_subject), ("groups", group_subject)])
        names = {"links": KEYS, "groups": GROUPS}[kind]
        span, prefix = self.drawn.choice([*SPANS, f"from={self.nodes.now - 5_000}"]), self.drawn.choice(["", "", "c"])
        query = asking(measure), span, f"bots={bots}", f"prefix={prefix}"
        answer = await self._answer(asker, kind, ALL, *query)
        totals: dict[str, list[int]] = {}
        for name in names:
            totals[name] = []
            for each in (measure, Measure(measure.event)):
                total = await self._answer(asker, "total", of_name(name), asking(each), span, f"bots={bots}")
                bounds_hold(total, measured_in(self.nodes.of(of_name(name), bots), each, total), total["exact"])
                totals[name].append(total["at_most"])
        listed = [[each["key"], each["value"] if measure.of_values else each["count"]] for each in answer[kind]]
        some = [name for name in names if name.startswith(prefix) and totals[name][0]]
        assert listed == [[name, totals[name][0]] for name in sorted(some, key=lambda name: (-totals[name][0], name))]
        assert all(each["count"] == totals[each["key"]][1] for each in answer[kind])
        if answer["exact"]:
            true = [measured_in(self.nodes.of(of_name(name), bots), measure, answer) for name, _ in listed]
            assert [count for _, count in listed] == true
        if not span and kind == "links":
            await self._key_list(asker, measure, bots)

    async def _key_list(self, asker: Asker, measure: Measure, bots: Bots) -> None:
        answer = await self._answer(asker, "links", ALL, "sort=key", asking(measure), f"bots={bots}")
        listed = {each["key"]: each["value" if measure.of_values else "count"] for each in answer["links"]}
        counts = {key: counted(self.nodes.of(link_subject(key), bots), measure) for key in KEYS}
        assert listed == {key: counts[key] for key in listed} and [*listed] == sorted(listed)
        assert {key for key, count in counts.items() if count} <= listed.keys()

    # --- all of it --------------------------------------------------------------------------------------------------
    async def live(self, steps: int) -> None:
        """Lives so many steps and asks after each; then all is flushed and asked elsewhere, and the file is sound."""
        for _ in range(steps):
            await self.step()
            await self.settle()
            for _ in range(3):
                await self.ask(self.nodes.asker)
        for _ in range(2):
            await self.nodes.flush()
        for _ in range(20):
            await self.ask(self.nodes.elsewhere)
        assert verify(self.nodes.store, CLICKS).broken == []


# --- what must hold ---------------------------------------------------------------------------------------------------
def bounds_hold(answer: dict[str, Any], true: int, exact: bool) -> None:
    """The truth lies within the bounds, and these meet where they are said to."""
    assert answer["at_least"] <= true <= answer["at_most"], (answer, true)
    assert not exact or answer["at_least"] == answer["at_most"]


def measured_in(hits: Iterable[EventHit], measure: Measure, answer: dict[str, Any], in_minutes: bool = False) -> int:
    """What the hits of an answer's range add up to."""
    if answer["from"] is None:
        return counted(hits, measure)
    count = counted_minutes if in_minutes else counted
    return count(hits, measure, answer["from"], answer["to"])


def saying(hits: Iterable[EventHit], dimension: str, value: str) -> list[EventHit]:
    return [hit for hit in hits if {"ref": hit.ref, "source": hit.source}[dimension] == value]


def curve_holds(answer: dict[str, Any], hits: Sequence[EventHit], measure: Measure) -> None:
    """Every point is what its minutes add up to, and the bounds are those of the range."""
    for point in answer["points"]:
        assert point["count"] == counted_minutes(hits, measure, point["start"], point["end"])
    assert sum(point["count"] for point in answer["points"]) == answer["total"]
    bounds_hold(answer, measured_in(hits, measure, answer), answer["exact"])


def events_hold(
    events: Sequence[dict[str, Any]],
    of_clicks: dict[str, int],
    hits: Sequence[EventHit],
    clicks: int,
    answer: dict[str, Any],
    in_minutes: bool,
) -> None:
    """Each event, the sum of its values, and its rate lie within their bounds."""
    assert [each["event"] for each in events] == [*EVENTS]
    for each in events:
        count, value = (measured_in(hits, of, answer, in_minutes) for of in measures_of(each["event"]))
        bounds_hold(each, count, answer["exact"])
        bounds_hold(each["value"], value, answer["exact"])
        assert (each["rate"] is None) == (of_clicks["at_least"] == 0)
        if each["rate"] is not None:
            assert each["rate"]["at_least"] - 1e-9 <= count / clicks <= each["rate"]["at_most"] + 1e-9


def parts_add_up(answer: dict[str, Any]) -> None:
    """The values, those not shown, and the others add up to the first: clicks, each event and its values."""
    shown, rest = answer["values"], (answer["not_shown"], answer["other"])
    parts = sum(each["clicks"]["at_least"] for each in shown) + sum(each["clicks"] for each in rest)
    assert parts == answer["clicks"]["at_least"]
    for at, whole in enumerate(answer["events"]):
        of_event, others = [each["events"][at] for each in shown], [each["events"][at] for each in rest]
        assert sum(each["at_least"] for each in of_event) + sum(each["count"] for each in others) == whole["at_least"]
        values = sum(each["value"]["at_least"] for each in of_event) + sum(each["value"] for each in others)
        assert values == whole["value"]["at_least"]
