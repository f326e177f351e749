"""The manual in the package: its sections that say most about some words."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from math import log
from pathlib import Path

from msgspec import Struct

MANUAL = Path(__file__).parents[2] / "docs"  # beside the program's folders, in the tree and in the wheel
MOST_SECTIONS = 4
MOST_CHARACTERS = 6_000
_word = re.compile(r"[a-z0-9_]{2,}").findall
_heading = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)


class Section(Struct, frozen=True):
    """A part of a page under one heading, in Markdown."""

    page: str
    title: str
    text: str


class Help(Struct, frozen=True):
    """What the manual says. pages: all there are, each by its title."""

    about: str
    sections: list[Section]
    pages: dict[str, str]

    def text(self) -> str:
        """Returns the sections, or which pages there are where none says anything."""
        if not self.sections:
            listed = "\n".join(f"{name}: {title}" for name, title in self.pages.items())
            return f"The manual says nothing about that. Its pages:\n{listed}"
        return "\n\n".join(f"# {each.title} ({each.page})\n{each.text}" for each in self.sections)


class HelpPages:
    """The pages of a folder, read when they are asked for first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def about(self, words: str) -> Help:
        """Returns the sections in which these words stand most; a word counts the more, the fewer sections have it."""
        asked = set(_word(words.lower()))
        weights = [(self._weight(counts, asked), section) for section, counts in self._sections]
        best = sorted((each for each in weights if each[0] > 0), key=lambda each: -each[0])
        sections: list[Section] = []
        room = MOST_CHARACTERS
        for _, section in best[:MOST_SECTIONS]:
            text = section.text[:room]
            room -= len(text)
            if text:
                sections.append(Section(section.page, section.title, text))
        return Help(words, sections, self._titles)

    @cached_property
    def _sections(self) -> list[tuple[Section, Counter[str]]]:
        return [
            (section, Counter(_word(f"{section.title} {section.title} {section.text}".lower())))
            for path in sorted(self._folder.glob("*.md"))
            for section in _sections_of(path.name, path.read_text(encoding="utf-8"))
        ]

    @cached_property
    def _titles(self) -> dict[str, str]:
        return {section.page: section.title for section, _ in reversed(self._sections)}

    @cached_property
    def _spread(self) -> Counter[str]:
        """In how many sections each word stands."""
        return Counter(word for _, words in self._sections for word in words)

    @cached_property
    def _usual_size(self) -> float:
        """How many words a section has on average."""
        return sum(words.total() for _, words in self._sections) / len(self._sections)

    def _weight(self, words: Counter[str], asked: set[str]) -> float:
        """Returns how much a section says about the asked words: Okapi BM25, with the constants that are usual."""
        room = 1.2 * (0.25 + 0.75 * words.total() / self._usual_size)
        return sum(
            log(1 + len(self._sections) / self._spread[word]) * words[word] / (words[word] + room)
            for word in asked
            if words[word]
        )


def _sections_of(page: str, text: str) -> list[Section]:
    parts = _heading.split(text)
    titled = zip(parts[1::2], parts[2::2], strict=True)
    return [Section(page, title.strip(), body.strip()) for title, body in titled]
