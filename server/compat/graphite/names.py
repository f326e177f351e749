"""Dotted names: `clicks.KEY`, `groups.NAME`, `total`, and patterns of them.

A node is percent-encoded wherever a sign has a meaning in names or expressions: the dot is `%2E`, the star `%2A`. So
every key has one name, and a name means one key. In a pattern `*`, `?`, `[abc]` and `{one,two}` stand for what they do
in a shell, within a node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, unquote

from clickcurve.buckets.errors import ParameterInvalid

CLICKS = "clicks"
GROUPS = "groups"
TOTAL = "total"  # all links together
# Signs that stand for themselves; letters of other scripts do too, where they are printed.
_PLAIN = "-_~/:@+!$#^"
NOT_GIVEN = "%"  # the node of the value of hits that gave none: no other value is written so
NAME_RULE = f"{CLICKS}.KEY, {GROUPS}.NAME or {TOTAL}, perhaps .DIMENSION.VALUE; a dot in a key is %2E"
_MOST_ALTERNATIVES = 100


def node_name(text: str) -> str:
    """Returns a key or value as a node of a name."""
    return NOT_GIVEN if not text else "".join(sign if _is_plain(sign) else _percent_encoded(sign) for sign in text)


def _is_plain(sign: str) -> bool:
    return sign in _PLAIN or sign.isalnum()


def _percent_encoded(sign: str) -> str:
    return "%2E" if sign == "." else quote(sign, safe="", errors="surrogatepass")


def node_text(node: str) -> str:
    """Returns the key or value that a node without a pattern names."""
    return "" if node == NOT_GIVEN else unquote(node, errors="replace")


def nodes_of(path: str) -> list[str]:
    """Returns the nodes of a name or pattern: what stands between the dots outside of braces."""
    nodes, depth = [""], 0
    for sign in path:
        depth += (sign == "{") - (sign == "}")
        if sign == "." and depth <= 0:
            nodes.append("")
        else:
            nodes[-1] += sign
    return nodes


@dataclass(frozen=True)
class NodePattern:
    """One node of a pattern."""

    text: str

    @cached_property
    def is_plain(self) -> bool:
        """Whether it names one thing."""
        return not any(sign in self.text for sign in "*?[{")

    @cached_property
    def prefix(self) -> str:
        """The text that all begin with that the node may mean."""
        return node_text(re.split(r"[*?\[{]", self.text, maxsplit=1)[0])

    def matches(self, text: str) -> bool:
        """Returns whether the node means this key or value."""
        return self._expression.fullmatch(text) is not None

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        try:
            return re.compile("|".join(_glob_expression(each) for each in _alternatives(self.text)), re.DOTALL)
        except re.error:  # such as [z-a]
            rule = "*, ?, [abc], [a-z] and {one,two}"
            raise ParameterInvalid(f"{self.text!r} is no pattern", field="target", value=self.text, rule=rule) from None


def _glob_expression(glob: str) -> str:
    """Returns a node without braces as a regular expression, whose stars never take turns with one another."""
    found, at = [], 0
    while at < len(glob):
        sign = glob[at]
        if sign == "*":
            found.append("*")
        elif sign == "?":
            found.append(".")
        elif sign == "[" and (end := glob.find("]", at + 2)) > 0:
            signs = glob[at + 1 : end]
            outside = "^" if signs[0] in "!^" else ""
            found.append(f"[{outside}{_class_signs(signs.removeprefix(signs[0] if outside else ''))}]")
            at = end
        else:
            end = next((i for i in range(at + 1, len(glob)) if glob[i] in "*?["), len(glob))
            found.append(re.escape(node_text(glob[at:end])))
            at = end - 1
        at += 1
    return _starred(found)


def _class_signs(signs: str) -> str:
    """Returns what stands in brackets, with `a-z` as a range and all else as itself."""
    return re.sub(r"([\\\[\]^&~|])", r"\\\1", signs)


def _starred(parts: Sequence[str]) -> str:
    """Joins parts, `*` as any text: each piece after a star is looked for once, at its first place, and stays there.

    So a pattern of many stars takes time in proportion to the text; but the last piece is that at the end.
    """
    pieces: list[str] = [""]
    for part in parts:
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += part
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + f".*{last}"


def _alternatives(text: str) -> list[str]:
    """Returns what a node with braces stands for."""
    found = [""]
    at = 0
    while at < len(text):
        end = text.find("}", at)
        if text[at] == "{" and end > 0:
            found = [begun + each for begun in found for each in text[at + 1 : end].split(",")]
            if len(found) > _MOST_ALTERNATIVES:
                rule = f"at most {_MOST_ALTERNATIVES} alternatives in a node"
                raise ParameterInvalid(f"{text!r} stands for too many names", field="target", value=text, rule=rule)
            at = end
        else:
            found = [begun + text[at] for begun in found]
        at += 1
    return found
