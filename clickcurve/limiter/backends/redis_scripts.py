"""Questions encoded as commands for a script inside Redis, and quotas made of its answers. No input or output.

The script (`scripts/decide.lua`, with a file for each kind of rule that is asked about) reads, decides and charges in
one step, and answers with what each rule holds without this hit: a few whole numbers. The quotas are worked out of them
here, by the same meters as in process (`meters`), and of a `tiered` rule by the same arithmetic (`sliding_window`).
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from itertools import count
from pathlib import Path
from struct import Struct, pack
from typing import NamedTuple, TypeAlias

from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends.bucket_series import Series
from clickcurve.limiter.backends.meter import UNBOUNDED, Meter
from clickcurve.limiter.backends.meters import Opened, Windows
from clickcurve.limiter.quota import Quota, new
from clickcurve.limiter.rule import Reach, Rule
from clickcurve.limiter.sliding_window import FINE_KEPT_S, Counted, life_s, weigh_rates
from clickcurve.limiter.token_bucket import weigh_levels
from clickcurve.times import SECOND_US

PREFIX = "clickcurve:limit:"
SETTLED = (Settled.unknown, Settled.ended, Settled.done)
# No time to live is longer: Redis refuses one that its clock cannot hold.
MAX_TTL_MS = 10**15
MAX_PLANS = 1_000

_FOLDER = Path(__file__).parent / "scripts"
_KINDS = {"tiered": 1, "fixed": 2, "per_second": 2, "single_counter": 3, "list": 4, "token_bucket": 5}
_WINDOWS = 2
_FINE = 6  # `tiered` in buckets finer than a second
_JOINED = 2  # beside 1 for shadow: fits only together with the part before it
_FILES = {1: "tiered", 2: "windows", 3: "opened", 4: "opened", 5: "tokens"}
_QUESTION = Struct(">qIBBqq")
_SETTLEMENT = Struct(">qq")
# Sums wrap there; only differences mean something.
WRAP = 1 << 32
# A series' head (life, latest tick, sum before its first bucket) and its buckets; the second pair is of fine ones.
_SERIES = (Struct(">qII"), Struct(">II")), (Struct(">qqI"), Struct(">qI"))

Facts: TypeAlias = list[int]


class Script:
    """A script, which Redis runs by its digest or, where it does not know that, from its text."""

    def __init__(self, *names: str) -> None:
        text = b"".join((_FOLDER / f"{name}.lua").read_bytes() for name in ("common", *names))
        digest = sha1(text, usedforsecurity=False).hexdigest().encode()
        self.called = _bulk_strings(b"EVALSHA", digest)
        self._whole = _bulk_strings(b"EVAL", text)

    def command(self, keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
        """Encodes the call of the script by its digest."""
        words = (b"%d" % len(keys), *keys, *values)
        return b"*%d\r\n%b%b" % (2 + len(words), self.called, _bulk_strings(*words))

    def with_text(self, called: bytes) -> bytes:
        """Returns the same call with the whole text."""
        return called.replace(self.called, self._whole, 1)


def command(*words: bytes) -> bytes:
    """Encodes a command in the protocol of Redis."""
    return b"*%d\r\n%b" % (len(words), _bulk_strings(*words))


def _bulk_strings(*words: bytes) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


_script = cache(Script)
SETTLE = Script(*sorted(set(_FILES.values())), "settle")


class KeyPart(NamedTuple):
    """A rule as the script knows it, with a key of its own in Redis.

    A `tiered` rule with short and long windows is two parts, which fit only together: so its fine buckets are kept no
    longer than short windows need them.
    """

    rule: Rule
    is_fine: bool
    reaches: tuple[Reach, ...]

    @property
    def ticks_s(self) -> int:
        """Ticks of a second in which this part counts."""
        return self.rule.ticks_s if self.is_fine else 1


def parts_of(rule: Rule) -> tuple[KeyPart, ...]:
    if rule.ticks_s == 1:
        return (KeyPart(rule, False, rule.reaches),)
    fine = tuple(reach for reach in rule.reaches if reach.edge == 1)
    long = rule.reaches[len(fine) :]
    return (KeyPart(rule, True, fine), KeyPart(rule, False, long)) if long else (KeyPart(rule, True, fine),)


class Plan(NamedTuple):
    """The rules of one event, encoded once.

    parts: of each rule. script: that decides about them. packed: what it reads of them; called: its call, to be filled
    with the length and the text of each key, and with the question. facts: how its answer is packed. spans: which of
    the facts are each rule's. lasts_us: how long a reservation lasts.
    """

    rules: tuple[Rule, ...]
    parts: tuple[tuple[KeyPart, ...], ...]
    script: Script
    packed: bytes
    called: bytes
    facts: Struct
    spans: tuple[slice, ...]
    lasts_us: int


class ScriptCodec:
    """Encodes questions for the scripts, and decodes their answers. prefix: what all keys in Redis begin with."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._plans: dict[int, Plan] = {}
        # Tells one life of a key from the next. Two processes hardly ever draw the same number.
        self._lives = count(secrets.randbits(52))

    def encode_question(self, question: Question) -> bytes:
        """Returns the call of the script that decides."""
        rules, keys, _, _, _, _, caller, reservation = question
        plan = self.plan(rules)
        if len(keys) == 1 and reservation is None and not caller and len(plan.parts[0]) == 1:
            key = (self._prefix + keys[0]).encode()
            return plan.called % (len(key), key, self._packed(question, plan))
        return self.encode_any(question, plan)

    def encode_any(self, question: Question, plan: Plan) -> bytes:
        """Returns that call for any number of rules, callers and a reservation."""
        named = self.redis_keys(question)
        if question.reservation is not None:
            named.append(self.reservation_key(question.reservation))
        asked = self._packed(question, plan) + plan.packed
        return plan.script.command(named, [asked, question.caller.encode(errors="surrogatepass")])

    def _packed(self, question: Question, plan: Plan) -> bytes:
        at_us = -1 if question.at_us is None else question.at_us
        life = next(self._lives)
        return _QUESTION.pack(at_us, question.cost, question.take, question.explain, life, plan.lasts_us)

    def decode_quotas(self, question: Question, answer: bytes | Sequence[object]) -> list[Quota]:
        """Returns the quotas that the answer of `decide` stands for."""
        plan = self.plan(question.rules)
        numbers, more = (answer, ()) if isinstance(answer, bytes) else (answer[0], answer[1:])
        assert isinstance(numbers, bytes)
        facts = list(plan.facts.unpack(numbers))
        taken, at_us = bool(facts[0]), facts[1]
        cost = question.cost
        if len(plan.rules) == 1 and not more:
            return [_quota(plan.rules[0], facts[2:], at_us, cost, taken)]
        kept = iter(more)
        quotas = []
        for rule, parts, span in zip(plan.rules, plan.parts, plan.spans, strict=True):
            quota = _quota(rule, facts[span], at_us, cost, taken)
            if more:
                quota = _explained(rule, facts[span], at_us, quota, [next(kept) for _ in parts])
            quotas.append(quota)
        return quotas

    def encode_settlement(self, reservation: str, keep: int | None, at_us: int | None) -> bytes:
        """Returns the call of the script that settles."""
        asked = _SETTLEMENT.pack(-1 if keep is None else keep, -1 if at_us is None else at_us)
        return SETTLE.command([self.reservation_key(reservation)], [asked])

    def redis_keys(self, question: Question) -> list[bytes]:
        """Returns the question's keys as they are in Redis."""
        parts = self.plan(question.rules).parts
        return [self._part_key(key, n) for key, of in zip(question.keys, parts, strict=True) for n in range(len(of))]

    def _part_key(self, key: str, n: int) -> bytes:
        # No key of a rule begins like the second part's: those begin with a digit or a #.
        return f"{self._prefix}{'long:' if n else ''}{key}".encode()

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
    parts = tuple(map(parts_of, rules))
    spans, layout, end = [], ">Bq", 2
    for part in parts:
        facts = "".join(map(_facts_format, part))
        spans.append(slice(end, end + len(facts)))
        layout, end = layout + facts, end + len(facts)
    lasts_us = max(rule.keep_s for rule in rules) * SECOND_US
    encoded = [_encode_part(part, n > 0) for each in parts for n, part in enumerate(each)]
    packed = pack(">B", len(encoded)) + b"".join(encoded)
    script = _script(*sorted({_FILES[_KINDS[rule.strategy]] for rule in rules}), "decide")
    # The one place of what a plan says about one key; a % in it stands for itself.
    argument = b"$%d\r\n%%b%b\r\n" % (_QUESTION.size + len(packed), packed.replace(b"%", b"%%"))
    called = b"*5\r\n%b$1\r\n1\r\n$%%d\r\n%%b\r\n%b" % (script.called, argument)
    lasts_us = min(lasts_us, MAX_TTL_MS * 1_000)
    return Plan(rules, parts, script, packed, called, Struct(layout), tuple(spans), lasts_us)


def _encode_part(part: KeyPart, joined: bool) -> bytes:
    """Encodes a part of a rule as the script reads it."""
    rule = part.rule
    kind, ttl_s, flags = _KINDS[rule.strategy], rule.ttl_s, rule.shadow + _JOINED * joined
    if rule.strategy == "tiered":
        scale = rule.ticks_s // part.ticks_s
        edge = part.reaches[0].edge // scale
        keep_s = FINE_KEPT_S if part.is_fine else rule.keep_s
        kind = _FINE if part.is_fine else kind
        ttl_s = keep_s + 1 if part.is_fine else life_s(rule, edge * scale)
        rates = pack(">III", SECOND_US // part.ticks_s, edge, keep_s * part.ticks_s)
        rates += b"".join(
            pack(">III", reach.limit, reach.decided // scale, reach.other // scale) for reach in part.reaches
        )
    elif rule.strategy == "token_bucket":
        rates = b"".join(pack(">qqqq", *flow[:4]) for flow in rule.flows)
    else:
        rates = b"".join(pack(">II", rate.limit, rate.window_s) for rate in rule.rates)
    ttl_ms = b"%d" % min(ttl_s * 1_000, MAX_TTL_MS)
    return bytes((kind, flags, len(part.reaches), len(ttl_ms))) + ttl_ms + rates


def _facts_format(part: KeyPart) -> str:
    """Returns how the facts of a part are packed, with one character for each."""
    rule = part.rule
    if rule.strategy == "tiered":
        return ("q" if part.is_fine else "I") + len(part.reaches) * ("IIq" if part.is_fine else "III")
    if rule.strategy == "token_bucket":
        return len(rule.flows) * "q" + "q"
    return len(rule.rates) * "II" if _KINDS[rule.strategy] == _WINDOWS else "qq"


# --- quotas made of the facts -------------------------------------------------------------------------------------
def _quota(rule: Rule, facts: Facts, at_us: int, cost: int, taking: bool) -> Quota:
    """Returns a rule's quota, after a hit of this cost if that is taken."""
    if rule.strategy == "tiered":
        return weigh_rates(rule, *_in_ticks(rule, facts), at_us, cost, taking)
    if rule.strategy == "token_bucket":  # the drops under each rate, and the microsecond as of which
        return weigh_levels(rule.flows, facts[:-1], facts[-1], cost, taking)
    return _meter(rule, facts).weigh(rule, at_us, cost, taking)


def _meter(rule: Rule, facts: Facts) -> Meter:
    """Makes the meter of windows of the clock, or of one that a hit opened."""
    if _KINDS[rule.strategy] == _WINDOWS:  # under each rate the second at which its window ends, and its count
        return Windows.of(rule, facts[::2], facts[1::2])
    meter = Opened(rule, facts[0], UNBOUNDED)  # the microsecond at which the window opened, or opens now, and its count
    meter.count = facts[1]
    return meter


def _in_ticks(rule: Rule, facts: Facts) -> tuple[list[Counted], int]:
    """Returns what counts under each rate, and the tick of the latest hit, of the facts about a `tiered` rule.

    Those of each part: the tick of the latest hit; then under each rate `Counted`. Starts and ticks are the part's.
    """
    latest, at = 0, 0
    counted: list[Counted] = []
    for part in parts_of(rule):
        scale = rule.ticks_s // part.ticks_s
        latest = max(latest, facts[at] * scale)
        end = at + 1 + 3 * len(part.reaches)
        counted += [new(Counted, (facts[n], facts[n + 1], facts[n + 2] * scale)) for n in range(at + 1, end, 3)]
        at = end
    return counted, latest


def _explained(rule: Rule, facts: Facts, at_us: int, quota: Quota, kept: Sequence[object]) -> Quota:
    """Adds pieces and callers to a quota. kept: what the script sent after the facts, for each part."""
    if rule.strategy == "token_bucket":
        return quota
    if rule.strategy == "tiered":
        parts = zip(parts_of(rule), kept, strict=True)
        part, series = next(pair for pair in parts if quota.window_s in [reach.window_s for reach in pair[0].reaches])
        return _series(part, series, _in_ticks(rule, facts)[1]).explained(rule, at_us, quota)
    meter = _meter(rule, facts)
    if isinstance(meter, Opened):
        meter.count = quota.at_most
        named = kept[0] if isinstance(kept[0], list) else []
        meter.callers = [caller.decode(errors="surrogatepass") for caller in named]
    return meter.explained(rule, at_us, quota)


def _series(part: KeyPart, kept: object, latest: int) -> Series:
    """Makes the meter of a part's buckets as Redis keeps them."""
    assert isinstance(kept, bytes)
    meter = Series(part.rule, 0, UNBOUNDED)
    meter.latest = latest
    head, bucket = _SERIES[part.is_fine]
    meter.sums = array("Q", (0,))
    before = head.unpack_from(kept)[2] if kept else 0
    for start, total in bucket.iter_unpack(kept[head.size :]):
        meter.starts.append(start * part.rule.ticks_s // part.ticks_s)
        meter.sums.append(meter.sums[-1] + (total - before) % WRAP)
        before = total
    return meter
