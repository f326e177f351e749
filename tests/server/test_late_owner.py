"""Hits of an owner that the store has not known yet are called by rules that were settled in the meantime."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import END_OF_TIME
from clickcurve.keys import link_key
from server.clock import TrustedClock
from server.corrections.rules import CLOCKS_DIFFER_S, DisavowBook, DisavowRule, NotedRule
from server.process.journals import open_journal, open_owner, place_of
from server.settings.reading import read_settings
from storage.memory_store import MemoryStore
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.ingest.test_corrections import left_of
from tests.server.correcting_server import NOW, CorrectingServer

SPAM = "spam.example"


def rule_of(link: str, at: int = NOW) -> DisavowRule:
    return DisavowRule(link_key(link), "ref", SPAM, 0, END_OF_TIME, at)


class Late:
    """A server that settles rules, and one that has accepted hits while the store did not answer it."""

    def __init__(self, folder: Path) -> None:
        memory = MemoryStore()
        self.store, self.book = FaultyStore(memory), DisavowBook(memory)
        self.here = CorrectingServer(folder / "here", memory)
        self.late = CorrectingServer(folder / "late", self.store, is_first=False)

    async def settle(self, *rules: DisavowRule) -> None:
        for rule in rules:
            self.book.add(rule)
        await self.here.follow()
        assert all(each.settled for each in self.noted())

    def noted(self) -> list[NotedRule]:
        return self.book.all()

    async def begin_late(self) -> None:
        """Its first flush, and what follows every two seconds on both."""
        await self.late.owner.flush()
        await self.follow()

    async def follow(self) -> None:
        for server in (self.late, self.here, self.late, self.here):
            await server.follow()

    async def people(self, link: str) -> int:
        return left_of(await self.here.corrections.corrector.read(link_key(link)))


async def test_hits_from_before_the_first_claim_are_called(tmp_path: Path) -> None:
    both = Late(tmp_path)
    await both.here.hit("a", SPAM, 10)
    await both.late.hit("a", SPAM, 5)
    await both.settle(rule_of("a"))
    assert await both.people("a") == 0
    await both.begin_late()
    assert await both.people("a") == 0
    assert [each.settled for each in both.noted()] == [True]


async def test_hits_after_a_clean_stop_and_before_the_next_claim_are_called(tmp_path: Path) -> None:
    both = Late(tmp_path)
    await both.late.owner.flush()
    await both.late.owner.close()
    both.late.start()
    await both.late.hit("a", SPAM, 5)
    await both.settle(rule_of("a"))
    await both.begin_late()
    assert await both.people("a") == 0


async def test_a_rule_that_is_being_settled_while_the_owner_claims_is_carried_out_for_it(tmp_path: Path) -> None:
    both = Late(tmp_path)
    await both.late.hit("a", SPAM, 5)
    both.book.add(rule_of("a"))
    (read,) = both.noted()  # by the server that carries it out: it has seen no other owner yet
    await both.late.owner.flush()
    both.book.settle(read)
    await both.follow()
    assert await both.people("a") == 0


async def test_whenever_it_is_killed_its_hits_are_called(tmp_path: Path) -> None:
    """The late server is killed, or loses the store, before and after each call of its first flush."""
    for call in count(1):
        is_over = True
        for when, error in (("before", Killed), ("after", Killed), ("before", StoreUnavailable)):
            both = Late(tmp_path / f"{call}-{when}-{error.__name__}")
            await both.late.hit("a", SPAM, 5)
            await both.settle(rule_of("a"))
            both.store.fail_at[both.store.calls + call] = (when, error)
            try:
                await both.late.owner.flush()
            except (Killed, StoreUnavailable):
                is_over = False
            both.store.fail_at.clear()
            if error is Killed:
                both.late.kill()
                both.late.start()
            await both.begin_late()
            assert await both.people("a") == 0, (call, when, error)
            assert all(each.settled for each in both.noted())
        if is_over:
            assert call > 5
            return


async def test_a_server_has_rules_carried_out_again_for_its_journal(tmp_path: Path) -> None:
    """As it opens the owner of its own journal, or of an orphaned one."""
    store = MemoryStore()
    book = DisavowBook(store)
    settings = read_settings({"data": str(tmp_path)}, {})
    trusted = TrustedClock(lambda: float(NOW), lambda: 0.0)
    journal = open_journal(settings, 1)
    owner = open_owner(settings, journal, place_of(journal), store, alone=False, trusted=trusted)
    await owner.accept_one("a")
    rule = book.add(rule_of("a"))
    (noted,) = book.all()
    book.settle(noted)
    await owner.flush()
    (noted,) = book.all()
    assert (noted.rule, noted.settled) == (rule, False)
    book.settle(noted)
    await owner.flush()
    await owner.close()
    assert [each.settled for each in book.all()] == [True], "once"


async def test_only_rules_that_may_be_newer_than_its_hits_are_carried_out_again(tmp_path: Path) -> None:
    both = Late(tmp_path)
    old, sent_again, joined = (
        rule_of("old", NOW - CLOCKS_DIFFER_S - 1),
        rule_of("again", NOW - 10**6),
        rule_of("joined"),
    )
    for link in ("old", "again", "joined"):
        await both.late.hit(link, SPAM, 5)
    await both.settle(old, sent_again)
    await both.settle(rule_of("again"))
    await both.settle(joined)
    (settled,) = [each for each in both.noted() if each.rule.id == joined.id]
    both.book.note_settled(settled, link_key("whole"))
    before = {each.rule.stored: each.again for each in both.noted()}
    await both.late.owner.flush()
    after = {each.rule.stored: each.again for each in both.noted()}
    assert {key for key in after if after[key] != before[key]} == {link_key("again"), link_key("joined")}
    await both.follow()
    assert [await both.people(link) for link in ("old", "again", "joined")] == [5, 0, 0]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_an_owner_that_was_waited_for_has_nothing_carried_out_again(is_killed: bool, tmp_path: Path) -> None:
    both = Late(tmp_path)
    await both.late.owner.claim()  # as at a start, before the first request
    await both.late.hit("a", SPAM, 5)
    await both.late.owner.flush()
    both.book.add(rule_of("a"))
    await both.follow()
    before = both.noted()
    await both.late.hit("b", SPAM, 5)
    if is_killed:
        both.late.kill()
        both.late.start()
    await both.begin_late()
    assert both.noted() == before and before[0].settled


async def test_a_value_that_is_erased_before_the_first_claim_reaches_no_row(tmp_path: Path) -> None:
    both = Late(tmp_path)
    await both.late.hit("a", SPAM, 5)
    erasures = both.here.book
    await asyncio.to_thread(lambda: erasures.add(erasures.meant("ref", SPAM, None, NOW)))
    await both.here.follow()
    (erasure,) = erasures.all()
    assert erasure.done_at is not None, "nobody waited for it"
    await both.begin_late()
    link = await both.here.corrections.corrector.read(link_key("a"))
    assert link.counts.lifetime == 5
    assert "ref" in link.breakdown.dimensions
    assert SPAM not in str(link.breakdown)
