"""Dotted names: `clicks.KEY`, `groups.NAME`, `total`, `events.EVENT.KEY`, `values.EVENT.KEY`, and patterns of them.

A node is percent-encoded wherever a sign has a meaning in names or expressions: the dot is `%2E`, the star `%2A`. So
every key has one name, and a name means one key. In a pattern `*`, `?`, `[abc]` and `{one,two}` stand for what they do
in a shell, within a node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

from clickcurve.buckets.errors import ParameterInvalid, shown
from clickcurve.budget import RequestTooCostly
from server.compat.expressions import Expression

CLICKS = "clicks"
GROUPS = "groups"
TOTAL = "total"  # all links together
EVENTS, VALUES = "events", "values"  # then an event, for all links together, or an event and a key
_ENCODED = re.compile(r"[^\w~/:@+!$#^-]")  # letters and figures of all scripts stand for themselves
NOT_GIVEN = "%"  # the node of the value of hits that gave none: no other value is written so
NAME_RULE = (
    f"{CLICKS}.KEY, {GROUPS}.NAME, {TOTAL} or {EVENTS}.EVENT.KEY, perhaps .DIMENSION.VALUE; {EVENTS}.EVENT; "
    f"{VALUES} as {EVENTS}; a dot in a key is %2E"
)
MOST_NAME = 8_192  # characters: a key of 1,024 bytes needs some 3,000 as a node, a value 300
_OF_NODES = re.compile(r"[.{}]")
_SPECIAL = re.compile(r"[.*+?()\[\]{}^$\\|]")
_ESCAPED = r"\\\g<0>"
_OF_CLASSES = re.compile(r"[\\\[\]^&~|]")


def node_name(text: str) -> str:
    """Returns a key or value as a node of a name."""
    return _ENCODED.sub(_percent_encoded, text) if text else NOT_GIVEN


def _percent_encoded(match: re.Match[str]) -> str:
    return "%2E" if match[0] == "." else quote(match[0], safe="", errors="surrogatepass")


def node_text(node: str) -> str:
    """Returns the key or value that a node without a pattern names."""
    return "" if node == NOT_GIVEN else unquote(node, errors="replace")


def nodes_of(path: str) -> list[str]:
    """Returns the nodes of a name or pattern: what stands between the dots outside of braces.

    Raises ParameterInvalid for a longer one than any key needs.
    """
    if len(path) > MOST_NAME:
        detail = f"a name has at most {MOST_NAME:,} characters, this one {len(path):,}"
        raise ParameterInvalid(detail, field="target", value=path, rule=f"at most {MOST_NAME} characters")
    nodes, begin, depth = [], 0, 0
    for match in _OF_NODES.finditer(path):
        if (sign := match[0]) != ".":
            depth += 1 if sign == "{" else -1
        elif depth <= 0:
            nodes.append(path[begin : match.start()])
            begin = match.end()
    return [*nodes, path[begin:]]


def places_of(nodes: Sequence[str]) -> int:
    """Returns how many nodes of a name say which row it is of.

    Those of a dimension and a value may follow, but not below an event of all links: its next node is a key.
    """
    if nodes[0] in (EVENTS, VALUES):
        return max(2, min(3, len(nodes)))
    return 1 if nodes[0] == TOTAL else 2


class NodePattern:
    """One node of a pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._expression: Expression | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it names one thing."""
        return not any(sign in self.text for sign in "*?[{")

    @property
    def prefix(self) -> str:
        """The text that all begin with that the node may mean."""
        return node_text(re.split(r"[*?\[{]", self.text, maxsplit=1)[0])

    async def matches(self, text: str) -> bool:
        """Returns whether the node means this key or value.

        Raises ParameterInvalid for what is no pattern, RequestTooCostly.
        """
        if self._expression is None:
            self._expression = await self._compiled()
        return await self._expression.matches(text)

    async def _compiled(self) -> Expression:
        try:
            return await Expression.compiled("target", _glob_expression(self.text))
        except RequestTooCostly:
            raise
        except ParameterInvalid:  # such as [z-a]
            rule = "*, ?, [abc], [a-z] and {one,two}"
            detail = f"{shown(self.text)!r} is not a pattern, or is too long"
            raise ParameterInvalid(detail, field="target", value=self.text, rule=rule) from None


def _glob_expression(glob: str) -> str:
    """Returns a pattern as a regular expression. What opens and is never closed stands for itself."""
    last_bracket, last_brace = glob.rfind("]"), glob.rfind("}")
    pieces: list[str] = []
    at = plain_from = 0
    depth = 0
    while at < len(glob):
        sign, after = glob[at], at + 1
        expression: str | None = None
        if sign in "*?":
            expression = ".*" if sign == "*" else "."
        elif sign == "[" and at + 2 <= last_bracket:
            after = glob.index("]", at + 2) + 1
            expression = _class_expression(glob[at + 1 : after - 1])
        elif sign == "{" and at < last_brace and not depth:
            depth, expression = 1, "(?:"
        elif sign in ",}" and depth:
            depth, expression = int(sign == ","), "|" if sign == "," else ")"
        if expression is not None:
            pieces += (_literal(glob[plain_from:at]), expression)
            plain_from = after
        at = after
    return "".join((*pieces, _literal(glob[plain_from:])))


def _literal(text: str) -> str:
    return _SPECIAL.sub(_ESCAPED, node_text(text)) if text else ""


def _class_expression(signs: str) -> str:
    """Returns what stands in brackets, with `a-z` as a range and all else as itself."""
    outside = "^" if signs[0] in "!^" else ""
    inside = _OF_CLASSES.sub(_ESCAPED, signs.removeprefix(signs[0] if outside else ""))
    return f"[{outside}{inside}]"
