"""Copies that die, fail, meet one another, or find that the source went on."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

import pytest

from clickcurve.buckets.errors import OwnerFenced, StoreUnavailable
from clickcurve.keys import ALL_LINKS, breakdown_of
from storage.contract import OPEN, Source
from storage.memory_store import MemoryStore
from storage.tools.copy_owner import CopyRefused
from tests.power import at
from tests.storage.flushes import hits
from tests.storage.tools.copies import (
    NOW_US,
    WINDOW_US,
    Died,
    Interrupted,
    Make,
    Recording,
    copied,
    die,
    exported,
    fail,
    filled,
    ids,
    picture,
    reopened,
    retire,
)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.tools.copy.KEYS_PER_PAGE", 4)
    monkeypatch.setattr("storage.tools.copy.IDS_PER_PAGE", 2)


# --- interruptions ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "stops", "step"),
    [("memory", die, 1), ("sqlite", die, 1), ("memory", fail, 1), ("simulated", die, 13), ("cassandra", die, 13)],
)
def test_a_copy_that_stops_anywhere_goes_on(
    make: Make, kind: str, stops: Callable[[], object], step: int, when: str
) -> None:
    source, whole = filled(make("sqlite")), make("memory")
    copied(source, whole)
    wanted = picture(whole)
    for n in range(1, 1_000, max(step, at(quick=3, full=1))):
        target = make(kind)
        interrupted = Interrupted(target, n, when, stops)
        try:
            copied(source, interrupted)
        except (Died, StoreUnavailable):
            done = copied(source, target)
            assert picture(target) == wanted, n
            assert done.compared.rows_differing == 0
        else:
            assert interrupted.calls < n
            assert n > 40, "the copy takes many calls"
            return


def test_a_copy_that_stops_again_and_again_comes_to_its_end(make: Make) -> None:
    source, whole = filled(make("memory")), make("memory")
    copied(source, whole)
    for seed in range(at(quick=10, full=40)):
        chance, target = random.Random(seed), make("memory")
        for _ in range(200):
            try:
                copied(source, Interrupted(target, chance.randrange(20, 70), chance.choice(["before", "after"]), die))
                break
            except Died:
                continue
        assert picture(target) == picture(whole), seed


def test_a_copy_goes_on_where_it_stood(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")

    def stop(done: int, total: int | None) -> None:
        if done >= 28:  # the first 20 keys: all but three links and their breakdowns
            raise Died

    with pytest.raises(Died):
        copied(source, target, stop)
    recording = Recording(target)
    copied(source, recording)
    saved = {key for call in recording.saved for key in call}
    assert saved == {each for key in ("key-7", "key-8", "key-9", ALL_LINKS) for each in (key, breakdown_of(key))}


@pytest.mark.parametrize("when", ["before", "after"])
def test_two_copies_at_once_do_no_harm(make: Make, when: str) -> None:
    source, whole = filled(make("memory")), make("memory")
    copied(source, whole)
    for n in range(1, 80, at(quick=3, full=1)):
        target = make("memory")
        other = Thread(target=lambda target=target: copied(source, target))

        def meanwhile(other: Thread = other) -> None:
            other.start()
            other.join()

        with suppress(CopyRefused, OwnerFenced):
            copied(source, Interrupted(target, n, when, meanwhile))
        assert copied(source, target).compared.rows_differing == 0
        assert picture(target) == picture(whole), n


def test_a_row_that_was_lost_on_the_way_is_found_and_copied_again(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")
    assert isinstance(target, MemoryStore)

    def lose(done: int, total: int | None) -> None:
        target._rows.get("key-3", {}).pop(1, None)

    done = copied(source, target, lose)
    assert done.compared.differing == ["link 'key-3', owner 1: is missing in the target"]
    assert done.compared.rows_differing == 1
    assert {owner.owner: owner.state for owner in target.owners()} == {1: OPEN, 2: OPEN, 5: OPEN}
    again = copied(source, target)
    assert again.compared.rows_differing == 0
    assert exported(target) == exported(source)
    assert target.owners() == source.owners()


# --- a source that went on --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("broken_off", [True, False])
def test_a_source_that_went_on_is_copied_up_to_where_it_stands(make: Make, broken_off: bool) -> None:
    source, target = filled(make("memory")), make("memory")

    def stop(done: int, total: int | None) -> None:
        if broken_off and done >= 8:
            raise Died

    with suppress(Died):
        copied(source, target, stop)
    flusher = reopened(source, 1)
    flusher.flush({"a-new-one": hits((20, 100)), "key-9": hits((20, 200))}, {"log": Source(1, 150, "more")})
    source.claim_ids(flusher.held, flusher.number, {"aa": NOW_US}, WINDOW_US)
    source.close_owner(flusher.held)
    done = copied(source, target)
    assert exported(target) == exported(source)
    assert target.owners() == source.owners()
    assert ids(target) == {"a", "aa", "b", "c"}
    kept = target.source("log")
    assert kept is not None and kept.position == 150
    assert [owner.sums is None for owner in done.owners] == ([False] * 3 if broken_off else [False, True, True])


def test_a_copy_that_is_in_use_is_not_written_over(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")
    copied(source, target)
    reopened(target, 1).flush({"key-1": hits((20, 100))})
    before = picture(target)
    assert [owner.sums for owner in copied(source, target).owners] == [None] * 3
    flusher = reopened(source, 1)
    flusher.flush({"key-1": hits((20, 200))})
    source.close_owner(flusher.held)
    with pytest.raises(CopyRefused, match="both went on, the source to epoch 2, the target to epoch 2, open"):
        copied(source, target)
    assert picture(target) == before


def test_a_source_that_goes_on_during_the_copy_is_not_given_over(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")

    def go_on(done: int, total: int | None) -> None:
        if done >= 8:
            flusher = reopened(source, 1)
            flusher.flush({"key-1": hits((20, 200))})
            source.close_owner(flusher.held)

    with pytest.raises(CopyRefused, match="owner 1 went on while it was copied"):
        copied(source, target, go_on)
    assert {owner.state for owner in target.owners()} == {OPEN}
    copied(source, target)
    assert exported(target) == exported(source)


def test_a_part_of_a_copy_that_was_retired_is_not_continued(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")

    def stop(done: int, total: int | None) -> None:
        raise Died

    with pytest.raises(Died):
        copied(source, target, stop)
    retire(target, 1)
    with pytest.raises(CopyRefused, match="has a part of owner 1 and is retired"):
        copied(source, target)
