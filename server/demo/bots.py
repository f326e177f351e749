"""Bots of the made-up traffic: how often each comes, and the name and kind that it is judged to have at the door."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

from clickcurve.buckets.breakdowns.check import BOT, BOT_KIND
from ingest.agents import known_bots as kinds
from server.demo.audience import hits_by_value


class MadeUpBot(NamedTuple):
    """A bot. weight: how often it comes, beside the others; agent: what it sends."""

    name: str
    kind: str
    weight: int
    agent: str


_LIKE_A_BROWSER = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; {})"
BOTS = (
    MadeUpBot("Googlebot", kinds.SEARCH, 19, "Mozilla/5.0 (compatible; Googlebot/2.1)"),
    MadeUpBot("bingbot", kinds.SEARCH, 8, "Mozilla/5.0 (compatible; bingbot/2.0)"),
    MadeUpBot("GPTBot", kinds.AI_CRAWLER, 17, _LIKE_A_BROWSER.format("GPTBot/1.2")),
    MadeUpBot("claudebot", kinds.AI_CRAWLER, 9, _LIKE_A_BROWSER.format("ClaudeBot/1.0")),
    MadeUpBot("ChatGPT-User", kinds.AI_ASSISTANT, 8, _LIKE_A_BROWSER.format("ChatGPT-User/1.0")),
    MadeUpBot("Slackbot", kinds.PREVIEW, 9, "Slackbot-LinkExpanding 1.0"),
    MadeUpBot("WhatsApp", kinds.PREVIEW, 7, "WhatsApp/2.23.20.0"),
    MadeUpBot("UptimeRobot", kinds.MONITOR, 9, "Mozilla/5.0+(compatible; UptimeRobot/2.0)"),
    MadeUpBot("CensysInspect", kinds.SCANNER, 4, "Mozilla/5.0 (compatible; CensysInspect/1.1)"),
    MadeUpBot("python-requests", kinds.LIBRARY, 4, "python-requests/2.32.3"),
    MadeUpBot("curl", kinds.LIBRARY, 2, "curl/8.5.0"),
    MadeUpBot("Feedly", kinds.FEED, 2, "Feedly/1.0"),
    MadeUpBot("AhrefsBot", kinds.OTHER_BOT, 2, "Mozilla/5.0 (compatible; AhrefsBot/7.0)"),
)
_WEIGHTS = {bot.name: bot.weight for bot in BOTS}
_KINDS = {bot.name: bot.kind for bot in BOTS}


def one_bot(chance: Random) -> MadeUpBot:
    """Draws the bot of a hit."""
    return chance.choices(BOTS, list(_WEIGHTS.values()))[0]


def bots_by_value(chance: Random, hits: int) -> dict[str, Counter[str]]:
    """Divides hits of bots by each dimension of theirs; the parts are the whole."""
    names, by_kind = hits_by_value(chance, hits, _WEIGHTS), Counter[str]()
    for name, count in names.items():
        by_kind[_KINDS[name]] += count
    return {BOT: names, BOT_KIND: by_kind}
