"""`clickcurve disavow`: a rule tried, made, listed and undone at a running server."""

from __future__ import annotations

import json
import re

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.server.commands import said


@pytest.fixture(scope="module")
def spammed(shared: RunningServer) -> RunningServer:
    """A server with a link and a group of 40 hits of spam.example, and two others."""
    with Clickcurve(shared.url) as client:
        hit = {"key": "disavowed", "groups": ["disavowed group"]}
        client.send([{**hit, "ref": "https://spam.example/x", "count": 40}, {**hit, "ref": "news.example", "count": 2}])
    return shared


def test_a_rule_is_tried_made_listed_and_undone(spammed: RunningServer) -> None:
    url = ("--url", spammed.url)
    asked = ("disavow", "disavowed", "--ref", "spam.example", *url)
    what = "ref spam.example of the link disavowed, all time"
    assert said(*asked, "--dry-run") == f"40 hits of {what} would be called bots\n"
    assert said("disavow", "list", *url) == ""
    made = said(*asked)
    (rule_id,) = re.findall(rf"^40 hits of {what} are called bots, by the rule (\w+)$", made, re.MULTILINE)
    assert said(*asked) == made, "sent again it is the same rule"
    assert re.fullmatch(rf"{rule_id}  settled +40  {what}\n", said("disavow", "list", *url))
    assert json.loads(said("total", "disavowed", "--last", "7d", "--json", *url))["total"] == 2
    (rule,) = [json.loads(line) for line in said("disavow", "list", "--json", *url).splitlines()]
    assert (rule["id"], rule["kind"], rule["moved"]) == (rule_id, "link", 40)
    assert said("disavow", "undo", rule_id, *url) == f"undone: {what}\n"
    assert said("disavow", "list", *url) == ""
    assert json.loads(said("total", "disavowed", "--last", "7d", "--json", *url))["total"] == 42
    assert "unknown rule" in said("disavow", "undo", rule_id, *url, code=1)


def test_a_group_is_named_by_its_flag(spammed: RunningServer) -> None:
    asked = ("disavow", "disavowed group", "--group", "--ref", "spam.example", "--json", "--url", spammed.url)
    rule = json.loads(said(*asked))
    assert (rule["kind"], rule["key"], rule["moved"]) == ("group", "disavowed group", 40)
    undone = json.loads(said("disavow", "undo", rule["id"], "--json", "--url", spammed.url))
    assert undone["state"] == "undone"


def test_all_links_or_a_prefix_are_named_in_place_of_a_key(spammed: RunningServer) -> None:
    asked = ("disavow", "--prefix", "disavowe", "--ref", "spam.example", "--url", spammed.url)
    what = "ref spam.example of links that begin with disavowe, all time"
    assert said(*asked, "--dry-run") == f"40 hits of {what} would be called bots\n"
    (rule_id,) = re.findall(rf"^40 hits of {what} are called bots, by the rule (\w+)$", said(*asked), re.MULTILINE)
    assert said("disavow", "undo", rule_id, "--url", spammed.url) == f"undone: {what}\n"
    tried = said("disavow", "--all", "--ref", "nobody.example", "--dry-run", "--url", spammed.url)
    assert tried == "0 hits of ref nobody.example of all links, all time would be called bots\n"
    for wrong in (("disavowed", "--all"), ("--all", "--prefix", "x"), ("--group", "--all"), ("add",)):
        found = said("disavow", *wrong, "--ref", "a", "--url", spammed.url, code=2)
        assert "give KEY, --all or --prefix" in " ".join(found.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give one of --ref, --country"),
        (("--ref", "a", "--country", "DE"), "one value of one dimension"),
        (("--tag", "nothing"), "--tag is not NAME=TEXT"),
        (("--ref", ""), "hits that gave no value"),
        (("--tag", "none=x"), "hits are not broken down by 'tag.none'"),
        (("--ref", "a", "--last", "7x"), "last"),
    ],
)
def test_what_is_no_rule_is_refused(spammed: RunningServer, arguments: tuple[str, ...], sentence: str) -> None:
    found = said("disavow", "disavowed", *arguments, "--url", spammed.url, code=2)
    assert sentence in " ".join(found.split())
