"""The manual as pages of the server: the Markdown of the docs, with anchors, and with links that lead within it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

INDEX = "README"
_OF_A_PAGE = re.compile(r"(?:\./)?([\w-]+)\.md")
_NOT_IN_AN_ANCHOR = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class ManualPage:
    """One page. html: safe markup; sections: those of the second level, each with its anchor and its title."""

    title: str
    html: str
    sections: Sequence[tuple[str, str]]


@dataclass(eq=False)
class Manual:
    """The pages of a folder, `*.md`, each read when it is asked for first."""

    folder: Path
    _read: dict[str, ManualPage] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the pages, but for the index: all that anybody can ask for."""
        return frozenset(path.stem for path in self.folder.glob("*.md")) - {INDEX}

    def page(self, name: str) -> ManualPage | None:
        """Returns a page by its name; None if there is none. Reads a file the first time; INDEX is the first page."""
        if name not in self.names and name != INDEX:
            return None
        if name not in self._read:
            text = (self.folder / f"{name}.md").read_text(encoding="utf-8")
            self._read[name] = _made(text, name, self.names)
        return self._read[name]


def _made(text: str, name: str, names: frozenset[str]) -> ManualPage:
    reader = _reader()
    tokens = reader.parse(text)
    headings = list(_anchored(tokens))
    for token in tokens:
        if token.children is not None:
            token.children = list(_leading(token.children, name, names))
    _with_plain_corners(tokens)
    html = reader.renderer.render(tokens, reader.options, {})
    title = next((title for level, _, title in headings if level == "h1"), name)
    return ManualPage(title, html, [(anchor, title) for level, anchor, title in headings if level == "h2"])


@cache
def _reader() -> MarkdownIt:
    """Returns the reader of CommonMark with tables, as code hosts read it. Its library is imported when needed."""
    from markdown_it import MarkdownIt
    from markdown_it.common.utils import escapeHtml

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")

    def block(_: object, tokens: Sequence[Token], place: int, options: object, env: object) -> str:
        return f'<pre tabindex="0"><code>{escapeHtml(tokens[place].content)}</code></pre>\n'

    def table(*_: object) -> str:
        return '<div class="wide" tabindex="0"><table>\n'

    def table_end(*_: object) -> str:
        return "</table></div>\n"

    for kind, rule in (("fence", block), ("code_block", block), ("table_open", table), ("table_close", table_end)):
        reader.add_render_rule(kind, rule)
    return reader


def _anchored(tokens: Sequence[Token]) -> Iterable[tuple[str, str, str]]:
    """Gives each heading the anchor that links to it have, as code hosts make it; yields level, anchor and title."""
    taken: Counter[str] = Counter()
    for token, inside in pairwise(tokens):
        if token.type == "heading_open":
            title = "".join(each.content for each in inside.children or ())
            anchor = _NOT_IN_AN_ANCHOR.sub("", title.strip().lower()).replace(" ", "-")
            taken[anchor] += 1
            if taken[anchor] > 1:
                anchor += f"-{taken[anchor] - 1}"
            token.attrSet("id", anchor)
            yield token.tag, anchor, title


def _leading(tokens: Sequence[Token], name: str, names: frozenset[str]) -> Iterable[Token]:
    """Yields the tokens of a text with links that lead somewhere here.

    Of files beside the docs and of pictures the words are left: no wheel has them. A link that is called as the file of
    a page is called as the page.
    """
    is_link = True
    for token in tokens:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href") or ""), name, names)
            is_link = address is not None
            if address is None:
                continue
            token.attrSet("href", address)
        elif token.type == "link_close" and not is_link:
            continue
        elif token.type == "text" and (found := _OF_A_PAGE.fullmatch(token.content)) and found[1] in names:
            token.content = found[1]
        elif token.type == "image":
            token.type, token.children, token.tag = "text", None, ""
            token.content = f"(A picture: {token.content})"
        yield token


def _address(target: str, name: str, names: frozenset[str]) -> str | None:
    """Returns what leads from a page to where a link of its Markdown does; None if that is not here."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return target
    section = f"#{parts.fragment}" if parts.fragment else ""
    if not parts.path:
        return section
    found = _OF_A_PAGE.fullmatch(parts.path)
    if found is None or found[1] not in names | {INDEX}:
        return None
    if found[1] == INDEX:
        return ("help" if name == INDEX else "../help") + section
    return ("help/" if name == INDEX else "") + found[1] + section


def _with_plain_corners(tokens: Sequence[Token]) -> None:
    """Says of heads that they are of columns; a head that is empty becomes a plain cell."""
    for place, token in enumerate(tokens):
        if token.type != "th_open":
            continue
        if tokens[place + 1].content:
            token.attrSet("scope", "col")
        else:
            token.tag = tokens[place + 2].tag = "td"
