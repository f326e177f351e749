"""Judges hits as read, by the rules of `ingest/hit.py` and of attributes: one by one, or many at once in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import compress
from operator import and_, attrgetter, or_
from typing import Any, NamedTuple, TypeVar, cast

from msgspec import Struct
from msgspec.structs import astuple

from clickcurve.access import ALL_ACCESS, Access
from clickcurve.buckets.errors import HitRejected
from clickcurve.buckets.ladder import DAY_S, MINUTE_S
from clickcurve.buckets.measures import AMOUNT_MAX
from clickcurve.hosts import host_in_key
from clickcurve.keys import GROUP_BYTES, group_key
from clickcurve.times import YEARS, iso_seconds
from ingest.attributes.bot_rules import NO_RULE, PERSON
from ingest.attributes.country import address_of
from ingest.attributes.profile import (
    EMPTY,
    NO_DIMENSIONS,
    AttributeFields,
    HitColumns,
    JudgedAgent,
    Profile,
    ProfileKind,
    ProfileReader,
    ProfileRow,
    pairs_of,
)
from ingest.attributes.visitor import visitor_hash, who_of
from ingest.hit import (
    ATTRIBUTE_FIELDS,
    NO_COUNT,
    NO_TIME,
    EventId,
    Hit,
    JsonHit,
    Judge,
    Moment,
    NoHit,
    PlainHit,
    RawHits,
    is_id,
    refused_count,
    second_by_rules,
    sent_id,
    time_of,
)
from ingest.reading.fit import cut_words, fit
from ingest.reading.receipt import RECEIPT_ITEMS, Adjusted, Refusals

T = TypeVar("T")

HOSTS_KEPT = 1_024  # whose groups are remembered
# New agents that are judged in one step, in characters: 2 us each with all dimensions, and four bodies take turns.
AGENT_CHARACTERS_STEP = 2_048
_AGENT_COST = 64  # characters that take as long as what each agent takes, however short
# Hits from which on columns are faster: they cost 12 us and 0.9 a hit, one by one 1.5 and 2.9.
IN_COLUMNS = 6
_BARE = frozenset(("key", "ts", "count", "id", "groups"))  # fields that say nothing of a visitor
_ALONE = ("id", "groups", "event", "value")  # fields of hits that are judged one by one


class GoodHits(NamedTuple):
    """Good hits in columns, as they count for links, or by stored keys for groups.

    counts: none where each is 1. are_bots: none where all are people's. rows: the profile of each, with the place of
    its kind among `kinds`, which has none where nothing is counted by profile; has_profile: which hits have one, none
    where all do. visitors: the hash of each that is known; none where visitors are not counted.
    """

    keys: Sequence[str]
    times: Sequence[int]
    counts: Sequence[int] = ()
    are_bots: Sequence[bool] = ()
    kinds: Sequence[ProfileKind] = ()
    rows: Sequence[ProfileRow] = ()
    has_profile: Sequence[bool] = ()
    visitors: Sequence[int | None] = ()

    def where(self, chosen: Sequence[bool]) -> GoodHits:
        """Returns the chosen hits alone."""
        columns: list[Any] = [list(compress(column, chosen)) for column in self]
        return GoodHits(*columns)._replace(kinds=self.kinds)


class Judged(NamedTuple):
    """What is good of some hits: in columns for links and for groups, and one by one with their indices."""

    links: GoodHits | None = None
    groups: Sequence[GoodHits] = ()
    singles: Sequence[tuple[int, Hit]] = ()


class HitJudge:
    """Judges the hits of one request. What is refused is noted in `refusals`, what is not used in `ignored`.

    A word that breaks a rule is made to fit, which is noted in `adjusted`: the hit counts.

    allowed: the keys that its token may touch; hits of others are refused, and each counts in the token's group.
    """

    def __init__(
        self,
        moment: Moment,
        reader: ProfileReader = NO_DIMENSIONS,
        allowed: Access = ALL_ACCESS,
        explained: int = RECEIPT_ITEMS,
    ) -> None:
        self.moment = moment
        self._reader = reader
        self._allowed = allowed
        self.groups_all = bool(allowed.prefix) or reader.group_by_host  # also hits that name no groups
        self.refusals = Refusals(explained)
        self.ignored: dict[str, int] = {}  # hits, by fields that no dimension uses
        self.adjusted = Adjusted(explained)
        self._learned = 0  # characters of new agents in this step

    @property
    def events(self) -> Sequence[str]:
        """The names of events that are counted."""
        return self._reader.events

    # --- many hits ----------------------------------------------------------------------------------------------
    def learn(self, raw: RawHits, is_bot: Judge) -> Iterator[None]:
        """Judges the agents of hits that are new; yields between steps, for others to run."""
        hits = raw.json or [hit for hit in raw.odd if isinstance(hit, JsonHit)]
        for agent in self._reader.learn_agents({hit.ua for hit in hits}, is_bot):
            self._learned += len(agent) + _AGENT_COST
            if self._learned >= AGENT_CHARACTERS_STEP:
                self._learned = 0
                yield

    def judged(self, raw: RawHits, first: int, is_bot: Judge) -> Judged:
        """Returns the good ones of some hits. first: the index of the first of them; is_bot judges an agent."""
        hits = [json_of(hit) for hit in raw.plain] if raw.plain else raw.json
        if len(hits) >= IN_COLUMNS:
            columns = columns_of(hits)
            seconds = self._seconds(columns)
            links, groups, left = self._in_columns(columns, seconds, is_bot)
            return Judged(links, groups, self.one_by_one(((first + n, seconds[n], hits[n]) for n in left), is_bot))
        if raw.no_objects:
            self.refusals.count("hit", raw.no_objects, raw.no_objects)
        several: Sequence[JsonHit | NoHit] = hits or raw.odd
        return Judged(singles=self.one_by_one(((n, None, hit) for n, hit in enumerate(several, first)), is_bot))

    def _seconds(self, hits: HitColumns) -> Sequence[int | None]:
        """Returns the seconds of some hits; None for a time that no hit may have."""
        if "ts" not in hits:
            return [self.moment.now] * len(hits["key"])
        sent = hits["ts"]
        types, first, seconds = {*map(type, sent)}, YEARS.stop, cast(Sequence[int], sent)
        if types == {str}:
            read = list(map(iso_seconds, cast(Sequence[str], sent)))
            types, first, seconds = {*map(type, read)}, 0, cast(Sequence[int], read)
        if types == {int} and min(seconds) >= first and max(seconds) <= self.moment.latest:
            return seconds
        return [self.moment.now if ts is None else time_of(ts, self.moment) for ts in sent]

    def _in_columns(
        self, hits: HitColumns, seconds: Sequence[int | None], is_bot: Judge
    ) -> tuple[GoodHits | None, Sequence[GoodHits], Sequence[int]]:
        """Returns what counts of hits for links, for groups, and the places of those to be judged one by one.

        These have ids, groups, events, odd times, keys of others, or an attribute that breaks a rule.
        """
        places, fitting = range(len(seconds)), list[bool]()
        alone = [hits[name] for name in _ALONE if name in hits]
        if alone or None in seconds or self._allowed.prefix:
            covers, said = self._allowed.covers, _any_of(alone, len(seconds))
            fitting = [
                not (second is None or is_alone) and covers(key)
                for second, is_alone, key in zip(seconds, said, hits["key"], strict=True)
            ]
            if True not in fitting:
                return None, (), places
        chosen, times = _where(hits, fitting), _compressed(seconds, fitting)
        try:
            links, groups = self._good(chosen, cast(Sequence[int], times), is_bot)
        except HitRejected:
            fitting = list(map(and_, self._reader.fitting(hits), fitting or (True,) * len(places)))
            if True not in fitting:
                return None, (), places
            chosen, times = _where(hits, fitting), _compressed(seconds, fitting)
            links, groups = self._good(chosen, cast(Sequence[int], times), is_bot)
        hits = chosen
        for name in hits.keys() & self._reader.ignored:
            column = hits[name]
            self.ignored[name] = self.ignored.get(name, 0) + len(column) - column.count(None)
        return links, groups, [place for place in places if not fitting[place]] if fitting else ()

    def _good(self, hits: HitColumns, times: Sequence[int], is_bot: Judge) -> tuple[GoodHits, Sequence[GoodHits]]:
        """Returns hits of these times without ids and groups; raises HitRejected if an attribute breaks a rule."""
        # Of a thousand hits from an access log most combinations of attributes are new to their batch, half are new to
        # the server. So nothing is kept by combination: each field is looked up by itself, and a row of what was found
        # gets its number in C. With an object for each combination a hit took three times as long.
        keys, counts, reader = hits["key"], [count or 1 for count in hits.get("count", ())], self._reader
        if hits.keys() <= _BARE:
            return self._with_groups(GoodHits(keys, times, counts), ())
        agents = reader.judged_agents(column_of(hits, "ua"), is_bot)
        columns, has_profile = reader.value_columns(hits, agents)
        are_bots, said_of_bots = self._bots(hits, agents)
        has_bots = True in are_bots
        if not (reader.dimensions or reader.bot_dimensions):
            return self._with_groups(GoodHits(keys, times, counts, are_bots if has_bots else ()), ())
        kinds: list[ProfileKind] = [(reader.dimensions, False)]
        place_of_kind: Sequence[int] = (0,) * len(times)
        salted: Sequence[tuple[bytes, str] | None] = ()
        # A day without a salt counts no visitors: of an old log no hit is looked at.
        if any(min(times) < day + DAY_S and day <= max(times) for day in reader.salts or ()):
            salted = self._salted(hits, times, are_bots)
            kinds.append((reader.dimensions, True))
            place_of_kind = [0 if visitor is None else 1 for visitor in salted]
            has_profile = None if has_profile is None else list(map(or_, has_profile, map(bool, salted)))
        rows: Sequence[ProfileRow] = list(zip(place_of_kind, *columns, strict=True))
        if has_bots and reader.bot_dimensions:
            place = len(kinds)
            kinds.append((reader.bot_dimensions, False))
            of_bots = zip(rows, said_of_bots, are_bots, strict=True)
            rows = [(place, *values) if bot else row for row, values, bot in of_bots]
            has_profile = None if has_profile is None else list(map(or_, has_profile, are_bots))
        elif has_bots:
            are_people = [not bot for bot in are_bots]
            has_profile = are_people if has_profile is None else list(map(and_, has_profile, are_people))
        links = GoodHits(keys, times, counts, are_bots if has_bots else (), kinds, rows, has_profile or ())
        return self._with_groups(links, salted)

    def _with_groups(
        self, links: GoodHits, salted: Sequence[tuple[bytes, str] | None]
    ) -> tuple[GoodHits, Sequence[GoodHits]]:
        """Returns hits with the hashes of their visitors, and the same for the groups of their token and hosts."""
        groups = list[GoodHits]()
        own = self._allowed.group_row
        if own:
            keys = [own] * len(links.keys)
            groups.append(links._replace(keys=keys, visitors=_hashes(keys, salted)))
        if self._reader.group_by_host:
            keys = [_group_of_host(host_in_key(key)) for key in links.keys]
            by_host = links._replace(keys=keys, visitors=_hashes(keys, salted))
            has_group = [bool(group) and group != own for group in keys]
            if True in has_group:
                groups.append(by_host if all(has_group) else by_host.where(has_group))
        return links._replace(visitors=_hashes(links.keys, salted)) if salted else links, groups

    def _bots(self, hits: HitColumns, agents: Sequence[JudgedAgent]) -> tuple[list[bool], list[tuple[str, ...]]]:
        """Returns which hits are bots', and the values of those bots where they are counted."""
        reader, are_bots = self._reader, [agent.is_bot for agent in agents]
        rules: Sequence[str] | None = None
        if not reader.bot_rules.fields.isdisjoint(hits):
            rules = reader.bot_rules.rules_of(*(column_of(hits, name) for name in ("ip", "ref", "ua")))
        values = self._values_of_bots(hits, agents, rules) if reader.bot_dimensions else []
        if rules is not None:
            are_bots = [rule is not PERSON and (bot or bool(rule)) for bot, rule in zip(are_bots, rules, strict=True)]
        if "bot" in hits:
            said = hits["bot"]
            are_bots = [judged if sent is None else sent for judged, sent in zip(are_bots, said, strict=True)]
        return are_bots, values

    def _values_of_bots(
        self, hits: HitColumns, agents: Sequence[JudgedAgent], rules: Sequence[str] | None
    ) -> list[tuple[str, ...]]:
        """Returns what is kept of the bot that each hit is of, or would be: of its agent, or the rule that takes it."""
        if rules is None:
            return [agent.bot_values for agent in agents]
        # The bots that agents tell, or that a shortener says, keep the names that they have.
        return [
            agent.bot_values
            if agent.is_bot or sent is not None or rule in (NO_RULE, PERSON)
            else self._reader.rule_values(rule)
            for agent, rule, sent in zip(agents, rules, column_of(hits, "bot"), strict=True)
        ]

    def _salted(
        self, hits: HitColumns, times: Sequence[int], are_bots: Sequence[bool]
    ) -> list[tuple[bytes, str] | None]:
        """Returns the salt of its day and what identifies it of each visitor; None where it is not known."""
        salts, fields = self._reader.salts or {}, (column_of(hits, name) for name in ("visitor", "ip", "ua"))
        salted: list[tuple[bytes, str] | None] = []
        for t, bot, visitor, ip, ua in zip(times, are_bots, *fields, strict=True):
            salt, who = salts.get(t - t % DAY_S), None if bot else who_of(visitor, ip and address_of(ip), ua)
            salted.append((salt, who) if salt and who else None)
        return salted

    # --- one hit ------------------------------------------------------------------------------------------------
    def one_by_one(
        self, hits: Iterable[tuple[int, int | None, JsonHit | NoHit]], is_bot: Judge
    ) -> list[tuple[int, Hit]]:
        """Returns the good ones of some hits, and their indices. Each comes with its time, if that was found good."""
        good = []
        for index, second, raw in hits:
            if isinstance(raw, NoHit):
                self.refusals.note(raw.error, refused_count(raw.count), index)
                continue
            # One with a time was decoded as a whole: nothing but its id, and what its token forbids, is left to judge.
            is_good = second is not None and (raw.id is None or is_id(raw.id)) and not self._allowed.prefix
            try:
                hit = self._fitted(index, raw, second if is_good else None, is_bot)
            except HitRejected as error:
                self.refusals.note(error, refused_count(raw.count), index)
                continue
            self.note_ignored(raw, self.ignored)
            good.append((index, hit))
        return good

    def _fitted(self, index: int, raw: JsonHit, second: int | None, is_bot: Judge) -> Hit:
        """Returns the hit that was meant, with words that were made to fit where they broke a rule."""
        explains = not self.refusals.are_explained()
        fitting, lost = raw, list[HitRejected]()
        try:
            hit = self._hit_at(raw, self._second(raw, explains) if second is None else second, is_bot)
        except HitRejected as error:
            if (error.field or "").partition(".")[0] not in ATTRIBUTE_FIELDS:
                raise
            fitting, lost = fit(raw, self._reader.tags)
            hit = self._hit_at(fitting, self._second(fitting, explains) if second is None else second, is_bot)
        lost += cut_words(fitting, hit, lost)
        self.adjusted.note(index, hit.count, lost)
        return hit

    def note_ignored(self, hit: JsonHit, ignored: dict[str, int]) -> None:
        """Counts each field of a hit that no dimension uses."""
        for name in self._reader.ignored:
            if getattr(hit, name) is not None:
                ignored[name] = ignored.get(name, 0) + 1

    def hit_of(self, raw: JsonHit, is_bot: Judge, is_typed: bool = False) -> Hit:
        """Returns the hit that was meant; raises HitRejected for the first rule that is broken.

        is_typed: it was decoded as a whole, so only its time and id may break one of RULES, and its event is looked up.
        """
        second = None
        if is_typed and raw.id is None and not self._allowed.prefix:
            second = self.moment.now if raw.ts is None else time_of(raw.ts, self.moment)
        return self._hit_at(raw, self._second(raw) if second is None else second, is_bot)

    def _second(self, raw: JsonHit, explains: bool = True) -> int:
        """Returns the second of a hit that keeps to RULES, and that its token may write; raises HitRejected."""
        second = second_by_rules(raw, self.moment, explains)
        allowed = self._allowed
        if allowed.prefix:
            if not allowed.covers(raw.key):
                raise self.outside(raw.key)
            for name in raw.groups or ():
                if not allowed.may_name(name):
                    detail = "the group is none of the token's"
                    raise HitRejected(detail, field="groups", value=name, rule=allowed.group_rule)
        return second

    def _hit_at(self, raw: JsonHit, second: int, is_bot: Judge) -> Hit:
        """Returns a hit of this second whose fields keep to RULES; raises HitRejected for a bad attribute."""
        reader, key, ua, bot, rule = self._reader, raw.key, raw.ua, raw.bot, NO_RULE
        event = "" if raw.event is None and raw.value is None else self._event_of(raw)
        if bot is None:
            bot = ua is not None and is_bot(ua)
        minute, count = second - second % MINUTE_S, raw.count or 1
        groups = self.groups_of(key, raw.groups or ()) if raw.groups or self.groups_all else ()
        address = address_of(raw.ip) if raw.ip is not None and raw.ip != EMPTY else None
        fields = address, *_attributes(raw)
        if raw.utm is not None or raw.tags is not None:
            fields = *fields[:-2], pairs_of(raw.utm), pairs_of(raw.tags)
        values = None if fields == _NO_ATTRIBUTES else reader.values_of(fields)
        id_ = None if raw.id is None else id_within(raw.id, self._allowed)
        if raw.bot is None and (rules := reader.bot_rules).fields:
            rule = rules.rule(raw.ip, raw.ref, ua)  # of attributes that have been checked
            bot, rule = rule is not PERSON and bot, NO_RULE if bot or rule is PERSON else rule
        if bot or rule:
            return Hit(key, minute, count, id_, True, reader.bot(ua, rule), (), groups, event, raw.value or 0)
        salt = None if event or reader.salts is None else reader.salts.get(minute - minute % DAY_S)
        who = None if salt is None else who_of(raw.visitor, address, ua)
        if salt is None or not who:
            profile = None if values is None else Profile(reader.dimensions, values)
            return Hit(key, minute, count, id_, False, profile, (), groups, event, raw.value or 0)
        profile = Profile(reader.dimensions, reader.unsaid if values is None else values, True)
        visitors: tuple[int, ...] = (visitor_hash(salt, key, who),)
        if groups:
            visitors = *visitors, *[visitor_hash(salt, group, who) for group in groups]
        return Hit(key, minute, count, id_, False, profile, visitors, groups)

    def _event_of(self, raw: JsonHit) -> str:
        """Returns the event that a hit counts; raises HitRejected for one that is not counted here."""
        event, value = raw.event, raw.value
        if event is None:
            detail, rule = "value says the amount of an event, and the hit names none", "beside an event"
            raise HitRejected(detail, field="value", value=value, rule=rule)
        if event not in self._reader.events:
            names = ", ".join(self._reader.events)
            detail = f"the event is not counted here; events: {names or 'none'}"
            raise HitRejected(detail, field="event", value=event, rule=names or "no event")
        if value and value * (raw.count or 1) > AMOUNT_MAX:
            detail, rule = "value times count is out of range", f"at most {AMOUNT_MAX:,} of all that a hit counts"
            raise HitRejected(detail, field="value", value=value, rule=rule)
        return event

    def outside(self, key: str) -> HitRejected:
        """Returns the refusal of a hit with this key, which the token may not touch."""
        detail = "key is outside the token's prefix"
        return HitRejected(detail, field="key", value=key, rule=self._allowed.key_rule)

    def groups_of(self, key: str, named: Sequence[str] = ()) -> tuple[str, ...]:
        """Returns the stored keys of the groups that a hit counts in, each once.

        They are those it names, its token's, and its host's where the settings say so and a group can have this name.
        """
        if not (named or self.groups_all):
            return ()
        groups = list(map(group_key, named))
        if self._allowed.prefix:
            groups.append(self._allowed.group_row)
        if self._reader.group_by_host and (of_host := _group_of_host(host_in_key(key))):
            groups.append(of_host)
        return tuple(dict.fromkeys(groups))


def id_within(id_: str | None, allowed: Access) -> str | None:
    """Returns the id that a hit counts under: those of a prefix are apart, so that none is met by a stranger's."""
    if id_ is None or not allowed.prefix:
        return id_
    digest = blake2b(allowed.prefix.encode(), digest_size=8).hexdigest()
    return EventId.of(f"{digest} {id_}", sent_id(id_))


def _hashes(keys: Sequence[str], salted: Sequence[tuple[bytes, str] | None]) -> list[int | None]:
    return [
        None if each is None else visitor_hash(each[0], key, each[1]) for key, each in zip(keys, salted, strict=False)
    ]


@lru_cache(HOSTS_KEPT)
def _group_of_host(host: str) -> str:
    """Returns the stored key of the group of a host; "" if a group cannot have its name."""
    return group_key(host) if host.isprintable() and 0 < len(host.encode()) <= GROUP_BYTES else ""


def columns_of(hits: Sequence[Struct]) -> dict[str, Sequence[Any]]:
    """Returns the columns of some hits of one shape, one at least."""
    nothing = (None,) * len(hits)
    columns = zip(hits[0].__struct_fields__, zip(*map(astuple, hits), strict=True), strict=True)
    return {name: column for name, column in columns if column != nothing}


def _any_of(columns: Sequence[Sequence[object]], hits: int) -> Sequence[bool]:
    """Returns which hits say anything in one of these columns."""
    nothing = (None,) * len(columns)
    return [said != nothing for said in zip(*columns, strict=True)] if columns else (False,) * hits


def _compressed(column: Sequence[T], chosen: Sequence[bool]) -> Sequence[T]:
    return list(compress(column, chosen)) if chosen else column


def _where(hits: HitColumns, chosen: Sequence[bool]) -> HitColumns:
    """Returns the chosen hits alone; all of them for no choice."""
    return {name: _compressed(column, chosen) for name, column in hits.items()} if chosen else hits


def column_of(hits: HitColumns, name: str) -> Sequence[Any]:
    """Returns a field of all hits, None for each that lacks it."""
    return hits[name] if name in hits else (None,) * len(hits["key"])


def json_of(hit: PlainHit) -> JsonHit:
    """Returns a plain hit as one with all fields."""
    return JsonHit(hit.key, None if hit.ts == NO_TIME else hit.ts, None if hit.count == NO_COUNT else hit.count)


_attributes: Callable[[JsonHit], tuple[object, ...]] = attrgetter(*AttributeFields._fields[1:])  # in C; but the address
_NO_ATTRIBUTES = (None,) * len(AttributeFields._fields)
