"""Makes the site of the docs: `python -m testing.site [FOLDER]`, which is `make docs`.

The sources are read where they lie, so that each link between them is the one that a code host follows. Their order is
that of docs/README.md. The first page is the README.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from click import unstyle
from sphinx.application import Sphinx

from server.version import program_version
from testing.server import ROOT

FOLDER = ROOT / "site"
INDEX = "docs/README"
FIRST = "README"
EXAMPLES = "examples/*/README"
SETTINGS = {
    "project": "Clickcurve",
    "html_title": "Clickcurve",
    "root_doc": FIRST,
    "include_patterns": [
        f"{FIRST}.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/*.md",
        f"{EXAMPLES}.md",
    ],
    "extensions": ["myst_parser"],
    "myst_heading_anchors": 4,
    "suppress_warnings": ["misc.highlighting_failure"],  # an answer that is shown with `...` is no JSON
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_show_search_summary": False,  # which fetches pages, and browsers let no file do that
    "html_static_path": [],
}


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yields the parts of the docs with their pages, as docs/README.md has them; the examples are the last part."""
    heading, *rest = re.split(r"^## (.+)$", (ROOT / f"{INDEX}.md").read_text(), flags=re.MULTILINE)
    assert heading
    for title, text in zip(rest[::2], rest[1::2], strict=True):
        named = re.findall(r"\]\(([\w./-]+)\.md(?:#[\w-]*)?\)", text)
        pages = [((ROOT / "docs" / name).resolve().relative_to(ROOT)).as_posix() for name in named]
        yield title, [page for page in dict.fromkeys(pages) if page != FIRST]
    yield "Examples", sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob(f"{EXAMPLES}.md"))


def contents() -> str:
    """Writes the navigation as directives, which the first page gets when it is read."""
    (begin, first), *others = sections()
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(pages) + "\n```\n"
        for title, pages in [(begin, [INDEX, *first]), *others]
    )


def make(folder: Path) -> list[str]:
    """Writes the site and returns what is wrong with its sources: links, anchors and pages that are not there."""
    said = StringIO()
    with tempfile.TemporaryDirectory() as kept:
        settings = {**SETTINGS, "version": program_version()}
        app = Sphinx(ROOT, None, folder, kept, "html", settings, status=None, warning=said)
        app.connect("source-read", _with_contents)
        app.build()
    shutil.copyfile(folder / f"{FIRST}.html", folder / "index.html")
    return unstyle(said.getvalue()).splitlines()


def _with_contents(_: Sphinx, page: str, source: list[str]) -> None:
    if page == FIRST:
        source[0] += contents()


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    wrong = make(folder)
    sys.exit("\n".join(wrong) or None)
