"""Erasing a value through real owners: the same end whoever is killed at whatever step, and never done too early."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.answers import breakdown_total
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, CUT_OFF, CUT_SLACK, Breakdown, merge_breakdowns
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.erased import NO_WORDS
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, fold_day
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from server.corrections.erasing import Erasing
from server.tokens.audit import AuditLog
from storage.contract import OPEN, RETIRED, OwnerRecord
from storage.erased_words import ERASE_VERSION, KEPT_S, Erasure, ErasureBook, KnownWords
from storage.erasing import RowsOfOwner
from storage.memory_store import MemoryStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.ingest.http_kit import summed

START = 1_770_000_000
READER = ProfileReader(("ref", "country"), country_reader("off"), ReferrerReader())
LINKS, REFS, WORD = ("a", "b"), ("ann.example", "fine.example"), "ann.example"


class Nodes:
    """Owners of one store; each may be killed at any moment, closed, or retired. The first erases for the others."""

    def __init__(self, folder: Path, seed: int, many: int = 3) -> None:
        self.rnd, self.now = random.Random(seed), START
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory)
        self.book = ErasureBook(self.memory)
        self.nodes = [
            OwnerProcess(
                folder / f"{n}",
                self.store,
                lambda: float(self.now),
                alone=False,
                disk=TrackedDisk(),
                erased_words=self._reader(),
            )
            for n in range(many)
        ]
        self.gone: set[int] = set()
        self.hits: Counter[tuple[str, str]] = Counter()
        self.erasings = [self.erasing(n) for n in range(many)]

    def _reader(self) -> Any:
        known = KnownWords(ErasureBook(self.store))
        return lambda: known.read(lambda: float(self.now))

    def erasing(self, n: int) -> Erasing:
        async def nothing() -> None:
            """Reads no rules."""

        async def no_pause(seconds: float) -> None:
            """Goes on at once."""

        return Erasing(
            self.nodes[n].owner,
            self.store,
            BREAKDOWN,
            AuditLog(self.store, lambda: float(self.now)),
            lambda: float(self.now),
            n == min(set(range(len(self.nodes))) - self.gone, default=0),
            list,
            nothing,
            no_pause,
        )

    def start_again(self, n: int) -> None:
        self.nodes[n].disk.kill()
        self.nodes[n].start()
        self.erasings[n] = self.erasing(n)

    def running(self) -> list[int]:
        return [n for n in range(len(self.nodes)) if n not in self.gone]

    async def send(self, n: int, ref: str | None = None) -> None:
        link, ref, many = self.rnd.choice(LINKS), ref or self.rnd.choice(REFS), self.rnd.randint(1, 9)
        moment = Moment(self.now, fold_day(self.now) * DAY_S, self.now + 300)
        t = self.now - self.rnd.choice((0, 3_600, 3 * DAY_S, 50 * DAY_S, 500 * DAY_S))
        hit = {"key": link, "ts": t, "count": many, "ref": ref, "country": "DE", "groups": ["g"]}
        batch = summed(json.dumps(hit).encode(), Media.json, RequestSums(moment, reader=READER)).batch()
        assert batch is not None
        await self.nodes[n].owner.accept(batch)
        self.hits[link, ref] += many

    def retire(self, owner: int | None) -> None:
        record = self.memory.owner(owner or 0)
        assert record is not None and self.memory.claim(record, replace(record, state=RETIRED))

    def erase(self, row: str | None = None) -> str:
        noted = self.book.meant("ref", WORD, row, self.now)
        self.book.add(noted)
        return noted.id

    def noted(self, erasure: str) -> Erasure:
        return next(each for each in self.book.all() if each.id == erasure)

    async def refresh(self, trouble: bool) -> None:
        """Every node looks once; some fail or are killed at some call of the store."""
        for n in self.running():
            if trouble:
                when, error = self.rnd.choice(("before", "after")), self.rnd.choice((StoreUnavailable, Killed))
                self.store.fail_at[self.store.calls + self.rnd.randint(1, 40)] = when, error
            try:
                await self.erasings[n].refresh()
            except (Killed, StoreUnavailable):
                self.start_again(n)
            self.store.fail_at.clear()

    def rows(self, stored: str) -> list[Breakdown]:
        """What is stored of a breakdown, of all owners."""
        with self.memory.view() as view:
            links = view.links([breakdown_of(stored)])
        rows = links[breakdown_of(stored)].rows if links else ()
        return [decode_parts(separate_parts(row.data)) for row in rows]

    def places(self) -> list[tuple[str, int]]:
        """Stored keys and owners of rows with the value."""
        with self.memory.view() as view:
            page = view.walk(None, 10_000)
        return [(key, row.owner) for key, link in page for row in link.rows if WORD.encode() in _plain(key, row.data)]

    def hold(self) -> None:
        """No hit is lost, every bound is true, and the value has no name."""
        day = fold_day(self.now)
        for key in (*LINKS, ALL_LINKS, group_key("g")):
            rows = self.rows(key)
            assert not [fault for row in rows for fault in check_breakdown(row, BREAKDOWN)]
            part = breakdown_total(merge_breakdowns(rows, day, BREAKDOWN), "ref", 0, END_OF_TIME, BREAKDOWN)
            sent = {
                ref: sum(
                    n for (link, of), n in self.hits.items() if of == ref and key in (link, ALL_LINKS, group_key("g"))
                )
                for ref in REFS
            }
            assert part.recorded == sum(sent.values())
            for ref, count in sent.items():
                at_least, at_most = part.bounds(ref)
                assert at_least <= count <= at_most, (key, ref)
            assert part.bounds(WORD)[0] == 0
        assert self.places() == []
        assert verify(self.memory, CLICKS).broken == []


def _plain(key: str, data: bytes) -> bytes:
    """The names in a row; in that of quarantined rows none are looked for."""
    if not key.startswith("\0by:"):
        return b""
    row = decode_parts(separate_parts(data))
    return " ".join(
        v for tiers in row.dimensions.values() for tier in tiers for _, c in tier.items() for v in c.values
    ).encode()


async def stop_some(nodes: Nodes) -> None:
    """Closes or retires the owners of some nodes but the first."""
    for n in (1, 2):
        what = nodes.rnd.choice(("stays", "closed", "retired"))
        if what == "stays":
            continue
        await nodes.nodes[n].owner.flush()
        nodes.gone.add(n)
        if what == "closed":
            await nodes.nodes[n].owner.close()
        else:
            await nodes.nodes[n].owner.release()
            nodes.retire(nodes.nodes[n].owner.status.owner)


async def carry_out(nodes: Nodes, erasure: str) -> None:
    """Has every node look until the erasure is done, with kills at first, and hits in between."""
    for step in range(60):
        if nodes.rnd.random() < 0.3:
            await nodes.send(nodes.rnd.choice(nodes.running()))
        nodes.now += nodes.rnd.choice((2, 15, 4_000))
        await nodes.refresh(trouble=step < 20 and nodes.rnd.random() < 0.8)
        if nodes.noted(erasure).done_at is not None:
            assert nodes.places() == [], "done too early"
            return
    pytest.fail("60 looks have not ended it")


@pytest.mark.parametrize("seed", range(30))
def test_an_erasure_ends_the_same_whoever_is_killed(seed: int, tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, seed)
        for _ in range(8):
            for n in nodes.running():
                await nodes.send(n)
                if nodes.rnd.random() < 0.5:
                    await nodes.nodes[n].owner.flush()
            nodes.now += nodes.rnd.choice((60, 7_200, 2 * DAY_S, 40 * DAY_S))
        await stop_some(nodes)
        erasure = nodes.erase()
        await carry_out(nodes, erasure)
        for n in nodes.running():
            owner = nodes.nodes[n].owner
            await owner.flush()  # as a start does
            await nodes.send(n, WORD)
            pending = owner.pending_breakdowns(breakdown_of(ALL_LINKS))
            hours = [hour for each in pending for hour in each.delta.values.get("ref", {}).values()]
            assert hours and not any(WORD in hour for hour in hours), "what comes later is shown"
            await owner.flush()
        nodes.hold()
        nodes.erase()
        for _ in range(3):
            nodes.now += 4_000
            await nodes.refresh(trouble=False)
        again = nodes.noted(erasure)
        assert again.done_at is not None and sum(each.rows for each in again.confirmed.values()) == 0, "twice is once"
        nodes.hold()
        for n in nodes.running():
            await nodes.nodes[n].owner.close()

    asyncio.run(story())


def test_an_erasure_whose_change_was_killed_before_its_version_is_known_from_the_start() -> None:
    store = MemoryStore()
    book = ErasureBook(store)
    book.add(book.meant("ref", WORD, None, START))
    store.drop_notes([ERASE_VERSION])
    assert KnownWords(ErasureBook(store)).read(lambda: START).is_named("ref", WORD)


async def test_an_owner_that_does_not_run_holds_an_erasure_up_until_it_is_retired(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1, many=2)
    for n in (0, 1):
        await nodes.send(n, WORD)
        await nodes.nodes[n].owner.flush()
    lost = nodes.nodes[1].owner.status.owner
    assert lost is not None
    await nodes.nodes[1].owner.release()
    nodes.gone.add(1)
    erasure = nodes.erase()
    for _ in range(3):
        nodes.now += 700
        await nodes.refresh(trouble=False)
    assert nodes.book.waiting(nodes.noted(erasure)) == [lost]
    assert nodes.places() and all(owner == lost for _, owner in nodes.places())
    record = nodes.memory.owner(lost)
    assert record is not None and record.state == OPEN
    assert nodes.memory.claim(record, replace(record, state=RETIRED))
    nodes.now += 100
    await nodes.refresh(trouble=False)
    done = nodes.noted(erasure)
    assert done.done_at is not None and nodes.places() == []
    assert sum(each.hits for each in done.confirmed.values()) == sum(nodes.hits.values())
    stored = nodes.memory.owner(lost)
    assert stored is not None and (stored.state, stored.last_claim) == (RETIRED, (record.epoch, record.holder))
    nodes.hold()
    # Its machine comes back: what its journal holds counts under another number, and without the value.
    nodes.gone.discard(1)
    nodes.nodes[1].start()
    await nodes.send(1, WORD)
    await nodes.nodes[1].owner.flush()
    assert nodes.nodes[1].owner.status.owner != lost
    nodes.hold()


async def test_what_a_journal_held_is_not_shown_before_it_is_known_what_was_erased(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1, many=1)
    await nodes.nodes[0].owner.flush()
    erasure, of_all = nodes.erase(), breakdown_of(ALL_LINKS)
    await nodes.refresh(trouble=False)
    assert nodes.noted(erasure).done_at is not None
    await nodes.send(0, WORD)  # comes late, and the process ends before a flush
    assert shown(nodes) == {"country": {"DE"}, "ref": {CUT_OFF, CUT_SLACK}}
    nodes.start_again(0)
    owner = nodes.nodes[0].owner
    assert owner.pending(ALL_LINKS), "totals are known"
    with pytest.raises(StoreUnavailable, match="which values were erased"):
        print(shown(nodes))
    assert owner.pending_breakdowns(breakdown_of("quiet")) == []
    await owner.flush()
    assert owner.pending_breakdowns(of_all) == [] and nodes.places() == []
    await nodes.send(0, WORD)
    assert WORD not in shown(nodes)["ref"]
    await owner.flush()
    nodes.hold()


def shown(nodes: Nodes) -> dict[str, set[str]]:
    """The values of all links that the first owner tells readers beside its rows."""
    of_all = nodes.nodes[0].owner.pending_breakdowns(breakdown_of(ALL_LINKS))
    found: dict[str, set[str]] = {}
    for each in of_all:
        for name, hours in each.delta.values.items():
            found.setdefault(name, set()).update(*hours.values())
    return found


async def test_one_link_or_one_group_is_meant(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 2, many=1)
    for _ in range(12):
        await nodes.send(0)
    await nodes.nodes[0].owner.flush()
    in_a = nodes.hits["a", WORD]
    erasure = nodes.erase("a")
    await nodes.refresh(trouble=False)
    done = nodes.noted(erasure)
    assert done.done_at is not None and done.confirmed[1].hits == in_a and done.confirmed[1].rows == 1
    assert {key for key, _ in nodes.places()} == {breakdown_of(key) for key in ("b", ALL_LINKS, group_key("g"))}
    await nodes.send(0, WORD)
    await nodes.nodes[0].owner.flush()
    assert breakdown_of("a") not in {key for key, _ in nodes.places()}
    of_group = nodes.erase(group_key("g"))
    await nodes.refresh(trouble=False)
    assert nodes.noted(of_group).confirmed[1].hits == sum(n for (_, ref), n in nodes.hits.items() if ref == WORD)
    assert {key for key, _ in nodes.places()} == {breakdown_of(key) for key in ("b", ALL_LINKS)}


async def test_a_row_that_cannot_be_read_and_a_journal_set_aside_refuse(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 3, many=1)
    await nodes.send(0, WORD)
    await nodes.nodes[0].owner.flush()
    key = breakdown_of(ALL_LINKS)
    whole = nodes.memory._rows[key][1]
    nodes.memory._rows[key][1] = whole._replace(data=b"\xff" + whole.data[1:])
    erasure = nodes.erase()
    await nodes.refresh(trouble=False)
    refused = nodes.noted(erasure)
    assert refused.done_at is None and "1 of its rows cannot be read" in refused.refused[1]
    nodes.memory._rows[key][1] = whole
    calls = nodes.store.calls
    nodes.now += 100
    await nodes.refresh(trouble=False)
    assert nodes.store.calls - calls < 20 and nodes.noted(erasure).done_at is None, "it does not read everything again"
    nodes.erasings[0].set_aside = lambda: [tmp_path / "set-aside-1-journal-1"]
    nodes.now += 700
    await nodes.refresh(trouble=False)
    assert "set-aside-1-journal-1" in nodes.noted(erasure).refused[1]
    nodes.erasings[0].set_aside = list
    nodes.now += 700
    await nodes.refresh(trouble=False)
    done = nodes.noted(erasure)
    assert done.done_at is not None and done.refused == {}
    nodes.hold()


async def test_rows_set_aside_for_damaged_ones_lose_the_value(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 4, many=1)
    await nodes.send(0, WORD)
    await nodes.nodes[0].owner.flush()
    key = breakdown_of("a") if nodes.hits["a", WORD] else breakdown_of("b")
    whole = nodes.memory._rows[key][1]
    nodes.memory._rows[key][1] = whole._replace(data=b"\xff" + whole.data[1:])
    for _ in range(6):
        await nodes.send(0, WORD)
    await nodes.nodes[0].owner.flush()
    assert nodes.nodes[0].owner.status.quarantined
    erasure = nodes.erase()
    await nodes.refresh(trouble=False)
    assert nodes.noted(erasure).done_at is None
    nodes.memory._rows[key][1] = whole
    nodes.now += 700
    await nodes.refresh(trouble=False)
    for _ in range(2):
        await nodes.nodes[0].owner.flush()
    assert nodes.noted(erasure).done_at is not None
    nodes.hold()


async def test_the_value_counts_again_eight_days_after_the_end(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 5, many=1)
    await nodes.send(0, WORD)
    erasure = nodes.erase()
    for _ in range(2):
        await nodes.refresh(trouble=False)
    assert nodes.noted(erasure).done_at is not None
    nodes.now += KEPT_S - 10
    await nodes.refresh(trouble=False)
    await nodes.send(0, WORD)
    await nodes.nodes[0].owner.flush()
    assert nodes.places() == []
    nodes.now += 20
    await nodes.refresh(trouble=False)
    assert nodes.book.all() == []
    await nodes.send(0, WORD)
    await nodes.nodes[0].owner.flush()
    assert nodes.places()


async def test_without_an_erasure_a_look_is_one_note(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 6, many=1)
    await nodes.nodes[0].owner.flush()
    await nodes.refresh(trouble=False)  # the first look is two
    calls = nodes.store.calls
    await nodes.refresh(trouble=False)
    assert nodes.store.calls - calls == 1
    nodes.erase()
    for _ in range(2):
        nodes.now += 100
        await nodes.refresh(trouble=False)
    calls = nodes.store.calls
    await nodes.refresh(trouble=False)
    assert nodes.store.calls - calls == 1


def journal_is_not_known(self: OwnerRecord) -> tuple[int, str]:
    return self.epoch, self.holder


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "what lands is not looked at": (KnownWords, "read", lambda self, clock: NO_WORDS),
    "owners are not waited for": (ErasureBook, "waiting", lambda self, erasure: []),
    "a journal does not find its own claim": (OwnerRecord, "last_claim", property(journal_is_not_known)),
    "rows that cannot be read are passed over": (RowsOfOwner, "refusal", lambda self: None),
    "what was noted is never forgotten": (ErasureBook, "forget_old", lambda self, now: None),
}
STORIES = (
    test_an_owner_that_does_not_run_holds_an_erasure_up_until_it_is_retired,
    test_a_row_that_cannot_be_read_and_a_journal_set_aside_refuse,
    test_the_value_counts_again_eight_days_after_the_end,
)


@pytest.mark.parametrize(("place", "name", "by"), FAULTS.values(), ids=FAULTS)
async def test_a_planted_fault_is_found(
    place: Any, name: str, by: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, by)
    found = 0
    for n, story in enumerate(STORIES):
        try:
            await story(tmp_path / f"{n}")
        except (AssertionError, ClickcurveError):
            found += 1
    assert found
