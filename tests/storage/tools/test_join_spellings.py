"""Links join their decoded keys exactly, whatever fails at whatever call of the store, and whoever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import OwnerFenced
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import breakdown_of, decoded_once
from storage.contract import CLOSED, OPEN, Held, SavedRow, Store
from storage.joined_rows import JOINING, RowJoiner, finish_joins
from storage.tools.join_spellings import Joiner, spellings
from storage.tools.verify import verify
from tests.power import sweep
from tests.simulated.threaded import SimulatedFactory
from tests.storage.faulty import Failed, Faulty
from tests.storage.flushes import DAY, Flusher, hits
from tests.storage.stores import STORES, StoreFactory

pytestmark = pytest.mark.slow

SPELLED, PLAIN, ROCKETS = "%6Caunch", "launch", ("%F0%9F%9A%80", "%f0%9f%9a%80", "🚀")
COUNTS = {SPELLED: 5, PLAIN: 7, ROCKETS[0]: 1, ROCKETS[1]: 2, ROCKETS[2]: 4, "other": 3}
OWNERS = (1, 2)
EXPECTED = {PLAIN: 24, "🚀": 14, "other": 6}


@pytest.fixture(params=["memory", "sqlite", "simulated"])
def factories(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], StoreFactory]]:
    """Makes stores of one kind, each with hits of two owners that are closed."""
    with ExitStack() as made:
        numbers = iter(range(10_000))

        def make() -> StoreFactory:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            factory = STORES[request.param](folder, request.getfixturevalue)
            made.callback(factory.close)
            fill(factory())
            return factory

        yield make


def fill(store: Store) -> None:
    for owner in OWNERS:
        flusher = Flusher(store, owner, divided=True)
        for part in range(2):
            deltas = {key: hits((60 * part + at, count), bots=1) for at, (key, count) in enumerate(COUNTS.items())}
            flusher.flush({key: replace_people(delta, part) for key, delta in deltas.items()})
        assert store.close_owner(flusher.held)


def replace_people(delta: Any, part: int) -> Any:
    """All hits of people come in the first flush."""
    return delta if part == 0 else delta._replace(people={}, opening=0)


def taken(store: Store, owner: int) -> Held:
    record = store.owner(owner)
    if record is None or record.state == OPEN:
        raise OwnerFenced(f"owner {owner} is not closed")
    after = record.rewritten_by("join-spellings@1")
    assert store.claim(record, after, rewrites=True)
    return Held(owner, after.epoch, after.holder, rewrites=True)


def join(store: Any) -> Joiner:
    """Joins what there is, as the command does."""
    joiner = Joiner(store, RowJoiner(CLICKS, BREAKDOWN, DAY))
    found = list(spellings(store, decoded_once))
    if store.shared:
        for owner in OWNERS:
            joiner.join_by_owner(lambda owner=owner: taken(store, owner), owner, found)  # type: ignore[misc]
    else:
        joiner.join_together({owner: taken(store, owner) for owner in OWNERS}, found)
    return joiner


def counts(store: Store) -> dict[str, int]:
    """People of each link that has any, by its rows and by its breakdown."""
    found: dict[str, int] = {}
    for key in COUNTS:
        people = sum(decode(row.data).lifetime for row in asyncio.run(store.rows(key)).rows)
        rows = asyncio.run(store.rows(breakdown_of(key))).rows
        named = [decode_parts(separate_parts(row.data)).dimensions.get("ref", ()) for row in rows]
        by = sum(each.values.get("a.example", 0) for tiers in named for tier in tiers for each in tier.values())
        assert by == people, key
        if people:
            found[key] = people
    return found


def check_whole(store: Store) -> None:
    report = verify(store, CLICKS)
    assert (report.broken, report.under_way) == ([], [])
    assert not store.notes(JOINING)


def serve_once(store: Store, owner: int, more: int) -> None:
    """A server claims the owner, finishes what it finds, flushes hits of both spellings, and stops."""
    record = store.owner(owner)
    assert record is not None
    after = replace(record, state=OPEN, epoch=record.epoch + 1, holder=f"server-{record.epoch}")
    assert store.claim(record, after)
    flusher = Flusher.__new__(Flusher)
    flusher.__dict__.update(
        _with_breakdowns=True, held=Held(owner, after.epoch, after.holder), number=after.begun, _store=store
    )
    finish_joins(store, flusher.held, BREAKDOWN)
    flusher.flush({PLAIN: hits((3, more)), SPELLED: hits((4, 1))})
    assert store.close_owner(flusher.held)


def test_links_join_and_sums_stay(factories: Callable[[], StoreFactory]) -> None:
    store = factories()()
    before = verify(store, CLICKS)
    joiner = join(store)
    assert {key for key, _ in joiner.joined} == {SPELLED, *ROCKETS[:2]} and not joiner.left
    assert counts(store) == EXPECTED
    check_whole(store)
    after = verify(store, CLICKS)
    assert (after.people, after.bots, after.rows) == (before.people, before.bots, before.rows)
    assert list(spellings(store, decoded_once)) == []


KINDS = ("before", "after", "one replica")


@pytest.mark.parametrize("comes", ["the command", "a server", "two servers"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_at_each_call_of_the_store_is_made_good(
    factories: Callable[[], StoreFactory], kind: str, comes: str
) -> None:
    factory, seen = factories(), set[str]()
    if kind == "one replica" and not isinstance(factory, SimulatedFactory):
        return
    # Each call of a store in this process takes no time.
    for steps in sweep(comes) if isinstance(factory, SimulatedFactory) else count(1):
        factory = factories()
        faulty = Faulty(factory(), steps, kind, factory)
        try:
            join(faulty)
            failed = False
        except Failed as error:
            failed = True
            seen.add(str(error))
        store = factory()  # another process, with a cache of its own
        assert verify(store, CLICKS).broken == []
        more = 0
        for _ in range({"the command": 0, "a server": 1, "two servers": 2}[comes]):
            for owner in OWNERS:
                serve_once(store, owner, 10)
                more += 11
            check_whole(store)
        join(factory())
        assert counts(store) == {**EXPECTED, PLAIN: EXPECTED[PLAIN] + more}, (steps, faulty.calls)
        check_whole(store)
        if not failed and len(faulty.calls) < steps:
            break
    assert steps > 8 and {"claim", "save_own" if store.shared else "save_together"} <= seen | {"claim"}
    if store.shared and kind != "one replica":
        assert {"note", "drop_notes", "save_own", "read_own", "owner"} <= seen


def test_a_server_that_took_the_owner_ahead_of_the_note_loses_nothing(tmp_path: Path) -> None:
    """The command has read the rows, then a server takes the owner and flushes, then the command goes on."""
    factory = SimulatedFactory()
    fill(factory())
    store, server = factory(), factory()

    class Overtaken(Faulty):
        def __getattr__(self, name: str) -> Any:
            call = super().__getattr__(name)
            if name == "note":
                serve_once(server, 1, 10)
            return call

    with pytest.raises(OwnerFenced):
        join(Overtaken(store, 0, "", factory))
    assert store.notes(JOINING), "its note is left, of a join of which nothing was written"
    assert counts(factory()) == {**{key: 2 * count for key, count in COUNTS.items()}, PLAIN: 24, SPELLED: 11}
    serve_once(factory(), 1, 10)
    check_whole(factory())
    join(factory())
    assert counts(factory()) == {**EXPECTED, PLAIN: EXPECTED[PLAIN] + 22}
    check_whole(factory())
    factory.close()


def test_a_link_that_is_deleted_in_between_does_not_come_back() -> None:
    factory = SimulatedFactory()
    fill(factory())

    class Noted(Faulty):
        def __getattr__(self, name: str) -> Any:
            if name == "save_own":
                raise Failed(name)
            return super().__getattr__(name)

    with pytest.raises(Failed):
        join(Noted(factory(), 0, "", factory))
    store = factory()
    store.erase([SPELLED], 2**60)
    serve_once(store, 1, 10)
    people = {key: count for key, count in counts(store).items() if key != SPELLED}
    assert people[PLAIN] == 2 * COUNTS[PLAIN] + 10, "what was deleted is in no other link"
    factory.close()


@pytest.mark.parametrize("name", ["memory", "sqlite"])
def test_rows_of_several_owners_are_saved_together_or_not(name: str, tmp_path: Path) -> None:
    factory = STORES[name](tmp_path, lambda _: None)
    store = factory()
    fill(store)
    held, other = taken(store, 1), taken(store, 2)
    mark = store.owner(1)
    assert mark is not None and mark.state == CLOSED
    row = store.load_own(1, ["other"])["other"].data

    with pytest.raises(OwnerFenced):
        store.save_together(
            [(held, mark.begun, {"x": SavedRow(row or b"", None)}), (replace(other, epoch=0), mark.begun, {})]
        )
    assert not asyncio.run(store.rows("x")).rows
    factory.close()
