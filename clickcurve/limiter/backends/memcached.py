"""The backend on memcached: counts that many processes share, on one server or several.

Each caller has one item for each rule: the packed state of its strategy (`packed_meters`). A decision is made of it by
the code that decides in memory, and written by a command that replaces the value only if nobody else has meanwhile (by
its CAS number). A write that comes too late is decided again, from what is there now; so never more than the limit
passes, however many callers and processes race.

**One round trip** is enough where this process was the last to write: it keeps what it last saw of an item, decides by
that, and only the write finds out whether that still holds. If not, the same answer brings what is there now. A caller
that it has not seen is taken for a new one in the same way. A refusal and a peek write nothing, so they are always made
of what was read for them: another process may have taken hits back.

**Several rules** of one event are several items. Each is written only over what was read; if one comes too late, the
hit is taken out of the others again, whatever they hold by then, and decided anew. For that moment it may keep another
one out that would have fitted.

**memcached may forget.** Under memory pressure it drops what was not used for long, and a restart drops all; those
counts are free again. A key's item stays on one server of several (by rendezvous hashing: a server that is added or
removed moves only its share). No other server takes over from one that does not answer, since every limit would start
anew. The rule's failure policy says what is done instead, as it does for an item with bytes of something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid
from clickcurve.limiter import backend
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends.connections import memcached_connection as memcached
from clickcurve.limiter.backends.connections.memcached_connection import (
    CONNECTIONS,
    DONE,
    FOUND,
    NOT_THERE,
    TIMEOUT_S,
    Answer,
    Server,
    expiry,
)
from clickcurve.limiter.backends.memcached_items import GRACE_S, LEVELS, KeyItem, KeyLocks, Seen, SeenItems
from clickcurve.limiter.backends.packed_meters import counted_until_us, form_of, pack_meter, rule_of, unpack_meter
from clickcurve.limiter.decision import is_admitted
from clickcurve.limiter.key import memcached_key
from clickcurve.limiter.moment import last_us
from clickcurve.limiter.quota import Quota, new
from clickcurve.limiter.rule import Rule
from clickcurve.times import SECOND_US

PREFIX = "limit:"
# How often a hit that lost a race is decided, before it is refused; and when it may ask again.
MAX_ATTEMPTS = 200
RACED_RETRY_S = 0.001
MAX_SEEN_BYTES = 32 * 1024 * 1024

_PREFIX = re.compile(r"[!-~]{0,16}", re.ASCII)


class MemcachedBackend:
    """`Backend` on memcached 1.6.10 or later.

    addresses: each host:port. connections: at most so many to each server. timeout_s: for each step of talking to one.
    prefix: what all names begin with, visible ASCII, so that others may use the same servers. max_seen_bytes: how much
    is kept of what was last seen of items.
    """

    keeps_time = False
    server_of = None

    def __init__(
        self,
        addresses: Iterable[str],
        *,
        connections: int = CONNECTIONS,
        timeout_s: float = TIMEOUT_S,
        prefix: str = PREFIX,
        max_seen_bytes: int = MAX_SEEN_BYTES,
    ) -> None:
        self._servers = [Server(address, connections, timeout_s) for address in addresses]
        if not self._servers:
            raise SettingInvalid("memcached needs a server", field="limits_memcached", rule="host:port")
        if not _PREFIX.fullmatch(prefix):
            rule = "at most 16 visible ASCII characters"
            raise SettingInvalid(f"a prefix is {rule}, not {prefix!r}", field="prefix", value=prefix, rule=rule)
        self._prefix = prefix
        self._seen = SeenItems(max_seen_bytes)
        self._locks = KeyLocks()
        self._lock = Lock()
        self._raced = self._taken_back = self._gave_up = 0

    # --- deciding -----------------------------------------------------------------------------------------------------
    def decide(self, question: Question) -> Sequence[Quota]:
        rules, keys, _, at_us, taking, explain, _, reservation = question
        assert at_us is not None, "memcached has no clock that can be read"
        if taking and len(keys) == 1 and not explain and reservation is None:
            quota = self._take_seen(question, rules[0], keys[0], at_us)
            if quota is not None:
                return (quota,)
        locks: list[Lock] = []
        try:
            return self._decide(question, at_us, locks)
        finally:
            for lock in locks:
                lock.release()

    def _decide(self, question: Question, at_us: int, locks: list[Lock]) -> Sequence[Quota]:
        """Decides any question. locks: gets those that are to be released."""
        rules, keys, taking = question.rules, question.keys, question.take
        items, locked = self._items(question), False
        for _ in range(MAX_ATTEMPTS):
            quotas = [item.weigh(question, at_us, taking) for item in items]
            admitted = taking and is_admitted(rules, quotas)
            charged = [item for item, quota in zip(items, quotas, strict=True) if admitted and quota.fits]
            unsure = [item for item in items if not item.is_read and item not in charged]
            if unsure:
                self._read(unsure)
            elif not admitted:
                if taking:  # the quotas under which it fits are those with it
                    quotas = [item.weigh(question, at_us, False) for item in items]
                break
            elif not locked:
                locks += self._locks.acquire(keys)
                items, locked = self._items(question), True  # others have written them, where it had to wait
            elif self._charge(question, charged, at_us):
                if question.reservation is not None:
                    self._note(question.reservation, question, charged, at_us)
                break
        else:
            return self._refused(question, items, at_us)
        if question.explain:
            pairs = zip(items, quotas, strict=True)
            quotas = [item.meter.explained(item.rule, at_us, quota) for item, quota in pairs]
        return quotas

    def _refused(self, question: Question, items: Sequence[KeyItem], at_us: int) -> Sequence[Quota]:
        """Refuses a hit that lost every race."""
        with self._lock:
            self._gave_up += 1
        self._read(items)
        quotas = [item.weigh(question, at_us, False) for item in items]
        if is_admitted(question.rules, quotas):
            more_at = at_us // SECOND_US + 1
            quotas = [quota._replace(fits=False, retry_after_s=RACED_RETRY_S, more_at=more_at) for quota in quotas]
        return quotas

    def _take_seen(self, question: Question, rule: Rule, key: str, at_us: int) -> Quota | None:
        """Takes the usual hit by what was last seen of its item; returns None where that is not enough.

        Without what the others need, which is a third of the client's time.
        """
        lock = self._locks.of(key)
        if not lock.acquire(False):
            return None
        try:
            seen = self._seen.get(key)
            if seen is None or seen.value is None or seen.raced:
                return None
            server, base, value, cas, epoch, _ = seen
            assert value is not None
            meter, life = unpack_meter(rule, value)
            if counted_until_us(rule, meter) > last_us(at_us):
                return None
            quota = meter.hit(rule, at_us, question.cost, question.caller)
            if not quota.fits:
                return None
            value = pack_meter(rule, meter, life)
            command = memcached.put_command(base + LEVELS[0], value, expiry(rule.ttl_s + GRACE_S, at_us), cas)
            answers, epoch = server.ask(command, 1, (epoch,))
            if answers and answers[0][0] == DONE:
                self._seen.put(key, new(Seen, (server, base, value, answers[0][1], epoch, False)))
                return quota
            self._seen.drop(key)
        finally:
            lock.release()
        with self._lock:
            self._raced += 1
        return None

    # --- reading and writing ------------------------------------------------------------------------------------------
    def _items(self, question: Question) -> list[KeyItem]:
        return [self._item(rule, key) for rule, key in zip(question.rules, question.keys, strict=True)]

    def _item(self, rule: Rule, key: str) -> KeyItem:
        return KeyItem(rule, key, self._seen.get(key) or self._unseen(key))

    def _unseen(self, key: str) -> Seen:
        """Guesses that this key has no item yet."""
        base = self._prefix + memcached_key(key)
        return Seen(self._server(base), base.encode(), None, b"", 0, True)

    def _server(self, base: str) -> Server:
        """Returns the server of a key: of all, the one whose hash with the key is the highest."""
        if len(self._servers) == 1:
            return self._servers[0]
        return max(self._servers, key=lambda server: blake2b((server.address + base).encode(), digest_size=8).digest())

    def _by_server(self, items: Sequence[KeyItem]) -> Iterable[tuple[Server, Sequence[KeyItem]]]:
        items_by_server: dict[Server, list[KeyItem]] = {}
        for item in items:
            items_by_server.setdefault(item.server, []).append(item)
        return items_by_server.items()

    def _read(self, items: Sequence[KeyItem]) -> None:
        for server, here in self._by_server(items):
            answers, epoch = server.ask(b"".join([memcached.get_command(item.name) for item in here]), len(here))
            for item, answer in zip(here, answers or (), strict=True):
                item.take_get(answer, epoch)
                self._keep(item)

    def _put(self, items: Sequence[KeyItem], at_us: int) -> list[KeyItem]:
        """Puts each item's value over what it was made of; returns those for which that came too late, read anew."""
        late: list[KeyItem] = []
        for server, here in self._by_server(items):
            commands = [item.put_command(at_us) for item in here]
            along = [item for item in here if item.reads_along or len(items) > 1]
            commands += [memcached.get_command(item.name) for item in along]
            epochs = [item.epoch for item in here if item.cas]
            answers, epoch = server.ask(b"".join(commands), len(commands), epochs)
            answers = answers or []
            present = dict(zip(along, answers[len(here) :], strict=bool(answers)))
            for n, item in enumerate(here):
                if answers and item.take_put(answers[n], epoch):
                    self._keep(item)
                    continue
                item.forget()
                if item in present:
                    item.take_get(present[item], epoch)
                    self._keep(item)
                late.append(item)
        self._read([item for item in late if not item.is_read])
        return late

    def _keep(self, item: KeyItem) -> None:
        if not item.level:
            self._seen.put(item.key, item.seen)

    def _charge(self, question: Question, items: Sequence[KeyItem], at_us: int) -> bool:
        """Charges all items or, where one comes too late, none."""
        for item in items:
            item.charge(question, at_us)
        late = self._put(items, at_us)
        if not late:
            return True
        done = [item for item in items if item not in late]
        with self._lock:
            self._raced += 1
            self._taken_back += bool(done)
        for item in done:
            reserved = question.reservation is not None
            self._give_back(item, item.life, at_us, question.cost, question.caller, reserved)
        return False

    def _give_back(self, item: KeyItem, life: int, at_us: int, cost: int, caller: str, reserved: bool) -> None:
        """Takes so much of a hit out of its item, if that is still of this life."""
        for _ in range(MAX_ATTEMPTS):
            if not item.is_read:
                self._read([item])
            item.open(at_us)
            if item.life != life:  # reset or forgotten, and the hit with it
                return
            item.give_back(at_us, cost, caller, reserved)
            if not self._put([item], at_us):
                return
        raise BackendUnavailable(f"memcached at {item.server.address}: a hit could not be taken back and stays counted")

    # --- reservations -------------------------------------------------------------------------------------------------
    def _note(self, reservation: str, question: Question, items: Sequence[KeyItem], at_us: int) -> None:
        """Notes what was charged under a reservation, before its token is handed out."""
        charged = [[item.key, item.level, item.life, item.handle, form_of(item.rule)] for item in items]
        lapses_us = backend.lapses_us(question.rules, at_us)
        answers = self._put_note(reservation, [lapses_us, question.cost, question.caller, charged], b"", (), at_us)
        if not answers or answers[0][0] != DONE:
            raise BackendUnavailable(f"memcached does not take the reservation {reservation!r}")

    def _put_note(
        self, reservation: str, note: list[Any], cas: bytes, epochs: Sequence[int], at_us: int
    ) -> list[Answer] | None:
        server, name = self._note_place(reservation)
        ttl = expiry(max(0, note[0] - at_us) // SECOND_US + GRACE_S, at_us)
        return server.ask(memcached.put_command(name, json.dumps(note).encode(), ttl, cas), 1, epochs)[0]

    def _note_place(self, reservation: str) -> tuple[Server, bytes]:
        """Returns the server and the name of a reservation's note: no key's, since those begin with a digit or #."""
        name = self._prefix + "held:" + memcached_key(reservation)
        return self._server(name), name.encode()

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        assert at_us is not None, "memcached has no clock that can be read"
        server, name = self._note_place(reservation)
        put: list[Answer] | None = None
        while put is None:  # until no connection is opened between the reading and the writing
            read, epoch = server.ask(memcached.get_command(name), 1)
            if not read or read[0][0] != FOUND:
                return Settled.unknown
            lapses_us, cost, caller, charged = json.loads(read[0][2])
            if lapses_us <= at_us:
                return Settled.unknown
            if charged is None:
                return Settled.ended
            put = self._put_note(reservation, [lapses_us, cost, caller, None], read[0][1], [epoch], at_us)
        if put[0][0] != DONE:  # of several processes that end it at once, another one did
            return Settled.ended
        back = 0 if keep is None else max(0, cost - keep)
        for key, level, life, handle, form in charged:
            item = self._item(rule_of(form), key)
            item.level, item.handle = level, handle
            if back or item.rule.strategy == "token_bucket":  # that ends its claim too
                self._give_back(item, life, at_us, back, caller, True)
        return Settled.done

    def reset(self, question: Question) -> None:
        items = self._items(question)
        for server, here in self._by_server(items):
            names = [name for item in here for name in item.names]
            answers, _ = server.ask(b"".join(map(memcached.delete_command, names)), len(names))
            for code, _, _ in answers or ():
                if code not in (DONE, *NOT_THERE):
                    raise server.unexpected(code)
            for item in here:
                self._seen.drop(item.key)

    # --- the rest -----------------------------------------------------------------------------------------------------
    def measures(self) -> Mapping[str, float]:
        with self._lock:
            return {
                "memcached_raced_total": self._raced,
                "memcached_taken_back_total": self._taken_back,
                "memcached_gave_up_total": self._gave_up,
                "memcached_seen_bytes": self._seen.used_bytes,
                "memcached_idle_connections": sum(server.idle for server in self._servers),
            }

    def close(self) -> None:
        for server in self._servers:
            server.close()
