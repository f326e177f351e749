"""The expressions of `target`: names, patterns, and calls of functions with expressions, texts and numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TypeAlias

from clickcurve.buckets.errors import ParameterInvalid

TARGET_RULE = "a name, or a function such as sumSeries(clicks.a, clicks.b)"
MOST_CHARACTERS = 10_000  # which are read within 10 ms
_MOST_DEPTH = 20
_SPACE = re.compile(r"\s*")
_TEXT = re.compile(r"\"([^\"\\]*(?:\\.[^\"\\]*)*)\"|'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?(?=[\s,)]|$)")
_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*\(")
_KEYWORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*")
# A node may hold braces with commas in them; else a comma ends an argument.
_PATH = re.compile(r"(?:\{[^{}()\"']*\}|[^\s,(){}\"'])+")
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class PathTarget:
    """A name or a pattern of names."""

    text: str


@dataclass(frozen=True, slots=True)
class CallTarget:
    """A function with its arguments, and the text that it stands in."""

    function: str
    arguments: tuple[Target, ...]
    keywords: dict[str, Target] = field(hash=False)
    text: str


Target: TypeAlias = PathTarget | CallTarget | str | float | bool


class TargetUnreadable(ParameterInvalid, title="unreadable target"):
    """A target is no expression."""


def parse_target(text: str) -> Target:
    """Reads one target; raises TargetUnreadable with the place."""
    if len(text) > MOST_CHARACTERS:
        detail = f"the target has {len(text):,} characters, {MOST_CHARACTERS:,} at most"
        raise TargetUnreadable(detail, field="target", value=text, rule=TARGET_RULE)
    reader = _TargetReader(text)
    target = reader.expression(0)
    reader.skip_space()
    if reader.at < len(text):
        raise reader.unreadable("there is text after the end")
    return target


class _TargetReader:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def skip_space(self) -> None:
        self.at = _SPACE.match(self._text, self.at).end()  # type: ignore[union-attr]  # it matches nothing, too

    def unreadable(self, why: str) -> TargetUnreadable:
        detail = f"the target cannot be read at character {self.at}: {why}"
        return TargetUnreadable(detail, field="target", value=self._text, rule=TARGET_RULE)

    def _found(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def expression(self, depth: int) -> Target:
        self.skip_space()
        if depth > _MOST_DEPTH:
            raise self.unreadable(f"functions are nested more than {_MOST_DEPTH} deep")
        if text := self._found(_TEXT):
            return re.sub(r"\\([\"'])", r"\1", text[1] if text[1] is not None else text[2])
        if number := self._found(_NUMBER):
            if not math.isfinite(value := float(number[0])):
                raise self.unreadable("a number is too large")
            return value
        begin = self.at
        if call := self._found(_CALL):
            return self._call(call[1], begin, depth)
        if path := self._found(_PATH):
            return _WORDS.get(path[0].lower(), PathTarget(path[0]))
        raise self.unreadable("a name, a function, a text or a number is expected here")

    def _call(self, function: str, begin: int, depth: int) -> CallTarget:
        arguments: list[Target] = []
        keywords: dict[str, Target] = {}
        self.skip_space()
        while not self._ends(")"):
            if arguments or keywords:
                if not self._ends(","):
                    raise self.unreadable("a comma or a closing bracket is expected here")
                self.skip_space()
            if keyword := self._found(_KEYWORD):
                keywords[keyword[1]] = self.expression(depth + 1)
            else:
                arguments.append(self.expression(depth + 1))
            self.skip_space()
        return CallTarget(function, tuple(arguments), keywords, self._text[begin : self.at])

    def _ends(self, sign: str) -> bool:
        if self._text.startswith(sign, self.at):
            self.at += 1
            return True
        return False
