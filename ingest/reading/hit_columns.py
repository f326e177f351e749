"""JSON hits in columns: many at once, each field looked up by itself.

Of a thousand hits from an access log most combinations of attributes are new to their batch, half are new to the
server. So nothing is kept by combination: each field is looked up by itself, and a row of what was found gets its
number in C. With an object for each combination a hit took three times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import compress
from operator import and_, not_, or_

from clickcurve.buckets.ladder import DAY_S
from ingest.attributes.columns import HitColumns
from ingest.attributes.dimensions import BOT
from ingest.attributes.numbered_profiles import ProfileRow
from ingest.attributes.profile import JudgedAgent, ProfileReader
from ingest.attributes.visitor import visitor_hash, who_of
from ingest.hit import Judge
from ingest.hit_sums import KeyedSums, count_hits

_NO_ATTRIBUTES = frozenset(("key", "ts", "counts", "id", "groups"))


def add_columns(
    links: KeyedSums, hits: HitColumns, given: Set[str], times: Sequence[int], reader: ProfileReader, is_bot: Judge
) -> None:
    """Adds hits of these times without ids and groups; raises HitRejected, and adds none, if one breaks a rule.

    given: the fields that some of them have.
    """
    counts = [count or 1 for count in hits.counts] if "counts" in given else []
    if given <= _NO_ATTRIBUTES:
        count_hits(links.people, hits.key, times, counts or None)
        return
    agents = reader.judged(hits.ua, is_bot)
    columns, has_profile = reader.value_columns(hits, given, agents)
    are_bots, names = _judged(hits, given, agents, reader)
    if True not in are_bots:
        count_hits(links.people, hits.key, times, counts or None)
    else:
        are_people = list(map(not_, are_bots))
        for chosen, by_minute in ((are_people, links.people), (are_bots, links.bots)):
            keys, some_times, some_counts = _chosen(chosen, hits.key, times, counts)
            count_hits(by_minute, keys, some_times, some_counts or None)
    if not (reader.dimensions or reader.wants_bots):
        return
    profiles = links.profiles
    kinds = [profiles.kind(reader.dimensions, False)] * len(times)
    # A day without a salt counts no visitors: of an old log no hit is looked at.
    if any(min(times) < day + DAY_S and day <= max(times) for day in reader.salts or ()):
        assert reader.salts is not None
        visitor_known = _add_visitors(links, reader.salts, hits, times, are_bots)
        both = profiles.kind(reader.dimensions, False), profiles.kind(reader.dimensions, True)
        kinds = [both[one] for one in visitor_known]
        has_profile = None if has_profile is None else list(map(or_, has_profile, visitor_known))
    rows: Sequence[ProfileRow] = list(zip(kinds, *columns, strict=True))
    if True in are_bots and reader.wants_bots:
        kind = profiles.kind((BOT,), False)
        of_bots = [(kind, name) for name in names]
        rows = [of if bot else row for row, of, bot in zip(rows, of_bots, are_bots, strict=True)]
        has_profile = None if has_profile is None else list(map(or_, has_profile, are_bots))
    elif True in are_bots:
        has_profile = are_people if has_profile is None else list(map(and_, has_profile, are_people))
    if has_profile is None:
        links.add_rows(hits.key, times, rows, counts)
    else:
        keys, times, counts = _chosen(has_profile, hits.key, times, counts)
        links.add_rows(keys, times, compress(rows, has_profile), counts)


def _judged(
    hits: HitColumns, given: Set[str], agents: Sequence[JudgedAgent], reader: ProfileReader
) -> tuple[list[bool], list[str]]:
    """Returns which hits are bots', and the names of those bots."""
    are_bots, names = [agent.is_bot for agent in agents], [agent.name for agent in agents]
    if not given.isdisjoint(reader.bot_rules.fields):
        # A rule names what it takes; the bots that agents tell keep the names that they have.
        rules = reader.bot_rules.rules_of(hits.ip, hits.ref, hits.ua)
        names = [name if bot else rule or name for name, bot, rule in zip(names, are_bots, rules, strict=True)]
        are_bots = [bot or bool(rule) for bot, rule in zip(are_bots, rules, strict=True)]
    if "bot" in given:
        names = [
            name if sent is None else agent.name for name, sent, agent in zip(names, hits.bot, agents, strict=True)
        ]
        are_bots = [judged if sent is None else sent for judged, sent in zip(are_bots, hits.bot, strict=True)]
    return are_bots, names


def _add_visitors(
    links: KeyedSums, salts: Mapping[int, bytes], hits: HitColumns, times: Sequence[int], are_bots: Sequence[bool]
) -> list[bool]:
    """Adds the visitors of people's hits; returns whose are known."""
    visitor_known = []
    for key, t, bot, *fields in zip(hits.key, times, are_bots, hits.visitor, hits.ip, hits.ua, strict=True):
        day = t - t % DAY_S
        salt, who = salts.get(day), None if bot else who_of(*fields)
        is_known = salt is not None and who is not None
        if salt is not None and who is not None:
            links.visitors[day][key].append(visitor_hash(salt, key, who))
        visitor_known.append(is_known)
    return visitor_known


def _chosen(
    chosen: Sequence[bool], keys: Sequence[str], times: Sequence[int], counts: Sequence[int]
) -> tuple[list[str], list[int], list[int]]:
    return list(compress(keys, chosen)), list(compress(times, chosen)), list(compress(counts, chosen))
