"""Corrections through real owners: once, whoever is killed at whatever moment, and one owner at a time."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BreakdownDelta
from clickcurve.buckets.breakdowns.disavow import CalledLink, Correction, call_back, disavow
from clickcurve.buckets.errors import ImportElsewhere, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, fold_day
from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, group_key, moved_key
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import SourceStep
from ingest.corrections import Corrector, correction_batch
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from storage.memory_store import MemoryStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.ingest.http_kit import summed
from tests.power import at

START = 1_770_000_000
READER = ProfileReader(("ref", "country"), country_reader("off"), ReferrerReader())
LINKS, REFS = ("a", "b"), ("spam.example", "fine.example")


class Nodes:
    """Two owners of one store, of which the first carries out corrections; both may be killed at any moment."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rnd, self.now = random.Random(seed), START
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory)
        self.nodes = [
            OwnerProcess(folder / f"{n}", self.store, lambda: float(self.now), alone=False, disk=TrackedDisk())
            for n in range(2)
        ]
        self.sent = dict.fromkeys([(link, ref) for link in LINKS for ref in REFS], 0)
        self.called = dict.fromkeys(self.sent, 0)

    def corrector(self, node: int = 0) -> Corrector:
        return Corrector(self.nodes[node].owner, self.store, BREAKDOWN, lambda: self.now)

    def start_again(self, node: OwnerProcess) -> None:
        node.disk.kill()
        node.start()

    async def send(self, node: OwnerProcess) -> None:
        link, ref, many = self.rnd.choice(LINKS), self.rnd.choice(REFS), self.rnd.randint(1, 9)
        moment = Moment(self.now, fold_day(self.now) * DAY_S, self.now + 300)
        t = self.now - self.rnd.choice((0, 3_600, 3 * DAY_S, 50 * DAY_S))
        hit = {"key": link, "ts": t, "count": many, "ref": ref, "country": "DE", "groups": ["g"]}
        batch = summed(json.dumps(hit).encode(), Media.json, RequestSums(moment, reader=READER)).batch()
        assert batch is not None
        await node.owner.accept(batch)
        self.sent[link, ref] += many

    async def until_done(self, stored: str, back: bool) -> None:
        """Calls a rule again until it has gone through, as a server does after each start."""

        def make(link: CalledLink) -> Correction:
            if back:
                return call_back(link, "ref", REFS[0])
            return disavow(link, "ref", REFS[0], 0, END_OF_TIME)

        for trouble in (True, True, False):
            if trouble and self.rnd.random() < 0.7:
                when, error = self.rnd.choice(("before", "after")), self.rnd.choice((StoreUnavailable, Killed))
                self.store.fail_at[self.store.calls + self.rnd.randint(1, 14)] = when, error
            try:
                await self.corrector().carry_out(stored, make)
            except StoreUnavailable:
                pass
            except Killed:
                self.start_again(self.nodes[0])
            self.store.fail_at.clear()
            if self.rnd.random() < 0.2:
                self.start_again(self.nodes[0])


def left_of(link: CalledLink) -> int:
    """The people that are left of a link."""
    return link.counts.lifetime - (link.moved.counts.lifetime - link.moved.counts.bots)


@pytest.mark.parametrize("seed", range(at(quick=8, full=25)))
def test_a_correction_counts_once_whoever_is_killed(seed: int, tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, seed)
        corrected = dict.fromkeys(LINKS, False)
        for _ in range(12):
            for node in nodes.nodes:
                if nodes.rnd.random() < 0.6:
                    await nodes.send(node)
                if nodes.rnd.random() < 0.1:
                    nodes.start_again(node)
            nodes.now += nodes.rnd.choice((60, 7_200, 2 * DAY_S, 40 * DAY_S))
            for node in nodes.nodes:
                await node.owner.flush()
            link = nodes.rnd.choice(LINKS)
            back = corrected[link] and nodes.rnd.random() < 0.5
            await nodes.until_done(link, back)
            corrected[link] = not back
            nodes.called[link, REFS[0]] = 0 if back else nodes.sent[link, REFS[0]]
            for each in LINKS:
                read = await nodes.corrector().read(each)
                sent = sum(nodes.sent[each, ref] for ref in REFS)
                assert (read.counts.lifetime, left_of(read)) == (sent, sent - nodes.called[each, REFS[0]])
            everything = await nodes.corrector().read(ALL_LINKS)
            assert left_of(everything) == sum(nodes.sent.values()) - sum(nodes.called.values()), "all links follow"
            group = await nodes.corrector().read(group_key("g"))
            assert left_of(group) == group.counts.lifetime == sum(nodes.sent.values()), "groups do not"
        assert verify(nodes.memory, CLICKS).broken == []
        for node in nodes.nodes:
            await node.owner.close()

    asyncio.run(story())


async def test_one_owner_carries_out_corrections_until_it_is_closed(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1)
    await nodes.send(nodes.nodes[0])
    for node in nodes.nodes:
        await node.owner.flush()
    nothing = Correction()
    await nodes.corrector(0).carry_out(LINKS[0], lambda link: nothing)
    with pytest.raises(ImportElsewhere, match="keeps the offset"):
        await nodes.corrector(1).carry_out(LINKS[0], lambda link: nothing)
    await nodes.nodes[0].owner.close()
    await nodes.corrector(1).carry_out(LINKS[0], lambda link: nothing)
    await nodes.nodes[1].owner.close()


async def test_what_one_owner_has_called_another_calls_back(tmp_path: Path) -> None:
    """Its own row has then more that was called back than was called."""
    nodes = Nodes(tmp_path, 4)
    while not nodes.sent["a", REFS[0]]:
        await nodes.send(nodes.nodes[0])
    await nodes.nodes[1].owner.claim()  # so that it does not go on with the number of the first
    await nodes.corrector(0).carry_out("a", lambda link: disavow(link, "ref", REFS[0], 0, END_OF_TIME))
    await nodes.nodes[0].owner.close()
    await nodes.corrector(1).carry_out("a", lambda link: call_back(link, "ref", REFS[0]))
    read = await nodes.corrector(1).read("a")
    assert left_of(read) == read.counts.lifetime
    assert verify(nodes.memory, CLICKS).broken == []
    await nodes.nodes[1].owner.close()


async def test_what_was_called_of_a_deleted_link_goes_with_it(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 2)
    for _ in range(9):
        await nodes.send(nodes.nodes[0])
    for link in LINKS:
        await nodes.until_done(link, back=False)
    owner = nodes.nodes[0].owner
    await owner.erase("a", last=[moved_key("a")])
    await owner.flush()
    read = await nodes.corrector().read("a")
    assert (read.counts.lifetime, read.moved.counts.lifetime, read.moved.named.dimensions) == (0, 0, {})
    assert left_of(await nodes.corrector().read("b")) == nodes.sent["b", REFS[1]]
    await owner.close()
    await nodes.nodes[1].owner.close()


def test_a_correction_of_a_group_reduces_no_other_row() -> None:
    correction = Correction()._replace(counts=Correction().counts._replace(people={0: 2}))
    batch = correction_batch({group_key("g"): correction}, SourceStep("s", 0, 1, ""))
    assert batch.attributes is not None
    assert batch.attributes.groups.people == {0: {moved_key(group_key("g")): 2}}


async def test_verify_finds_more_called_than_was_counted_and_names_the_bucket(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 3)
    while not nodes.sent["a", REFS[0]]:
        await nodes.send(nodes.nodes[0])
    await nodes.until_done("a", back=False)
    owner = nodes.nodes[0].owner
    assert verify(nodes.memory, CLICKS).broken == []
    minute = START // 3_600 * 3_600
    for number, (name, too_many) in enumerate(
        (
            ("many", Correction(Delta({minute: 10_000}, {}), BreakdownDelta({}))),
            ("few", Correction(Delta({}, {minute: 30_000}), BreakdownDelta({}))),
        )
    ):
        await owner.accept(correction_batch({group_key(name): too_many}, SourceStep("s", number, number + 1, "")))
    await owner.flush()
    broken = verify(nodes.memory, CLICKS).broken
    start, end = BREAKDOWN.ladder.kept(minute, fold_day(nodes.now))
    assert broken == [
        f"disavowed hits of group {name!r}: {hits} hits in [{start}, {end}) are called bots,"
        " of 0 that were counted as people's"
        for name, hits in (("few", -30_000), ("many", 10_000))
    ]
    await owner.close()
    await nodes.nodes[1].owner.close()
