"""Hits called bots, and called back, over every store: by real owners, once through a kill, gone with their link."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.disavow import CalledLink, Correction, call_back, disavow
from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, fold_day
from clickcurve.keys import ALL_LINKS, group_key, link_key, moved_key
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import Batch, SourceStep
from ingest.corrections import CORRECTIONS_SOURCE, Corrector, correction_batch
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from server.corrections import runner
from server.corrections.rules import DisavowBook, DisavowRule
from server.corrections.runner import Corrections
from storage.contract import Store
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.http_kit import summed
from tests.storage.stores import LADDER, Outage, StoreFactory

NOW = 1_770_000_000
SPAM = DisavowRule("a", "ref", "spam.example", 0, END_OF_TIME, NOW)
READER = ProfileReader(("ref", "country"), country_reader("off"), ReferrerReader())


def spam(link: CalledLink) -> Correction:
    return disavow(link, "ref", "spam.example", 0, END_OF_TIME)


def no_spam(link: CalledLink) -> Correction:
    return call_back(link, "ref", "spam.example")


async def send(node: OwnerProcess, key: str, ref: str, count: int, days_ago: int = 0) -> None:
    moment = Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300)
    hit: dict[str, Any] = {"key": key, "ts": NOW - days_ago * DAY_S, "count": count, "ref": ref, "groups": ["g"]}
    batch = summed(json.dumps(hit).encode(), Media.json, RequestSums(moment, reader=READER)).batch()
    assert batch is not None
    await node.owner.accept(batch)


async def left_in(corrector: Corrector, stored: str) -> tuple[int, int]:
    """Returns the hits that were counted, and those that are left to people."""
    link = await corrector.read(stored)
    called = link.moved.counts.lifetime - link.moved.counts.bots
    return link.counts.lifetime, link.counts.lifetime - called


def node_of(folder: Path, store: Store) -> OwnerProcess:
    return OwnerProcess(folder, store, lambda: float(NOW), alone=False, disk=TrackedDisk())


async def nine_hits_and_their_correction(node: OwnerProcess, corrector: Corrector) -> Batch:
    """Counts nine spam hits of a link; returns the batch that calls them bots, which nobody has accepted yet."""
    await send(node, "a", "spam.example", 9)
    await node.owner.flush()
    step = (await node.owner.source(CORRECTIONS_SOURCE)).position
    correction = spam(await corrector.read("a"))
    return correction_batch({"a": correction}, SourceStep(CORRECTIONS_SOURCE, step, step + 1, ""))


def test_hits_are_called_bots_and_back_over_two_owners(store_factory: StoreFactory, tmp_path: Path) -> None:
    async def story() -> None:
        stores = store_factory(), store_factory()
        first, second = (node_of(tmp_path / f"{n}", store) for n, store in enumerate(stores))
        corrector, elsewhere = (
            Corrector(node.owner, store, BREAKDOWN, lambda: NOW)
            for node, store in zip((first, second), stores, strict=True)
        )
        for node, count in ((first, 5), (second, 7)):
            await send(node, "a", "spam.example", count)
            await send(node, "a", "fine.example", 1, days_ago=40)
            await send(node, "b", "spam.example", 2, days_ago=3)
            await node.owner.flush()
        untouched = [await left_in(elsewhere, key) for key in ("b", group_key("g"))]
        await corrector.carry_out("a", spam)
        await corrector.carry_out("a", spam)
        assert await left_in(elsewhere, "a") == (14, 2), "another process reads it, and twice is once"
        assert await left_in(elsewhere, ALL_LINKS) == (18, 6)
        assert [await left_in(elsewhere, key) for key in ("b", group_key("g"))] == untouched
        await corrector.carry_out("a", no_spam)
        assert await left_in(elsewhere, "a") == (14, 14)
        assert await left_in(elsewhere, ALL_LINKS) == (18, 18)
        await corrector.carry_out("a", spam)
        await first.owner.erase("a", last=[moved_key("a")])
        for node in (first, second):
            await node.owner.flush()
        assert await left_in(elsewhere, "a") == (0, 0)
        assert verify(stores[1], LADDER).broken == []
        for node in (first, second):
            await node.owner.close()

    asyncio.run(story())


def test_a_correction_that_was_journaled_counts_once_after_a_kill(store_factory: StoreFactory, tmp_path: Path) -> None:
    async def story() -> None:
        store = store_factory()
        node = node_of(tmp_path / "node", store)
        corrector = Corrector(node.owner, store, BREAKDOWN, lambda: NOW)
        await node.owner.accept(await nine_hits_and_their_correction(node, corrector))
        node.disk.kill()
        node.start()
        again = Corrector(node.owner, store, BREAKDOWN, lambda: NOW)
        await again.carry_out("a", spam)
        assert await left_in(again, "a") == (9, 0)
        assert verify(store, LADDER).broken == []
        await node.owner.close()

    asyncio.run(story())


def test_a_correction_during_an_outage_counts_once_after_it(
    failing_factory: StoreFactory, outage: Outage, tmp_path: Path
) -> None:
    async def story() -> None:
        store = failing_factory()
        node = node_of(tmp_path / "node", store)
        corrector = Corrector(node.owner, store, BREAKDOWN, lambda: NOW)
        batch = await nine_hits_and_their_correction(node, corrector)
        with outage.down(failing_factory):
            await node.owner.accept(batch)  # journaled, and the store does not know of it
            with pytest.raises(StoreUnavailable) if outage.stops_all else suppress(StoreUnavailable):
                await corrector.carry_out("a", spam)
        await corrector.carry_out("a", spam)
        assert await left_in(corrector, "a") == (9, 0)
        await corrector.carry_out("a", no_spam)
        assert await left_in(corrector, "a") == (9, 9)
        assert verify(store, LADDER).broken == []
        await node.owner.close()

    asyncio.run(story())


def test_a_rule_of_many_links_goes_through_every_store(
    store_factory: StoreFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LINKS_PER_PIECE", 2)

    async def story() -> None:
        store = store_factory()
        node = node_of(tmp_path / "node", store)
        links = {"a": 3, "acme/1": 5, "acme/2": 7, "b": 9, "\0c": 4}
        for link, count in links.items():
            await send(node, link, "spam.example", count)
            await send(node, link, "fine.example", 1, days_ago=40)
        server = Corrections(node.owner, store, BREAKDOWN, lambda: NOW)
        for prefix in ("acme/", ""):
            rule = replace(SPAM, stored=ALL_LINKS, prefix=prefix)
            server.book.add(rule)
            await server.refresh()
            called = {link: count for link, count in links.items() if link.startswith(prefix)}
            (noted,) = server.book.all()
            assert noted.settled and noted.walked is not None
            assert (noted.walked.links, noted.walked.moved) == (len(called), sum(called.values()))
            for link, count in links.items():
                everything, left = await left_in(server.corrector, link_key(link))
                assert (everything, left) == (count + 1, count + 1 - called.get(link, 0))
            everything, left = await left_in(server.corrector, ALL_LINKS)
            assert everything - left == sum(called.values())
            server.book.undo(rule.id)
            await server.refresh()
            assert server.book.all() == []
            everything, left = await left_in(server.corrector, ALL_LINKS)
            assert everything == left
        assert verify(store, LADDER).broken == []
        await node.owner.close()

    asyncio.run(story())


def test_every_process_knows_the_rules_of_a_store(store_factory: StoreFactory) -> None:
    here, there = DisavowBook(store_factory()), DisavowBook(store_factory())
    versions = [there.version()]
    rule = here.add(SPAM)
    versions.append(there.version())
    assert there.add(replace(SPAM, at=NOW + 9)) == rule
    there.note_flushed([rule], 4)
    (noted,) = here.all()
    assert (noted.rule, noted.settled, noted.undo, noted.flushed) == (rule, False, False, frozenset({4}))
    there.settle(noted)
    versions.append(here.version())
    (noted,) = here.all()
    assert noted.settled and here.add(SPAM) == rule
    versions.append(there.version())
    there.settle(noted)
    (noted,) = there.all()
    assert (noted.settled, noted.flushed) == (False, frozenset()), "sent again it is carried out again"
    there.settle(noted)
    versions.append(here.version())
    here.undo(rule.id)
    (noted,) = there.all()
    assert (noted.settled, noted.undo, noted.flushed) == (True, True, frozenset())
    versions.append(there.version())
    there.drop([rule])
    versions.append(here.version())
    assert here.all() == []
    assert len(set(versions)) == len(versions), "every change has a version of its own"
