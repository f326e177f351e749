"""All namespaces of notes, in the order in which a copy of the store takes them along."""

from __future__ import annotations

from ingest.owner import KEPT_TIMES
from server.alerts.ledger import LEDGER_NOTES
from server.attributes import SALT_NOTES, SALTED_NOTES, SINCE_NOTES
from server.corrections.rules import DISAVOW_NOTES
from server.events.known_events import EVENT_NOTES
from server.http.shares import SHARE_NOTES
from server.process.duty import DUTY_NOTES
from server.timeline.note_book import TIMELINE_NOTES
from server.tokens.audit import AUDIT_NOTES, LIMITS_NOTES
from server.tokens.token_book import TOKEN_NOTES, USE_NOTES
from storage.erased_words import ERASE_NOTES
from storage.joined_rows import JOINING_NOTES
from storage.notes import NoteSpace, leave

NOTE_SPACES = (
    SINCE_NOTES,
    EVENT_NOTES,
    SHARE_NOTES,
    DISAVOW_NOTES,
    LEDGER_NOTES,
    USE_NOTES,
    AUDIT_NOTES,
    TOKEN_NOTES,
    ERASE_NOTES,
    TIMELINE_NOTES,
    SALT_NOTES,
    SALTED_NOTES,
    DUTY_NOTES,
    LIMITS_NOTES,
    JOINING_NOTES,
    NoteSpace("kept times", (KEPT_TIMES,), leave),
)
NOT_IN_BACKUPS = [prefix for space in NOTE_SPACES if not space.in_backups for prefix in space.prefixes]
