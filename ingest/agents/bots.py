"""Which user agents are bots, of which name and kind: one look at all patterns at once, kept for the agents seen last.

An agent is a bot's if a pattern of `known_bots.py` finds something in it, or if it names no system on which a person
would read a page (`people.py`). None of 2,800 patterns is tried by itself: those that are more than words are one set
of re2's, the others are looked up by a word.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

import re2

from ingest.agents.known_bots import OTHER_BOT, KnownBot, bots_by_words, has_words, listed_bots, named_bots, words_of
from ingest.agents.people import NAMES_A_SYSTEM, without_device
from ingest.agents.reader import AGENT_CHARACTERS
from ingest.attributes.memo import Memo

AGENTS_KEPT = 8192  # at most 8192 * 1024 characters
STATES_BYTES = 16 << 20  # what re2 may keep of the states of a set: 2 MB after 20,000 public agents
UNNAMED: Final = "unnamed"
NOT_GIVEN: Final = ("", "-")

# Less than a word, or how a browser's agent begins: it names no program, either.
_SAYS_NOTHING = re.compile(r"(?:\W*\w){0,3}\W*|\s*mozilla/[\d.]+[^/(]*", re.IGNORECASE)
_WORD = re.compile(rb"[a-z]+")
_ADDRESS = re.compile(r"(?:https?:|www\.)\S*", re.IGNORECASE)
_TOKEN = re.compile(r"(?<![\w.-])[A-Za-z][\w.-]{2,39}(?![\w.-])")
_OF_A_BOT = re.compile(
    r"[a-z][-_.]?(?:bot|crawl|spider|preview|monitor|scan|feed|fetch|check)|(?:bot|crawl|spider)[a-z]{4}", re.IGNORECASE
)
_PRODUCT = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{1,39})/v?\d")
_OF_BROWSERS = frozenset(
    (
        *("mozilla", "applewebkit", "chrome", "chromium", "safari", "version", "gecko", "firefox", "mobile", "khtml"),
        *("edg", "edge", "opr", "opera", "trident", "msie"),
    )
)


class Bot(NamedTuple):
    """What is kept of a bot's agent. kind: one of `known_bots.py`."""

    name: str
    kind: str


class BotJudge:
    """Judges agents by all patterns; called with one it says whether a bot's it is.

    Bounded in time per call, and in memory: by what it keeps, and by what re2 may.
    """

    def __init__(self) -> None:
        named, by_words = named_bots(), bots_by_words()
        listed = listed_bots()
        self._own = [*named, *by_words, *(known for known in listed if not words_of(known.pattern))]
        self._places = len(named), len(named) + len(by_words)  # where what is by words begins and ends
        self._find_own = _finder(known.pattern for known in self._own)
        self._find_system = _finder([NAMES_A_SYSTEM])
        # Of the others each is looked for where its rarest word is: re2 would need states for thousands of them.
        self._listed: dict[bytes, list[tuple[bytes, KnownBot]]] = {}
        for known in listed:
            if text := words_of(known.pattern):
                self._listed.setdefault(_rarest_word(text), []).append((text, known))
        self._judged: Memo[str, Bot | None] = Memo(self._judge, AGENTS_KEPT, AGENT_CHARACTERS)

    def __call__(self, agent: str) -> bool:
        """Returns whether an agent is a bot's."""
        return self.bot(agent) is not None

    def bot(self, agent: str) -> Bot | None:
        """Returns the bot that an agent names; None for a person's, and for none."""
        return self._judged[agent if len(agent) <= AGENT_CHARACTERS else agent[:AGENT_CHARACTERS]]

    def _judge(self, agent: str) -> Bot | None:
        agent = agent.strip()
        if agent in NOT_GIVEN:
            return None
        text = agent.encode("utf-8", "replace")
        bots = self._found(without_device(text))
        if bots:
            kind = next((known.kind for known in bots if known.kind != OTHER_BOT), OTHER_BOT)
            return Bot(bots[0].name or name_in(agent), kind)
        if self._find_system(text) or _SAYS_NOTHING.fullmatch(agent):
            return None
        return Bot(name_in(agent), OTHER_BOT)

    def _found(self, text: bytes) -> list[KnownBot]:
        """Returns what is found in a text, what names it best first."""
        own = sorted(self._find_own(text) or ())
        first, end = (bisect_left(own, place) for place in self._places)
        words = self._listed.keys() & set(_WORD.findall(text))
        listed = [known for word in words for meant, known in self._listed[word] if has_words(meant, text)]
        found = [self._own[place] for place in own]
        listed = sorted([*found[end:], *listed], key=lambda known: (-len(known.name), known.name))
        return [*found[:first], *listed, *found[first:end]]


def _rarest_word(text: bytes) -> bytes:
    """Returns the word of a text that is in the fewest agents, as far as its length tells."""
    words: list[bytes] = _WORD.findall(text)
    return max(words, key=lambda word: (word.decode() not in _OF_BROWSERS, len(word)))


def _finder(patterns: Iterable[str]) -> Callable[[bytes], list[int] | None]:
    """Returns what lists the places of the patterns that a text holds, found in one pass."""
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1  # by bytes: a state less for each sign beyond ASCII
    options.max_mem = STATES_BYTES
    one = re2.Set.SearchSet(options)
    for pattern in patterns:
        one.Add(pattern)
    one.Compile()
    find: Callable[[bytes], list[int] | None] = one.Match
    return find


def name_in(agent: str) -> str:
    """Returns the name that an unknown bot gives itself: a word such as `FooBot`, or a product before its version.

    Addresses are left out, as is all else: what a stranger writes into an agent is not kept.
    """
    text = " ".join(part for part in _ADDRESS.sub(" ", agent).split() if "@" not in part)
    tokens = (found[0] for found in _TOKEN.finditer(text) if _OF_A_BOT.search(found[0]))
    products = (found[1] for found in _PRODUCT.finditer(text) if found[1].lower() not in _OF_BROWSERS)
    return next(chain(tokens, products), UNNAMED).strip(".-")


@cache
def bot_judge() -> BotJudge:
    """Returns the one judge of this process: 0.1 s and some MB the first time."""
    return BotJudge()
