"""The words keep their rules, and each rule is seen to catch what it forbids in a tiny tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testing.server import ROOT
from tests import words

pytestmark = pytest.mark.usefixtures("uncollected")
Rule = Callable[[Path], list[str]]


@pytest.mark.parametrize("rule", words.RULES, ids=lambda rule: str(rule.__name__))
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    assert rule(ROOT) == []


def grow(root: Path, tree: dict[str, str]) -> Path:
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


BREACHES: list[tuple[Rule, str, str]] = [
    (words.worn_out, "def told() -> None: ...", "query/a.py:1: the name told"),
    (words.worn_out, "def f(tally: int) -> None: ...", "the name tally"),
    (words.worn_out, "standing = 1", "the name standing"),
    (words.docstrings, 'def f() -> None:\n    """The sum."""', "f begins with 'The'"),
    (words.docstrings, f'"""{" ".join(["word"] * 21)}."""', "a first sentence of 21 words"),
    (words.whos, '"""For who asks."""', "query/a.py:1"),
    (words.whos, "# Refused is who waits.", "query/a.py:1"),
    (words.whos, "# Whoever asks.", "query/a.py:1"),
]


@pytest.mark.parametrize(("rule", "text", "sentence"), BREACHES)
def test_a_breach_is_found(tmp_path: Path, rule: Rule, text: str, sentence: str) -> None:
    assert any(sentence in said for said in rule(grow(tmp_path, {"query/a.py": text})))


def test_a_name_for_two_things_is_found(tmp_path: Path) -> None:
    root = grow(tmp_path, {"query/a.py": "def cut() -> int: ...", "query/b.py": "\nclass cut: ..."})
    assert words.names(root) == ["query/a.py:1 and query/b.py:2: cut stands for two things"]


def test_a_name_may_return_in_another_package_and_in_private(tmp_path: Path) -> None:
    tree = {
        "query/a.py": "def cut() -> int: ...\ndef _parse() -> int: ...",
        "query/b.py": "def _parse() -> int: ...",
        "ingest/b.py": "def cut() -> int: ...",
    }
    assert words.names(grow(tmp_path, tree)) == []


def test_what_is_allowed_is_not_complained_of(tmp_path: Path) -> None:
    text = '''"""Rows, and who it is for."""

class Row:
    """One link's buckets."""

    @property
    def total(self) -> int:
        """All of it."""
        return 1

def fold(row: Row) -> Row:
    """Folds a row: fine buckets become coarse ones. A person who asks gets the same total."""
    return row
'''
    root = grow(tmp_path, {"query/a.py": text, "README.md": "**Who it is for.** You."})
    assert [sentence for rule in words.RULES for sentence in rule(root)] == []
