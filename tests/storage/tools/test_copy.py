"""Everything of one store in another, and what is refused."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME
from clickcurve.keys import breakdown_key
from server.corrections.rules import DisavowBook, DisavowRule
from server.events.known_events import noted_names
from server.tokens.audit import AuditLog
from server.tokens.token import Scope, TokenRequest
from server.tokens.token_book import TokenBook
from storage.contract import CLOSED, COPIED, RETIRED, Held, OwnerRecord, Source
from storage.erased_words import ERASE_VERSION, ErasureBook, KnownWords
from storage.memory_store import MemoryStore
from storage.sqlite.backup import backup
from storage.tools.copy import Copied
from storage.tools.copy_owner import CopyRefused
from storage.tools.verify import verify
from tests.storage.flushes import Flusher, hits
from tests.storage.processes import opened
from tests.storage.stores import record, rows, saved, walked
from tests.storage.tools.copies import (
    NOW_US,
    Died,
    Interrupted,
    Make,
    Recording,
    copied,
    die,
    exported,
    filled,
    filled_with_events,
    picture,
)

PAIRS = [("memory", "memory"), ("sqlite", "sqlite"), ("cassandra", "sqlite"), ("memory", "cassandra")]
PAIRS += [("simulated", "sqlite"), ("memory", "simulated")]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.tools.copy.KEYS_PER_PAGE", 4)
    monkeypatch.setattr("storage.tools.copy.IDS_PER_PAGE", 2)


# --- what a copy has --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "of"), PAIRS)
def test_a_copy_has_everything(make: Make, kind: str, of: str) -> None:
    source, target = filled(make(of)), make(kind)
    before = picture(source)
    done = copied(source, target)
    assert picture(source) == before
    owners, links, claimed, places, days = picture(target)
    assert (owners, links, days) == (before[0], before[1], before[4])
    assert claimed == {"a", "b", "c"}, "those of 48 hours"
    assert {name: (kept.owner, kept.position, kept.tail) for name, kept in places.items()} == {
        "log": (1, 100, "tail"),
        "other": (5, 7, "seven"),
    }
    assert exported(target) == exported(source)
    assert verify(target, CLICKS) == verify(source, CLICKS)
    assert [(owner.owner, owner.number) for owner in done.owners] == [(1, 1), (2, 2), (5, 5)]
    assert all(owner.sums is not None and owner.sums[0] == owner.sums[1] for owner in done.owners)
    first = done.owners[0].sums
    assert first is not None and (first[0].rows, first[0].people, first[0].bots) == (22, 1022, 5)
    assert (done.ids, done.imports, done.kept) == (3, 2, [])


def test_copying_again_says_so_and_changes_nothing(make: Make) -> None:
    source, target = filled(make("sqlite")), make("sqlite")
    copied(source, target)
    before = picture(target)
    again = copied(source, target)
    assert picture(target) == before
    assert [(owner.owner, owner.number, owner.sums) for owner in again.owners] == [(n, n, None) for n in (1, 2, 5)]
    assert again.compared.sums == {}


def test_lists_of_lately_touched_links_have_those_that_were_copied(make: Make) -> None:
    source, target = filled(make("memory")), Recording(make("memory"))
    copied(source, target)
    touched = {(key, row.data): row.touched_day for call in target.saved for key, row in call.items()}
    for key, link in walked(source, 100):
        for row in link.rows:
            day, last = touched[key, row.data], decode(row.data).last
            assert last is not None and day is not None and day >= last // DAY_S - 1, key


def test_an_empty_store_is_copied_at_once(make: Make) -> None:
    target = make("memory")
    assert copied(make("memory"), target) == Copied()
    assert target.owners() == []


def test_a_store_in_use_gets_the_owners_under_new_numbers(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")
    there = Flusher(target, 2)
    there.flush({"key-1": hits((0, 1_000)), "key-3": hits((0, 2_000))}, {"log": Source(2, 40, "less")})
    before = {line["key"]: line["total"] for line in exported(source)}
    done = copied(source, target)
    assert [(owner.owner, owner.number) for owner in done.owners] == [(1, 1), (2, 6), (5, 5)]
    before["key-1"] += 1_000
    before["key-3"] += 2_000
    assert {line["key"]: line["total"] for line in exported(target)} == before
    assert done.kept == [
        "import log is at byte 100 in the source; in the target owner 2 keeps it, at byte 40",
    ]
    there.flush({"key-1": hits((5, 4_000))})
    assert verify(target, CLICKS).broken == []


def test_two_stores_come_together_in_one(make: Make) -> None:
    one, other, target = filled(make("memory")), filled(make("sqlite")), make("memory")
    copied(one, target)
    copied(other, target)
    twice = {line["key"]: 2 * line["total"] for line in exported(one)}
    assert {line["key"]: line["total"] for line in exported(target)} == twice
    assert len(target.owners()) == 6


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(-60_000, 900), st.integers(1, 99))),
            st.sampled_from(["", "", "a", "b"]),
        ),
        max_size=12,
    )
)
def test_whatever_was_counted_is_the_same_in_the_copy(history: list[tuple[int, dict[str, Any], str]]) -> None:
    source, target = MemoryStore(), MemoryStore()
    flushers = {owner: Flusher(source, owner) for owner in (1, 2, 3)}
    for at, (owner, counts, erased) in enumerate(history):
        flushers[owner].flush({key: hits((after, count)) for key, (after, count) in counts.items()})
        if erased:
            source.erase([erased], NOW_US + at)
    for flusher in flushers.values():
        source.close_owner(flusher.held)
    copied(source, target)
    assert exported(target) == exported(source)
    assert verify(target, CLICKS) == verify(source, CLICKS)


# --- refusals ---------------------------------------------------------------------------------------------------------
def test_an_open_owner_is_refused_with_what_ends_it(make: Make) -> None:
    source, target = make("memory"), make("memory")
    Flusher(source, 3).flush({"a": hits((0, 1))})
    with pytest.raises(CopyRefused, match=r"owner 3 is open \(/data/3\): stop its server.*owners retire 3"):
        copied(source, target)
    assert target.owners() == []


def test_a_store_is_not_copied_into_itself(make: Make) -> None:
    source = filled(make("memory"))
    with pytest.raises(CopyRefused, match="the same store"):
        copied(source, source)


def test_nothing_reaches_a_store_on_two_ways(make: Make) -> None:
    first, second, third = filled(make("memory")), make("memory"), make("memory")
    copied(first, second)
    with pytest.raises(CopyRefused, match="the source holds a copy of the target's owner 1"):
        copied(second, first)
    copied(first, third)
    with pytest.raises(CopyRefused, match="both hold a copy of owner 1 of the store"):
        copied(second, third)
    fourth = make("memory")
    copied(second, fourth)
    assert [owner.sums for owner in copied(first, fourth).owners] == [None] * 3
    assert exported(fourth) == exported(first)


def test_a_store_and_its_backup_never_count_twice_in_one_store(make: Make, tmp_path: Path) -> None:
    with opened(tmp_path / "original.db") as original:
        filled(original)
    backup(tmp_path / "original.db", tmp_path / "backup.db")
    with opened(tmp_path / "original.db") as original, opened(tmp_path / "backup.db") as backed:
        target = make("memory")
        copied(original, target)
        with pytest.raises(CopyRefused, match="both hold a copy of owner 1 of the store"):
            copied(backed, target)
        with pytest.raises(CopyRefused, match="the source holds a copy of the target's owner 1"):
            copied(backed, original)
        other = make("memory")
        copied(backed, other)
        assert exported(other) == exported(original)
        assert [owner.sums for owner in copied(original, other).owners] == [None] * 3


def test_rows_of_an_owner_that_the_source_does_not_know_are_refused(make: Make) -> None:
    source = filled(make("memory"))
    assert isinstance(source, MemoryStore)
    source._rows["key-3"][9] = saved("x")["x"]
    with pytest.raises(CopyRefused, match="link 'key-3', owner 9: the source knows no such owner"):
        copied(source, make("memory"))


def test_a_row_that_cannot_be_read_is_copied_as_it_is(make: Make) -> None:
    source, target = make("memory"), make("memory")
    source.create_owner(record(1, begun=1))
    source.save_own(Held(1, 1, "h1"), 1, saved("a", data=b"nonsense"), {})
    source.close_owner(Held(1, 1, "h1"))
    copied(source, target)
    assert walked(target, 10) == walked(source, 10)


# --- erasures ---------------------------------------------------------------------------------------------------------
def test_a_link_that_others_count_in_the_target_keeps_what_they_counted(make: Make) -> None:
    source, target = make("memory"), make("memory")
    flusher, there = Flusher(source, 1, divided=True), Flusher(target, 7)
    flusher.flush({"a": hits((0, 1)), "b": hits((0, 2)), "c": hits((0, 4))})
    source.erase(["a"], NOW_US)
    source.erase(["b"], NOW_US)
    source.erase(["c"], NOW_US)
    flusher.flush({"b": hits((1, 8))})
    source.close_owner(flusher.held)
    there.flush({"a": hits((0, 100)), "b": hits((0, 200))})
    done = copied(source, target)
    assert {line["key"]: line["total"] for line in exported(target)} == {"a": 100, "b": 208}
    assert rows(target, "a").erased_at == rows(target, "b").erased_at == 0
    assert rows(target, "c").erased_at == NOW_US
    assert done.compared.rows_differing == 0 and done.compared.erased == []
    for link, sums in (("a", {}), ("b", {"a.example": 8}), ("c", {"a.example": 4})):
        (row,) = rows(target, breakdown_key(link)).rows
        breakdown = decode_parts(separate_parts(row.data))
        assert [counts.values for tier in breakdown.dimensions.get("ref", ()) for counts in tier.values()] == [sums][
            : len(sums)
        ]
        assert breakdown.erased_at == (NOW_US if link != "c" else 0)
    assert verify(target, CLICKS).broken == []


def test_a_link_that_the_target_erases_while_the_copy_is_broken_off_is_no_difference(make: Make) -> None:
    source, target = make("memory"), make("memory")
    flusher, there = Flusher(source, 1), Flusher(target, 7)
    flusher.flush({key: hits((0, 1)) for key in "abcdefgh"})
    source.erase(["a"], NOW_US)
    source.close_owner(flusher.held)
    there.flush({"a": hits((0, 100))})
    with pytest.raises(Died):
        copied(source, target, lambda done, total: die())
    target.erase(["a"], NOW_US + 1)
    assert copied(source, target).compared.rows_differing == 0
    assert exported(target) == exported(source)


def test_what_the_target_has_erased_stays_erased_and_is_reported(make: Make) -> None:
    source, target = make("memory"), make("memory")
    flusher = Flusher(source, 1)
    flusher.flush({"a": hits((0, 1)), "b": hits((0, 2))})
    source.close_owner(flusher.held)
    target.erase(["b"], NOW_US)
    done = copied(source, target)
    assert {line["key"]: line["total"] for line in exported(target)} == {"a": 1}
    assert done.compared.erased == [
        "link 'b', owner 1: erased in the target, so 2 hits of the source count for nothing there"
    ]
    assert done.compared.rows_differing == 0
    (owner,) = target.owners()
    assert owner.state == CLOSED


@pytest.mark.parametrize("kind", ["memory", "sqlite", "simulated", "cassandra"])
def test_owners_that_have_no_rows_are_copied_too(make: Make, kind: str) -> None:
    source, target = make("memory"), make(kind)
    for owner, state in enumerate((CLOSED, COPIED, RETIRED), 3):
        journal = f"journal-{owner}"
        source.create_owner(OwnerRecord(owner, 4, "h", journal, "host:/folder", state, (3 << 20) + 7, 1_700_000_000))
    copied(source, target)
    assert target.owners() == source.owners()
    assert [owner.sums for owner in copied(source, target).owners] == [None] * 3


# --- breakdowns -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["memory", "sqlite", "simulated", "cassandra"])
def test_a_copy_is_divided_since_no_earlier_than_either_and_has_no_salts(make: Make, kind: str) -> None:
    source, target = filled(make("memory")), make(kind)
    notes = {"since:ref": "0", "since:os": "700", "salt:0": "secret"}
    for name, value in notes.items():
        source.note(name, value)
    copied(source, target)
    assert target.notes() == {"since:ref": "0", "since:os": "700"}
    other = make("memory")
    Flusher(other, 1).flush({"a": hits((0, 1))})
    stored = other.owner(1)
    assert stored is not None
    other.close_owner(Held(1, stored.epoch, stored.holder))
    other.note("since:ref", "900")
    copied(other, target)
    assert target.notes() == {"since:ref": "900", "since:os": str(NOW_US // 1_000_000)}


def test_what_alerts_have_sent_comes_along_and_who_judges_them_does_not(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")
    for name in ("ledger:alert-1", "ledger:alert-2", "duty:alerts"):
        source.note(name, f"{name} of the source")
    target.note("ledger:alert-2", "of the target")
    copied(source, target)
    assert target.notes() == {"ledger:alert-1": "ledger:alert-1 of the source", "ledger:alert-2": "of the target"}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_rules_that_call_hits_bots_come_along(make: Make, kind: str) -> None:
    source, target = filled(make("memory")), make(kind)
    books = DisavowBook(source), DisavowBook(target)
    for _ in range(2):  # sent again, it is settled for that time
        books[0].add(DisavowRule("a", "ref", "spam.example", 0, END_OF_TIME, 1))
    books[0].settle(books[0].all()[0])
    assert books[0].all()[0].settled
    copied(source, target)
    assert books[1].all() == books[0].all()
    assert books[1].version() is not None, "servers of the target read the rules only if there is a version of them"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_erased_values_are_erased_again_in_the_copy(make: Make, kind: str) -> None:
    source, target, now = filled(make("memory")), make(kind), NOW_US // 1_000_000
    books = ErasureBook(source), ErasureBook(target)
    for value in ("ann.example", "bob.example"):
        books[0].add(books[0].meant("ref", value, None, now))
    books[0].finish(books[0].all()[0], now)
    known = KnownWords(books[1])
    assert not known.read(lambda: now)
    assert copied(source, target).kept == []
    erasures = books[1].all()
    assert [each.noted for each in erasures] == [each.noted for each in books[0].all()]
    assert [books[1].waiting(each) for each in erasures] == [[1, 2, 5]] * 2, "their rows may have the values"
    assert all(known.read(lambda: now).is_named("ref", value) for value in ("ann.example", "bob.example"))
    version = target.noted(ERASE_VERSION)
    assert version and copied(source, target).kept == [] and target.noted(ERASE_VERSION) == version


def test_a_target_that_has_erased_values_of_its_own_is_not_told_of_others(make: Make) -> None:
    source, target, now = filled(make("memory")), make("memory"), NOW_US // 1_000_000
    books = ErasureBook(source), ErasureBook(target)
    for book, value in zip(books, ("ann.example", "bob.example"), strict=True):
        book.add(book.meant("ref", value, None, now))
    before = books[1].all()
    assert copied(source, target).kept == [
        "1 erased values may come back in the target: send their erasures there again"
    ]
    assert books[1].all() == before
    assert books[1].words(now).is_named("ref", "bob.example")


@pytest.mark.parametrize("kind", ["memory", "sqlite", "simulated", "cassandra"])
def test_tokens_and_the_audit_log_come_along(make: Make, kind: str) -> None:
    source, target = filled(make("memory")), make(kind)
    _, secret = TokenBook(source).add(TokenRequest("acme", (Scope.read,), "acme/"), NOW_US // 1_000_000)
    _, kept = TokenBook(target).add(TokenRequest("here", (Scope.read,)), NOW_US // 1_000_000)
    TokenBook(source).note_used([secret.split("_")[1]], "20260101")
    AuditLog(source, lambda: NOW_US / 1_000_000).note("command", "token made", "acme")
    before = TokenBook(target).version()
    assert copied(source, target).notes["tokens"] == 1
    assert {token.id for token in TokenBook(target).all()} == {text.split("_")[1] for text in (secret, kept)}
    assert TokenBook(target).last_used() == {secret.split("_")[1]: "20260101"}
    assert [each.subject for each in AuditLog(target, lambda: NOW_US / 1_000_000).entries()] == ["acme"]
    assert TokenBook(target).version() != before, "a server of the target reads them"
    version = TokenBook(target).version()
    assert copied(source, target).notes.get("tokens") is None, "nothing is left to copy"
    assert TokenBook(target).version() == version


# --- events -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["memory", "sqlite", "simulated", "cassandra"])
def test_events_come_along_with_what_is_called_of_them(make: Make, kind: str) -> None:
    source, target = filled_with_events(make("memory")), make(kind)
    done = copied(source, target)
    assert (done.compared.rows_differing, done.compared.differing) == (0, [])
    assert noted_names(target) == {"sale"}
    assert exported(target) == exported(source)
    assert [sorted(line["events"]) for line in exported(target)] == [["sale"], ["sale"]]
    assert picture(target)[1] == picture(source)[1]
    report = verify(target, CLICKS)
    assert (report.broken, report) == ([], verify(source, CLICKS))


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_anywhere_a_copy_of_events_goes_on(make: Make, when: str) -> None:
    source = filled_with_events(make("memory"))
    for n in count(1):
        target = make("memory")
        interrupted = Interrupted(target, n, when, die)
        try:
            copied(source, interrupted)
        except Died:
            copied(source, target)
        assert exported(target) == exported(source) and noted_names(target) == {"sale"}
        assert verify(target, CLICKS).broken == []
        if interrupted.calls < n:
            break
    assert n > 20
