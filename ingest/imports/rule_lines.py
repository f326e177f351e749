"""Lines of an export that hold no counts but a rule by which counted hits are called bots.

    {"disavow": {"kind", "key", "dimension", "value", "from", "to"}}

kind: `link` or `group`, and `key` names it; `prefix`, and `key` is the beginning of keys; `all`, without a key. Without
`from` and `to` it is of all time. They come last, since a rule calls the hits that are there when it is carried out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ingest.imports.source import SourceLines, Stream, open_reader

FIELD = "disavow"
_BEGIN = b'{"disavow"'


class RuleLine(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}, omit_defaults=True):
    """A rule. start, end: epoch seconds; None: of all time."""

    kind: Literal["link", "group", "prefix", "all"]
    dimension: str
    value: str
    key: str | None = None
    start: int | None = None
    end: int | None = None


class _Line(msgspec.Struct):
    disavow: RuleLine


_read = msgspec.json.Decoder(_Line).decode


def without_rules(history: bytes) -> bytes:
    """Returns lines of history without those that hold rules."""
    if _BEGIN not in history:
        return history
    return b"".join(line for line in history.splitlines(keepends=True) if not line.startswith(_BEGIN))


def rules_of(file: Path) -> tuple[list[RuleLine], int]:
    """Returns the rules of an export, and how many lines hold none that can be read. Raises SourceUnreadable."""
    stream = Stream(open_reader(file))
    rules: list[RuleLine] = []
    bad = 0
    try:
        while (lines := stream.next_lines() or stream.last_line()) is not None:
            for line in _rule_lines(lines):
                try:
                    rules.append(_read(line).disavow)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    bad += 1
    finally:
        stream.reader.close()
    return rules, bad


def _rule_lines(lines: SourceLines) -> list[bytes]:
    if _BEGIN not in lines.data:
        return []
    return [line for line in lines.data.splitlines() if line.startswith(_BEGIN)]
