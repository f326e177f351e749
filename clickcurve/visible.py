"""Text of strangers, made safe to show: on a terminal, in a line of a log, in JSON that a person may look at.

Keys, user agents and lines of logs come from anybody on the web. Printed as they are, an escape sequence sets
a terminal's title or hides a line, a newline makes a row that nobody counted, U+202E turns a name around.
So whatever Python does not call printable is shown by its number: C0 and C1 control characters, DEL, marks of
direction, separators of lines, characters without a meaning, halves of surrogate pairs.
"""

from __future__ import annotations

import json

# They join letters of Persian and Hindi, and pictures that are made of several; they move and hide nothing.
_JOINERS = "\u200c\u200d"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""Returns the text as one line that can be printed, with control characters as `\x1b`, `\n` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(sign if _prints(sign) else _SHORT.get(sign) or _numbered(sign) for sign in text)


def json_line(value: object, ascii_only: bool = False) -> str:
    r"""Returns a value as one line of JSON whose strings show control characters as `\u001b`.

    It reads back as the same value. With `ascii_only` every other character is written so as well.
    """
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), default=str)
    if text.isprintable():
        return text
    return "".join(sign if _prints(sign) else json.dumps(sign)[1:-1] for sign in text)


def _prints(sign: str) -> bool:
    return sign.isprintable() or sign in _JOINERS


def _numbered(sign: str) -> str:
    number = ord(sign)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def shortened(text: str, most: int) -> str:
    """Returns a text of at most so many signs, the last of which says that it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
