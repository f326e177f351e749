"""The language that a visitor reads, as the browser says it."""

from __future__ import annotations

import re

from ingest.attributes.text import text_of

LANG_BYTES = 1_024
LANG_RULE = f"a language tag or an Accept-Language, at most {LANG_BYTES:,} bytes"
_RANGE = re.compile(r"\s*([A-Za-z]{2,3})(?:-[A-Za-z0-9]{1,8})*\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?))?\s*")


def language_of(value: object) -> str:
    """Returns the primary subtag of the field `lang` that is asked for first; "" if it names no language.

    `de-AT,en;q=0.8` is `de`. Raises HitRejected if it is no such field.
    """
    best, weight = "", 0.0
    for part in text_of(value, "lang", LANG_RULE, LANG_BYTES).split(","):
        match = _RANGE.fullmatch(part)
        if match is not None:
            asked = float(match[2] or 1)
            if asked > weight:
                best, weight = match[1].lower(), asked
    return best
