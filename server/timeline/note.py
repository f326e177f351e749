"""A note beside the hits of a moment: its kinds, its limits, and what answers show of it."""

from __future__ import annotations

from enum import StrEnum
from unicodedata import category

import msgspec
from msgspec import UNSET

from clickcurve.answers.counts import NoteAnswer
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import group_of, link_of
from clickcurve.visible import shortened
from query.comparison import TimeSpan

TEXT_CHARS = 250
_UNWRITTEN = frozenset(("Cc", "Cs", "Zl", "Zp"))  # of Unicode: controls, surrogates, ends of lines and paragraphs
TEXT_RULE = f"1 to {TEXT_CHARS} characters without control characters"


class NoteKind(StrEnum):
    """Where a note comes from. note: somebody wrote it; the others the server writes when it does such a thing."""

    note = "note"
    alert = "alert"
    disavow = "disavow"
    erase = "erase"
    delete = "delete"
    import_ = "import"


class TimelineNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text beside a moment of a row of counts. at: that moment; made_at: when it was written; epoch seconds.

    span: the range that it is of, if it is of one.
    """

    id: str
    at: int
    kind: NoteKind
    text: str
    stored: str
    made_at: int
    span: TimeSpan | None = None

    def answer(self) -> NoteAnswer:
        """Returns the note as answers have it."""
        start, end = self.span or (UNSET, UNSET)
        whose = link_of(self.stored), group_of(self.stored)
        return NoteAnswer(self.id, self.at, self.kind.value, self.text, *whose, start, end)


def checked_text(text: str) -> str:
    """Returns the text of a note without blanks around it; raises ParameterInvalid."""
    stripped = text.strip()
    if not 1 <= len(stripped) <= TEXT_CHARS:
        what = "is empty" if not stripped else f"has {len(stripped):,} characters"
        raise ParameterInvalid(f"text {what}", field="text", value=text, rule=TEXT_RULE)
    if any(category(letter) in _UNWRITTEN for letter in stripped):
        detail = "text has control characters, ends of lines, or half of a surrogate pair"
        raise ParameterInvalid(detail, field="text", value=text, rule=TEXT_RULE)
    return stripped


def short_text(text: str) -> str:
    """Returns a text of the server's own, cut where it is too long."""
    return shortened(text, TEXT_CHARS)
