"""What a hit says of its visitor, as one value for each dimension that is counted: its profile.

Hits of one link and hour with one profile are one number in the buffer and in the journal, however many dimensions
there are: counted dimension by dimension, a batch would cost twice as much. What a profile is made of (addresses,
agents, whole referrers) is forgotten as soon as it is made; the caches hold it in memory, bounded, and never on a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from clickcurve.buckets.errors import HitRejected, SettingInvalid
from clickcurve.problem import shown
from ingest.words.agent import Agent, AgentReader
from ingest.words.campaign import UTM, source_of, utm_of
from ingest.words.country import OFF, CountryOf, address_of, country_of_field, country_reader
from ingest.words.language import language_of
from ingest.words.referrer import referrer_of
from ingest.words.text import cut, text_of

BOT: Final = "bot"  # the dimension that counts bots, by the name of the pattern that knows them
NO_NAME: Final = ""  # of a bot that is one because the shortener says so
TAG = "tag."
DIMENSIONS: Final = (
    "ref",
    "country",
    "device",
    "source",
    "browser",
    "os",
    "lang",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    BOT,
)
TAGS = 4
TAG_BYTES = 100
TAGS_RULE = f"an object of at most {TAGS} strings of 1 to {TAG_BYTES} bytes, by names that the settings know"
AGENTS_KEPT = 8_192
PROFILES_KEPT = 65_536  # some 60 MB at worst, of long referrers; then the cache starts again


class Profile(NamedTuple):
    """A value for each of the dimensions that were counted when the hit came, "" where none is given.

    It names them itself, because they may be others after a restart, when the journal is read.
    """

    dimensions: tuple[str, ...]
    values: tuple[str, ...]


class Words(NamedTuple):
    """The fields of a hit that say more than when it came, as JSON has them, objects as `pairs_of` has them.

    None: not given. A later field beats an earlier one that says the same: `country` beats `ip`.
    """

    ref: object = None
    ip: object = None
    ua: object = None
    country: object = None
    lang: object = None
    source: object = None
    utm: object = None
    tags: object = None


NO_WORDS = Words()


def dimensions_of(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the dimensions of the setting; raises SettingInvalid for an unknown name or a repeated one."""
    for name in names:
        if name not in DIMENSIONS and not (name.startswith(TAG) and 0 < len(name.removeprefix(TAG)) <= TAG_BYTES):
            known = f"{', '.join(DIMENSIONS)}, tag.NAME"
            raise SettingInvalid(f"{name} is not a dimension", field="dimensions", value=name, rule=known)
    if len(set(names)) < len(names):
        raise SettingInvalid("a dimension stands twice", field="dimensions", value=", ".join(names))
    return tuple(names)


def pairs_of(value: object) -> object:
    """Returns an object as its pairs of name and value, which a cache can be asked for; all else as it is."""
    return tuple(value.items()) if isinstance(value, dict) else value


def _object_of(pairs: object) -> object:
    return dict(pairs) if isinstance(pairs, tuple) else pairs


class ProfileReader:
    """Makes profiles for these dimensions; with none it only checks words.

    `bot_name` names the bot of an agent. `country_of` may be replaced while it is used, as a file is read again.
    """

    def __init__(
        self,
        dimensions: Sequence[str],
        country_of: CountryOf,
        own_hosts: frozenset[str],
        bot_name: Callable[[str], str] = lambda agent: NO_NAME,
    ) -> None:
        self.dimensions = tuple(name for name in dimensions if name != BOT)
        self.country_of = country_of
        self.ignored = self._ignored_fields()
        self.wants_agents = self._wants(*Agent._fields)
        self.wants_bots = BOT in dimensions
        self._bot_name = bot_name
        self._bots: dict[str, Profile] = {}
        self._own_hosts = own_hosts
        self._agents = lru_cache(maxsize=AGENTS_KEPT)(AgentReader().read) if self.wants_agents else None
        self._tags = [name.removeprefix(TAG) for name in self.dimensions if name.startswith(TAG)]
        self._known: dict[Words, Profile | None] = {}

    def _wants(self, *names: str) -> bool:
        return not set(names).isdisjoint(self.dimensions)

    def _ignored_fields(self) -> tuple[str, ...]:
        """Returns the fields that say nothing of these dimensions; the agent is asked for bots in any case."""
        wanted = {
            "ref": self._wants("ref"),
            "ip": self._wants("country"),
            "country": self._wants("country"),
            "lang": self._wants("lang"),
            "source": self._wants("source"),
            "utm": self._wants(*(f"utm_{name}" for name in UTM)),
            "tags": any(name.startswith(TAG) for name in self.dimensions),
        }
        return tuple(name for name, is_wanted in wanted.items() if not is_wanted)

    def bot(self, agent: object) -> Profile | None:
        """Returns the profile of a bot's hit, its name; None if bots are not divided."""
        if not self.wants_bots:
            return None
        name = self._bot_name(agent) if isinstance(agent, str) else NO_NAME
        return self._bots.setdefault(name, Profile((BOT,), (cut(name),)))  # as many as there are patterns

    def profile(self, words: Words) -> Profile | None:
        """Returns the profile of a person's hit; None if no word is of these dimensions. Raises HitRejected."""
        try:
            known = self._known.get(words)
        except TypeError:  # an object or a list where a text should be
            return self._read(words)
        if known is not None or words in self._known:
            return known
        profile = self._read(words)
        if len(self._known) >= PROFILES_KEPT:
            self._known.clear()
        self._known[words] = profile
        return profile

    def _read(self, words: Words) -> Profile | None:
        found: dict[str, str] = {}
        for name, value in zip(Words._fields, words, strict=True):
            if value is not None:
                found |= self._readers[name](self, value)
        if not self._wants(*found):
            return None
        return Profile(self.dimensions, tuple(cut(found.get(name, "")) for name in self.dimensions))

    def _of_agent(self, value: object) -> Mapping[str, str]:
        return self._agents(value)._asdict() if self._agents is not None and isinstance(value, str) else {}

    def _of_address(self, value: object) -> Mapping[str, str]:
        return {"country": self.country_of(address_of(value))}

    def _of_utm(self, value: object) -> Mapping[str, str]:
        return {f"utm_{name}": text for name, text in utm_of(_object_of(value)).items()}

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
        "ref": lambda self, value: {"ref": referrer_of(value, self._own_hosts)},
        "ip": _of_address,
        "ua": _of_agent,
        "country": lambda _, value: {"country": country_of_field(value)},
        "lang": lambda _, value: {"lang": language_of(value)},
        "source": lambda _, value: {"source": source_of(value)},
        "utm": _of_utm,
        "tags": _of_tags,
    }


# Checks the words of hits where nothing is divided by them.
NO_DIMENSIONS: Final = ProfileReader((), country_reader(OFF), frozenset())
