"""The keys of one question on memcached: where they live, what is read of them, and what is written.

Apart from its counts a key has a number of its own: the sum of all that was ever charged under it and, in the lowest
bits, how often it was reset. It is read before the counts, and added to after them by a command that returns the sum:
its growth beyond the own hit is what others were charged in between, wherever they counted it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backend import Question
from clickcurve.limiter.backends import memcached_connection as memcached
from clickcurve.limiter.backends.counters import CLOCKS_DIFFER_S, Counter, Verdict, decide_by_counters
from clickcurve.limiter.backends.memcached_connection import DONE, NOT_THERE, Server, expiry
from clickcurve.limiter.rule import EDGES_S, Rule

# Everything is kept so much longer than it counts, so that callers whose clocks differ by less see no difference.
GRACE_S = CLOCKS_DIFFER_S
# In a key's own number.
RESET_BITS = 12
_RESETS = (1 << RESET_BITS) - 1
# More than any limit: the growth of a key's own number is unknown, since it was reset or forgotten meanwhile.
UNKNOWN_GROWTH = 1 << 62
_READ_ATTEMPTS = 5


class KeyState:
    """One key of a question: its server, its own number, and how its counts are named."""

    __slots__ = ("base", "cas", "number", "own", "server")

    def __init__(self, server: Server, base: str) -> None:
        self.server = server
        self.base = base
        self.own = base + "|n"
        self.number = 0
        # By name the second of the latest hit, and the CAS number by which it is replaced unless another process did.
        self.cas: dict[str, tuple[int, int]] = {}

    @property
    def start(self) -> str:
        """What the names of its counts begin with: after a reset they are others than before."""
        return f"{self.base}|{self.number & _RESETS}|"

    def name(self, counter: Counter) -> str:
        # The last three parts are numbers, so no two keys have a name in common.
        return f"{self.start}{counter[1]}|{counter[2]}"


def base_name(name: str) -> str:
    """Returns the key that a counter's name was made of."""
    return name.rsplit("|", 3)[0]


def own_life_s(rule: Rule) -> int:
    """Returns the life of a key's own number, which outlives all of its counts."""
    return rule.ttl_s + max(EDGES_S.values()) + GRACE_S


class QuestionKeys:
    """All keys of one question. Its methods raise BackendUnavailable; a charge that does may have been counted."""

    def __init__(self, question: Question, state: Callable[[str], KeyState]) -> None:
        self._question = question
        self._keys = {key: state(key) for key in question.keys}
        self._servers = list({state.server: None for state in self._keys.values()})
        self._at_us = question.at_us or 0

    def name(self, counter: Counter) -> str:
        return self._keys[counter.key].name(counter)

    # --- reading ------------------------------------------------------------------------------------------------------
    def decide(self) -> Verdict:
        """Reads and decides, in one round, or up to three where the hit is refused."""
        deciding = decide_by_counters(self._question)
        known = self._read_first(next(deciding))
        try:
            while True:
                known = self._read_more(deciding.send(known))
        except StopIteration as ended:
            verdict: Verdict = ended.value
        return verdict

    def _read_first(self, wanted: Sequence[Counter]) -> Mapping[Counter, int]:
        """Reads each key's own number, then its counts; again if a key was reset, since its counts have other names."""
        for _ in range(_READ_ATTEMPTS):
            resets = self._resets()
            known: dict[Counter, int] = {}
            for server, named in self._names_by_server(wanted):
                known.update(self._read_server(server, named))
            if resets == self._resets():
                return known
        raise BackendUnavailable("memcached: a key is being reset all the time")

    def _read_server(self, server: Server, named: Mapping[str, Counter]) -> dict[Counter, int]:
        here = [state for state in self._keys.values() if state.server is server]
        latest = [name for name, counter in named.items() if not counter[1]]
        counts = [name for name, counter in named.items() if counter[1]]
        owned, marked, counted = server.ask_three(
            memcached.get_command([state.own for state in here]),
            memcached.gets_command(latest),
            memcached.get_command(counts),
        )
        numbers = server.parse(memcached.parse_numbers, owned)
        cas = server.parse(memcached.parse_numbers_and_cas, marked)
        for state in here:
            state.number = numbers.get(state.own, 0)
            state.cas = cas
        known = {named[name]: count for name, count in server.parse(memcached.parse_numbers, counted).items()}
        known.update((named[name], second) for name, (second, _) in cas.items())
        return known

    def _read_more(self, wanted: Sequence[Counter]) -> Mapping[Counter, int]:
        known: dict[Counter, int] = {}
        for server, named in self._names_by_server(wanted):
            counts = server.parse(memcached.parse_numbers, server.ask(memcached.get_command(list(named))))
            known.update((named[name], count) for name, count in counts.items())
        return known

    def _resets(self) -> list[int]:
        return [state.number & _RESETS for state in self._keys.values()]

    def _names_by_server(self, wanted: Sequence[Counter]) -> Iterable[tuple[Server, dict[str, Counter]]]:
        """Yields the names of what is wanted, by server. Written out, since a decision may have hundreds of them."""
        starts = {key: state.start for key, state in self._keys.items()}
        if len(self._servers) == 1:
            yield self._servers[0], {f"{starts[each[0]]}{each[1]}|{each[2]}": each for each in wanted}
            return
        for server in self._servers:
            here = [each for each in wanted if self._keys[each[0]].server is server]
            yield server, {f"{starts[each[0]]}{each[1]}|{each[2]}": each for each in here}

    # --- writing ------------------------------------------------------------------------------------------------------
    def charge(self, verdict: Verdict) -> Mapping[str, int]:
        """Writes what was decided; returns, by key, what others were charged since its counts were read.

        Keys where that is 0 are left out; UNKNOWN_GROWTH where it is not known.
        """
        others: dict[str, int] = {}
        for server in self._servers:
            others.update(self._charge(server, verdict))
        return others

    def _charge(self, server: Server, verdict: Verdict) -> Mapping[str, int]:
        """Writes in this order: the counts, the second of the latest hit, the key's own number.

        So a process that reads an own number with this hit in it finds the rest of it as well.
        """
        states, cost, at_us = self._keys, self._question.cost, self._at_us
        adds = [each for each in verdict.add if states[each[0].key].server is server]
        puts = [each for each in verdict.put if states[each[0].key].server is server]
        charged = list({counter.key: None for counter, _ in adds})
        if not charged:
            return {}
        commands = [
            memcached.add_command(self.name(each), cost, expiry(life_s + GRACE_S, at_us)) for each, life_s in adds
        ]
        commands += [self._put(*each) for each in puts]
        rules = dict(zip(self._question.keys, self._question.rules, strict=True))
        commands += [
            memcached.add_and_get_command(states[key].own, cost << RESET_BITS, expiry(own_life_s(rules[key]), at_us))
            for key in charged
        ]
        answer = server.ask("".join(commands))
        lines = answer.split("\r\n")
        latest, own = lines[len(adds) : len(adds) + 3 * len(puts)], lines[len(adds) + 3 * len(puts) : -1]
        if lines[: len(adds)].count(DONE) != len(adds) or len(own) != 2 * len(charged):
            raise server.unexpected(answer)
        others = {key: server.parse(self._growth(key), own[2 * n + 1]) for n, key in enumerate(charged)}
        for (counter, second, _), stored in zip(puts, latest[2::3], strict=True):
            # Another process has set it: it must not be before this hit.
            if server.parse(int, stored) < second:
                others[counter.key] = UNKNOWN_GROWTH
        return {key: more for key, more in others.items() if more}

    def _growth(self, key: str) -> Callable[[str], int]:
        """Returns what parses a key's new own number into its growth beyond this hit."""
        before, cost = self._keys[key].number, self._question.cost

        def growth(answer: str) -> int:
            others = (int(answer) >> RESET_BITS) - (before >> RESET_BITS) - cost
            return others if others >= 0 and (int(answer) ^ before) & _RESETS == 0 else UNKNOWN_GROWTH

        return growth

    def _put(self, counter: Counter, second: int, life_s: int) -> str:
        """Returns what sets the second of the latest hit, unless another process did, and reads it."""
        name = self.name(counter)
        seen = self._keys[counter.key].cas.get(name)
        ttl = expiry(life_s + GRACE_S, self._at_us)
        return memcached.put_command(
            name, str(second), ttl, None if seen is None else seen[1]
        ) + memcached.value_command(name)

    def take_back(self, verdict: Verdict) -> None:
        take_back(
            ((self._keys[counter.key].server, self.name(counter)) for counter, _ in verdict.add), self._question.cost
        )


def take_back(names: Iterable[tuple[Server, str]], cost: int) -> None:
    """Subtracts from counts, where they still exist. The keys' own numbers only ever grow."""
    of_server: dict[Server, list[str]] = {}
    for server, name in names:
        of_server.setdefault(server, []).append(name)
    for server, here in of_server.items():
        answer = server.ask(memcached.subtract_command(here, cost))
        if set(answer.split()) - {DONE, NOT_THERE}:
            raise server.unexpected(answer)
