"""Nothing of the program is missing from the docs, and the docs name nothing that is not there."""

from __future__ import annotations

import re
from functools import cache

import httpx
import pytest

from server.settings.table import TABLE
from testing.server import ROOT, RunningServer
from tests.server.commands import said

OWN_PAGES = {"/docs", "/openapi.json"}


@cache
def docs() -> str:
    """The README, SECURITY and every page of docs/ in one text."""
    tops = (ROOT / "README.md", ROOT / "SECURITY.md")
    return "\n".join(page.read_text() for page in (*tops, *sorted((ROOT / "docs").glob("*.md"))))


@cache
def commands() -> list[str]:
    """The program's commands, as its help lists them."""
    listed = said("--help").partition("Commands:\n")[2]
    return re.findall(r"^  ([a-z][a-z-]*)\s", listed, re.MULTILINE)


def help_of(*command: str) -> str:
    return said(*command, "--help")


def test_every_command_is_in_the_docs_and_has_help_with_an_example() -> None:
    assert len(commands()) >= 13
    for command in commands():
        assert re.search(rf"clickcurve {command}\b|`{command}`", docs()), f"no word about `clickcurve {command}`"
        shown = help_of(command)
        below = re.findall(r"^  ([a-z]+)\s", shown.partition("Commands:\n")[2], re.MULTILINE)
        examples = shown + "".join(help_of(command, each) for each in below)
        assert f"clickcurve {command}" in examples, f"`clickcurve {command} --help` shows no example"


def test_every_command_that_the_docs_name_exists() -> None:
    named = set(re.findall(r"`clickcurve ([a-z][a-z-]*)", docs()))
    assert named <= set(commands())


def test_every_setting_is_explained_with_its_default() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    explained = re.findall(r"^\| `([a-z0-9_]+)` \| (?:`(.*?)` )?\|", page, re.MULTILINE)
    database = {"store": "sqlite:///DIR/clickcurve.db"}  # what an empty one stands for
    assert dict(explained) == {setting.name: setting.default for setting in TABLE} | database
    assert len(explained) == len(TABLE)


def test_the_page_says_of_a_setting_what_its_help_says() -> None:
    page = (ROOT / "docs" / "settings.md").read_text().replace("`", "").replace("\\|", "|")
    missing = [setting.name for setting in TABLE if f"| {setting.help}" not in page]
    assert missing == []


def test_every_route_is_in_the_docs_and_every_route_of_the_docs_exists(server: RunningServer) -> None:
    described = httpx.get(f"{server.url}/openapi.json", trust_env=False).raise_for_status().json()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    page = (ROOT / "docs" / "http-api.md").read_text()
    explained = set(re.findall(r"\b(GET|POST|PUT|PATCH|DELETE) (/[\w/{}.]*)", page))
    assert routes - {f"GET {path}" for path in OWN_PAGES} == {" ".join(route) for route in explained}


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs").glob("*.md")))
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (ROOT / "docs" / target).exists(), target


def test_every_file_that_the_docs_name_exists() -> None:
    tops = "clickcurve|ingest|storage|query|retention|dashboard|server|deploy|testing|tests|bench|examples"
    named = set(re.findall(rf"`((?:{tops})/[\w./]*)`", docs()))
    missing = [name for name in sorted(named) if not (ROOT / name).exists()]
    assert missing == []
