"""What the limiter's pages show is so: their Python runs, their rules are rules."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from clickcurve.limiter.http.headers import DIALECTS
from clickcurve.limiter.rule import RESERVED, STRATEGIES, Rule, parse_rules
from testing.server import ROOT
from tests.limiter.http.asgi import ask, statuses

PAGES = ("limiter.md", "limiter-layers.md", "settings.md")


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_python_of_the_page_runs_from_top_to_bottom() -> None:
    known: dict[str, Any] = {}
    shown = blocks("limiter.md", "python")
    assert len(shown) >= 3
    for block in shown:
        exec(compile(block, "limiter.md", "exec"), known)
    assert statuses(ask(known["limited"], times=7)) == [200] * 7, "only failures count"
    assert statuses(ask(known["service"], path="/links", times=6)) == [200] * 5 + [429]


@pytest.mark.parametrize("page", PAGES)
def test_the_rules_of_the_pages_are_rules(page: str) -> None:
    shown = [tomllib.loads(block) for block in blocks(page, "toml")]
    limits = [tables["limits"] for tables in shown if "limits" in tables]
    assert limits
    for rules in limits:
        assert parse_rules(rules)


def test_each_form_is_shown_in_ten_lines_at_most() -> None:
    forms = blocks("limiter.md", "toml")
    rules = [rule for block in forms for rule in parse_rules(tomllib.loads(block)["limits"])]
    assert {rule.strategy for rule in rules} == set(STRATEGIES)
    for block in forms:
        for table in block.split("\n\n"):
            assert len(table.strip().splitlines()) <= 10


def test_every_setting_of_a_rule_and_every_dialect_is_explained() -> None:
    text = (ROOT / "docs" / "limiter.md").read_text()
    (table,) = re.findall(r"^## Rules\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    explained = {
        name.strip() for row in re.findall(r"^\| ([a-z_, ]+) \|", table, re.MULTILINE) for name in row.split(",")
    }
    settings = {name for name in Rule.__dataclass_fields__ if Rule.__dataclass_fields__[name].init}
    assert explained == settings - {"event", "edge_s"} | {"edge"}
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE)) == set(DIALECTS)
    api = (ROOT / "docs" / "http-api.md").read_text()
    assert set(re.findall(r"^\| `([a-z]+)` \|", api, re.MULTILINE)) >= set(RESERVED)
