"""Deleting an event in any store: all rows of it, and no other, whatever the process is killed at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.measures import Measure, measures_of
from clickcurve.keys import ALL_LINKS, group_key, link_key, moved_key
from server.events.deleting import COUNTED, Deletion, sums_of_events
from server.events.known_events import DELETED, DELETION_ANSWER, EVENT, noted_names
from storage.contract import Store
from storage.tools.export import export
from storage.tools.verify import verify
from tests.storage.flushes import NOON, Flusher, hits
from tests.storage.tools.copies import Died, die

SALES, AMOUNTS = measures_of("sale")
LEADS, _ = measures_of("lead")
NOW_US = NOON * 1_000_000 + 1
ROWS = {"a": 1, link_key("\0odd"): 1, group_key("g"): 1, ALL_LINKS: 2}  # how many links count in each


def filled(store: Store) -> list[Flusher]:
    flushers = [Flusher(store, 1, divided=True), Flusher(store, 2)]
    for name in ("sale", "lead", "sale_2"):
        store.note(EVENT + name, "")
    for flusher in flushers:
        events = {
            measure.row(row): hits(
                (0, many if row not in (ALL_LINKS,) else 2 * many), bots=1 if row != ALL_LINKS else 2
            )
            for row in ROWS
            for measure, many in ((SALES, 2), (AMOUNTS, 70), (LEADS, 3), (Measure("sale_2"), 1))
        }
        called = {moved_key(SALES.row("a")): hits((0, 1))}
        flusher.begin({**events, **called, "a": hits((0, 9)), link_key("\0odd"): hits(), group_key("g"): hits((0, 9))})
        flusher.finish({"a": hits((0, 9)), link_key("\0odd"): hits()})
    return flushers


def delete(store: Store, name: str = "sale") -> None:
    deletion = Deletion(store, name)
    for each in deletion.waiting():
        token = store.noted(DELETED + name)
        store.note(f"{DELETION_ANSWER}{token}:{each.owner}", "flushed")
    assert deletion.waiting() == [] and deletion.counting() == []
    deletion.erase(NOW_US)
    deletion.end(is_deleted=True)


def lines(store: Store) -> list[dict[str, object]]:
    return sorted(export(store, CLICKS, NOON, pytest.fail, events=("lead", "sale", "sale_2")), key=str)


def test_all_rows_of_an_event_go_and_no_others(store: Store) -> None:
    flushers = filled(store)
    assert verify(store, CLICKS).broken == []
    before, sums = lines(store), sums_of_events(store)["sale"]
    assert (sums.people, sums.bots, sums.value, sums.links) == (8, 4, 280, 2)
    delete(store)
    assert {*sums_of_events(store)} == {"lead", "sale_2"} and noted_names(store) == {"lead", "sale_2"}
    assert store.notes("event-") == {}
    for line in before:
        events = line["events"]
        assert isinstance(events, dict) and events.pop("sale")
    assert lines(store) == before
    assert verify(store, CLICKS).broken == []
    store.note(f"{EVENT}sale", "")
    again = {measure.row(row): hits((1, 5)) for row in ("a", ALL_LINKS) for measure in (SALES, AMOUNTS)}
    flushers[0].begin({**again, "a": hits((1, 1))})
    flushers[0].finish({"a": hits((1, 1))})
    assert (sums_of_events(store)["sale"].people, sums_of_events(store)["sale"].value) == (5, 5)
    assert verify(store, CLICKS).broken == []


def test_it_waits_for_open_owners_and_ends_where_one_still_counts_the_event(store: Store) -> None:
    first, second = filled(store)
    deletion = Deletion(store, "sale")
    assert [each.owner for each in deletion.waiting()] == [1, 2]
    store.close_owner(first.held)
    assert [each.owner for each in deletion.waiting()] == [2]
    store.note(f"{DELETION_ANSWER}{store.noted(DELETED + 'sale')}:2", COUNTED)
    assert (deletion.waiting(), deletion.counting()) == ([], [2])
    deletion.end(is_deleted=False)
    assert "sale" in noted_names(store) and store.notes("event-") == {}
    # The answer to one deletion is none to another.
    assert [each.owner for each in Deletion(store, "sale").waiting()] == [second.held.owner]


def test_rows_that_were_erased_by_a_clock_that_is_ahead_go_too(store: Store) -> None:
    flushers = filled(store)
    store.erase([SALES.row("a"), AMOUNTS.row("a")], NOW_US + 10**12)
    flushers[0].begin({SALES.row("a"): hits((2, 4)), SALES.row(ALL_LINKS): hits((2, 4)), "a": hits((2, 1))})
    flushers[0].finish({"a": hits((2, 1))})
    delete(store)
    assert "sale" not in sums_of_events(store)


@pytest.mark.parametrize("step", ["_erase", "end"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_anywhere_it_is_begun_again(store: Store, monkeypatch: pytest.MonkeyPatch, step: str, when: str) -> None:
    filled(store)
    real: Callable[..., object] = getattr(Deletion, step)

    def dying(*given: object, **named: object) -> object:
        if when == "after":
            real(*given, **named)
        die()
        return None

    with monkeypatch.context() as patched:
        patched.setattr(Deletion, step, dying)
        patched.setattr("server.events.deleting.ROWS_PER_PAGE", 3)
        with pytest.raises(Died):
            delete(store)
    if step == "end" and when == "after":
        assert "sale" not in noted_names(store)
    else:
        assert "sale" in noted_names(store)
        delete(store)
    assert "sale" not in sums_of_events(store)
    assert verify(store, CLICKS).broken == []
