"""CONTRIBUTING.md names files, functions and folders of tests that are there."""

from __future__ import annotations

import ast
import re

import pytest

from testing.server import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def table(page: str, head: str) -> list[list[str]]:
    """The rows of a page's table under this head, each as its cells."""
    lines = page.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


QUESTIONS = table(PAGE, "| question | file |")
CHANGES = table(PAGE, "| you change | run")


def defined(file: str) -> set[str]:
    """The names that a module defines at its top level or in a class there."""
    found: set[str] = set()
    tree = ast.parse((ROOT / file).read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in (*tree.body, *(each for found_class in classes for each in found_class.body)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize(("question", "answer"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
def test_a_question_is_answered_by_files_that_are_there(question: str, answer: str) -> None:
    assert question.endswith("?")
    named = re.findall(r"`([\w/]+\.(?:py|md))`(?:: `(\w+)`)?", answer)
    assert named
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert not name or name in defined(file), f"{file} defines no {name}"


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) == 10


def test_every_part_has_its_tests_and_they_are_there() -> None:
    changed = " ".join(change for change, _ in CHANGES)
    for part in ("buckets", "limiter", "client", "ingest", "storage", "query", "retention", "dashboard", "server"):
        assert f"{part}/`" in changed, part
    for _, tests in CHANGES:
        for path in re.findall(r"\btests/[\w./]*\w", tests):
            assert (ROOT / path).exists(), path
