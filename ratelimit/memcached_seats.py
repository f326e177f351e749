"""The keys of one question on memcached: where they live, what is read of them, and what is written.

Beside its counts a key has a number of its own, the sum of all that was ever charged under it and, in the lowest bits,
how often it was reset. It is read before the counts, and added to after them by a command that tells the sum: what it
grew by beyond the own hit is what others were charged in between, wherever they counted it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from buckets.errors import BackendUnavailable
from ratelimit import memcached_connection as memcached
from ratelimit.backend import Question
from ratelimit.memcached_connection import DONE, NOT_SET, NOT_THERE, Server, lives
from ratelimit.named import Counter, Verdict, decide
from ratelimit.rule import EDGES_S, Rule

# Everything is kept so much longer than it matters, so that callers whose clocks differ by less see no difference.
GRACE_S = 60
# In a key's own number.
RESET_BITS = 12
_RESETS = (1 << RESET_BITS) - 1
# More than any hit leaves: what a key's own number grew by cannot be told, since it was reset or forgotten meanwhile.
UNTOLD = 1 << 62
_TRIES = 5


class Seat:
    """One key in one question."""

    __slots__ = ("base", "marks", "number", "own", "server")

    def __init__(self, server: Server, base: bytes) -> None:
        self.server = server
        self.base = base
        self.own = base + b"|n"
        self.number = 0
        # By which the second of the latest hit can be replaced if nobody else does.
        self.marks: dict[bytes, tuple[int, int]] = {}

    def name(self, counter: Counter) -> bytes:
        # The last three parts are numbers, so no two keys have a name in common.
        return b"%b|%d|%d|%d" % (self.base, self.number & _RESETS, counter[1], counter[2])


def base_of(name: bytes) -> bytes:
    """The key that a counter's name was made of."""
    return name.rsplit(b"|", 3)[0]


def own_life_s(rule: Rule) -> int:
    """A key's own number outlives all of its counts."""
    return rule.ttl_s + max(EDGES_S.values()) + GRACE_S


class Seats:
    """All keys of one question. Its methods raise BackendUnavailable; a charge that did may have been counted."""

    def __init__(self, question: Question, seat: Callable[[str], Seat]) -> None:
        self._question = question
        self._seats = {key: seat(key) for key in question.keys}
        self._servers = list({seat.server: None for seat in self._seats.values()})
        self._at_us = question.at_us or 0

    def name(self, counter: Counter) -> bytes:
        return self._seats[counter.key].name(counter)

    # --- reading ------------------------------------------------------------------------------------------------------
    def decide(self) -> Verdict:
        """The verdict, by one round of reading, or up to three where it is refused."""
        deciding = decide(self._question)
        known = self._first(next(deciding))
        try:
            while True:
                known = self._counts(deciding.send(known))
        except StopIteration as ended:
            verdict: Verdict = ended.value
        return verdict

    def _first(self, wanted: Sequence[Counter]) -> Mapping[Counter, int]:
        """Each key's own number, before its counts. A key that was reset is looked up again: its counts are named
        otherwise."""
        for _ in range(_TRIES):
            resets = self._resets()
            known: dict[Counter, int] = {}
            for server, named in self._named(wanted):
                known.update(self._look(server, named))
            if resets == self._resets():
                return known
        raise BackendUnavailable("memcached: a key is being reset all the time")

    def _look(self, server: Server, named: Mapping[bytes, Counter]) -> dict[Counter, int]:
        here = [seat for seat in self._seats.values() if seat.server is server]
        latest = [name for name, counter in named.items() if not counter[1]]
        counts = [name for name, counter in named.items() if counter[1]]
        owned, marked, counted = server.ask_three(
            memcached.get([seat.own for seat in here]), memcached.get_with_marks(latest), memcached.get(counts)
        )
        numbers = server.told(memcached.numbers, owned)
        marks = server.told(memcached.numbers_and_marks, marked)
        for seat in here:
            seat.number = numbers.get(seat.own, 0)
            seat.marks = marks
        known = {named[name]: count for name, count in server.told(memcached.numbers, counted).items()}
        known.update((named[name], second) for name, (second, _) in marks.items())
        return known

    def _counts(self, wanted: Sequence[Counter]) -> Mapping[Counter, int]:
        known: dict[Counter, int] = {}
        for server, named in self._named(wanted):
            told = server.told(memcached.numbers, server.ask(memcached.get(list(named))))
            known.update((named[name], count) for name, count in told.items())
        return known

    def _resets(self) -> list[int]:
        return [seat.number & _RESETS for seat in self._seats.values()]

    def _named(self, wanted: Sequence[Counter]) -> Iterable[tuple[Server, dict[bytes, Counter]]]:
        seats = self._seats
        for server in self._servers:
            yield (
                server,
                {seats[counter[0]].name(counter): counter for counter in wanted if seats[counter[0]].server is server},
            )

    # --- writing ------------------------------------------------------------------------------------------------------
    def charge(self, verdict: Verdict) -> Mapping[str, int]:
        """Write what was decided. Returns, by key, what others were charged since its counts were read, where that is
        not 0; UNTOLD where that is not known."""
        others: dict[str, int] = {}
        for server in self._servers:
            others.update(self._charge(server, verdict))
        return others

    def _charge(self, server: Server, verdict: Verdict) -> Mapping[str, int]:
        question, at_us, seats = self._question, self._at_us, self._seats
        adds = [(seats[counter.key], counter, life_s) for counter, life_s in verdict.add]
        commands = [
            memcached.add(seat.name(counter), question.cost, lives(life_s + GRACE_S, at_us))
            for seat, counter, life_s in adds
            if seat.server is server
        ]
        added = len(commands)
        puts = [each for each in verdict.put if seats[each[0].key].server is server]
        commands += [self._put(*each, seats[each[0].key].marks) for each in puts]
        charged = {counter.key: None for seat, counter, _ in adds if seat.server is server}
        rules = dict(zip(question.keys, question.rules, strict=True))
        for key in charged:  # the last of each, so that who sees it sees the counts as well
            ttl = lives(own_life_s(rules[key]), at_us)
            commands.append(memcached.add_and_tell(seats[key].own, question.cost << RESET_BITS, ttl))
        if not commands:
            return {}
        answer = server.ask(b"".join(commands))
        lines = answer.split(b"\r\n")
        told = lines[added + len(puts) : -1]
        if lines[:added].count(DONE) != added or len(told) != 2 * len(charged):
            raise server.refused(answer)
        for each, line in zip(puts, lines[added:], strict=False):
            if line != DONE:
                self._raise(server, *each)
        grown = {key: self._grown(server, key, told[2 * n + 1]) for n, key in enumerate(charged)}
        return {key: others for key, others in grown.items() if others}

    def _grown(self, server: Server, key: str, told: bytes) -> int:
        before = self._seats[key].number
        if not told.isdigit():
            raise server.refused(told)
        after = int(told)
        others = (after >> RESET_BITS) - (before >> RESET_BITS) - self._question.cost
        return others if others >= 0 and (after ^ before) & _RESETS == 0 else UNTOLD

    def _put(self, counter: Counter, value: int, life_s: int, marks: Mapping[bytes, tuple[int, int]]) -> bytes:
        name = self.name(counter)
        _, mark = marks.get(name, (0, None))
        return memcached.put(name, b"%d" % value, lives(life_s + GRACE_S, self._at_us), mark)

    def _raise(self, server: Server, counter: Counter, value: int, life_s: int) -> None:
        """The second of the latest hit was set by another hit meanwhile: it becomes at least this."""
        name = self.name(counter)
        for _ in range(_TRIES):
            marks = server.told(memcached.numbers_and_marks, server.ask(memcached.get_with_marks([name])))
            if name in marks and marks[name][0] >= value:
                return
            answer = server.ask(self._put(counter, value, life_s, marks)).strip()
            if answer == DONE:
                return
            if answer not in NOT_SET:
                raise server.refused(answer)

    def take_back(self, verdict: Verdict) -> None:
        take_back(
            ((self._seats[counter.key].server, self.name(counter)) for counter, _ in verdict.add), self._question.cost
        )


def take_back(names: Iterable[tuple[Server, bytes]], cost: int) -> None:
    """Subtract from counts, where they are still there. The keys' own numbers only ever grow."""
    of_server: dict[Server, list[bytes]] = {}
    for server, name in names:
        of_server.setdefault(server, []).append(name)
    for server, here in of_server.items():
        answer = server.ask(memcached.subtract(here, cost))
        if set(answer.split()) - {DONE, NOT_THERE}:
            raise server.refused(answer)
