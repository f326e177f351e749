"""What a hit says of its visitor, as one value for each dimension that is counted: its profile.

Hits of one link and hour with one profile are one number in the buffer and in the journal, however many dimensions
there are: counted dimension by dimension, a batch would cost twice as much. What a profile is made of (addresses,
agents, whole referrers) is forgotten as soon as it is made; the caches hold it in memory, bounded, and never on a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from clickcurve.buckets.errors import HitRejected
from clickcurve.problem import shown
from ingest.words.agent import NO_AGENT, Agent, AgentReader
from ingest.words.campaign import UTM, source_of, utm_of
from ingest.words.country import OFF, UNKNOWN, CountryOf, address_of, country_of_field, country_reader
from ingest.words.dimensions import BOT, TAG, TAG_BYTES
from ingest.words.language import language_of
from ingest.words.referrer import referrer_of
from ingest.words.text import cut, text_of

NO_NAME: Final = ""  # of a bot that is one because the shortener says so
TAGS = 4
TAGS_RULE = f"an object of at most {TAGS} strings of 1 to {TAG_BYTES} bytes, by names that the settings know"
# What the caches hold, in memory only: 10 MB of addresses, 16 MB of agents, and of referrers of the longest 33 MB by
# themselves and 40 MB in profiles.
ADDRESSES_KEPT = 65_536
AGENTS_KEPT = 8_192
REFERRERS_KEPT = 16_384
PROFILES_KEPT = 16_384


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
        self._addresses = lru_cache(maxsize=ADDRESSES_KEPT)(self._country_of_address)
        self._referrers = lru_cache(maxsize=REFERRERS_KEPT)(lambda value: referrer_of(value, own_hosts))
        self._agents = lru_cache(maxsize=AGENTS_KEPT)(self._agent_of)
        self._known: dict[Hashable, Profile | None] = {}

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
        self._addresses.cache_clear()
        self._known.clear()

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
        try:
            # Of what hardly repeats, addresses, referrers and agents, is kept what does: few of these are different.
            ip, ref, ua, *others = words
            country = None if ip is None else self._addresses(ip)
            said = (country, None if ref is None else self._referrers(ref), None if ua is None else self._agents(ua))
            key = (*said, *others)
            known = self._known.get(key)
            if known is not None or key in self._known:
                return known
        except TypeError:  # an object or a list where a text should be
            return self._read(words)
        profile = self._made(key)
        if len(self._known) >= PROFILES_KEPT:
            self._known.clear()
        self._known[key] = profile
        return profile

    def _read(self, words: tuple[object, ...]) -> Profile | None:
        ip, ref, ua, *others = words
        country = None if ip is None else self._country_of_address(ip)
        host = None if ref is None else referrer_of(ref, self._own_hosts)
        return self._made((country, host, None if ua is None else self._agent_of(ua), *others))

    def _made(self, said: tuple[object, ...]) -> Profile | None:
        """Returns the profile of country, host and agent, and the other fields as they are."""
        found: dict[str, str] = {}
        country, host, agent, *others = said
        if isinstance(country, str):
            found["country"] = country
        if isinstance(host, str):
            found["ref"] = host
        if isinstance(agent, Agent):
            found |= agent._asdict()
        for name, value in zip(WordFields._fields[3:], others, strict=True):
            if value is not None:
                found |= self._readers[name](self, value)
        if self._divided.isdisjoint(found):
            return None
        values = tuple([cut(found.get(name, "")) for name in self.dimensions])
        return Profile(self.dimensions, values)

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

    def _country_of_address(self, value: object) -> str:
        address = address_of(value)
        return self._country_of(address) if "country" in self.dimensions else UNKNOWN

    def _agent_of(self, agent: object) -> Agent:
        if not self.wants_agents or not isinstance(agent, str):
            return NO_AGENT
        if self._agent_reader is None:  # 0.4 s and 40 MB, which a server without agents is spared
            self._agent_reader = AgentReader()
        return self._agent_reader.read(agent)

    def _of_tags(self, value: object) -> Mapping[str, str]:
        tags = _object_of(value)
        if not isinstance(tags, dict) or len(tags) > TAGS:
            raise HitRejected("tags is not such an object", field="tags", value=shown(value), rule=TAGS_RULE)
        found = {}
        for name in self._tags:
            if tags.get(name) is not None:
                found[TAG + name] = text_of(tags[name], f"tags.{name}", TAGS_RULE, TAG_BYTES)
                if not found[TAG + name]:
                    raise HitRejected("a tag is empty", field=f"tags.{name}", value="", rule=TAGS_RULE)
        return found

    _readers: Final[Mapping[str, Callable[[ProfileReader, object], Mapping[str, str]]]] = {
        "country": lambda _, value: {"country": country_of_field(value)},
        "lang": lambda _, value: {"lang": language_of(value)},
        "source": lambda _, value: {"source": source_of(value)},
        "utm": lambda _, value: {f"utm_{name}": text for name, text in utm_of(_object_of(value)).items()},
        "tags": _of_tags,
    }


# Checks the words of hits where nothing is divided by them.
NO_DIMENSIONS: Final = ProfileReader((), country_reader(OFF), frozenset())
