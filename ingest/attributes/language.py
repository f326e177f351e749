"""The language that a visitor reads, as the browser says it."""

from __future__ import annotations

import re
from typing import Final

from ingest.attributes.text import text_of

LANG_BYTES = 1_024
LANG_RULE = f"a language tag or an Accept-Language, at most {LANG_BYTES:,} bytes"
# A tag of a browser (`pt-BR;q=0.8`), or the name of a locale (`pt_BR`, `en_GB.UTF-8`, `de_DE@euro`).
_RANGE = re.compile(
    r"\s*([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*(?:\.[\w-]{1,16})?(?:@\w{1,16})?"
    r"\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?))?\s*",
    re.ASCII,
)
# Codes that ISO 639 replaced; older systems still send them (Java until 17: iw, in, ji).
_REPLACED: Final = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro"}


def language_of(value: object) -> str:
    """Returns the primary subtag of the field `lang` that is asked for first; "" if it names no language.

    `de-AT,en;q=0.8` is `de`, `iw_IL.UTF-8` is `he`. Raises HitRejected if it is no such field.
    """
    best, weight = "", 0.0
    for part in text_of(value, "lang", LANG_RULE, LANG_BYTES).split(","):
        match = _RANGE.fullmatch(part)
        if match is not None:
            asked = float(match[2] or 1)
            if asked > weight:
                best, weight = match[1].lower(), asked
    return _REPLACED.get(best, best)
