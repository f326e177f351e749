"""The items that the keys of a question have on memcached, and what this process last saw of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import getrandbits
from threading import Lock
from typing import NamedTuple

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backend import Question
from clickcurve.limiter.backends.connections import memcached_connection as memcached
from clickcurve.limiter.backends.connections.memcached_connection import DONE, FOUND, NOT_SET, NOT_THERE, Answer, Server
from clickcurve.limiter.backends.meter import UNBOUNDED, Meter
from clickcurve.limiter.backends.meters import METERS
from clickcurve.limiter.backends.packed_meters import (
    charge_held,
    counted_until_us,
    pack_meter,
    take_out,
    unpack_meter,
)
from clickcurve.limiter.moment import last_us
from clickcurve.limiter.quota import Quota, new
from clickcurve.limiter.rule import Rule

# An item lives so much longer than it counts: memcached's clock is another one, and ticks by whole seconds.
GRACE_S = 60
# A clock that is behind (`moment`) counts in the next item, and one that is behind that in the third.
# Else two machines whose clocks differ would undo one another's counts, hit by hit.
LEVELS = (b"|a", b"|b", b"|c")
# What an entry takes beside its value.
SEEN_BYTES = 600
LOCKS = 1_024
LOCKED_S = 0.05


class Seen(NamedTuple):
    """An item as this process last saw it.

    raced: whether others wrote it between what was seen and the write that it led to.
    """

    server: Server
    base: bytes
    value: bytes | None
    cas: bytes
    epoch: int
    raced: bool


class SeenItems:
    """The items that were seen last, so many bytes of them, by key."""

    def __init__(self, max_bytes: int) -> None:
        self._lock = Lock()
        self._seen: dict[str, Seen] = {}
        self._max_bytes = max_bytes
        self.used_bytes = 0
        self.get = self._seen.get

    def put(self, key: str, seen: Seen) -> None:
        with self._lock:
            self._drop(key)
            self._seen[key] = seen  # the last of all
            self.used_bytes += SEEN_BYTES + len(seen.value or b"")
            while self.used_bytes > self._max_bytes:
                self._drop(next(iter(self._seen)))

    def drop(self, key: str) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: str) -> None:
        seen = self._seen.pop(key, None)
        if seen is not None:
            self.used_bytes -= SEEN_BYTES + len(seen.value or b"")


class KeyLocks:
    """Locks by which the threads of a process write a key one after the other: at once only one succeeds.

    They keep nothing right: that is for the CAS numbers. One that is not to be had in time is done without.
    """

    def __init__(self) -> None:
        self._locks = [Lock() for _ in range(LOCKS)]

    def of(self, key: str) -> Lock:
        return self._locks[hash(key) % LOCKS]

    def acquire(self, keys: Sequence[str]) -> list[Lock]:
        """Acquires those of these keys, always in the same order; returns what is to be released."""
        numbers = sorted({hash(key) % LOCKS for key in keys})
        return [lock for lock in map(self._locks.__getitem__, numbers) if lock.acquire(timeout=LOCKED_S)]


class KeyItem:
    """The item of one key of a question.

    value: its bytes, None if there is none, and cas their CAS number, which holds in this epoch. is_read: whether that
    is so since the question came; until then it is what was seen before, or a guess that there is none. reads_along:
    whether a put is sent with a get, which answers what is there if that comes too late.
    """

    __slots__ = (
        *("base", "cas", "epoch", "handle", "is_read", "key", "level", "life", "meter", "raced", "reads_along", "rule"),
        *("server", "value"),
    )

    meter: Meter
    life: int
    handle: int

    def __init__(self, rule: Rule, key: str, seen: Seen) -> None:
        self.rule = rule
        self.key = key
        self.server, self.base, self.value, self.cas, self.epoch, self.reads_along = seen
        self.level = 0
        self.is_read = self.raced = False

    @property
    def name(self) -> bytes:
        return self.base + LEVELS[self.level]

    @property
    def names(self) -> list[bytes]:
        return [self.base + level for level in LEVELS]

    @property
    def seen(self) -> Seen:
        return new(Seen, (self.server, self.base, self.value, self.cas, self.epoch, self.raced))

    # --- its meter ----------------------------------------------------------------------------------------------------
    def load(self, at_us: int) -> None:
        """Makes the meter of what is known, in the item that is this clock's."""
        self.open(at_us)
        while self.level + 1 < len(LEVELS) and counted_until_us(self.rule, self.meter) > last_us(at_us):
            if self.is_read:
                self.level += 1
            self.forget()
            self.open(at_us)

    def open(self, at_us: int) -> None:
        """Makes the meter of the value; a new one where there is none."""
        if self.value is None:
            self.meter, self.life = METERS[self.rule.strategy](self.rule, at_us, UNBOUNDED), getrandbits(32)
        else:
            self.meter, self.life = unpack_meter(self.rule, self.value)

    def weigh(self, question: Question, at_us: int, taking: bool) -> Quota:
        self.load(at_us)
        return self.meter.weigh(self.rule, at_us, question.cost, taking)

    def charge(self, question: Question, at_us: int) -> None:
        reserved = question.reservation is not None
        self.handle = charge_held(self.rule, self.meter, at_us, question.cost, question.caller, reserved)
        self.pack()

    def give_back(self, at_us: int, cost: int, caller: str, reserved: bool) -> None:
        if reserved:
            self.meter.refund(self.rule, at_us, self.handle, cost, caller)
        else:
            take_out(self.rule, self.meter, at_us, self.handle, cost, caller)
        self.pack()

    def pack(self) -> None:
        self.value = pack_meter(self.rule, self.meter, self.life)

    # --- its place ----------------------------------------------------------------------------------------------------
    def forget(self) -> None:
        """Guesses that there is none."""
        self.value, self.cas, self.is_read = None, b"", False

    def put_command(self, at_us: int) -> bytes:
        ttl = memcached.expiry(self.rule.ttl_s + GRACE_S, at_us)
        assert self.value is not None
        return memcached.put_command(self.name, self.value, ttl, self.cas)

    def take_put(self, answer: Answer, epoch: int) -> bool:
        """Takes the answer to a put; returns whether it was done."""
        code, cas, _ = answer
        if code == DONE:
            self._take(self.value, cas, epoch)
            return True
        if code not in NOT_SET:
            raise self.server.unexpected(code)
        self.raced = self.reads_along = True
        return False

    def take_get(self, answer: Answer, epoch: int) -> None:
        code, cas, value = answer
        if code == FOUND:
            self._take(value, cas, epoch)
        elif code in NOT_THERE:
            self.value, self.cas, self.epoch, self.is_read = None, b"", epoch, True
        else:
            raise self.server.unexpected(code)

    def _take(self, value: bytes | None, cas: bytes, epoch: int) -> None:
        if cas in (b"", b"0"):
            raise BackendUnavailable(f"memcached at {self.server.address} returns no CAS values; start it without -C")
        self.value, self.cas, self.epoch, self.is_read = value, cas, epoch, True
