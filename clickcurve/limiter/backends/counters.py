"""Decisions over named counters, for a store that reads many numbers at once, and adds to many at once.

`decide_by_counters` is a generator without I/O. It yields the counters that it must know, is sent their values, and
returns what to answer and what to add: one round of reading and one of writing for any number of rules and rates. A
refused hit writes nothing; to tell when it would pass, it reads up to two rounds more.

    deciding = decide_by_counters(question)
    wanted = next(deciding)
    while True:
        wanted = deciding.send(store.get_many(wanted))   # until it returns, in StopIteration.value

A counter is named by its key, the width of its bucket and the bucket's start, in ticks of its rule (`sliding_window`).
Width 0 is the tick of the key's latest hit: a number to be set, not added to. A counter that the store does not have
is 0.

Between the reading and the writing others may write. A store without a step that does both admits too much then; how
much is for that backend to say.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.cover import Run
from clickcurve.limiter import fixed_window, sliding_window
from clickcurve.limiter.backend import Question
from clickcurve.limiter.decision import is_admitted
from clickcurve.limiter.quota import Piece, Quota, longest, new, tightest
from clickcurve.limiter.rule import Rule
from clickcurve.limiter.sliding_window import Bucket, Reading
from clickcurve.times import SECOND_US

# The clocks of callers may differ by so much, and each still finds what the others have counted.
CLOCKS_DIFFER_S = 60


class Counter(NamedTuple):
    key: str
    width_s: int
    start: int


class Verdict(NamedTuple):
    """What to answer and, where the hit is taken, what to write.

    add: the counters to add the cost to, each with its life in seconds. put: counters to set, their values and lives.
    """

    quotas: tuple[Quota, ...]
    add: tuple[tuple[Counter, int], ...]
    put: tuple[tuple[Counter, int, int], ...]


Deciding: TypeAlias = Generator[list[Counter], Mapping[Counter, int], Verdict]


def decide_by_counters(question: Question) -> Deciding:
    """Decides the question by named counters; for the strategies `tiered`, `fixed` and `per_second`."""
    assert question.at_us is not None, "counters have no clock"
    rules, keys = question.rules, question.keys
    ticks = [question.at_us // rule.tick_us for rule in rules]
    wanted = [latest_of(key) for key in keys]
    for rule, key, tick in zip(rules, keys, ticks, strict=True):
        wanted += _counters(key, buckets_counted(rule, tick))
    known = dict.fromkeys(wanted, 0) | dict((yield wanted))
    latest = [known.get(latest_of(key), 0) for key in keys]
    # A clock that is so far ahead is wrong, or this one is: what it counted lies in its own future, and if its time
    # held, nobody else would pass until then.
    latest = [
        0 if seen - tick > CLOCKS_DIFFER_S * rule.ticks_s else seen
        for rule, tick, seen in zip(rules, ticks, latest, strict=True)
    ]
    quotas = yield from _weigh(question, latest, known, question.take)
    taking = question.take and is_admitted(rules, quotas)
    if question.take and not taking:
        quotas = yield from _weigh(question, latest, known, False)
    charged = [n for n, quota in enumerate(quotas) if taking and quota.fits]
    ticks = list(map(max, ticks, latest))
    add = [each for n in charged for each in counters_charged(rules[n], keys[n], ticks[n])]
    for counter, _ in add:
        known[counter] = known.get(counter, 0) + question.cost
    if question.explain:
        quotas = [
            _with_pieces(rule, key, at, known, quota)
            for rule, key, at, quota in zip(rules, keys, ticks, quotas, strict=True)
        ]
    put = [(latest_of(keys[n]), ticks[n], rules[n].ttl_s) for n in charged if ticks[n] > latest[n]]
    return Verdict(tuple(quotas), tuple(add), tuple(put))


def latest_of(key: str) -> Counter:
    """Returns the name of the tick of a key's latest hit."""
    return Counter(key, 0, 0)


def buckets_counted(rule: Rule, tick: int) -> list[Bucket]:
    """Returns the buckets that a decision of this rule reads."""
    if rule.strategy == "tiered":
        return sliding_window.buckets_read(rule, tick)
    return [(rate.window_s, fixed_window.turn(tick, rate.window_s) - rate.window_s) for rate in rule.rates]


def counters_charged(rule: Rule, key: str, tick: int) -> list[tuple[Counter, int]]:
    """Returns the counters that a hit at this tick is added to, or taken back from, and each one's life."""
    if rule.strategy == "tiered":
        return [
            (Counter(key, *bucket), sliding_window.life_s(rule, bucket[0]))
            for bucket in sliding_window.buckets_written(rule, tick)
        ]
    spare_s = rule.ttl_s - rule.keep_s
    return [(counter, counter.width_s + spare_s) for counter in _counters(key, buckets_counted(rule, tick))]


def _counters(key: str, buckets: Iterable[Bucket]) -> list[Counter]:
    return [new(Counter, (key, width_s, start)) for width_s, start in buckets]


def _weigh(
    question: Question, latest: Sequence[int], known: dict[Counter, int], taking: bool
) -> Generator[list[Counter], Mapping[Counter, int], list[Quota]]:
    """Weighs all rules together: the counters that several of them need are read in one round."""
    assert question.at_us is not None
    at_us, cost = question.at_us, question.cost
    readings = [
        _READINGS[rule.strategy](rule, max(at_us // rule.tick_us, seen), seen, at_us, cost, taking)
        for rule, seen in zip(question.rules, latest, strict=True)
    ]
    wanted = {n: next(reading) for n, reading in enumerate(readings)}
    quotas: dict[int, Quota] = {}
    while wanted:
        named = {n: _counters(question.keys[n], buckets) for n, buckets in wanted.items()}
        unknown = [counter for counters in named.values() for counter in counters if counter not in known]
        if unknown:
            known.update(dict.fromkeys(unknown, 0) | dict((yield unknown)))
        for n, buckets in list(wanted.items()):
            try:
                counts = dict(zip(buckets, map(known.__getitem__, named[n]), strict=True))
                wanted[n] = readings[n].send(counts)
            except StopIteration as ended:
                quotas[n] = ended.value
                del wanted[n]
    return [quotas[n] for n in range(len(readings))]


def _weigh_fixed(rule: Rule, second: int, latest: int, at_us: int, cost: int, taking: bool) -> Reading:
    counts = yield buckets_counted(rule, second)
    quotas = [
        fixed_window.weigh_count(
            limit, window_s, counts[bucket], fixed_window.turn(second, window_s) * SECOND_US, at_us, cost, taking
        )
        for (limit, window_s, _, _, _), bucket in zip(rule.reaches, buckets_counted(rule, second), strict=True)
    ]
    refused = [quota for quota in quotas if not quota.fits]
    return longest(refused) if refused else tightest(quotas)


_READINGS: Mapping[str, Callable[[Rule, int, int, int, int, bool], Reading]] = {
    "tiered": sliding_window.weigh_buckets,
    "fixed": _weigh_fixed,
    "per_second": _weigh_fixed,
}


def _with_pieces(rule: Rule, key: str, tick: int, known: Mapping[Counter, int], quota: Quota) -> Quota:
    reach = next(reach for reach in rule.reaches if reach.window_s == quota.window_s)
    if rule.strategy != "tiered":
        start = fixed_window.turn(tick, reach.window_s) - reach.window_s
        piece = Piece(reach.window_s, start, 1, quota.at_most)
        return quota._replace(pieces=(piece,))

    def hits(run: Run) -> int:
        return sum(known.get(counter, 0) for counter in _counters(key, sliding_window.buckets_of([run])))

    return quota._replace(pieces=sliding_window.pieces(rule, reach, tick, hits))
