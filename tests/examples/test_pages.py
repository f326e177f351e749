"""What the pages of the examples tell people to type shows what they say: a visit counts, nothing is left behind."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ingest.agents.bots import bot_judge
from testing.server import ROOT

PAGES = sorted(folder / "README.md" for folder in (ROOT / "examples").iterdir() if (folder / "README.md").is_file())
CURL = "curl/8.5.0"  # what it calls itself


def commands(page: Path) -> list[str]:
    """The lines of a page's shell blocks, without comments."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    return [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]


def agent(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("-A") + 1] if "-A" in words else CURL


def name(page: Path) -> str:
    return page.parent.name


def test_a_bare_curl_is_a_bot() -> None:
    assert bot_judge()(CURL)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_visit_that_a_page_shows_is_a_persons(page: Path) -> None:
    # A visit is a GET of a link; what asks an interface carries JSON, names a method, or a version in its path.
    visits = [line for line in commands(page) if line.startswith("curl ") and not re.search("--json|-X|/v1/", line)]
    assert visits or name(page) not in ("nginx", "redirector")
    assert [line for line in visits if bot_judge()(agent(line))] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_server_that_a_page_starts_keeps_its_data_elsewhere(page: Path) -> None:
    served = [line for line in commands(page) if line.startswith("clickcurve serve")]
    assert [line for line in served if not re.search(r'--data ("\$\(mktemp -d\)"|/)', line)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_says_where_the_command_is(page: Path) -> None:
    by_name = any(line.startswith("clickcurve ") for line in commands(page))
    assert not by_name or 'export PATH="$PWD/.venv/bin:$PATH"' in page.read_text()
