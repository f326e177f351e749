"""What lines of a log or of a history add up to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

SHOWN_BAD_LINES = 5
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class BadLine:
    """`line` counts from 1 in what was read."""

    line: int
    reason: str
    text: str


class Campaign(NamedTuple):
    """What the query of a link names. utm: pairs of name and value."""

    source: str | None
    utm: tuple[tuple[str, str], ...] | None


class LogHit(NamedTuple):
    """What a line counts: a hit of a link in the minute that starts at `minute`, with what it says of its visitor.

    None: absent or not wanted.
    """

    key: str
    minute: int
    bot: bool
    ip: str | None = None
    ref: str | None = None
    ua: str | None = None
    campaign: Campaign | None = None


class Skipped(str):
    """The reason why a line counts nothing."""


@dataclass(slots=True)
class LineSums:
    """How some lines ended. Of a log: `lines == people_hits + bot_hits + sum of skipped + bad`.

    formats: of a log, how many of its lines were read as which format.
    """

    lines: int = 0
    people_hits: int = 0
    bot_hits: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    first_bad: list[BadLine] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)

    def note_bad(self, line: int, reason: str, text: str) -> None:
        self.bad += 1
        if len(self.first_bad) < SHOWN_BAD_LINES:
            shown = text[:_SHOWN_CHARS].encode("utf-8", "backslashreplace").decode()
            self.first_bad.append(BadLine(line, reason, shown))


@dataclass(slots=True)
class LogSums(LineSums):
    """What some lines add up to."""

    hits: Counter[LogHit] = field(default_factory=Counter)
