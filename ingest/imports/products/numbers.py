"""Times and counts as products write them."""

from __future__ import annotations

import math

from clickcurve.times import iso_seconds


def second_of(when: object) -> int | None:
    """Returns the epoch seconds of a time, UTC where it has no offset; None if the text is not one."""
    if isinstance(when, str):
        text = when.strip()
        return int(text) if len(text) == 10 and text.isascii() and text.isdigit() else iso_seconds(text)
    is_number = isinstance(when, int | float) and not isinstance(when, bool)
    return int(when) if is_number and math.isfinite(when) else None  # type: ignore[arg-type,call-overload]


def whole_count(value: object) -> int | None:
    """Returns a count of 0 or more, also one written as text; None for any other value."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value) if len(value) < 20 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
