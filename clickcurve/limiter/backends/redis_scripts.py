"""Questions encoded for a script inside Redis, and quotas made of its answers. No input or output.

The script (`scripts/decide.lua`) reads, decides and charges in one step, and answers with what each rule holds without
this hit: a few whole numbers. The quotas are worked out of them here, by the same functions as in process
(`clickcurve.limiter.sliding_window`, `clickcurve.limiter.fixed_window`, `clickcurve.limiter.token_bucket`).
"""

from __future__ import annotations

import secrets
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from struct import Struct, pack
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.cover import Run
from clickcurve.limiter import fixed_window, sliding_window, token_bucket
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.quota import Piece, Quota, longest, tightest
from clickcurve.limiter.rule import Rule
from clickcurve.times import SECOND_US

PREFIX = "clickcurve:limit:"
SETTLED = (Settled.unknown, Settled.ended, Settled.done)
# No time to live is longer: Redis refuses one that its clock cannot hold.
MAX_TTL_MS = 10**15
MAX_PLANS = 1_000

_FOLDER = Path(__file__).parent / "scripts"
_KINDS = {"tiered": 1, "fixed": 2, "per_second": 2, "single_counter": 3, "list": 4, "token_bucket": 5}
_QUESTION = Struct(">qqBBqq")
_SETTLEMENT = Struct(">qq")
_SERIES_HEAD = Struct(">qII")
_BUCKET = Struct(">II")

Facts: TypeAlias = Sequence[int]
# rule, facts, at_us, cost, whether the hit is taken -> its quota
Weighing: TypeAlias = Callable[[Rule, Facts, int, int, bool], Quota]


def source(name: str) -> bytes:
    """Returns the text of a script."""
    return (_FOLDER / "common.lua").read_bytes() + (_FOLDER / f"{name}.lua").read_bytes()


class Plan(NamedTuple):
    """The rules of one event, encoded once.

    facts: how the script's answer is packed. spans: which of the facts are each rule's. weigh: what makes a quota of
    them. lasts_us: how long a reservation lasts.
    """

    rules: tuple[Rule, ...]
    packed: bytes
    facts: Struct
    spans: tuple[slice, ...]
    weigh: tuple[Weighing, ...]
    lasts_us: int


class ScriptCodec:
    """Encodes questions for the scripts, and decodes their answers. prefix: what all keys in Redis begin with."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._plans: dict[int, Plan] = {}
        # Tells one life of a key from the next. Two processes hardly ever draw the same number.
        self._lives = count(secrets.randbits(52))

    def encode_question(self, question: Question) -> tuple[list[bytes], list[bytes]]:
        """Returns KEYS and ARGV of `decide`."""
        rules, keys, _, cost, at_us, take, explain, caller, reservation = question
        plan = self.plan(rules)
        prefix = self._prefix
        named = [(prefix + key).encode() for key in keys]
        if reservation is not None:
            named.append(self.reservation_key(reservation))
        asked = _QUESTION.pack(-1 if at_us is None else at_us, cost, take, explain, next(self._lives), plan.lasts_us)
        return named, [asked, plan.packed, caller.encode(errors="surrogatepass")]

    def decode_quotas(self, question: Question, answer: bytes | Sequence[object]) -> list[Quota]:
        """Returns the quotas that the answer of `decide` stands for."""
        plan = self.plan(question.rules)
        numbers, more = (answer, ()) if isinstance(answer, bytes) else (answer[0], answer[1:])
        assert isinstance(numbers, bytes)
        facts = plan.facts.unpack(numbers)
        taken, at_us = bool(facts[0]), facts[1]
        cost = question.cost
        if not more:
            return [
                weigh(rule, facts[span], at_us, cost, taken)
                for rule, span, weigh in zip(plan.rules, plan.spans, plan.weigh, strict=True)
            ]
        return [
            _with_kept(rule, facts[span], at_us, weigh(rule, facts[span], at_us, cost, taken), kept)
            for rule, span, weigh, kept in zip(plan.rules, plan.spans, plan.weigh, more, strict=True)
        ]

    def encode_settlement(
        self, reservation: str, keep: int | None, at_us: int | None
    ) -> tuple[list[bytes], list[bytes]]:
        """Returns KEYS and ARGV of `settle`."""
        arguments = _SETTLEMENT.pack(-1 if keep is None else keep, -1 if at_us is None else at_us)
        return [self.reservation_key(reservation)], [arguments]

    def redis_keys(self, question: Question) -> list[bytes]:
        """Returns the question's keys as they are in Redis."""
        return [(self._prefix + key).encode() for key in question.keys]

    def reservation_key(self, reservation: str) -> bytes:
        # No key of a rule begins like this: those begin with a digit or a #.
        return f"{self._prefix}held:{reservation}".encode(errors="surrogatepass")

    def plan(self, rules: tuple[Rule, ...]) -> Plan:
        plan = self._plans.get(id(rules))
        if plan is None or plan.rules is not rules:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[id(rules)] = _plan(rules)
        return plan


def _plan(rules: tuple[Rule, ...]) -> Plan:
    spans, layout, end = [], ">Bq", 2
    for rule in rules:
        facts = _facts_format(rule)
        size = len(Struct(">" + facts).unpack(bytes(Struct(">" + facts).size)))
        spans.append(slice(end, end + size))
        layout, end = layout + facts, end + size
    lasts_us = max(rule.keep_s for rule in rules) * SECOND_US
    packed = pack(">B", len(rules)) + b"".join(map(_encode_rule, rules))
    weigh = tuple(_WEIGHINGS[rule.strategy] for rule in rules)
    return Plan(rules, packed, Struct(layout), tuple(spans), weigh, min(lasts_us, MAX_TTL_MS * 1_000))


def _encode_rule(rule: Rule) -> bytes:
    """Encodes a rule as the script reads it."""
    ttl_s = sliding_window.life_s(rule, rule.edge_s) if rule.strategy == "tiered" else rule.ttl_s
    head = pack(">BBq", _KINDS[rule.strategy], rule.shadow, min(ttl_s * 1_000, MAX_TTL_MS))
    if rule.strategy == "tiered":
        rates = b"".join(pack(">III", reach.limit, reach.decided_s, reach.other_s) for reach in rule.reaches)
        return head + pack(">IIB", rule.edge_s, rule.keep_s, len(rule.rates)) + rates
    if rule.strategy == "token_bucket":
        return head + pack(">qqqq", *rule.flow)
    rates = b"".join(pack(">II", rate.limit, rate.window_s) for rate in rule.rates)
    return head + (pack(">B", len(rule.rates)) if _KINDS[rule.strategy] == 2 else b"") + rates


def _facts_format(rule: Rule) -> str:
    """Returns how the facts of a rule are packed."""
    if rule.strategy == "tiered":
        return "I" + len(rule.rates) * "III"
    return len(rule.rates) * "II" if _KINDS[rule.strategy] == 2 else "qq"


# --- quotas made of the facts -------------------------------------------------------------------------------------
def _weigh_tiered(rule: Rule, facts: Facts, at_us: int, cost: int, taking: bool) -> Quota:
    """Makes the quota of a `tiered` rule.

    Facts: the second of the latest hit; of each rate the hits held against it, the other end of the bound, and the
    start of the bucket with which enough of them leave, or one, where this hit takes the last place.
    """
    latest, second = facts[0], at_us // SECOND_US
    second = max(second, latest)
    refused, tight, least, more_at = [], 0, 0, 0
    for n, reach in enumerate(rule.reaches):
        used, other, start = facts[3 * n + 1 : 3 * n + 4]
        left = reach.limit - used
        if left < cost:
            passes_at = start + reach.decided_s if cost <= reach.limit else None
            refused.append(
                sliding_window.refused_quota(rule, reach, _bounds(used, other), latest, second, at_us, passes_at)
            )
        elif n == 0 or left < least:
            tight, least = n, left
        if taking and left == cost:  # the last place: of several such rates that under which one more fits last
            passes_at = (start if used else sliding_window.bucket_start(second, rule.edge_s)) + reach.decided_s
            if passes_at > more_at:
                tight, more_at = n, passes_at
    if refused:
        return longest(refused)
    used, other = facts[3 * tight + 1 : 3 * tight + 3]
    newest = second if taking else latest
    return sliding_window.admitted_quota(
        rule, rule.reaches[tight], _bounds(used, other), cost if taking else 0, newest, second, more_at
    )


def _bounds(used: int, other: int) -> tuple[int, int]:
    return (used, other) if used <= other else (other, used)


def _weigh_windows(rule: Rule, facts: Facts, at_us: int, cost: int, taking: bool) -> Quota:
    """Makes the quota of windows of the clock. Facts: of each rate the second at which its window ends; its count."""
    second = at_us // SECOND_US
    quotas = []
    for n, (limit, window_s, _, _) in enumerate(rule.reaches):
        end, used = facts[2 * n : 2 * n + 2]
        if second >= end:
            end, used = fixed_window.turn(second, window_s), 0
        quotas.append(fixed_window.weigh_count(limit, window_s, used, end * SECOND_US, at_us, cost, taking))
    refused = [quota for quota in quotas if not quota.fits]
    return longest(refused) if refused else tightest(quotas)


def _weigh_opened(rule: Rule, facts: Facts, at_us: int, cost: int, taking: bool) -> Quota:
    """Makes the quota of an opened window. Facts: the microsecond at which it opened, or opens now; its count."""
    limit, window_s, _, _ = rule.reaches[0]
    opened_us, used = facts
    return fixed_window.weigh_count(
        limit, window_s, used, fixed_window.closes_us(opened_us, window_s), at_us, cost, taking
    )


def _weigh_tokens(rule: Rule, facts: Facts, at_us: int, cost: int, taking: bool) -> Quota:
    """Makes the quota of a token bucket. Facts: the drops, and the microsecond as of which."""
    return token_bucket.weigh_tokens(rule.flow, rule.reaches[0].window_s, facts[0], facts[1], at_us, cost, taking)


_WEIGHINGS: Mapping[str, Weighing] = {
    "tiered": _weigh_tiered,
    "fixed": _weigh_windows,
    "per_second": _weigh_windows,
    "single_counter": _weigh_opened,
    "list": _weigh_opened,
    "token_bucket": _weigh_tokens,
}


def _with_kept(rule: Rule, facts: Facts, at_us: int, quota: Quota, kept: object) -> Quota:
    """Adds pieces and callers to a quota. kept: what the script sent after the facts."""
    second, window_s = at_us // SECOND_US, quota.window_s
    at = [reach.window_s for reach in rule.reaches].index(window_s)
    if rule.strategy == "tiered":
        assert isinstance(kept, bytes)
        hits = _hits_in(kept)
        return quota._replace(pieces=sliding_window.pieces(rule, rule.reaches[at], max(second, facts[0]), hits))
    if rule.strategy in ("fixed", "per_second"):
        start = max(fixed_window.turn(second, window_s), facts[2 * at]) - window_s
        return quota._replace(pieces=(Piece(window_s, start, 1, quota.at_most),))
    if rule.strategy == "token_bucket" or not quota.at_most:
        return quota
    callers = tuple(caller.decode(errors="surrogatepass") for caller in kept) if isinstance(kept, list) else ()
    piece = Piece(window_s, facts[0] // SECOND_US, 1, quota.at_most)
    return quota._replace(pieces=(piece,), callers=callers)


def _hits_in(series: bytes) -> Callable[[Run], int]:
    """Returns what counts the hits of a run in a series as Redis keeps it."""
    if not series:
        return lambda run: 0
    _, _, base = _SERIES_HEAD.unpack_from(series)
    starts, sums = array("I"), array("I", (base,))
    for start, total in _BUCKET.iter_unpack(series[_SERIES_HEAD.size :]):
        starts.append(start)
        sums.append(total)

    def hits(run: Run) -> int:
        many: int = sums[bisect_left(starts, run.end)] - sums[bisect_left(starts, run.start)]
        return many % (1 << 32)

    return hits
