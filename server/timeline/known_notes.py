"""The timeline notes that a worker knows: it looks every other second whether there are others, as for tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence

from clickcurve.access import Access, access
from clickcurve.answers.counts import NoteAnswer
from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from clickcurve.keys import ALL_LINKS, Subject, link_of
from clickcurve.waiting import in_thread
from query.comparison import TimeSpan
from server.job import Job
from server.logs import log
from server.timeline.note import NoteKind, TimelineNote, short_text
from server.timeline.note_book import NoteBook

NOTES_S = 2  # all workers and nodes know of a note within 5 s


class KnownNotes:
    """Notes for questions, and their writing. Coroutines raise StoreUnavailable. clock: epoch seconds."""

    def __init__(self, book: NoteBook, clock: Callable[[], float]) -> None:
        self._book, self._clock = book, clock
        self._version = book.followed()
        self._notes: Sequence[TimelineNote] = ()
        self._is_read = self._is_silent = False

    def jobs(self) -> Iterator[Job]:
        """Yields the job that follows the store."""
        yield Job("notes", self.follow, NOTES_S)

    async def follow(self) -> None:
        """Knows what is noted now; what was known before holds while the store does not answer."""
        try:
            await self.refresh()
            self._is_silent = False
        except StoreUnavailable as error:
            if not self._is_silent:  # once, not every two seconds
                log.warning("notes not read", extra={"reason": error.detail, "then": "those read before hold"})
            self._is_silent = True

    async def refresh(self) -> None:
        """Knows what is noted now: one look at the store, and all notes if there are others."""
        await in_thread("reading notes", self._refresh)

    def _refresh(self) -> None:
        if self._version.is_changed() or not self._is_read:
            self._notes = self._book.all()
            self._version.note_read()
            self._is_read = True

    # --- for questions ------------------------------------------------------------------------------------------------
    def beside(self, subject: Subject, span: TimeSpan) -> list[NoteAnswer]:
        """Returns what stands beside a curve: its own notes, and those that people wrote for all links."""
        stored, sees_all = access().row(subject.stored), not access().prefix
        return [
            each.answer()
            for each in self._notes
            if span[0] <= each.at < span[1]
            and (each.stored == stored or (sees_all and each.stored == ALL_LINKS and each.kind is NoteKind.note))
        ]

    def listed(self, stored: str | None, span: TimeSpan | None) -> list[NoteAnswer]:
        """Returns the notes of one stored key, or all that the request may see, oldest first. span None: all time."""
        return [
            each.answer()
            for each in self._seen()
            if stored in (None, each.stored) and (span is None or span[0] <= each.at < span[1])
        ]

    def _seen(self) -> Iterator[TimelineNote]:
        allowed = access()
        return (each for each in self._notes if _sees(allowed, each.stored))

    # --- writing ------------------------------------------------------------------------------------------------------
    async def write(self, stored: str, text: str, at: int | None = None) -> NoteAnswer:
        """Writes what somebody notes, at a moment or now; raises OutsidePrefix and NotesFull."""
        allowed, now = access(), int(self._clock())
        if allowed.prefix and stored == ALL_LINKS:
            raise allowed.refusal("a note of all links")
        of_prefix = (lambda row: _sees(allowed, row)) if allowed.prefix else None
        moment = now if at is None else at
        note = TimelineNote(secrets.token_hex(8), moment, NoteKind.note, text, allowed.row(stored), now)
        await in_thread("writing a note", self._book.add, note, of_prefix)
        await self.refresh()
        return note.answer()

    async def write_own(
        self,
        kind: NoteKind,
        stored: str,
        text: str,
        *,
        note_id: str | None = None,
        at: int | None = None,
        span: TimeSpan | None = None,
    ) -> None:
        """Writes what the server did; what it did stands, so a store that does not take the note is logged.

        note_id: the same for what is one thing; it is written once. span: the range that it is of.
        """
        now = int(self._clock())
        moment, row = now if at is None else at, access().row(stored)
        note = TimelineNote(note_id or secrets.token_hex(8), moment, kind, short_text(text), row, now, span)
        if any(each.id == note.id for each in self._notes):
            return
        try:
            await in_thread("writing a note", self._book.add, note, None)
            await self.refresh()
        except ClickcurveError as error:
            log.warning("note not written", extra={"kind": kind.value, "reason": error.detail})

    async def find(self, note_id: str) -> TimelineNote | None:
        """Returns a note that the request may see; None if there is none."""
        await self.refresh()
        return next((each for each in self._seen() if each.id == note_id), None)

    async def drop(self, note_ids: Collection[str]) -> None:
        """Drops the notes that have these ids."""
        await self._drop_where(lambda note: note.id in note_ids)

    async def drop_of(self, rows: Collection[str]) -> None:
        """Drops the notes of rows that are erased."""
        await self._drop_where(lambda note: note.stored in rows)

    async def _drop_where(self, is_meant: Callable[[TimelineNote], bool]) -> None:
        await self.refresh()
        if dropped := list(filter(is_meant, self._notes)):
            await in_thread("dropping notes", self._book.drop, dropped)
            await self.refresh()

    async def forget_text(self, value: str, stored: str | None) -> None:
        """Takes a value that must be forgotten out of the texts of notes: of one stored key, or of all (None)."""
        await in_thread("changing notes", self._book.forget_text, value, lambda row: stored in (None, row))
        await self.refresh()


def _sees(allowed: Access, stored: str) -> bool:
    if not allowed.prefix or stored == allowed.group_row:
        return True
    link = link_of(stored)
    return link is not None and allowed.covers(link)
