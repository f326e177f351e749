"""All timeline notes, in the notes of the store: so every worker and node knows each of them.

They are bounded: MOST_WRITTEN by people, of which a prefix has MOST_OF_PREFIX, and MOST_OWN by the server. What people
write beyond that is refused, since nobody else has it; of the server's own the oldest go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

import msgspec

from clickcurve.buckets.errors import ClickcurveError
from server.logs import log
from server.timeline.note import NoteKind, TimelineNote
from storage.contract import Store
from storage.note_versions import FollowedVersion, renew_version
from storage.notes import NoteSpace, take_new

# TIMELINE, then the id of a note. TIMELINE_VERSION is another one after each change of them.
TIMELINE, TIMELINE_VERSION = "timeline:", "timeline-version"
TIMELINE_NOTES = NoteSpace(
    "the timeline's notes", (TIMELINE, TIMELINE_VERSION), take_new(TIMELINE, version=TIMELINE_VERSION)
)

MOST_WRITTEN = MOST_OWN = 5_000
MOST_OF_PREFIX = 500

_read_note = msgspec.json.Decoder(TimelineNote).decode


class NotesFull(ClickcurveError, status=409, title="too many notes"):
    """There are as many notes as may be; some must be deleted first."""


class NoteBook:
    """Writes, lists and drops timeline notes. May block, and raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def followed(self) -> FollowedVersion:
        """Returns what tells that notes have changed."""
        return FollowedVersion(self._store, TIMELINE_VERSION)

    def all(self) -> list[TimelineNote]:
        """Returns the notes by their moments, oldest first."""
        found = []
        for name, value in self._store.notes(TIMELINE).items():
            try:
                found.append(_read_note(value))
            except msgspec.DecodeError as error:
                log.error("note unreadable", extra={"note": name, "reason": str(error), "then": "it is left out"})
        return sorted(found, key=lambda note: (note.at, note.made_at, note.id))

    def add(self, note: TimelineNote, of_prefix: Callable[[str], bool] | None = None) -> None:
        """Writes a note; one that is there under its id stays. Raises NotesFull.

        of_prefix: tells which stored keys belong to the prefix of the token that writes it; None: it has none.
        """
        known = self.all()
        if note.kind is NoteKind.note:
            written = [each for each in known if each.kind is NoteKind.note]
            _require_room(len(written), MOST_WRITTEN, "in this store")
            if of_prefix is not None:
                own = sum(1 for each in written if of_prefix(each.stored))
                _require_room(own, MOST_OF_PREFIX, "of the token's prefix")
        else:
            own_kinds = sorted(
                (each for each in known if each.kind is not NoteKind.note), key=lambda each: (each.made_at, each.id)
            )
            self._drop(own_kinds[: max(0, len(own_kinds) - MOST_OWN + 1)])
        self._store.note(TIMELINE + note.id, msgspec.json.encode(note).decode())
        renew_version(self._store, TIMELINE_VERSION)

    def drop(self, notes: Collection[TimelineNote]) -> None:
        """Drops notes."""
        if notes:
            self._drop(notes)
            renew_version(self._store, TIMELINE_VERSION)

    def forget_text(self, value: str, is_meant: Callable[[str], bool]) -> None:
        """Takes a value out of the texts of notes where it stands as a word. is_meant: of which stored keys."""
        word = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
        hits = [each for each in self.all() if is_meant(each.stored) and word.search(each.text)]
        for each in hits:
            without = msgspec.structs.replace(each, text=word.sub("…", each.text))
            before, after = (msgspec.json.encode(note).decode() for note in (each, without))
            self._store.change_note(TIMELINE + each.id, before, after)
        if hits:
            renew_version(self._store, TIMELINE_VERSION)

    def _drop(self, notes: Iterable[TimelineNote]) -> None:
        if names := [TIMELINE + each.id for each in notes]:
            self._store.drop_notes(names)


def _require_room(many: int, most: int, where: str) -> None:
    if many >= most:
        detail = f"there are {many:,} notes {where} already; delete some"
        raise NotesFull(detail, field="notes", rule=f"at most {most:,} {where}")
