"""Regular expressions of strangers, compiled only if they cannot take long."""

from __future__ import annotations

import re

from clickcurve.buckets.errors import ParameterInvalid

_MOST_TRIES = 10_000_000
_RULE = "a regular expression without repeated groups and with few repeats"
_SPECIAL = frozenset(r".*+?()[]{}^$\\")


def safe_expression(field: str, text: str, longest: int) -> re.Pattern[str]:
    """Compiles an expression for texts of so many characters at most; raises ParameterInvalid.

    What takes long is a repeat in a repeated group, and many repeats in a row: each tries all places.
    """
    plain = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", text, flags=re.DOTALL).replace("(?", "(")
    repeats = len(re.findall(r"(?:[*+?]|\{[0-9]*,?[0-9]*\})[?+]?", plain))
    if re.search(r"\)[*+{]", plain) or max(2, longest) ** repeats > _MOST_TRIES:
        detail = f"{text!r} could take long on a text of {longest} characters"
        raise ParameterInvalid(detail, field=field, value=text, rule=_RULE)
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        detail = f"{text!r} is no regular expression: {error}"
        raise ParameterInvalid(detail, field=field, value=text, rule=_RULE) from None


def literals_of(text: str) -> list[str] | None:
    """Returns the texts that an expression such as `a|b` or `(a|b)` stands for; None for any other."""
    found = [""]
    for sign in re.findall(r"\\.|.", text[1:-1] if text[:1] + text[-1:] == "()" else text, re.DOTALL):
        if sign == "|":
            found.append("")
        elif sign in _SPECIAL or (len(sign) > 1 and sign[1].isalnum()):
            return None
        else:
            found[-1] += sign[-1]
    return found
