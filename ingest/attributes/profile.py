"""The profile of a hit: one value for each dimension that is counted.

Hits of one link and hour with one profile are one number in the buffer and in the journal, however many dimensions
there are: counted dimension by dimension, a batch would cost twice as much. What a profile is made of (addresses,
agents, whole referrers) is forgotten as soon as it is made; the caches hold it in memory, bounded, and never on a disk.
A batch and a buffer number their profiles, in the order in which they came: one integer for all attributes of a hit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, compress, count, islice
from operator import attrgetter, itemgetter
from sys import intern
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from clickcurve.buckets.breakdowns.check import BOT, BOT_KIND, OF_BOTS
from clickcurve.buckets.errors import HitRejected
from clickcurve.keys import AS_GIVEN, KeyForm
from ingest.agents.bots import Bot
from ingest.agents.known_bots import OTHER_BOT, RULE
from ingest.agents.reader import AGENT_CHARACTERS, NO_AGENT, Agent, AgentReader
from ingest.attributes.bot_rules import NO_RULE, BotRules
from ingest.attributes.campaign import UTM, source_of, utm_of
from ingest.attributes.channel import DIRECT, channel_of
from ingest.attributes.country import OFF, UNKNOWN, CountryOf, address_of, country_of_field, country_reader
from ingest.attributes.dimensions import CHANNEL, TAG, TAG_BYTES
from ingest.attributes.language import language_of
from ingest.attributes.memo import Memo
from ingest.attributes.referrer import ReferrerReader
from ingest.attributes.text import KEPT_RULE, cut, may_any_be_cut, may_be_cut, text_of

NAMELESS: Final = Bot("", OTHER_BOT)  # one that is a bot because the shortener says so
EMPTY: Final = ""  # says as little as a field that is absent
TAGS = 4
TAGS_RULE = f"an object of at most {TAGS} strings of 1 to {TAG_BYTES} bytes, by names that the settings know"
# What the caches hold at most, in memory only: 10 MB of addresses, 24 MB of agents, 27 MB of the longest referrers that
# are kept, and some 600 bytes for each text of other fields.
ADDRESSES_KEPT = 65_536
ADDRESS_CHARACTERS = 64
AGENTS_KEPT = 8_192
REFERRERS_KEPT = 65_536
REFERRER_CHARACTERS = 256
PROFILES_KEPT = 32_768
OTHERS_CHARACTERS = 512  # of the other fields together
UTM_: Final = "utm_"
_MAY_BE_CUT: Final = frozenset(("ref", *(UTM_ + name for name in UTM)))  # a field of others is no longer than is kept
_OF_CHANNEL = ("ref", "source", *(UTM_ + name for name in UTM))  # what a channel is judged from
# Hits in columns, by field: a column is looked at by one call of C, where each hit alone costs some of Python. The
# fields that no hit has are left out; None where a hit lacks a field that others have.
HitColumns: TypeAlias = Mapping[str, Sequence[Any]]


class Profile(Struct, frozen=True, gc=False):
    """A value for each dimension that was counted when the hit came.

    "" where none is given. It names them itself, because they may be others after a restart, when the journal is read.
    known: visitors are counted, and the hit says enough to tell its visitor from others.
    """

    dimensions: tuple[str, ...]
    values: tuple[str, ...]
    known: bool = False


ProfileKind: TypeAlias = tuple[tuple[str, ...], bool]  # the dimensions of a profile, and whether its visitor is known
# The place of its kind among those of its batch or buffer, and its values.
ProfileRow: TypeAlias = tuple[int, *tuple[str, ...]]


class NumberedProfiles:
    """The profiles that were met, each with its number.

    `numbers` gives a row its number in C, a new one too: `map(numbers.__getitem__, zip(repeat(kind), *columns))`.
    """

    __slots__ = ("_last", "_place", "kinds", "numbers")

    def __init__(self) -> None:
        self.kinds: dict[ProfileKind, int] = {}
        self._last: ProfileKind | None = None  # the kind that was asked for last, which most hits share
        self._place = 0
        self.numbers: defaultdict[ProfileRow, int] = defaultdict(count().__next__)

    def __len__(self) -> int:
        return len(self.numbers)

    def kind(self, dimensions: tuple[str, ...], visitor_known: bool) -> int:
        """Returns the place of a kind; adds a new one."""
        return self.kinds.setdefault((dimensions, visitor_known), len(self.kinds))

    def number(self, profile: Profile) -> int:
        """Returns the number of a profile; adds a new one."""
        kind = profile.dimensions, profile.known
        if kind != self._last:
            self._last, self._place = kind, self.kind(*kind)
        return self.numbers[self._place, *profile.values]

    def numbers_of(self, kinds: Sequence[ProfileKind], rows: Sequence[ProfileRow]) -> list[int]:
        """Returns the numbers here of rows whose kinds have other places; adds new ones."""
        places = [self.kind(*kind) for kind in kinds]
        if places != list(range(len(places))):
            rows = [(places[place], *values) for place, *values in rows]
        return list(map(self.numbers.__getitem__, rows))

    def newest(self, many: int) -> list[ProfileRow]:
        """Returns the rows that got the last of the numbers, in their order."""
        return list(islice(reversed(self.numbers), many))[::-1]


def texts_of(rows: Iterable[ProfileRow]) -> Iterable[int | str]:
    """Returns all that rows hold, one after the other."""
    return chain.from_iterable(rows)


def profile_of_row(row: ProfileRow, kinds: Sequence[ProfileKind]) -> Profile:
    place, *values = row
    dimensions, visitor_known = kinds[place]
    return Profile(dimensions, tuple(values), visitor_known)


class AttributeFields(NamedTuple):
    """The attributes of a hit, as JSON has them.

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


def pairs_of(value: object) -> object:
    """Returns an object as pairs of name and value, which a cache can be asked for; all else unchanged."""
    return tuple(value.items()) if isinstance(value, dict) else value


@dataclass(slots=True, eq=False)
class JudgedAgent:
    """What an agent says of its visitor, as values of dimensions, and whether it is a bot's."""

    browser: str | None
    os: str | None
    device: str | None
    is_bot: bool
    bot_values: tuple[str, ...]  # of the bot that it is, or would be if the shortener says that it is one


class _Looked(NamedTuple):
    """What looks up each field of a hit, None for one that says nothing of any dimension: memos, or what they call."""

    address: Callable[[Any], str | None]
    site: Callable[[Any], str | None]
    agent: Callable[[Any], Agent | None]
    country: Callable[[Any], str | None]
    lang: Callable[[Any], str | None]
    source: Callable[[Any], str | None]
    utm: Callable[[Any], Mapping[str, str]]
    tags: Callable[[Any], Mapping[str, str]]
    channel: Callable[[Any], str]


# The values that most hits have, in the order in which they are found; then follow those of `utm` and `tags`.
_FOUND: Final = ("ref", "country", *Agent._fields, "lang", "source", CHANNEL)


def _object_of(pairs: object) -> object:
    return dict(pairs) if isinstance(pairs, tuple) else pairs


class ProfileReader:
    """Makes profiles for these dimensions; with none it only checks attributes. `bot_of` names the bot of an agent.

    bot_rules: rules of the operator by which hits are bots'. salts: by the start of a UTC day, under which its visitors
    are hashed; they are replaced elsewhere as days pass. None: visitors are not counted. Without dimensions they are
    not, either. group_by_host: each hit counts in the group of the host that its key begins with. key_form: of keys.
    events: the names of those that are counted.
    """

    def __init__(
        self,
        dimensions: Sequence[str],
        country_of: CountryOf,
        referrers: ReferrerReader,
        bot_of: Callable[[str], Bot | None] = lambda agent: None,
        salts: Mapping[int, bytes] | None = None,
        bot_rules: BotRules | None = None,
        group_by_host: bool = False,
        key_form: KeyForm = AS_GIVEN,
        events: Sequence[str] = (),
    ) -> None:
        self.events = tuple(events)
        self.group_by_host = group_by_host
        self.key_form = key_form
        self.bot_rules = BotRules() if bot_rules is None else bot_rules
        self._given = tuple(dimensions)
        self.dimensions = tuple(name for name in dimensions if name not in OF_BOTS)
        self.salts = salts if self.dimensions else None
        # Of a hit that says nothing else. One that says anything, be it its visitor, and names no way is direct.
        self.unsaid = tuple([DIRECT if name == CHANNEL else UNKNOWN for name in self.dimensions])
        self._country_of = country_of
        self._referrer_reader = referrers
        self._of_agents = [name for name in Agent._fields if name in self.dimensions]
        self.wants_agents = bool(self._of_agents)
        self.bot_dimensions = tuple(name for name in dimensions if name in OF_BOTS)
        self._agent_reader: AgentReader | None = None
        self._loading = Lock()
        self._tags = [name.removeprefix(TAG) for name in self.dimensions if name.startswith(TAG)]
        self._unused = self._unused_fields()
        self._bot_of = bot_of
        self._bots = Memo(self._bot_profile, PROFILES_KEPT, OTHERS_CHARACTERS)
        self._dimension_set = frozenset(self.dimensions)
        self._may_be_cut = self._dimension_set & _MAY_BE_CUT
        self._has_channel = CHANNEL in self.dimensions
        # What makes a hit say something: a value of any dimension, where a channel is judged from others.
        beside = _OF_CHANNEL if self._has_channel else ()
        self._said = tuple(name for name in dict.fromkeys((*self.dimensions, *beside)) if name != CHANNEL)
        self._of_objects = [name for name in self._said if name.startswith((UTM_, TAG))]
        self._no_objects = (UNKNOWN,) * len(self._of_objects)
        found = [*_FOUND, *self._of_objects]
        self._in_order = _picked([found.index(name) for name in self.dimensions])
        self._addresses = Memo(self._country_of_address, ADDRESSES_KEPT, ADDRESS_CHARACTERS)
        self._referrers = Memo(self._site_of, REFERRERS_KEPT, REFERRER_CHARACTERS)
        self._agents = Memo(self._agent_of, AGENTS_KEPT, AGENT_CHARACTERS)
        self._texts = {
            name: Memo(_if_given(read, name in self._said), PROFILES_KEPT, OTHERS_CHARACTERS)
            for name, read in _TEXTS.items()
        }
        self._utms = Memo(_of_utm, PROFILES_KEPT, OTHERS_CHARACTERS)
        self._tagged = Memo(self._of_tags, PROFILES_KEPT, OTHERS_CHARACTERS)
        self._channels = Memo(self._channel_of, PROFILES_KEPT, OTHERS_CHARACTERS)
        self._of_sites = Memo(self._channel_of_site, REFERRERS_KEPT, REFERRER_CHARACTERS)
        memos: list[Memo[Any, Any]] = [self._addresses, self._referrers, self._agents, *self._texts.values()]
        memos += [self._utms, self._tagged, self._channels]
        self._kept = _Looked(*(memo.__getitem__ for memo in memos))
        self._anew = _Looked(*(memo.of for memo in memos))
        self._judge: Callable[[str], bool] | None = None
        self._judged = Memo(self._judged_agent, AGENTS_KEPT, AGENT_CHARACTERS)

    @property
    def tags(self) -> Sequence[str]:
        """The names of tags that are counted."""
        return self._tags

    @property
    def lacks_agents(self) -> bool:
        """Whether the reader of agents is needed and not loaded yet."""
        return self.wants_agents and self._agent_reader is None

    def load_agents(self) -> None:
        """Makes the reader of agents, 0.4 s and 40 MB, which a server without agents is spared. Any thread may."""
        with self._loading:
            if self.lacks_agents:
                self._agent_reader = AgentReader()

    @property
    def ignored(self) -> tuple[str, ...]:
        """The fields that nothing uses; the agent is always used, to recognise bots."""
        judged = self.bot_rules.fields
        return tuple([name for name in self._unused if name not in judged]) if judged else self._unused

    def useful_fields(self) -> list[str]:
        """Returns the fields that a dimension, a rule for bots or the count of visitors uses."""
        agents = self.wants_agents or self.bot_dimensions or self.salts is not None or "ua" in self.bot_rules.fields
        named = ("ref", "ip", "country", "lang", "source", "utm", "tags", "visitor")
        return [*(name for name in named if name not in self.ignored), *(["ua"] if agents else [])]

    def without_visitors(self) -> ProfileReader:
        """Returns a reader that makes the same profiles and counts no visitors."""
        return ProfileReader(
            self._given,
            self._country_of,
            self._referrer_reader,
            self._bot_of,
            bot_rules=self.bot_rules,
            group_by_host=self.group_by_host,
            key_form=self.key_form,
            events=self.events,
        )

    def use_countries(self, country_of: CountryOf) -> None:
        """Finds countries by another file from now on."""
        self._country_of = country_of
        self._addresses.clear()

    def forget_referrers(self) -> None:
        """Reads each referrer anew from now on: hosts are kept by other aliases."""
        self._referrers.clear()

    def _wants(self, *names: str) -> bool:
        return not set(names).isdisjoint(self.dimensions)

    def _unused_fields(self) -> tuple[str, ...]:
        """Returns the fields that no dimension uses."""
        wanted = {
            "ref": self._wants("ref", CHANNEL),
            "ip": self._wants("country") or self.salts is not None,
            "country": self._wants("country"),
            "lang": self._wants("lang"),
            "source": self._wants("source", CHANNEL),
            "utm": self._wants(CHANNEL, *(UTM_ + name for name in UTM)),
            "tags": bool(self._tags),
            "visitor": self.salts is not None,
        }
        return tuple(name for name, is_wanted in wanted.items() if not is_wanted)

    def bot(self, agent: object, rule: str = NO_RULE) -> Profile | None:
        """Returns the profile of a hit of a bot, or of what a rule takes. None if there is no dimension of bots."""
        if not self.bot_dimensions:
            return None
        bot = Bot(rule, RULE) if rule else self._bot_of(agent[:AGENT_CHARACTERS]) if isinstance(agent, str) else None
        return self._bots[NAMELESS if bot is None else bot]

    def rule_values(self, rule: str) -> tuple[str, ...]:
        """Returns the values of a hit that a rule takes, in the dimensions of bots."""
        return self._bots[Bot(rule, RULE)].values

    def _bot_profile(self, bot: Bot) -> Profile:
        said = {BOT: cut(bot.name), BOT_KIND: bot.kind}
        return Profile(self.bot_dimensions, tuple([said[name] for name in self.bot_dimensions]))

    def values_of(self, fields: tuple[object, ...]) -> tuple[str, ...] | None:
        """Returns the values of a person's hit by dimension, given its AttributeFields; None: it says nothing of them.

        An address is not looked at where a country is given. Raises HitRejected.
        """
        try:
            return self._values_by(fields, self._kept)
        except TypeError:  # an object or a list where a text should be, which no memo can be asked for
            return self._values_by(fields, self._anew)

    def _values_by(self, fields: tuple[object, ...], look: _Looked) -> tuple[str, ...] | None:
        # Each field is looked up by itself: of single hits, too, most combinations of fields are new.
        address, ref, ua, country, lang, source, utm, tags = fields
        site, agent = look.site(ref), look.agent(ua)
        found = None if country is None else look.country(country)
        if found is None:
            found = look.address(address)
        of_lang = None if lang is None else look.lang(lang)
        of_source = None if source is None else look.source(source)
        others, says_others = self._no_objects, False
        if utm is not None or tags is not None:
            of_objects = {**look.utm(utm), **look.tags(tags)}
            says_others = not of_objects.keys().isdisjoint(self._of_objects)
            others = tuple([of_objects.get(name, UNKNOWN) for name in self._of_objects])
        says_none = site is None and found is None and agent is None and of_lang is None and of_source is None
        if says_none and not says_others:
            return None
        channel = ""
        if self._has_channel:
            of_site = of_source is None and utm is None
            channel = self._of_sites[site] if of_site else look.channel((site, of_source, utm))
        values = (site or "", found or "", *(agent or NO_AGENT), of_lang or "", of_source or "", channel, *others)
        return self._in_order(values)

    def judged_agents(self, agents: Sequence[str | None], is_bot: Callable[[str], bool]) -> list[JudgedAgent]:
        """Returns what agents say, all looked up by C: few of them are different."""
        self._judge_by(is_bot)
        return list(map(self._judged.__getitem__, agents))

    def learn_agents(self, agents: Set[object], is_bot: Callable[[str], bool]) -> Iterator[str]:
        """Judges the agents that are new, one a step, and yields each.

        A new agent takes 50 us and up to 2 us a character, and 256 hits may have as many. What is learned here is
        looked up later. What is no text is left out.
        """
        self._judge_by(is_bot)
        if self._judged.keys() >= agents:
            return
        texts: Set[str | None] = {agent[:AGENT_CHARACTERS] for agent in agents if isinstance(agent, str)}
        for agent in self._judged.unknown(texts):
            self._judged[agent]
            yield agent or ""

    def _judge_by(self, is_bot: Callable[[str], bool]) -> None:
        if is_bot is not self._judge:  # once: a server has one
            self._judge = is_bot
            self._judged.clear()

    def _judged_agent(self, ua: str | None) -> JudgedAgent:
        if ua is not None and len(ua) > AGENT_CHARACTERS:
            return self._judged[ua[:AGENT_CHARACTERS]]
        is_bot = ua is not None and self._judge is not None and self._judge(ua)
        bot = self.bot(ua)
        browser, os, device = self._agents[ua] or (None, None, None)
        return JudgedAgent(browser, os, device, is_bot, () if bot is None else bot.values)

    def value_columns(
        self, hits: HitColumns, agents: Sequence[JudgedAgent]
    ) -> tuple[list[Sequence[str]], list[bool] | None]:
        """Returns the values of people's hits, a column for each dimension, and which hits say any; None: all do.

        Raises HitRejected if one breaks a rule, or if not all of a value is kept.
        """
        by_dimension = self._by_dimension(hits)
        for name in self._may_be_cut & by_dimension.keys():
            if may_any_be_cut({*filter(None, by_dimension[name])}):
                raise HitRejected(f"not all of {name} is kept", field=name, rule=KEPT_RULE)
        if "ua" in hits:
            by_dimension |= {name: list(map(attrgetter(name), agents)) for name in self._of_agents}
        if not self.dimensions:
            return [], [False] * len(agents)
        nothing = (None,) * len(agents)
        columns = [by_dimension.get(name, nothing) for name in self._said]
        texts: list[Sequence[str]] = [
            ["" if text is None else text for text in each] if None in each else each  # type: ignore[misc]
            for each in columns[: len(self.dimensions) - self._has_channel]
        ]
        if self._has_channel:
            texts.insert(self.dimensions.index(CHANNEL), self._channels_of(hits, by_dimension))
        if not all(None in column for column in columns):
            return texts, None
        silent = (None,) * len(columns)
        return texts, [row != silent for row in zip(*columns, strict=True)]

    def _channels_of(self, hits: HitColumns, by_dimension: Mapping[str, Sequence[str | None]]) -> list[str]:
        """Returns the channel of each hit: most say their referrer alone, which is looked up twice as fast."""
        nothing = (None,) * len(hits["key"])
        sites, sources = by_dimension.get("ref", nothing), by_dimension.get("source", nothing)
        channels = list(map(self._of_sites.__getitem__, sites))
        utms: Sequence[object] = list(map(pairs_of, hits["utm"])) if "utm" in hits else nothing
        for said in (sources, utms):
            for place in () if said is nothing else compress(count(), said):
                channels[place] = self._channels[sites[place], sources[place], utms[place]]
        return channels

    def fitting(self, hits: HitColumns) -> list[bool]:
        """Returns which hits have no attribute that breaks a rule, and none of which not all is kept."""
        fitting = [True] * len(hits["key"])
        memos: dict[str, Memo[Any, Any]] = {"ref": self._referrers, "ip": self._addresses, **self._texts}
        memos |= {"utm": self._utms, "tags": self._tagged}
        for name in memos.keys() & hits.keys():
            values = list(map(pairs_of, hits[name])) if name in ("utm", "tags") else hits[name]
            if bad := {value for value in set(values) if not self._is_kept(memos[name], value)}:
                fitting = [so_far and value not in bad for so_far, value in zip(fitting, values, strict=True)]
        return fitting

    def _is_kept(self, memo: Memo[Any, Any], value: object) -> bool:
        try:
            kept = memo[value]
        except HitRejected:
            return False
        values = kept.items() if isinstance(kept, Mapping) else (("ref", kept),)
        return not any(name in self._may_be_cut and text and may_be_cut(text) for name, text in values)

    def _by_dimension(self, hits: HitColumns) -> dict[str, Sequence[str | None]]:
        """Returns the values of the fields that some hits have, without those of the agent."""
        by_dimension: dict[str, Sequence[str | None]] = {}
        if "ref" in hits:
            by_dimension["ref"] = list(map(self._referrers.__getitem__, hits["ref"]))
        if "ip" in hits:
            by_dimension["country"] = list(map(self._addresses.__getitem__, hits["ip"]))
        for name, memo in self._texts.items():
            if name in hits:
                values = list(map(memo.__getitem__, hits[name]))
                if name in by_dimension:
                    pairs = zip(values, by_dimension[name], strict=True)
                    values = [other if value is None else value for value, other in pairs]
                by_dimension[name] = values
        for field, prefix, of_object in (("utm", UTM_, self._utms), ("tags", TAG, self._tagged)):
            if field in hits:
                of_hits = list(map(of_object.__getitem__, map(pairs_of, hits[field])))
                names = [name for name in self._said if name.startswith(prefix)]
                by_dimension |= {name: [each.get(name) for each in of_hits] for name in names}
        return by_dimension

    def _channel_of_site(self, site: str | None) -> str:
        return channel_of(site or "", "", {})

    def _channel_of(self, said: tuple[str | None, str | None, object]) -> str:
        """Returns the channel of site, source and utm."""
        site, source, utm = said
        named = _of_utm(utm)
        return channel_of(site or "", source or "", {name: named.get(UTM_ + name, "") for name in UTM})

    def _site_of(self, value: object) -> str | None:
        if value is None:
            return None
        site = intern(self._referrer_reader.site_of_field(value))  # one text for all pages of a site, in the buffer too
        return site if "ref" in self._said else None

    def _country_of_address(self, value: object) -> str | None:
        if value is None or value == EMPTY:
            return None
        address = address_of(value)
        return self._country_of(address) if "country" in self.dimensions else None

    def _agent_of(self, agent: object) -> Agent | None:
        if agent is None or not self.wants_agents:
            return None
        if not isinstance(agent, str):
            return NO_AGENT
        if len(agent) > AGENT_CHARACTERS:
            return self._agents[agent[:AGENT_CHARACTERS]]
        if self._agent_reader is None:
            self.load_agents()
        assert self._agent_reader is not None
        agent_values = self._agent_reader.read(agent)
        return Agent(
            *[value if name in self._dimension_set else UNKNOWN for name, value in agent_values._asdict().items()]
        )

    def _of_tags(self, value: object) -> Mapping[str, str]:
        if value is None:
            return {}
        tags = _object_of(value)
        if not isinstance(tags, dict) or len(tags) > TAGS:
            raise HitRejected("tags must be an object of short texts", field="tags", value=value, rule=TAGS_RULE)
        tag_values = {}
        for name in self._tags:
            if tags.get(name) is not None and tags[name] != EMPTY:
                tag_values[TAG + name] = cut(text_of(tags[name], f"tags.{name}", TAGS_RULE, TAG_BYTES))
        return tag_values


# The fields after the agent that are texts, in their order: each says something of the dimension of its name.
_TEXTS: Final[Mapping[str, Callable[[object], str]]] = {
    "country": country_of_field,
    "lang": lambda value: cut(language_of(value)),
    "source": lambda value: cut(source_of(value)),
}


def _if_given(read: Callable[[object], str], is_wanted: bool) -> Callable[[object], str | None]:
    """Returns what reads a field; None where it is empty, or says something of no dimension."""

    def of(value: object) -> str | None:
        text = None if value is None or value == EMPTY else read(value)
        return text if is_wanted else None

    return of


def _picked(places: Sequence[int]) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Returns what picks these places of a tuple, in C."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _of_utm(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    return {UTM_ + name: cut(text) for name, text in utm_of(_object_of(value)).items() if text}


# Checks attributes where no dimension is counted.
NO_DIMENSIONS: Final = ProfileReader((), country_reader(OFF), ReferrerReader())
