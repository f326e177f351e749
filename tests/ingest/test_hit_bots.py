from __future__ import annotations

import random
import re

import pytest
from crawleruseragents import CRAWLER_USER_AGENTS_DATA, is_crawler

from ingest.reading.bots import AGENT_CHARACTERS, bot_judge, bot_name_of, bot_namer, grouped

INSTANCES = [agent for entry in CRAWLER_USER_AGENTS_DATA for agent in entry.get("instances", [])]


def test_every_agent_the_library_lists_is_judged_as_the_library_does() -> None:
    is_bot = bot_judge()
    assert len(INSTANCES) > 1000
    for agent in random.Random(1).sample(INSTANCES, 700):
        for variant in (agent, agent.lower(), agent[::-1]):
            assert is_bot(variant) == is_crawler(variant[:AGENT_CHARACTERS]), variant


@pytest.mark.parametrize(
    ("agent", "bot"),
    [
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", True),
        ("curl/8.5.0", True),
        ("python-requests/2.31.0", True),
        ("", False),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0", False),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari", False),
        ("\ud800", False),
        ("x" * 100_000, False),
    ],
)
def test_people_and_bots_are_told_apart(agent: str, bot: bool) -> None:
    assert bot_judge()(agent) is bot


def test_only_the_first_characters_of_an_agent_are_looked_at() -> None:
    is_bot = bot_judge()
    assert is_bot("x" * (AGENT_CHARACTERS - 10) + "Googlebot/2.1")
    assert not is_bot("x" * AGENT_CHARACTERS + "Googlebot/2.1")


def test_grouping_keeps_the_meaning_of_odd_patterns() -> None:
    patterns = ["^curl", "a?b", "ab+c", "x|yz", "[wW]get", "a\\/b", "(p)q", "a{2}", "zebra"]
    one = re.compile(grouped(patterns))
    for text in (
        "curl",
        "xcurl",
        "b",
        "abbc",
        "ac",
        "x",
        "yz",
        "wget",
        "Wget",
        "a/b",
        "pq",
        "aa",
        "a",
        "zebr",
        "zebra",
    ):
        assert bool(one.search(text)) == any(re.search(pattern, text) for pattern in patterns), text


def test_every_pattern_has_a_name_that_people_can_read() -> None:
    names = {entry["pattern"]: bot_name_of(entry["pattern"]) for entry in CRAWLER_USER_AGENTS_DATA}
    assert [pattern for pattern, name in names.items() if not name or set(name) & set("\\^$[]|*")] == []
    assert max(map(len, names.values())) < 60


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
        ("Wget/1.21", "wget"),
        ("curl/8.5.0", "curl"),
        ("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "AhrefsBot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", ""),
        ("x" * AGENT_CHARACTERS + "Googlebot/2.1", ""),
    ],
)
def test_a_bot_is_named_by_the_pattern_that_knows_it(agent: str, name: str) -> None:
    assert bot_namer()(agent) == name


def test_what_is_judged_a_bot_has_a_name() -> None:
    is_bot, name = bot_judge(), bot_namer()
    for agent in random.Random(2).sample(INSTANCES, 200):
        assert bool(name(agent)) == is_bot(agent), agent
