"""The rules that all attributes of a hit share: no control characters, and a bound on what is kept of a value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from clickcurve.buckets.errors import HitRejected, SettingInvalid

VALUE_BYTES = 100
CUT = "…"
_CUT_BYTES = len(CUT.encode())
_LEAST_CUT = VALUE_BYTES - 4  # fewer bytes than `cut` leaves of a longer value: it ends at a character
# C0, DEL and C1, and lone surrogates, which no UTF-8 can hold.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_WHITE_SPACE = re.compile(r"\s")
KEPT_RULE = f"at most {VALUE_BYTES} bytes of a value are kept"
CONTROL_RULE = "no control characters and no lone surrogates"


def text_of(value: object, field: str, rule: str, longest: int) -> str:
    """Returns a text of at most `longest` bytes of UTF-8; raises HitRejected for any other value."""
    if not isinstance(value, str):
        raise HitRejected(f"{field} must be a string", field=field, value=value, rule=rule)
    if _CONTROL.search(value):
        raise HitRejected(f"{field} holds a control character", field=field, value=value, rule=CONTROL_RULE)
    if len(value) * 4 > longest and len(value.encode()) > longest:
        raise HitRejected(f"{field} is too long", field=field, value=value, rule=rule)
    return value


def without_controls(value: str) -> str:
    """Returns a text without the signs that CONTROL_RULE forbids; white space among them becomes one blank."""
    return _CONTROL.sub(lambda signs: " " if _WHITE_SPACE.search(signs[0]) else "", value).strip()


def utf8_text(text: str) -> str:
    """Returns a text that UTF-8 can hold: with `?` for what it cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def cut(value: str, longest: int = VALUE_BYTES) -> str:
    """Returns what is kept of a value: all of it, or its first characters and an ellipsis, `longest` bytes at most."""
    if len(value) * 4 <= longest:
        return value
    raw = value.encode()
    if len(raw) <= longest:
        return value
    return raw[: longest - _CUT_BYTES].decode("utf-8", "ignore") + CUT


def may_be_cut(kept: str) -> bool:
    """Tells whether what is kept of a value may be the beginning of a longer one."""
    return kept.endswith(CUT) and len(kept) > _LEAST_CUT // 4 and len(kept.encode()) > _LEAST_CUT


def may_any_be_cut(kept: Collection[str]) -> bool:
    """Tells whether `may_be_cut` is true of any of these: by one look of C at all, for hardly any ever is."""
    return CUT in "".join(kept) and any(map(may_be_cut, kept))


def lines_in(path: Path, longest: int, field: str) -> Iterator[tuple[int, str]]:
    """Yields number and text of the lines of an operator's file; raises SettingInvalid. longest: bytes of the file.

    Empty lines, and what follows `#` at the start of a line or after a blank, are left out.
    """
    try:
        if path.stat().st_size > longest:
            raise SettingInvalid(f"{path} is larger than {longest:,} bytes", field=field, value=str(path))
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingInvalid(f"{path} cannot be read: {error}", field=field, value=str(path)) from None
    for number, line in enumerate(text.splitlines(), 1):
        said = "" if line.startswith("#") else line.partition(" #")[0].strip()
        if said:
            yield number, said
