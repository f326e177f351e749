"""What a hit says of its visitor, as one value for each dimension that is counted: its profile.

Hits of one link and hour with one profile are one number in the buffer and in the journal, however many dimensions
there are: counted dimension by dimension, a batch would cost twice as much. What a profile is made of (addresses,
agents, whole referrers) is forgotten as soon as it is made; the caches hold it in memory, bounded, and never on a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from clickcurve.buckets.errors import HitRejected
from clickcurve.problem import shown
from ingest.words.agent import AGENT_CHARACTERS, NO_AGENT, Agent, AgentReader
from ingest.words.campaign import UTM, source_of, utm_of
from ingest.words.country import OFF, UNKNOWN, CountryOf, address_of, country_of_field, country_reader
from ingest.words.dimensions import BOT, TAG, TAG_BYTES
from ingest.words.kept import Kept
from ingest.words.language import language_of
from ingest.words.referrer import REF_BYTES, referrer_of
from ingest.words.text import cut, text_of

NO_NAME: Final = ""  # of a bot that is one because the shortener says so
TAGS = 4
TAGS_RULE = f"an object of at most {TAGS} strings of 1 to {TAG_BYTES} bytes, by names that the settings know"
# What the caches hold at most, in memory only: 10 MB of addresses, 24 MB of agents, 33 MB of the longest referrers, and
# some 600 bytes for each profile.
ADDRESSES_KEPT = 65_536
ADDRESS_CHARACTERS = 64
AGENTS_KEPT = 8_192
REFERRERS_KEPT = 16_384
PROFILES_KEPT = 32_768


class Profile(NamedTuple):
    """A value for each dimension that was counted when the hit came.

    "" where none is given. It names them itself, because they may be others after a restart, when the journal is read.
    known: visitors are counted, and the hit says enough to tell its visitor from others.
    """

    dimensions: tuple[str, ...]
    values: tuple[str, ...]
    known: bool = False


class WordFields(NamedTuple):
    """The fields of a hit that say who and from where, as JSON has them.

    Objects may be pairs, as `pairs_of` has them. None: not given. A later field beats an earlier one that says the
    same: `country` beats `ip`.
    """

    ip: object = None
    ref: object = None
    ua: object = None
    country: object = None
    lang: object = None
    source: object = None
    utm: object = None
    tags: object = None


NO_WORDS = WordFields()
WORD_NAMES = WordFields._fields


def pairs_of(value: object) -> object:
    """Returns an object as pairs of name and value, which a cache can be asked for; all else unchanged."""
    return tuple(value.items()) if isinstance(value, dict) else value


class AgentHit(Protocol):
    """A hit as read that says nothing but an agent."""

    ua: str | None
    bot: bool | None


class SpeakingHit(AgentHit, Protocol):
    """A hit as read that has the fields of WordFields."""

    ip: str | None
    ref: str | None


@dataclass(slots=True, eq=False)
class KindOfHit:
    """What a hit counts as. with_visitor: the same of a known visitor; ignored: its fields that say nothing.

    Two are never equal, so that sums by them need not look into profiles.
    """

    bot: bool
    profile: Profile | None
    with_visitor: KindOfHit | None
    ignored: tuple[str, ...]


_KindParts = tuple[bool, Profile | None, KindOfHit | None, tuple[str, ...]]


@dataclass(slots=True, eq=False)
class _JudgedAgent:
    agent: Agent | None
    is_bot: bool
    name: Profile | None  # of the bot that it is, or would be if the shortener says that it is one


_ip_of, _ref_of, _ua_of, _bot_of = map(attrgetter, ("ip", "ref", "ua", "bot"))
_others_of = attrgetter(*WORD_NAMES[3:], "bot")
_NO_OTHERS: Final = {bot: (*[None] * len(WORD_NAMES[3:]), bot) for bot in (None, False, True)}


def _others_as_pairs(hit: SpeakingHit) -> tuple[object, ...]:
    return tuple(map(pairs_of, _others_of(hit)))


def _object_of(pairs: object) -> object:
    return dict(pairs) if isinstance(pairs, tuple) else pairs


class ProfileReader:
    """Makes profiles for these dimensions; with none it only checks words. `bot_name` names the bot of an agent.

    salts: by the start of a UTC day, under which its visitors are hashed; they are replaced elsewhere as days pass.
    None: visitors are not counted. Without dimensions they are not, either.
    """

    def __init__(
        self,
        dimensions: Sequence[str],
        country_of: CountryOf,
        own_hosts: frozenset[str],
        bot_name: Callable[[str], str] = lambda agent: NO_NAME,
        salts: Mapping[int, bytes] | None = None,
    ) -> None:
        self._given = tuple(dimensions)
        self.dimensions = tuple(name for name in dimensions if name != BOT)
        self.salts = salts if self.dimensions else None
        self._says_nothing = Profile(self.dimensions, ("",) * len(self.dimensions), known=True)
        self._with_known_visitor: dict[Profile, Profile] = {}
        self._country_of = country_of
        self._own_hosts = own_hosts
        self.wants_agents = self._wants(*Agent._fields)
        self.wants_bots = BOT in dimensions
        self._agent_reader: AgentReader | None = None
        self._tags = [name.removeprefix(TAG) for name in self.dimensions if name.startswith(TAG)]
        self.ignored = self._ignored_fields()
        self._bot_name = bot_name
        self._bots: dict[str, Profile] = {}
        self._divided = frozenset(self.dimensions)
        self._addresses = Kept(self._country_of_address, ADDRESSES_KEPT, ADDRESS_CHARACTERS)
        self._referrers = Kept(self._host_of, REFERRERS_KEPT, REF_BYTES)
        self._agents = Kept(self._agent_of, AGENTS_KEPT, AGENT_CHARACTERS)
        self._said_by_others = Kept(self._read_others, PROFILES_KEPT, 0)
        self._known = Kept(self._made, PROFILES_KEPT, 0)
        self._judge: Callable[[str], bool] | None = None
        self._judged = Kept(self._judged_agent, AGENTS_KEPT, AGENT_CHARACTERS)
        self._judged_alike: dict[tuple[object, ...], _JudgedAgent] = {}
        self._kinds = Kept(self._kind, PROFILES_KEPT, 0)
        self._kinds_alike: Kept[_KindParts, KindOfHit] = Kept(lambda found: KindOfHit(*found), PROFILES_KEPT, 0)

    def useful_fields(self) -> list[str]:
        """Returns the fields of words that say something of what is divided, or of visitors; the agent for bots too."""
        agents = self.wants_agents or self.wants_bots or self.salts is not None
        named = ("ref", "ip", "country", "lang", "source", "utm", "tags", "visitor")
        return [*(name for name in named if name not in self.ignored), *(["ua"] if agents else [])]

    def without_visitors(self) -> ProfileReader:
        """Returns a reader that makes the same profiles and counts no visitors."""
        return ProfileReader(self._given, self._country_of, self._own_hosts, self._bot_name)

    def use_countries(self, country_of: CountryOf) -> None:
        """Finds countries by another file from now on."""
        self._country_of = country_of
        for kept in (self._addresses, self._known, self._kinds):
            kept.clear()

    def _wants(self, *names: str) -> bool:
        return not set(names).isdisjoint(self.dimensions)

    def _ignored_fields(self) -> tuple[str, ...]:
        """Returns the fields that say nothing of these dimensions; the agent is asked for bots in any case."""
        wanted = {
            "ref": self._wants("ref"),
            "ip": self._wants("country") or self.salts is not None,
            "country": self._wants("country"),
            "lang": self._wants("lang"),
            "source": self._wants("source"),
            "utm": self._wants(*(f"utm_{name}" for name in UTM)),
            "tags": bool(self._tags),
            "visitor": self.salts is not None,
        }
        return tuple(name for name, is_wanted in wanted.items() if not is_wanted)

    def bot(self, agent: object) -> Profile | None:
        """Returns the profile of a bot's hit, its name; None if bots are not divided."""
        if not self.wants_bots:
            return None
        name = self._bot_name(agent) if isinstance(agent, str) else NO_NAME
        return self._bots.setdefault(name, Profile((BOT,), (cut(name),)))  # as many as there are patterns

    def profile(self, words: tuple[object, ...]) -> Profile | None:
        """Returns the profile of a person's hit, given its WordFields; None if none is of these dimensions.

        Raises HitRejected.
        """
        ip, ref, ua, *others = words
        try:
            return self._known[self._addresses[ip], self._referrers[ref], self._agents[ua], *others]
        except TypeError:  # an object or a list where a text should be
            return self._made((self._country_of_address(ip), self._host_of(ref), self._agent_of(ua), *others))

    def kinds(self, hits: Sequence[SpeakingHit], is_bot: Callable[[str], bool]) -> list[KindOfHit]:
        """Returns what each of these hits counts as, all looked up by C; raises HitRejected if one breaks a rule.

        Of what hardly repeats (addresses, referrers, agents) is kept what does: few of these are different. Their other
        words are looked up as they are.
        """
        self._use_judge(is_bot)
        ips = list(map(_ip_of, hits))
        given = len(ips) - ips.count(None)
        for words_of in (_others_of, _others_as_pairs):
            places = map(self._addresses.__getitem__, ips) if given else repeat(None)
            hosts = map(self._referrers.__getitem__, map(_ref_of, hits))
            agents = map(self._judged.__getitem__, map(_ua_of, hits))
            try:
                return list(map(self._kinds.__getitem__, zip(places, hosts, agents, map(words_of, hits), strict=False)))
            except TypeError:  # an object among them, which cannot be looked up
                continue
        raise AssertionError("words that cannot be looked up")

    def kinds_of_agents(self, hits: Sequence[AgentHit], is_bot: Callable[[str], bool]) -> list[KindOfHit]:
        """Returns what hits count as that say nothing but an agent."""
        self._use_judge(is_bot)
        agents = map(self._judged.__getitem__, map(_ua_of, hits))
        others = map(_NO_OTHERS.__getitem__, map(_bot_of, hits))
        return list(map(self._kinds.__getitem__, zip(repeat(None), repeat(None), agents, others, strict=False)))

    def _use_judge(self, is_bot: Callable[[str], bool]) -> None:
        if is_bot is not self._judge:  # once: a server has one
            self._judge = is_bot
            self._judged.clear()

    def _judged_agent(self, ua: object) -> _JudgedAgent:
        """Returns one object for all agents that say the same, so that it is looked up by its identity."""
        is_bot = isinstance(ua, str) and self._judge is not None and self._judge(ua)
        found = self._agents[ua], is_bot, self.bot(ua) if is_bot or self.wants_bots else None
        return self._judged_alike.setdefault(found, _JudgedAgent(*found))

    def _kind(self, words: tuple[object, object, _JudgedAgent, tuple[object, ...]]) -> KindOfHit:
        """Returns one object for all words of which the same is kept, so that sums have few."""
        place, host, judged, (*others, bot) = words
        profile = self._made((place, host, judged.agent, *others))
        ignored: tuple[str, ...] = ()
        if self.ignored:
            said = dict(zip(WORD_NAMES, (place, host, None, *others), strict=True))
            ignored = tuple([name for name in self.ignored if said.get(name) is not None])
        if judged.is_bot if bot is None else bot:
            return self._kinds_alike[True, judged.name, None, ignored]
        known = None
        if self.salts is not None:
            known = self._kinds_alike[False, self.with_known_visitor(profile), None, ignored]
        return self._kinds_alike[False, profile, known, ignored]

    def _made(self, said: tuple[object, ...]) -> Profile | None:
        """Returns the profile of country, host and agent, and the other fields as they are."""
        country, host, agent, *others = said
        try:
            found = dict(self._said_by_others[tuple(others)])
        except TypeError:  # an object or a list, which cannot be looked up
            found = dict(self._read_others(tuple(others)))
        if country is not None:
            found.setdefault("country", country)  # type: ignore[arg-type]  # the field `country` beats the address
        if host is not None:
            found["ref"] = host  # type: ignore[assignment]
        if agent is not None:
            found["browser"], found["os"], found["device"] = agent  # type: ignore[misc]
        if self._divided.isdisjoint(found):
            return None
        return Profile(self.dimensions, tuple([found.get(name, UNKNOWN) for name in self.dimensions]))

    def _read_others(self, others: tuple[object, ...]) -> Mapping[str, str]:
        """Returns the values of the fields after the agent by dimension."""
        found: dict[str, str] = {}
        for read, value in zip(self._readers, others, strict=True):
            if value is not None:
                found |= read(self, value)
        return found

    def with_known_visitor(self, profile: Profile | None) -> Profile:
        """Returns the profile of a hit whose visitor is known; None: it says nothing else."""
        if profile is None:
            return self._says_nothing
        found = self._with_known_visitor.get(profile)
        if found is None:
            if len(self._with_known_visitor) >= PROFILES_KEPT:
                self._with_known_visitor.clear()
            found = self._with_known_visitor[profile] = profile._replace(known=True)
        return found

    def _host_of(self, value: object) -> str | None:
        if value is None:
            return None
        host = referrer_of(value, self._own_hosts)
        return host if "ref" in self._divided else UNKNOWN  # so that profiles that are kept are few

    def _country_of_address(self, value: object) -> str | None:
        if value is None:
            return None
        address = address_of(value)
        return self._country_of(address) if "country" in self.dimensions else UNKNOWN

    def _agent_of(self, agent: object) -> Agent | None:
        if agent is None:
            return None
        if not self.wants_agents or not isinstance(agent, str):
            return NO_AGENT
        if self._agent_reader is None:  # 0.4 s and 40 MB, which a server without agents is spared
            self._agent_reader = AgentReader()
        found = self._agent_reader.read(agent)
        return Agent(*[value if name in self._divided else UNKNOWN for name, value in found._asdict().items()])

    def _of_tags(self, value: object) -> Mapping[str, str]:
        tags = _object_of(value)
        if not isinstance(tags, dict) or len(tags) > TAGS:
            raise HitRejected("tags is not such an object", field="tags", value=shown(value), rule=TAGS_RULE)
        found = {}
        for name in self._tags:
            if tags.get(name) is not None:
                found[TAG + name] = cut(text_of(tags[name], f"tags.{name}", TAGS_RULE, TAG_BYTES))
                if not found[TAG + name]:
                    raise HitRejected("a tag is empty", field=f"tags.{name}", value="", rule=TAGS_RULE)
        return found

    # Of the fields after the agent, in their order.
    _readers: Final[Sequence[Callable[[ProfileReader, object], Mapping[str, str]]]] = (
        lambda _, value: {"country": country_of_field(value)},
        lambda _, value: {"lang": cut(language_of(value))},
        lambda _, value: {"source": cut(source_of(value))},
        lambda _, value: {f"utm_{name}": cut(text) for name, text in utm_of(_object_of(value)).items()},
        _of_tags,
    )


# Checks the words of hits where nothing is divided by them.
NO_DIMENSIONS: Final = ProfileReader((), country_reader(OFF), frozenset())
