"""Notes in a store: bounds, changes that other workers see, and values that must be forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.access import ALL_ACCESS, Access, OutsidePrefix, begin_access
from clickcurve.answers.counts import NoteAnswer
from clickcurve.buckets.errors import ParameterInvalid, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import ALL, ALL_LINKS, group_key, group_subject, link_key, link_subject
from server.timeline import note_book
from server.timeline.known_notes import KnownNotes
from server.timeline.note import TEXT_CHARS, NoteKind, TimelineNote, checked_text
from server.timeline.note_book import NoteBook, NotesFull
from storage.contract import Store
from storage.memory_store import MemoryStore

NOW = 1_772_366_400


def known(store: Store | None = None) -> KnownNotes:
    return KnownNotes(NoteBook(store or MemoryStore(CLICKS)), lambda: NOW + 0.5)


def texts(notes: list[NoteAnswer]) -> list[str]:
    return [note.text for note in notes]


@contextmanager
def token_of(access: Access) -> Iterator[None]:
    begin_access(access)
    try:
        yield
    finally:
        begin_access(ALL_ACCESS)


ACME = Access("acme/", "acme", "t")


def test_a_curve_has_its_own_notes_and_those_that_people_wrote_for_all_links() -> None:
    async def scene() -> None:
        notes = known()
        await notes.write(link_key("k"), "of k", NOW - 60)
        await notes.write(group_key("g"), "of g")
        await notes.write(ALL_LINKS, "of all")
        await notes.write_own(NoteKind.alert, ALL_LINKS, "fired")
        span = (NOW - 60, NOW + 1)
        assert texts(notes.beside(link_subject("k"), span)) == ["of k", "of all"]
        assert sorted(texts(notes.beside(group_subject("g"), span))) == ["of all", "of g"]
        assert sorted(texts(notes.beside(ALL, span))) == ["fired", "of all"]
        assert notes.beside(link_subject("k"), (NOW - 59, NOW)) == [], "from its start on, and before its end"
        assert texts(notes.listed(None, None))[0] == "of k" and len(notes.listed(None, None)) == 4
        assert texts(notes.listed(link_key("k"), None)) == ["of k"]

    asyncio.run(scene())


def test_a_prefix_sees_and_writes_its_own_alone() -> None:
    async def scene() -> None:
        notes = known()
        for stored in (ALL_LINKS, link_key("acme/a"), link_key("beta/b"), group_key("acme"), group_key("other")):
            await notes.write(stored, stored.strip("\0") or "all")
        with token_of(ACME):
            assert sorted(texts(notes.listed(None, None))) == ["acme/a", "group:acme"]
            assert texts(notes.beside(link_subject("acme/a"), (0, NOW + 1))) == ["acme/a"]
            assert texts(notes.beside(ALL, (0, NOW + 1))) == ["group:acme"], "all links are its group"
            for stored in (ALL_LINKS, link_key("beta/b"), group_key("other")):
                with pytest.raises(OutsidePrefix):
                    await notes.write(stored, "no")
            assert (await notes.write(link_key("acme/b"), "yes")).key == "acme/b"
            other = next(each for each in notes._notes if each.stored == link_key("beta/b"))
            assert await notes.find(other.id) is None

    asyncio.run(scene())


def test_notes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_book, "MOST_WRITTEN", 3)
    monkeypatch.setattr(note_book, "MOST_OWN", 2)
    monkeypatch.setattr(note_book, "MOST_OF_PREFIX", 1)

    async def scene() -> None:
        notes, times = known(), iter(range(100))
        notes._clock = lambda: NOW + next(times)
        for text in ("first", "second", "third"):
            await notes.write_own(NoteKind.alert, ALL_LINKS, text)
        assert texts(notes.listed(None, None)) == ["second", "third"], "of the server's own the oldest go"
        with token_of(ACME):
            await notes.write(link_key("acme/a"), "own")
            with pytest.raises(NotesFull, match="prefix"):
                await notes.write(link_key("acme/a"), "more")
        await notes.write(ALL_LINKS, "a")
        await notes.write(ALL_LINKS, "b")
        with pytest.raises(NotesFull, match="delete some"):
            await notes.write(ALL_LINKS, "c")
        (first, *_) = [each for each in notes.listed(None, None) if each.text == "a"]
        await notes.drop([first.id])
        await notes.write(ALL_LINKS, "c")
        await notes.write_own(NoteKind.alert, ALL_LINKS, "fourth")
        assert {"own", "b", "c", "third", "fourth"} == set(texts(notes.listed(None, None)))

    asyncio.run(scene())


def test_what_the_server_notes_of_one_thing_is_noted_once() -> None:
    async def scene() -> None:
        store = MemoryStore(CLICKS)
        one, other = known(store), known(store)
        for notes in (one, other, one):
            await notes.write_own(NoteKind.alert, ALL_LINKS, "fired " * 100, note_id="alert-7")
        await one.refresh()
        (note,) = one.listed(None, None)
        assert (note.id, len(note.text), note.text[-1]) == ("alert-7", TEXT_CHARS, "…")

    asyncio.run(scene())


def test_another_worker_knows_at_its_next_look_and_an_idle_look_reads_no_notes() -> None:
    class Counting(MemoryStore):
        reads = 0

        def notes(self, prefix: str = "") -> dict[str, str]:
            self.reads += 1
            return super().notes(prefix)

    async def scene() -> None:
        store = Counting(CLICKS)
        one, other = known(store), known(store)
        await other.refresh()
        written = await one.write(link_key("k"), "seen")
        await other.refresh()
        assert other.listed(None, None) == [written]
        reads = store.reads
        for _ in range(5):
            await other.refresh()
        assert store.reads == reads
        await one.drop([written.id])
        await other.refresh()
        assert other.listed(None, None) == []

    asyncio.run(scene())


def test_a_store_that_is_away_is_logged_and_what_is_known_holds(caplog: pytest.LogCaptureFixture) -> None:
    class Away(MemoryStore):
        is_away = False

        def noted(self, name: str) -> str | None:
            if self.is_away:
                raise StoreUnavailable("away")
            return super().noted(name)

        def notes(self, prefix: str = "") -> dict[str, str]:
            if self.is_away:
                raise StoreUnavailable("away")
            return super().notes(prefix)

    async def scene() -> None:
        store = Away(CLICKS)
        notes = known(store)
        await notes.write(link_key("k"), "kept")
        store.is_away = True
        for _ in range(3):
            await notes.follow()
        await notes.write_own(NoteKind.delete, link_key("k"), "what was done stands")
        assert texts(notes.listed(None, None)) == ["kept"]
        with pytest.raises(StoreUnavailable):
            await notes.write(link_key("k"), "more")

    asyncio.run(scene())
    assert [record.message for record in caplog.records] == ["notes not read", "note not written"]


def test_a_value_leaves_the_texts_where_it_stands_as_a_word() -> None:
    async def scene() -> None:
        notes = known()
        for stored, text in (
            (link_key("k"), "Mail from Ann.Smith.example came"),
            (link_key("k"), "joann.smith.example is another"),
            (link_key("other"), "ann.smith.example"),
        ):
            await notes.write(stored, text)
        await notes.forget_text("ann.smith.example", link_key("k"))
        assert sorted(texts(notes.listed(None, None))) == [
            "Mail from … came", "ann.smith.example", "joann.smith.example is another"
        ]  # fmt: skip
        await notes.forget_text("ann.smith.example", None)
        assert "…" in texts(notes.listed(link_key("other"), None))

    asyncio.run(scene())


def test_an_unreadable_note_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(CLICKS)
    book = NoteBook(store)
    book.add(TimelineNote("a", NOW, NoteKind.note, "good", ALL_LINKS, NOW))
    store.note("timeline:b", '{"id": 7}')
    assert [note.id for note in book.all()] == ["a"]
    assert caplog.records[0].message == "note unreadable"


@given(st.text(max_size=300))
def test_a_text_is_taken_or_refused_with_its_rule(text: str) -> None:
    try:
        taken = checked_text(text)
    except ParameterInvalid as error:
        assert (error.field, error.rule) == ("text", "1 to 250 characters without control characters")
    else:
        assert taken == text.strip() and 1 <= len(taken) <= TEXT_CHARS
