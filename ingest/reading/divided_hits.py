"""Hits that are divided by what they say, some at once: their fields are looked up in columns.

Of a thousand hits from an access log most combinations of words are new to their batch, half are new to the server. So
nothing is kept by combination: each field is looked up by itself, and a row of what was found gets its number in C.
With an object for each combination a hit took three times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import compress, repeat
from operator import and_, not_, or_
from typing import NamedTuple

from clickcurve.buckets.ladder import DAY_S, MINUTE_S
from ingest.attributes.columns import HitColumns
from ingest.attributes.dimensions import BOT
from ingest.attributes.numbered_profiles import ProfileRow
from ingest.attributes.profile import ProfileReader
from ingest.attributes.visitor import visitor_hash, who_of
from ingest.batch import Counts
from ingest.hit import Judge
from ingest.reading.profile_table import SaidSums

COUNTED_BY_C = 24  # hits of one minute from which on a Counter is faster: the dictionary that C adds to


class RequestCounts(NamedTuple):
    """Where the hits of a request are counted, and what they say."""

    people: Counts
    bots: Counts
    said: SaidSums


def add_divided(
    sums: RequestCounts, hits: HitColumns, given: Set[str], times: Sequence[int], reader: ProfileReader, is_bot: Judge
) -> None:
    """Adds hits of these times without ids and groups; raises HitRejected, and adds none, if words break a rule.

    given: the fields that some of them have.
    """
    profiles, dimensions = sums.said.profiles, reader.dimensions
    agents = reader.judged(hits.ua, is_bot)
    columns, speaks = reader.value_columns(hits, given, agents)
    counts = [count or 1 for count in hits.counts] if "counts" in given else []
    are_bots = [agent.is_bot for agent in agents]
    if "bot" in given:
        are_bots = [
            found if given_bot is None else given_bot for found, given_bot in zip(are_bots, hits.bot, strict=True)
        ]
    kinds = [profiles.kind(dimensions, False)] * len(times)
    if reader.salts is not None:
        known = _add_visitors(sums.said, reader.salts, hits, times, are_bots)
        kinds = [profiles.kind(dimensions, one) for one in known]
        speaks = None if speaks is None else list(map(or_, speaks, known))
    rows: Sequence[ProfileRow] = list(zip(kinds, *columns, strict=True))
    if True not in are_bots:
        _count_hits(sums.people, hits.key, times, counts)
    else:
        are_people = list(map(not_, are_bots))
        _count_hits(sums.people, *_chosen(are_people, hits.key, times, counts))
        _count_hits(sums.bots, *_chosen(are_bots, hits.key, times, counts))
        if reader.wants_bots:
            kind = profiles.kind((BOT,), False)
            of_bots = [(kind, agent.name) for agent in agents]
            rows = [of if bot else row for row, of, bot in zip(rows, of_bots, are_bots, strict=True)]
            speaks = None if speaks is None else list(map(or_, speaks, are_bots))
        else:
            speaks = are_people if speaks is None else list(map(and_, speaks, are_people))
    if speaks is None:
        sums.said.add_rows(hits.key, times, rows, counts)
    else:
        keys, times, counts = _chosen(speaks, hits.key, times, counts)
        sums.said.add_rows(keys, times, compress(rows, speaks), counts)


def _add_visitors(
    said: SaidSums, salts: Mapping[int, bytes], hits: HitColumns, times: Sequence[int], are_bots: Sequence[bool]
) -> list[bool]:
    """Adds the visitors of people's hits; returns whose are known."""
    known = []
    for key, t, bot, *words in zip(hits.key, times, are_bots, hits.visitor, hits.ip, hits.ua, strict=True):
        day = t - t % DAY_S
        salt, who = salts.get(day), None if bot else who_of(*words)
        is_known = salt is not None and who is not None
        if salt is not None and who is not None:
            said.visitors[day][key].append(visitor_hash(salt, key, who))
        known.append(is_known)
    return known


def _chosen(
    chosen: Sequence[bool], keys: Sequence[str], times: Sequence[int], counts: Sequence[int]
) -> tuple[list[str], list[int], list[int]]:
    return list(compress(keys, chosen)), list(compress(times, chosen)), list(compress(counts, chosen))


def _count_hits(by_minute: Counts, keys: Sequence[str], times: Sequence[int], counts: Sequence[int]) -> None:
    start = end = 0
    cell: dict[str, int] = {}
    if not counts and len(times) >= COUNTED_BY_C:
        start = min(times) // MINUTE_S * MINUTE_S
        if max(times) < start + MINUTE_S:
            cell = by_minute.get(start) or {}
            if not isinstance(cell, Counter):
                cell = by_minute[start] = Counter(cell)
            cell.update(keys)
            return
    for key, t, count in zip(keys, times, counts or repeat(1), strict=False):
        if not start <= t < end:
            start = t - t % MINUTE_S
            end = start + MINUTE_S
            cell = by_minute.setdefault(start, {})
        cell[key] = cell.get(key, 0) + count
