"""Two nodes on one store whose clicks bring sales, with the rules and erasures that their servers carry out."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, merge_breakdowns
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, fold_day
from clickcurve.buckets.measures import Measure, measures_of
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key
from ingest.attributes.country import OFF, country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import JsonHit, Moment, RawHits
from ingest.reading.request_sums import RequestSums
from server.corrections.erasing import Erasing
from server.corrections.rules import DisavowRule
from server.corrections.runner import Corrections
from server.events.known_events import EVENT
from server.tokens.audit import AuditLog
from storage.erased_words import ErasureBook, KnownWords
from storage.memory_store import MemoryStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.test_corrections import left_of

NOW = 1_790_000_040
SPAM, FINE = "spam.example", "fine.example"
KEYS = ["a", "b/1", "b/2", "c", "\0odd"]
GROUP = group_key("g")
MEASURES = (Measure(), *measures_of("sale"), *measures_of("lead"))
READER = ProfileReader(("ref", "country"), country_reader(OFF), ReferrerReader(), events=("lead", "sale"))


class ToldEvents:
    """sent: what was sent, by row of clicks, measure and referrer."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rnd, self.now, self.store = random.Random(seed), NOW, MemoryStore()
        for name in READER.events:
            self.store.note(EVENT + name, "")
        self.sent: Counter[tuple[str, Measure, str]] = Counter()
        self.nodes = [self._node(folder / str(n)) for n in range(2)]
        self.servers = [Corrections(node.owner, self.store, BREAKDOWN, self.clock) for node in self.nodes]
        self.erasings = [self._erasing(n) for n in range(2)]

    def clock(self) -> float:
        return float(self.now)

    def _node(self, folder: Path) -> OwnerProcess:
        known = partial(KnownWords(ErasureBook(self.store)).read, self.clock)
        return OwnerProcess(folder, self.store, self.clock, alone=False, disk=TrackedDisk(), erased_words=known)

    def _erasing(self, n: int) -> Erasing:
        audit, rules_known = AuditLog(self.store, self.clock), self.servers[n].refresh
        return Erasing(
            self.nodes[n].owner, self.store, BREAKDOWN, audit, self.clock, n == 0, list, rules_known, _no_pause
        )

    # --- hits -----------------------------------------------------------------------------------------------------
    async def send(self, node: int, many: int = 1) -> None:
        """Sends clicks of links, each in the group, and what came of them."""
        hits = [self._random_hit() for _ in range(many)]
        sums = RequestSums(Moment(self.now, fold_day(self.now) * DAY_S, self.now + 300), reader=READER)
        sums.add(RawHits(json=hits), lambda agent: False)
        batch = sums.batch()
        assert batch is not None and sums.receipt().refused == 0
        await self.nodes[node].owner.accept(batch)

    def _random_hit(self) -> JsonHit:
        key, ref, event = self.rnd.choice(KEYS), self.rnd.choice([SPAM, FINE]), self.rnd.choice(["", "sale", "lead"])
        count, value = self.rnd.randint(1, 9), self.rnd.randint(0, 999) if event == "sale" else 0
        ts = self.now - self.rnd.choice((0, 2 * 3_600, 5 * DAY_S, 60 * DAY_S))
        events, values = measures_of(event) if event else (Measure(), Measure())
        for row in (link_key(key), GROUP, ALL_LINKS):
            self.sent[row, events, ref] += count
            if value:
                self.sent[row, values, ref] += count * value
        said = {"event": event, "value": value} if event == "sale" else {"event": event} if event else {}
        return JsonHit(key, ts, count, ref=f"https://{ref}/", country="DE", groups=["g"], **said)

    async def flush(self) -> None:
        for node in self.nodes:
            await node.owner.flush()

    async def filled(self) -> None:
        for n in range(60):
            await self.send(n % 2)
        await self.flush()

    # --- what servers do ------------------------------------------------------------------------------------------
    async def note(self, rule: DisavowRule) -> DisavowRule:
        return await asyncio.to_thread(self.servers[0].book.add, rule)

    async def undo(self, rule: DisavowRule) -> None:
        await asyncio.to_thread(self.servers[1].book.undo, rule.id)

    async def settle(self) -> None:
        """Lets the servers follow the store, as they do every two seconds, until all is done."""
        for _ in range(40):
            self.now += 1
            for server in self.servers:
                await server.refresh()
            noted = self.servers[0].book.all()
            if all(each.settled and not each.undo for each in noted):
                return
        pytest.fail(f"not settled: {noted}")

    # --- what is left ---------------------------------------------------------------------------------------------
    def rows(self) -> Iterator[tuple[str, Measure, int]]:
        """Yields rows of clicks and measures, with what was sent."""
        for row in (*map(link_key, KEYS), GROUP, ALL_LINKS):
            for measure in MEASURES:
                yield row, measure, sum(self.sent[row, measure, ref] for ref in (SPAM, FINE))

    async def hold(self, is_called: set[str]) -> None:
        """is_called: the rows of clicks of which the hits of SPAM are called bots."""
        links_called = [key for key in map(link_key, KEYS) if key in is_called]
        for row, measure, sent in self.rows():
            of_rows = links_called if row == ALL_LINKS else [row] if row in is_called else []
            called = sum(self.sent[each, measure, SPAM] for each in of_rows)
            read = await self.servers[0].corrector.read(measure.row(row))
            assert left_of(read) == sent - called, (row, measure)
            assert self.servers[0].is_corrected(measure.row(row)) >= bool(called)
        assert verify(self.store, CLICKS).broken == []

    def named(self, stored: str) -> dict[str, int]:
        """The referrers of a row's hits, as its stored breakdowns have them; other hits under ""."""
        with self.store.view() as view:
            link = view.links([breakdown_of(stored)]).get(breakdown_of(stored))
        rows = [decode_parts(separate_parts(each.data)) for each in link.rows] if link else []
        whole = merge_breakdowns(rows, fold_day(self.now), BREAKDOWN)
        found: Counter[str] = Counter()
        for tier in whole.dimensions.get("ref", ()):
            for counts in tier.values():
                found.update(counts.values)
                found[""] += counts.other
        return dict(+found)

    async def close(self) -> None:
        for node in self.nodes:
            await node.owner.close()


async def _no_pause(seconds: float) -> None:
    """Goes on at once."""


def rule_of(stored: str = ALL_LINKS, prefix: str | None = None) -> DisavowRule:
    return DisavowRule(stored, "ref", SPAM, 0, END_OF_TIME, 1, prefix)
