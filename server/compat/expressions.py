"""Regular expressions that a client sends, matched by RE2: in time that grows with the text and the expression alone.

Python's own `re` tries the ways of an expression one after the other, and a few signs are enough for more ways than
there is time. RE2 follows all of them at once. It knows no references back and no look-arounds, and neither do
Prometheus and Grafana's own alternatives to `re`.
"""

from __future__ import annotations

import re
from typing import Any

import re2

from clickcurve.buckets.errors import ParameterInvalid, shown
from clickcurve.budget import MATCH_STEPS, spend

MEMORY_BYTES = 1 << 20  # of a compiled expression, with what it remembers of texts
MOST_INSTRUCTIONS = 1_000  # of it, some 500 signs: so the longest key takes 7 ms at most
COMPILE_STEPS = 300_000  # as long as this many steps of matching, 2 ms, is how long it may take to compile
_CALL_STEPS = 400  # and so long it takes to ask at all
# Of a replacement, which looks again at the rest of a name after each thing that it finds.
REPLACEMENT_STEPS = 4_000_000
_RULE = "a regular expression of RE2: no references back, no look-arounds, at most some 500 signs"
_SPECIAL = frozenset(r".*+?()[]{}^$\\")
_SIGN = re.compile(r"\\.|.", re.DOTALL)
_REFERENCE = re.compile(r"\\(?:([1-9][0-9]?)|g<(\w+)>|(.?))", re.DOTALL)


class Expression:
    """One regular expression."""

    @classmethod
    async def compiled(cls, field: str, text: str, *, captures: bool = False) -> Expression:
        """Compiles a text; raises ParameterInvalid if it is none or too large, RequestTooCostly."""
        await spend(MATCH_STEPS, COMPILE_STEPS)
        return cls(field, text, captures)

    def __init__(self, field: str, text: str, captures: bool) -> None:
        options = re2.Options()
        options.max_mem = MEMORY_BYTES
        options.log_errors = False
        options.dot_nl = True
        options.never_capture = not captures
        try:
            self._compiled: Any = re2.compile(text, options)
        except (re2.error, UnicodeEncodeError) as error:
            why = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else "not UTF-8"
            detail = f"{shown(text)!r} is not a regular expression: {why}"
            raise ParameterInvalid(detail, field=field, value=text, rule=_RULE) from None
        if self._compiled.programsize > MOST_INSTRUCTIONS:
            raise ParameterInvalid(f"{shown(text)!r} is too large a pattern", field=field, value=text, rule=_RULE)
        re2.purge()  # the library keeps 128 of them otherwise
        self._field = field
        self._text = text
        self._size: int = self._compiled.programsize

    async def matches(self, text: str) -> bool:
        """Returns whether it matches all of a text; raises RequestTooCostly."""
        await spend(MATCH_STEPS, _CALL_STEPS + len(text) * self._size)
        return self._compiled.fullmatch(text) is not None

    async def replaced(self, text: str, replacement: str, longest: int) -> str:
        r"""Returns a text with all that matches replaced; `\1` and `\g<name>` are groups, `\\` is a backslash.

        Raises ParameterInvalid for another backslash, an unknown group or a result that is longer, RequestTooCostly.
        """
        steps = (len(text) + 1) ** 2 * self._size
        if steps > REPLACEMENT_STEPS:
            raise self._refused(f"the expression could take long on a name of {len(text)} characters", "a shorter one")
        await spend(MATCH_STEPS, steps)
        result, at = "", 0
        for match in self._compiled.finditer(text):
            result += text[at : match.start()] + self._expanded(replacement, match)
            at = match.end()
            if len(result) > longest:
                raise self._refused("the name becomes too long", f"at most {longest:,} characters")
        return result + text[at:]

    def _refused(self, why: str, rule: str) -> ParameterInvalid:
        return ParameterInvalid(why, field=self._field, value=self._text, rule=rule)

    def _expanded(self, replacement: str, match: Any) -> str:
        def text_of(reference: re.Match[str]) -> str:
            number, name, other = reference.groups()
            if other == "\\":
                return other
            try:
                return match[int(number) if number else int(name) if name.isdecimal() else name] or ""
            except (IndexError, AttributeError):
                detail = (
                    f"{shown(replacement)!r} cannot be the replacement: the expression has no group {reference[0]!r}"
                )
                raise ParameterInvalid(detail, field=self._field, value=replacement, rule=r"\1 for a group") from None

        return _REFERENCE.sub(text_of, replacement)


def literals_of(text: str) -> list[str] | None:
    """Returns the texts that an expression such as `a|b` or `(a|b)` stands for; None for any other."""
    inside = text[1:-1] if text[:1] + text[-1:] == "()" else text
    if _SPECIAL.isdisjoint(inside):
        return inside.split("|")
    literals: list[str] = []
    signs: list[str] = []
    for sign in _SIGN.findall(inside):
        if sign == "|":
            literals.append("".join(signs))
            signs.clear()
        elif sign in _SPECIAL or (len(sign) > 1 and sign[1].isalnum()):
            return None
        else:
            signs.append(sign[-1])
    return [*literals, "".join(signs)]
