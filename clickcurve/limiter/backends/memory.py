"""The backend in process: exact, all or nothing, bounded, for any number of threads of one process.

One lock is held for the whole of a decision, so each is decided as if alone. A decision takes a few microseconds;
several locks would cost more than they let run in parallel.

**Bounds.** There is room for so many keys and bytes. Before a new key is added a few others are examined, and dropped
if all their windows are empty. No key is dropped while a hit under it still counts, so a flood of new names cannot free
a caller that is over its limit. When there is still no room, new names share 1,024 keys for each rule, and the limits
of those: a secret of the process decides which, so that a flood has to fill each of them to keep everybody out. A known
key that needs another bucket where no byte is left counts its newest bucket as if it came now: never too few. All of
this is counted (`measures`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from secrets import token_bytes
from threading import Lock
from typing import NamedTuple, TypeAlias

from clickcurve.limiter.backend import Question, Settled, lapses_us
from clickcurve.limiter.backends.meter import MemoryBudget, Meter
from clickcurve.limiter.backends.meters import METERS
from clickcurve.limiter.decision import is_admitted
from clickcurve.limiter.key import shared_key
from clickcurve.limiter.moment import SKEW_US
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import Rule

MAX_KEYS = 1_000_000
MAX_BYTES = 512 * 1024 * 1024
MAX_RESERVATIONS = 100_000
# What a key takes without its text and its buckets: its entry in the table, its meter, the numbers in that.
KEY_BYTES = 500
# For each rule; beyond max_keys.
OVERFLOW_KEYS = 1_024
# How many keys are examined for each new one. Two keep the table near what lives in it.
_EXAMINED = 2
_EXAMINED_WHEN_FULL = 64

RuleMeter: TypeAlias = tuple[Rule, str, Meter]


class _Held(NamedTuple):
    """A reservation: what it charged, and each charge's handle. Once it is ended no charges are left."""

    charged: tuple[tuple[RuleMeter, int], ...]
    cost: int
    caller: str
    lapses_us: int
    ended: bool = False


class MemoryBackend:
    """`Backend` in process. The bounds are for all keys together; bytes are an estimate of what Python takes."""

    keeps_time = False
    server_of = None

    def __init__(
        self, max_keys: int = MAX_KEYS, max_bytes: int = MAX_BYTES, max_reservations: int = MAX_RESERVATIONS
    ) -> None:
        self._lock = Lock()
        self._meters: dict[str, Meter] = {}
        self._budget = MemoryBudget(max_bytes)
        self._max_keys = max_keys
        self._to_examine: list[str] = []
        self._evicted = self._overflown = 0
        self._secret = token_bytes(16)
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._max_reservations = max_reservations
        self._lapsed_early = 0

    # --- deciding -----------------------------------------------------------------------------------------------------
    def decide(self, question: Question) -> Sequence[Quota]:
        rules, keys, cost, at_us, taking, explain, caller, reservation = question
        assert at_us is not None, "memory has no clock of its own"
        with self._lock:
            meter = self._meters.get(keys[0])
            if meter is None or len(keys) > 1 or explain or reservation is not None:
                return self._decide(question, at_us)
            # The usual question, without the lists that the others need.
            rule = rules[0]
            return (meter.hit(rule, at_us, cost, caller) if taking else meter.weigh(rule, at_us, cost, False),)

    def _decide(self, question: Question, at_us: int) -> Sequence[Quota]:
        rules, keys, cost, _, taking, explain, _, _ = question
        meters: list[RuleMeter] = []
        quotas: list[Quota] = []
        for n, rule in enumerate(rules):
            meter = self._meters.get(keys[n])
            entry = self._new(question, n, at_us) if meter is None else (rule, keys[n], meter)
            meters.append(entry)
            quotas.append(entry[2].weigh(rule, at_us, cost, taking))
        if taking and is_admitted(rules, quotas):
            self._charge(question, at_us, meters, quotas)
        elif taking:  # the quotas under which it fits are those without it
            quotas = [meter.weigh(rule, at_us, cost, False) for rule, _, meter in meters]
        if explain:
            pairs = zip(meters, quotas, strict=True)
            quotas = [meter.explained(rule, at_us, quota) for (rule, _, meter), quota in pairs]
        return quotas

    def _charge(self, question: Question, at_us: int, meters: Sequence[RuleMeter], quotas: Sequence[Quota]) -> None:
        _, _, cost, _, _, _, caller, reservation = question
        is_reserved = reservation is not None
        charged = []
        for n, entry in enumerate(meters):
            if quotas[n].fits:
                rule, key, meter = entry
                if key not in self._meters:
                    # New, or dropped a moment ago, when room was made on behalf of another rule.
                    self._meters[key] = meter
                    self._budget.add(KEY_BYTES + len(key) + meter.size_bytes())
                charged.append((entry, meter.charge(rule, at_us, cost, caller, is_reserved)))
        if reservation is not None:
            lapses = lapses_us(question.rules, at_us)
            self._hold(reservation, _Held(tuple(charged), cost, caller, lapses), at_us)

    # --- reservations -------------------------------------------------------------------------------------------------
    def _hold(self, reservation: str, hold: _Held, at_us: int) -> None:
        while self._held and next(iter(self._held.values())).lapses_us <= at_us - SKEW_US:
            self._held.popitem(last=False)
        if len(self._held) >= self._max_reservations:
            _, oldest = self._held.popitem(last=False)
            self._lapsed_early += not oldest.ended
        self._held[reservation] = hold

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        assert at_us is not None, "memory has no clock of its own"
        with self._lock:
            hold = self._held.get(reservation)
            if hold is None or hold.lapses_us <= at_us:
                return Settled.unknown
            if hold.ended:
                return Settled.ended
            self._held[reservation] = hold._replace(charged=(), ended=True)
            back = 0 if keep is None else max(0, hold.cost - keep)
            for (rule, key, meter), handle in hold.charged:
                if self._meters.get(key) is meter:  # not dropped or reset since
                    meter.refund(rule, at_us, handle, back, hold.caller)
            return Settled.done

    def reset(self, question: Question) -> None:
        with self._lock:
            for key in question.keys:
                self._forget(key)

    # --- room ---------------------------------------------------------------------------------------------------------
    def _new(self, question: Question, n: int, at_us: int) -> RuleMeter:
        """Returns a meter for a key that has none, and the key to keep it under once it is charged."""
        rule, key = question.rules[n], question.keys[n]
        self._examine(_EXAMINED, at_us)
        if not self._has_room():
            self._examine(_EXAMINED_WHEN_FULL, at_us)
        if not self._has_room():
            self._overflown += 1
            digest = blake2b(key.encode(errors="surrogatepass"), key=self._secret, digest_size=2).digest()
            key = shared_key(rule, int.from_bytes(digest) % OVERFLOW_KEYS)
            if key in self._meters:
                return rule, key, self._meters[key]
        return rule, key, METERS[rule.strategy](rule, at_us, self._budget)

    def _has_room(self) -> bool:
        return len(self._meters) < self._max_keys and self._budget.has(KEY_BYTES)

    def _examine(self, many: int, at_us: int) -> None:
        """Examines the next few keys, and drops those whose windows are empty, for clocks that are behind too."""
        for _ in range(min(many, len(self._meters))):
            if not self._to_examine:
                self._to_examine = list(self._meters)
            key = self._to_examine.pop()
            meter = self._meters.get(key)
            if meter is not None and meter.is_idle(at_us) and meter.is_idle(at_us - SKEW_US):
                self._forget(key)
                self._evicted += 1

    def _forget(self, key: str) -> None:
        meter = self._meters.pop(key, None)
        if meter is not None:
            self._budget.give(KEY_BYTES + len(key) + meter.size_bytes())

    # --- the rest -----------------------------------------------------------------------------------------------------
    def measures(self) -> Mapping[str, float]:
        with self._lock:
            return {
                "memory_keys": len(self._meters),
                "memory_bytes": self._budget.used_bytes,
                "memory_keys_evicted_total": self._evicted,
                "memory_overflow_total": self._overflown,
                "memory_buckets_merged_total": self._budget.denied,
                "memory_reservations": len(self._held),
                "memory_reservations_lapsed_early_total": self._lapsed_early,
            }

    def close(self) -> None:
        """Releases nothing: the counts go with the process."""
