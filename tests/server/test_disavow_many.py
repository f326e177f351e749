"""Rules of many links: piece by piece, begun again after any failure, beside rules of single links and deletions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.errors import ParameterInvalid, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, fold_day
from clickcurve.buckets.ranges import Bots
from clickcurve.keys import ALL_LINKS, group_key, link_key, moved_key
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from query.reader import Reader
from query.total import lifetime
from server.corrections import runner
from server.corrections.rules import DISAVOW_VERSION, DisavowRule
from server.corrections.runner import Corrections
from storage.contract import StoredLink
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess
from tests.ingest.faulty_store import Killed
from tests.ingest.http_kit import summed
from tests.ingest.test_corrections import READER, Nodes, left_of

SPAM, FINE = "spam.example", "fine.example"
KEYS = ["a", "b/1", "b/2", "b/3", "c", "\0odd", "d"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LINKS_PER_PIECE", 2)
    monkeypatch.setattr("ingest.corrections.STEP_BUCKETS", 2)


class Told:
    """Two nodes and the rules, as each node's server knows them. sent: the hits by link and referrer."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.nodes = Nodes(folder, seed)
        self.sent: dict[tuple[str, str], int] = {}
        self.servers = [self.server(node) for node in self.nodes.nodes]

    def server(self, node: OwnerProcess) -> Corrections:
        return Corrections(node.owner, self.nodes.store, BREAKDOWN, lambda: self.nodes.now)

    async def hit(self, node: int, link: str, ref: str, many: int, ago_s: int = 0) -> None:
        now = self.nodes.now
        sent = {"key": link, "ts": now - ago_s, "count": many, "ref": ref, "country": "DE", "groups": ["g"]}
        sums = RequestSums(Moment(now, fold_day(now) * DAY_S, now + 300), reader=READER)
        batch = summed(json.dumps(sent).encode(), Media.json, sums).batch()
        assert batch is not None
        await self.nodes.nodes[node].owner.accept(batch)
        self.sent[link, ref] = self.sent.get((link, ref), 0) + many

    async def hits(self) -> None:
        for n, link in enumerate(KEYS):
            for ref, many in ((SPAM, 10 + n), (FINE, 3)):
                await self.hit(n % 2, link, ref, many, self.nodes.rnd.choice((0, 2 * 3_600, 5 * DAY_S, 60 * DAY_S)))
        await self.flush()

    async def flush(self) -> None:
        for node in self.nodes.nodes:
            await node.owner.flush()

    async def note(self, rule: DisavowRule) -> DisavowRule:
        return await asyncio.to_thread(self.servers[0].book.add, rule)

    async def settle(self) -> None:
        """Lets the servers follow the store, as they do every two seconds, until all is done."""
        for _ in range(40):
            self.nodes.now += 1
            for server in self.servers:
                await server.refresh()
            noted = await asyncio.to_thread(self.servers[0].book.all)
            if all(each.settled and not each.undo for each in noted):
                return
        pytest.fail(f"not settled: {noted}")

    async def left(self, link: str) -> int:
        return left_of(await self.servers[0].corrector.read(link_key(link)))

    async def hold(self, called: dict[str, int]) -> None:
        """called: hits of each link that are called bots."""
        for link in KEYS:
            sent = sum(many for (key, _), many in self.sent.items() if key == link)
            assert await self.left(link) == sent - called.get(link, 0), link
        everything = left_of(await self.servers[0].corrector.read(ALL_LINKS))
        assert everything == sum(self.sent.values()) - sum(called.values())
        group = await self.servers[0].corrector.read(group_key("g"))
        assert left_of(group) == group.counts.lifetime
        assert verify(self.nodes.memory, CLICKS).broken == []

    def spam(self, *links: str) -> dict[str, int]:
        return {link: self.sent.get((link, SPAM), 0) for link in links or KEYS}

    async def close(self) -> None:
        for node in self.nodes.nodes:
            await node.owner.close()


def rule_of(prefix: str | None, stored: str = ALL_LINKS, **more: Any) -> DisavowRule:
    return DisavowRule(stored, "ref", SPAM, **{"since": 0, "until": END_OF_TIME, "at": 1, "prefix": prefix, **more})


async def test_a_rule_whose_change_was_killed_before_its_version_is_known_from_the_start(tmp_path: Path) -> None:
    told = Told(tmp_path, 1)
    await told.note(rule_of(None, link_key("a")))
    told.nodes.memory.drop_notes([DISAVOW_VERSION])
    server = told.server(told.nodes.nodes[0])
    erased: list[str] = []

    async def erase(rows: Sequence[str], last: Sequence[str]) -> None:
        erased.extend([*rows, *last])

    await server.refresh()
    assert server.is_corrected(link_key("a"))
    await server.erase_with([link_key("a")], erase)
    assert erased == [link_key("a"), moved_key(link_key("a"))]
    await told.close()


async def test_a_rule_of_all_links_calls_hits_of_each_and_all_links_follow(tmp_path: Path) -> None:
    told = Told(tmp_path, 1)
    await told.hits()
    rule = await told.note(rule_of(""))
    await told.settle()
    await told.hold(told.spam())
    (noted,) = told.servers[0].book.all()
    assert noted.walked is not None
    assert (noted.walked.links, noted.walked.moved, noted.walked.left_out) == (len(KEYS), sum(told.spam().values()), 0)
    for server in told.servers:
        assert all(server.is_corrected(key) for key in [*map(link_key, KEYS), ALL_LINKS])
        assert not server.is_corrected(group_key("g"))
    await told.hit(1, "a", SPAM, 5)
    await told.note(rule)
    await told.settle()
    await told.hold(told.spam())
    await asyncio.to_thread(told.servers[1].book.undo, rule.id)
    await told.settle()
    await told.hold({})
    assert told.servers[0].book.all() == []
    await told.close()


async def test_a_rule_of_a_prefix_calls_hits_of_those_links_alone(tmp_path: Path) -> None:
    told = Told(tmp_path, 2)
    await told.hits()
    dry = await told.servers[0].dry_run(rule_of("b/"))
    assert (dry.links, dry.at_least, dry.at_most, dry.moved) == (3, 36, 36, 0)
    await told.hold({})
    await told.note(rule_of("b/"))
    await told.settle()
    await told.hold(told.spam("b/1", "b/2", "b/3"))
    assert [told.servers[0].is_corrected(key) for key in ("b/2", "a", ALL_LINKS)] == [True, False, True]
    dry = await told.servers[0].dry_run(rule_of("b/"))
    assert (dry.at_least, dry.at_most, dry.moved) == (0, 0, 36)
    await told.close()


async def test_a_dry_run_of_too_many_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "DRY_RUN_LINKS", 4)
    told = Told(tmp_path, 3)
    await told.hits()
    with pytest.raises(ParameterInvalid, match="more than 4 links"):
        await told.servers[0].dry_run(rule_of(""))
    assert (await told.servers[0].dry_run(rule_of("b/"))).links == 3
    await told.close()


async def test_a_rule_that_waits_for_an_owner_reads_no_row_until_that_has_flushed(tmp_path: Path) -> None:
    told = Told(tmp_path, 6)
    await told.hits()
    await told.note(rule_of(None, "a"))
    await told.servers[0].refresh()
    read, asked = told.nodes.memory.rows, list[str]()

    async def rows(key: str) -> StoredLink:
        asked.append(key)
        return await read(key)

    told.nodes.memory.rows = rows  # type: ignore[method-assign]
    for _ in range(3):
        await told.servers[0].refresh()
    assert asked == []
    await told.settle()
    await told.hold(told.spam("a"))
    await told.close()


async def test_a_worker_flushes_for_a_new_rule_once_if_another_carries_rules_out(tmp_path: Path) -> None:
    told = Told(tmp_path, 7)
    await told.hits()
    await told.note(rule_of(None, "a"))
    for server in told.servers:
        await server.refresh()
    await told.hit(1, "a", SPAM, 5)
    for _ in range(3):
        await told.servers[1].refresh()
    assert told.nodes.nodes[1].owner.status.buffered_hits == 5
    await told.settle()
    await told.close()


@pytest.mark.parametrize("first", ["all", "link"])
async def test_undoing_a_rule_leaves_what_another_one_calls(first: str, tmp_path: Path) -> None:
    told = Told(tmp_path, 4)
    await told.hits()
    of_all, of_link = await told.note(rule_of("")), await told.note(rule_of(None, "a"))
    await told.settle()
    await told.hold(told.spam())
    await asyncio.to_thread(told.servers[0].book.undo, (of_all if first == "all" else of_link).id)
    await told.settle()
    await told.hold(told.spam("a") if first == "all" else told.spam())
    await asyncio.to_thread(told.servers[0].book.undo, (of_link if first == "all" else of_all).id)
    await told.settle()
    await told.hold({})
    await told.close()


@pytest.mark.parametrize("seed", range(20))
async def test_killed_anywhere_it_ends_the_same(seed: int, tmp_path: Path) -> None:
    told = Told(tmp_path, seed)
    rnd, store = told.nodes.rnd, told.nodes.store
    await told.hits()
    rule = await told.note(rule_of(""))
    undone = False
    for _ in range(4):
        for _ in range(3):
            when, error = rnd.choice(("before", "after")), rnd.choice((StoreUnavailable, Killed))
            store.fail_at[store.calls + rnd.randint(1, 60)] = when, error
            try:
                await told.servers[0].refresh()
            except (Killed, StoreUnavailable):
                told.nodes.start_again(told.nodes.nodes[0])
                told.servers[0] = told.server(told.nodes.nodes[0])
            store.fail_at.clear()
        told.nodes.now += rnd.choice((60, 7_200, DAY_S))
        await told.settle()
        await told.hold({} if undone else told.spam())
        if undone:
            await told.note(rule)
        else:
            await asyncio.to_thread(told.servers[0].book.undo, rule.id)
        undone = not undone
    await told.close()


class Deleting:
    """Deletes a link on the other machine, and hits it again, at the n-th call of the store from now on.

    Before a row is read it happens at just this call, else some calls later.
    """

    def __init__(self, told: Told, at: int) -> None:
        self.told, self.is_done = told, False
        store = told.nodes.store
        self.at = store.calls + at
        rows = store._store.rows

        async def counted(key: str) -> Any:
            store.calls += 1
            if store.calls >= self.at:
                await self.delete()
            return await rows(key)

        store.rows = counted  # type: ignore[attr-defined]

    async def delete(self) -> None:
        if self.is_done:
            return
        self.is_done, told = True, self.told
        owner = told.nodes.nodes[1].owner

        async def erase(keys: Sequence[str], last: Sequence[str]) -> None:
            await owner.erase(*keys, last=last)

        await told.servers[1].erase_with(["a"], erase)
        told.sent["a", SPAM] = told.sent["a", FINE] = 0
        await told.hit(1, "a", FINE, 4)
        await told.hit(1, "a", SPAM, 2)
        await owner.flush()

    async def beside(self, server: Corrections) -> None:
        """Lets a server follow the store meanwhile."""
        carrying = asyncio.ensure_future(server.refresh())
        while not carrying.done():
            if self.told.nodes.store.calls >= self.at:
                await self.delete()
            await asyncio.sleep(0)
        await carrying
        await self.delete()


@pytest.mark.parametrize("prefix", [None, ""])
async def test_a_link_that_is_deleted_while_its_correction_is_under_way_keeps_none(
    prefix: str | None, tmp_path: Path
) -> None:
    """At each call of the store in turn. Hits that come after the deletion are people's."""
    for at in range(1, 60, 2):
        told = Told(tmp_path / f"{at}", 5)
        await told.hits()
        rule = await told.note(rule_of(prefix, "a" if prefix is None else ALL_LINKS))
        await Deleting(told, at).beside(told.servers[0])
        assert await told.left("a") in (4, 6), at
        await told.note(rule)
        await told.settle()
        assert await told.left("a") == 4
        await asyncio.to_thread(told.servers[0].book.undo, rule.id)
        await Deleting(told, at).beside(told.servers[0])
        await told.settle()
        assert await told.left("a") == 6, at
        await told.note(rule)
        await told.settle()
        assert await told.left("a") == 4
        await told.close()


async def test_hits_of_a_deleted_link_stay_called_in_all_links_whatever_rules_there_are(tmp_path: Path) -> None:
    told = Told(tmp_path, 1)
    everything = told.servers[0].corrector

    async def people() -> int:
        """Of all links, as each server answers, and one that begins now."""
        beginning = told.server(told.nodes.nodes[1])
        await beginning.refresh()
        store = told.nodes.store
        readers = (
            Reader(store.rows, lambda key: (), lambda keys: None, store.ladder, is_corrected=server.is_corrected)
            for server in (*told.servers, beginning)
        )
        (found,) = {lifetime(await reader.row(ALL_LINKS, told.nodes.now), Bots.exclude) for reader in readers}
        return found

    for link in "ab":
        await told.hit(0, link, SPAM, 10)
        await told.hit(0, link, FINE, 1)
    await told.flush()
    rule = await told.note(rule_of(None, link_key("a")))
    await told.settle()
    assert await people() == 12
    await told.servers[0].erase_with(
        [link_key("a")], lambda rows, last: told.nodes.nodes[0].owner.erase(*rows, last=last)
    )
    await told.flush()
    assert left_of(await everything.read(link_key("a"))) == 0
    for undone in (rule, await told.note(rule_of(None, link_key("none")))):
        await told.settle()
        assert await people() == 12
        await asyncio.to_thread(told.servers[0].book.undo, undone.id)
        await told.settle()
        assert await people() == 12
    assert told.servers[0].book.all() == []
    await told.close()
