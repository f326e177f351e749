"""The backend on memcached: counts that many processes share, on one server or several.

memcached has no step that reads many numbers and adds to several, so a decision is one round of reading and one of
writing (`counters`), and others may be charged between the two. So that no hit too many passes, each key has a number
of its own: the sum of all that was ever charged under it. It is read before the counts and added to after them, by a
command that returns the new sum. Its growth beyond the own hit is what others were charged meanwhile, wherever they
counted it: the hit passes only if there was room for those too; else it is taken back and decided again, a few times,
and then refused.

**Guaranteed**, while memcached forgets nothing: never more than the limit, however many callers and processes race. All
or nothing in the end: for the moment between the two rounds, a hit that is taken back may keep another one out that
would have fitted. A caller without a race gets the same answers as in memory.

**memcached may forget.** Under memory pressure it drops what was not used for long, and a restart drops all; those
counts are free again. A key's counts stay together on one server of several (by rendezvous hashing: a server that
is added or removed moves only its share). No other server takes over from one that does not answer, since every limit
would start anew. The rule's failure policy says what is done instead.

A key's own number also says how often it was reset, which is part of the names of its counts: a reset is one command,
and the counts before it are never read again.
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
from clickcurve.limiter.backends.memcached_connection import CONNECTIONS, DONE, NOT_SET, TIMEOUT_S, Server, expiry
from clickcurve.limiter.backends.memcached_keys import GRACE_S, KeyState, QuestionKeys, base_name, own_life_s, take_back
from clickcurve.limiter.decision import is_admitted
from clickcurve.limiter.key import memcached_key
from clickcurve.limiter.quota import Quota
from clickcurve.times import SECOND_US

PREFIX = "limit:"
# How often a hit that lost a race is decided, before it is refused; and when it may ask again.
MAX_ATTEMPTS = 6
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
        assert question.at_us is not None, "memcached has no clock that can be read"
        raced: list[int] = []
        for _ in range(MAX_ATTEMPTS):
            keys = QuestionKeys(question, self._key_state)
            verdict = keys.decide()
            if not question.take or not is_admitted(question.rules, verdict.quotas):
                return verdict.quotas
            others = keys.charge(verdict)
            raced = _without_room(question, verdict.quotas, others) if others else []
            if not raced:
                if question.reservation is not None:
                    self._note(question, keys, verdict)
                return _with_others(question, verdict.quotas, others) if others else verdict.quotas
            with self._lock:
                self._taken_back += 1
            keys.take_back(verdict)
        return self._refused(question, raced)

    def _refused(self, question: Question, raced: Sequence[int]) -> Sequence[Quota]:
        """Refuses a hit that lost every race, at least by the rules under which it lost the last one."""
        with self._lock:
            self._gave_up += 1
        question = question._replace(take=False)
        quotas = list(QuestionKeys(question, self._key_state).decide().quotas)
        if is_admitted(question.rules, quotas):
            for n in raced:
                more_at = (question.at_us or 0) // SECOND_US + 1
                quotas[n] = quotas[n]._replace(fits=False, retry_after_s=RACED_RETRY_S, more_at=more_at)
        return quotas

    def _key_state(self, key: str) -> KeyState:
        base = self._prefix + memcached_key(key)
        return KeyState(self._server(base), base)

    def _server(self, base: str) -> Server:
        """Returns the server of a key: of all, the one whose hash with the key is the highest."""
        if len(self._servers) == 1:
            return self._servers[0]
        return max(self._servers, key=lambda server: blake2b((server.address + base).encode(), digest_size=8).digest())

    # --- reservations -------------------------------------------------------------------------------------------------
    def _note(self, question: Question, keys: QuestionKeys, verdict: Verdict) -> None:
        """Notes what was charged under a reservation, before its token is handed out."""
        at_us = question.at_us or 0
        held = [f"{backend.lapses_us(question.rules, at_us)} {question.cost}"]
        held += [keys.name(counter) for counter, _ in verdict.add]
        ttl = expiry(max(rule.keep_s for rule in question.rules) + GRACE_S, at_us)
        name = self._note_name(question.reservation or "")
        server = self._server(name)
        answer = server.ask(memcached.put_command(name, " ".join(held), ttl, None))
        if answer.strip() != DONE:
            raise server.unexpected(answer)

    def _note_name(self, reservation: str) -> str:
        """Returns the name of a reservation's note. No key has it, since keys begin with a digit or #."""
        return self._prefix + "held:" + memcached_key(reservation)

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        assert at_us is not None, "memcached has no clock that can be read"
        name = self._note_name(reservation)
        server = self._server(name)
        lapses_us, cost, names = server.parse(_parse_note, server.ask(memcached.value_command(name)))
        left_us = lapses_us - at_us
        if left_us <= 0:
            return Settled.unknown
        # Of several processes that end it at once, one sets this first. It outlives the note.
        ttl = expiry(left_us // 1_000_000 + 2 * GRACE_S, at_us)
        answer = server.ask(memcached.put_command(name + "|ended", "", ttl, None))
        if answer.strip() in NOT_SET:
            return Settled.ended
        if answer.strip() != DONE:
            raise server.unexpected(answer)
        back = 0 if keep is None else max(0, cost - keep)
        if back:
            take_back(((self._server(base_name(each)), each) for each in names), back)
        return Settled.done

    def reset(self, question: Question) -> None:
        for rule, key in zip(question.rules, question.keys, strict=True):
            state = self._key_state(key)
            answer = state.server.ask(
                memcached.add_and_get_command(state.own, 1, expiry(own_life_s(rule), question.at_us or 0))
            )
            if not answer.startswith("VA "):
                raise state.server.unexpected(answer)

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


def _parse_note(answer: str) -> tuple[int, int, list[str]]:
    """Parses a reservation's note: when it lapses, its cost, and the counts that it was added to.

    A reservation without a note has lapsed long ago.
    """
    lapses, cost, *names = (memcached.parse_value(answer) or "0 0").split()
    return int(lapses), int(cost), names


def _without_room(question: Question, quotas: Sequence[Quota], others: Mapping[str, int]) -> list[int]:
    """Returns the rules that have no room for this hit after the others that were charged meanwhile.

    A rule in shadow mode has no say.
    """
    return [
        n
        for n, (rule, key) in enumerate(zip(question.rules, question.keys, strict=True))
        if others.get(key, 0) > quotas[n].remaining and not rule.shadow
    ]


def _with_others(question: Question, quotas: Sequence[Quota], others: Mapping[str, int]) -> Sequence[Quota]:
    """Returns the quotas of an admitted hit, less the others that were charged meanwhile."""
    left = []
    for key, quota in zip(question.keys, quotas, strict=True):
        more = min(others.get(key, 0), quota.remaining)
        left.append(quota._replace(remaining=quota.remaining - more, at_most=quota.at_most + more) if more else quota)
    return left
