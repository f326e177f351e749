"""The rules of words as plain functions: each takes the root folder and returns broken rules as sentences.

`python -m tests.words ingest storage/sqlite` prints what is broken in these folders.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.layout import PARTS, files, parsed

MAX_FIRST_SENTENCE_WORDS = 20

# Names that stand in several files because they mean the same in each.
SAME_THING: Mapping[str, str] = {
    "main": "starts a command",
}
# Words that have meant several things here, or that the field has a better word for.
NO_NAMES = frozenset(
    (
        *("told", "tally", "standing", "seats", "sheets", "asking", "trial", "blind", "limiting"),
        *("described", "remembered", "late_store"),
    )
)
# Words in s that are no verbs.
_NO_VERBS = frozenset(
    ("this", "its", "as", "is", "was", "has", "does", "always", "perhaps", "less", "plus", "us", "yes")
)
_WHO = re.compile(
    r"(^|[.;:(] )Who\b(?! it is for\b)"
    r"|\b(for|is|so that|that only|than|from|by|to|only|or|, and) who\b(?! it is for\b)"
    r"|\bwhoever\b",
    re.IGNORECASE,
)


def _trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in files(root, *(part for part in PARTS if (root / part).is_dir())):
        if path.suffix == ".py":
            yield path.relative_to(root).as_posix(), parsed(path)


def names(root: Path) -> list[str]:
    """One name, one thing within a package: its modules give no two public classes or functions the same name."""
    places: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for file, tree in _trees(root):
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                places[file.rpartition("/")[0], node.name].append(f"{file}:{node.lineno}")
    return [
        f"{' and '.join(where)}: {name} stands for two things"
        for (_, name), where in places.items()
        if len({each.partition(":")[0] for each in where}) > 1 and name not in SAME_THING
    ]


def worn_out(root: Path) -> list[str]:
    """No module, class, function, argument or variable has a name that has meant too many things."""
    broken = [f"{file}:1: the name {Path(file).stem}" for file, _ in _trees(root) if Path(file).stem in NO_NAMES]
    for file, tree in _trees(root):
        for node in ast.walk(tree):
            name = _bound(node)
            if name is not None and name.strip("_").lower() in NO_NAMES:
                broken.append(f"{file}:{getattr(node, 'lineno', 1)}: the name {name}")
    return broken


def _bound(node: ast.AST) -> str | None:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr
    return None


def docstrings(root: Path) -> list[str]:
    """The first sentence is short, and that of a function begins with a verb: what it does, with what, when."""
    broken = []
    for file, tree in _trees(root):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node)
            if not text:
                continue
            words = first_sentence(text).split()
            where = f"{file}:{getattr(node, 'lineno', 1)}"
            if len(words) > MAX_FIRST_SENTENCE_WORDS:
                broken.append(f"{where}: a first sentence of {len(words)} words, {MAX_FIRST_SENTENCE_WORDS} at most")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _speaks_for_itself(node):
                verb = words[0].strip(".,:;`").lower()
                if not verb.endswith("s") or verb in _NO_VERBS or verb.endswith("ss"):
                    broken.append(f"{where}: {node.name} begins with {words[0]!r}, not with a verb such as Returns")
    return broken


def first_sentence(text: str) -> str:
    """Up to the first full stop, colon or blank line."""
    return re.split(r"(?<=[^.\d][.:?!])\s|\n\s*\n", text.strip(), maxsplit=1)[0]


def _speaks_for_itself(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Properties are named for what they are; the docstring of a route or command is what its user reads."""
    decorators = {ast.unparse(each) for each in node.decorator_list}
    return any(
        each in ("property", "cached_property", "functools.cached_property")
        or ".command(" in each
        or ".group(" in each
        or each.startswith("reports(")
        or re.match(r"\w+\.(get|post|delete|put|command|group)\b", each)
        for each in decorators
    )


def whos(root: Path) -> list[str]:
    """No clause has `who` for its subject: a person or program is named."""
    broken = []
    tops = (
        *(part for part in PARTS if (root / part).is_dir()),
        *(top for top in ("docs", "README.md", "examples") if (root / top).exists()),
    )
    for path in files(root, *tops):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if _WHO.search(line):
                broken.append(f"{path.relative_to(root).as_posix()}:{number}: {line.strip()[:100]}")
    return broken


RULES = (names, worn_out, docstrings, whos)


def main(tops: list[str]) -> int:
    broken = [
        sentence
        for rule in RULES
        for sentence in rule(Path())
        if not tops or any(top.rstrip("/") + "/" in sentence or sentence.startswith(top) for top in tops)
    ]
    print("\n".join(broken))
    return min(len(broken), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
