"""The backend on memcached: counts that many processes share, on one server or several.

memcached has no step that reads many numbers and adds to several, so a decision is one round of reading and one of
writing (`named`), and others may be charged between the two. So that this lets nobody in who should be out,
each key has a number of its own: the sum of all that was ever charged under it. It is read before the counts and added
to after them, by a command that tells the new sum. What it grew by beyond the own hit is what others were charged
meanwhile, wherever they counted it: the hit passes only if there was room for those too; else it is taken back and
decided again, a few times, and then refused.

**Guaranteed**, while memcached forgets nothing: never more than the limit, however many callers and processes race. All
or nothing in the end: for the moment between the two rounds, a hit that is taken back may keep another one out that
would have fitted. A caller who races nobody gets the same answers as on memory.

**memcached may forget.** Under memory pressure it drops what was not used for long, and a restart drops all; what was
counted there is free again. A key's counts stay together on one server of several (by rendezvous hashing: a server that
is added or removed moves only its share). No other server takes over from one that does not answer: that would let
everybody in anew. The rule's failure policy says what is done instead.

A key's own number also tells how often it was reset, which is part of the names of its counts: a reset is one command,
and what was counted before is read no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from threading import Lock

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.limiter import backend
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends import memcached_connection as memcached
from clickcurve.limiter.backends.counters import Verdict
from clickcurve.limiter.backends.memcached_connection import CONNECTIONS, DONE, NOT_SET, TIMEOUT_S, Server, lives
from clickcurve.limiter.backends.memcached_keys import GRACE_S, Seat, Seats, base_of, own_life_s, take_back
from clickcurve.limiter.decision import is_admitted
from clickcurve.limiter.key import memcached_key
from clickcurve.limiter.quota import Quota

PREFIX = "limit:"
# How often a hit that others raced is decided, before it is refused; and when it may ask again.
TRIES = 6
RACED_RETRY_S = 0.001

_PREFIX = re.compile(r"[!-~]{0,16}", re.ASCII)


class MemcachedBackend:
    """`Backend` on memcached 1.6.10 or later; for the strategies `tiered`, `fixed` and `per_second`.

    addresses: each host:port. connections: at most so many to each server. timeout_s: for each step of talking to one.
    prefix: what all names begin with, visible ASCII, so that others may use the same servers.
    """

    keeps_time = False

    def __init__(
        self,
        addresses: Iterable[str],
        *,
        connections: int = CONNECTIONS,
        timeout_s: float = TIMEOUT_S,
        prefix: str = PREFIX,
    ) -> None:
        self._servers = [Server(address, connections, timeout_s) for address in addresses]
        if not self._servers:
            raise SettingInvalid("memcached needs a server", field="limits_memcached", rule="host:port")
        if not _PREFIX.fullmatch(prefix):
            rule = "at most 16 visible ASCII characters"
            raise SettingInvalid(f"a prefix is {rule}, not {prefix!r}", field="prefix", value=prefix, rule=rule)
        self._prefix = prefix
        self._lock = Lock()
        self._taken_back = self._gave_up = 0

    # --- deciding -----------------------------------------------------------------------------------------------------
    def decide(self, question: Question) -> Sequence[Quota]:
        assert question.at_us is not None, "memcached has no clock that it tells"
        raced: list[int] = []
        for _ in range(TRIES):
            seats = Seats(question, self._seat)
            verdict = seats.decide()
            if not question.take or not is_admitted(question.rules, verdict.quotas):
                return verdict.quotas
            others = seats.charge(verdict)
            raced = _without_room(question, verdict.quotas, others) if others else []
            if not raced:
                if question.reservation is not None:
                    self._hold(question, seats, verdict)
                return _beside(question, verdict.quotas, others) if others else verdict.quotas
            with self._lock:
                self._taken_back += 1
            seats.take_back(verdict)
        return self._refused(question, raced)

    def _refused(self, question: Question, raced: Sequence[int]) -> Sequence[Quota]:
        """Of a hit that was raced every time: refused by the rules under which it was raced last, if by no other."""
        with self._lock:
            self._gave_up += 1
        question = question._replace(take=False)
        quotas = list(Seats(question, self._seat).decide().quotas)
        if is_admitted(question.rules, quotas):
            for n in raced:
                quotas[n] = quotas[n]._replace(fits=False, retry_after_s=RACED_RETRY_S)
        return quotas

    def _seat(self, key: str) -> Seat:
        base = self._prefix + memcached_key(key)
        return Seat(self._server(base), base)

    def _server(self, base: str) -> Server:
        """The server on which a key lives: of all, the one for which the highest number is drawn."""
        if len(self._servers) == 1:
            return self._servers[0]
        return max(self._servers, key=lambda server: blake2b((server.address + base).encode(), digest_size=8).digest())

    # --- reservations -------------------------------------------------------------------------------------------------
    def _hold(self, question: Question, seats: Seats, verdict: Verdict) -> None:
        """Note what was charged, after it was: who is told the token may use it."""
        at_us = question.at_us or 0
        held = [f"{backend.lapses_us(question.rules, at_us)} {question.cost}"]
        held += [seats.name(counter) for counter, _ in verdict.add]
        ttl = lives(max(rule.keep_s for rule in question.rules) + GRACE_S, at_us)
        name = self._reservation(question.reservation or "")
        server = self._server(name)
        answer = server.ask(memcached.put(name, " ".join(held), ttl, None))
        if answer.strip() != DONE:
            raise server.refused(answer)

    def _reservation(self, reservation: str) -> str:
        """The name of its note. A key begins with a digit or #."""
        return self._prefix + "held:" + memcached_key(reservation)

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        assert at_us is not None, "memcached has no clock that it tells"
        name = self._reservation(reservation)
        server = self._server(name)
        lapses_us, cost, names = server.told(_held, server.ask(memcached.get_value(name)))
        left_us = lapses_us - at_us
        if left_us <= 0:
            return Settled.unknown
        # Of several who end it at once, one is the first to say so. It is gone only after what was held.
        ttl = lives(left_us // 1_000_000 + 2 * GRACE_S, at_us)
        answer = server.ask(memcached.put(name + "|ended", "", ttl, None))
        if answer.strip() in NOT_SET:
            return Settled.ended
        if answer.strip() != DONE:
            raise server.refused(answer)
        back = 0 if keep is None else max(0, cost - keep)
        if back:
            take_back(((self._server(base_of(each)), each) for each in names), back)
        return Settled.done

    def reset(self, question: Question) -> None:
        for rule, key in zip(question.rules, question.keys, strict=True):
            seat = self._seat(key)
            answer = seat.server.ask(memcached.add_and_tell(seat.own, 1, lives(own_life_s(rule), question.at_us or 0)))
            if not answer.startswith("VA "):
                raise seat.server.refused(answer)

    # --- the rest -----------------------------------------------------------------------------------------------------
    def measures(self) -> Mapping[str, float]:
        with self._lock:
            return {
                "memcached_taken_back_total": self._taken_back,
                "memcached_gave_up_total": self._gave_up,
                "memcached_idle_connections": sum(server.idle for server in self._servers),
            }

    def close(self) -> None:
        for server in self._servers:
            server.close()


def _held(answer: str) -> tuple[int, int, list[str]]:
    """What is noted of a reservation: when it lapses, its cost, and the counts that it was added to. One of which
    nothing is known has lapsed long ago."""
    lapses, cost, *names = (memcached.value(answer) or "0 0").split()
    return int(lapses), int(cost), names


def _without_room(question: Question, quotas: Sequence[Quota], others: Mapping[str, int]) -> list[int]:
    """The rules that have no room for this hit beside those others that were charged meanwhile. A rule in shadow mode
    has no say."""
    return [
        n
        for n, (rule, key) in enumerate(zip(question.rules, question.keys, strict=True))
        if others.get(key, 0) > quotas[n].remaining and not rule.shadow
    ]


def _beside(question: Question, quotas: Sequence[Quota], others: Mapping[str, int]) -> Sequence[Quota]:
    """The quotas of a hit that was admitted, with those others that were charged meanwhile."""
    told = []
    for key, quota in zip(question.keys, quotas, strict=True):
        more = min(others.get(key, 0), quota.remaining)
        told.append(quota._replace(remaining=quota.remaining - more, at_most=quota.at_most + more) if more else quota)
    return told
