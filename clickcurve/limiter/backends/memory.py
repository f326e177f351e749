"""The backend in process: exact, all or nothing, bounded, for any number of threads of one process.

One lock is held for the whole of a decision, so whatever it touches is decided as if alone. A decision takes a few
microseconds; several locks would cost more than they let run side by side.

**Bounds.** There is room for so many keys and bytes. Each new key first has a few of the others looked at, and those
whose windows are all empty go; nobody is forgotten while a hit of theirs still counts, so a flood of new names cannot
wash out who is over the limit. When there is still no room, new names share one key for each rule, and its limit. A
known key that needs another bucket where no byte is left counts its newest bucket as if it came now: never too few. All
of this is counted (`measures`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import NamedTuple, TypeAlias

from clickcurve.limiter.backend import Question, Settled, lapses_us
from clickcurve.limiter.backends.memory_budget import Space
from clickcurve.limiter.backends.meters import METERS, Meter
from clickcurve.limiter.decision import is_admitted
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import Rule
from clickcurve.times import SECOND_US

MAX_KEYS = 1_000_000
MAX_BYTES = 512 * 1024 * 1024
MAX_RESERVATIONS = 100_000
# What a key takes beside its text and its buckets: its place in the table, its meter, the numbers in that.
KEY_BYTES = 500
# How many keys are looked at for each new one. Two keep the table near what lives in it.
_LOOKS = 2
_LOOKS_WHEN_FULL = 64
# Unless room is short, a key is kept so much longer, so that callers whose clocks differ by less see no difference.
_GRACE_US = 60 * SECOND_US

Seat: TypeAlias = tuple[Rule, str, Meter]


class _Held(NamedTuple):
    """A reservation: what it charged, and each charge's mark. Nothing is left of that once it is ended."""

    charged: tuple[tuple[Seat, int], ...]
    cost: int
    caller: str
    lapses_us: int
    ended: bool = False


class MemoryBackend:
    """`Backend` in process. The bounds are those of the whole; bytes are an estimate of what Python takes."""

    keeps_time = False

    def __init__(
        self, max_keys: int = MAX_KEYS, max_bytes: int = MAX_BYTES, max_reservations: int = MAX_RESERVATIONS
    ) -> None:
        self._lock = Lock()
        self._meters: dict[str, Meter] = {}
        self._space = Space(max_bytes)
        self._max_keys = max_keys
        self._to_look_at: list[str] = []
        # Who was forgotten at this time or before is unknown now: a new key's clock begins here, not earlier.
        self._forgotten_us = 0
        self._evicted = self._overflown = 0
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._max_reservations = max_reservations
        self._lapsed_early = 0

    # --- deciding -----------------------------------------------------------------------------------------------------
    def decide(self, question: Question) -> Sequence[Quota]:
        rules, keys, _, cost, at_us, taking, explain, caller, reservation = question
        assert at_us is not None, "memory has no clock of its own"
        with self._lock:
            meter = self._meters.get(keys[0])
            if meter is None or len(keys) > 1 or explain or reservation is not None:
                return self._decide(question, at_us)
            # The usual question, without the lists that others need.
            rule = rules[0]
            quota = meter.weigh(rule, at_us, cost, taking)
            if taking and quota.fits:
                meter.charge(rule, at_us, cost, caller, False)
            return (quota,)

    def _decide(self, question: Question, at_us: int) -> Sequence[Quota]:
        rules, keys, _, cost, _, taking, explain, _, _ = question
        seats: list[Seat] = []
        quotas: list[Quota] = []
        for n, rule in enumerate(rules):
            meter = self._meters.get(keys[n])
            seat = self._new(question, n, at_us) if meter is None else (rule, keys[n], meter)
            seats.append(seat)
            quotas.append(seat[2].weigh(rule, at_us, cost, taking))
        if taking and is_admitted(rules, quotas):
            self._charge(question, at_us, seats, quotas)
        elif taking:  # those under which it fits say how they stand without it
            quotas = [meter.weigh(rule, at_us, cost, False) for rule, _, meter in seats]
        if explain:
            pairs = zip(seats, quotas, strict=True)
            quotas = [meter.explained(rule, at_us, quota) for (rule, _, meter), quota in pairs]
        return quotas

    def _charge(self, question: Question, at_us: int, seats: Sequence[Seat], quotas: Sequence[Quota]) -> None:
        _, _, _, cost, _, _, _, caller, reservation = question
        held = reservation is not None
        charged = []
        for n, seat in enumerate(seats):
            if quotas[n].fits:
                rule, key, meter = seat
                if key not in self._meters:
                    # New, or forgotten a moment ago, when room was looked for on behalf of another rule.
                    self._meters[key] = meter
                    self._space.add(KEY_BYTES + len(key) + meter.size_bytes())
                charged.append((seat, meter.charge(rule, at_us, cost, caller, held)))
        if reservation is not None:
            lapses = lapses_us(question.rules, at_us)
            self._hold(reservation, _Held(tuple(charged), cost, caller, lapses), at_us)

    # --- reservations -------------------------------------------------------------------------------------------------
    def _hold(self, reservation: str, held: _Held, at_us: int) -> None:
        while self._held and next(iter(self._held.values())).lapses_us <= at_us - _GRACE_US:
            self._held.popitem(last=False)
        if len(self._held) >= self._max_reservations:
            _, oldest = self._held.popitem(last=False)
            self._lapsed_early += not oldest.ended
        self._held[reservation] = held

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        assert at_us is not None, "memory has no clock of its own"
        with self._lock:
            held = self._held.get(reservation)
            if held is None or held.lapses_us <= at_us:
                return Settled.unknown
            if held.ended:
                return Settled.ended
            self._held[reservation] = held._replace(charged=(), ended=True)
            back = 0 if keep is None else max(0, held.cost - keep)
            for (rule, key, meter), mark in held.charged:
                if self._meters.get(key) is meter:  # not forgotten or reset since
                    meter.refund(rule, at_us, mark, back, held.caller)
            return Settled.done

    def reset(self, question: Question) -> None:
        with self._lock:
            for key in question.keys:
                self._forget(key)

    # --- room ---------------------------------------------------------------------------------------------------------
    def _new(self, question: Question, n: int, at_us: int) -> Seat:
        """A meter for a key that has none, and the key to keep it under once it is charged."""
        rule, key = question.rules[n], question.keys[n]
        self._look(_LOOKS, at_us - _GRACE_US)
        if not self._has_room():
            self._look(_LOOKS_WHEN_FULL, at_us)
        if not self._has_room():
            self._overflown += 1
            key = question.overflow[n]
            if key in self._meters:
                return rule, key, self._meters[key]
        return rule, key, METERS[rule.strategy](rule, max(at_us, self._forgotten_us), self._space)

    def _has_room(self) -> bool:
        return len(self._meters) < self._max_keys and self._space.has(KEY_BYTES)

    def _look(self, looks: int, at_us: int) -> None:
        """Look at the next few keys, and forget those whose windows were empty by then."""
        for _ in range(min(looks, len(self._meters))):
            if not self._to_look_at:
                self._to_look_at = list(self._meters)
            key = self._to_look_at.pop()
            meter = self._meters.get(key)
            if meter is not None and meter.is_idle(at_us):
                self._forget(key)
                self._evicted += 1
                self._forgotten_us = max(self._forgotten_us, at_us)

    def _forget(self, key: str) -> None:
        meter = self._meters.pop(key, None)
        if meter is not None:
            self._space.give(KEY_BYTES + len(key) + meter.size_bytes())

    # --- the rest -----------------------------------------------------------------------------------------------------
    def measures(self) -> Mapping[str, float]:
        with self._lock:
            return {
                "memory_keys": len(self._meters),
                "memory_bytes": self._space.used_bytes,
                "memory_keys_evicted_total": self._evicted,
                "memory_overflow_total": self._overflown,
                "memory_buckets_merged_total": self._space.denied,
                "memory_reservations": len(self._held),
                "memory_reservations_lapsed_early_total": self._lapsed_early,
            }

    def close(self) -> None:
        """Nothing to do: what was counted goes with the process."""
