"""Events and the questions about them: the part of a limiter that never waits for a backend."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from clickcurve.buckets.errors import EventUnknown, ParameterInvalid, RuleInvalid
from clickcurve.limiter.backend import AsyncBackend, Backend, Question
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.key import KeyMaker, key_maker, tag_digits
from clickcurve.limiter.quota import Quota, new
from clickcurve.limiter.rates import MAX_LIMIT
from clickcurve.limiter.rule import Rule, check_one_caller, check_together
from clickcurve.times import SECOND_US

Clock: TypeAlias = Callable[[], float]
Features: TypeAlias = Mapping[str, str]
# Hears of decisions: the event, the cost, the decision.
Listener: TypeAlias = Callable[[str, int, Decision], None]
# The same of each caller whose history a rule keeps; the second is the caller, as `identity_of` has it.
CallerListener: TypeAlias = Callable[[str, str, int, Decision], None]

MAX_CALLER_CHARS = 256
_RESERVATION = re.compile(r"([0-9]{1,10})-([0-9a-f]{4})[0-9a-f]{28}")
# Backends keep seconds below 2^32, and the end of a window may be 366 days later.
LATEST_NOW_S = 4_200_000_000
NOW_RULE = f"epoch seconds from 0 to below {LATEST_NOW_S} (the year 2103)"
COST_RULE = f"a whole number from 1 to {MAX_LIMIT}"


@dataclass(frozen=True, slots=True)
class Event:
    """What a hit is decided under together: its rules, what makes the key of each, and the backend of them all.

    clock: by which its hits are decided; None where that backend has one of its own. remembers: what makes the keys of
    the rule that is a list, if one is. callers: of the rules that keep a history of callers, once for each `by`; ()
    without a listener. is_reported: whether any listener gets its decisions. may_skip: whether callers may skip rules
    (`optional`, `unless`); subsets: the event with the other rules only, by the numbers of these.
    """

    name: str
    rules: tuple[Rule, ...]
    keys: tuple[KeyMaker, ...]
    backend: str
    clock: Clock | None = field(compare=False)
    remembers: KeyMaker | None
    callers: tuple[KeyMaker, ...]
    is_reported: bool
    may_skip: bool
    subsets: dict[tuple[int, ...], Event] = field(default_factory=dict, compare=False)


class Attempt:
    """What `count_failures` hands to its block; the block calls `fail()`, or raises, if it is to count."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.failed = False

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def fail(self) -> None:
        self.failed = True

    @property
    def reservation(self) -> str | None:
        return self.decision.reservation

    @property
    def keep(self) -> int | None:
        """How much stays counted in the end: all of it (None), or nothing."""
        return None if self.failed else 0


class Events:
    """The events of a limiter, its clocks and its listeners.

    clock: epoch seconds; None if every backend keeps time, and not read for the events of those that do. timer: seconds
    that never step back.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        backends: Mapping[str, Backend] | Mapping[str, AsyncBackend],
        clock: Clock | None,
        timer: Clock | None,
        listener: Listener | None,
        caller_listener: CallerListener | None,
    ) -> None:
        self._clock = clock
        self._timer = timer or clock
        self._listener = listener
        self._caller_listener = caller_listener
        self._backends = backends
        self._by_name = self._compiled(rules)

    def replace(self, rules: Iterable[Rule]) -> None:
        """Takes other rules from now on; RuleInvalid leaves the old. Counts go on where a rule counts as before."""
        self._by_name = self._compiled(rules)

    def __getitem__(self, name: str) -> Event:
        """Returns the event of this name. EventUnknown if no rule is for it."""
        try:
            return self._by_name[name]
        except KeyError:
            events = ", ".join(sorted(self._by_name)) or "none"
            raise EventUnknown(
                f"no rule is for the event {name!r}; known: {events}", field="event", value=name, rule=events
            ) from None

    def of(self, name: str, features: Features) -> Event:
        """Returns the event with those rules only that are for a caller with these features.

        ParameterInvalid where each rule is skipped for want of a feature; where one is by `unless`, none may be left.
        """
        event = self._by_name.get(name) or self[name]
        if not event.may_skip:
            return event
        spared = [any(map(features.get, rule.unless)) for rule in event.rules]
        given = [
            not rule.optional or bool(keys.given(features)) for rule, keys in zip(event.rules, event.keys, strict=True)
        ]
        left = tuple(n for n in range(len(event.rules)) if given[n] and not spared[n])
        if not left and not any(spared):
            event.keys[0].key(features)  # raises what is missing
        if len(left) == len(event.rules):
            return event
        narrowed = event.subsets.get(left)
        if narrowed is None:
            narrowed = event.subsets[left] = self._some_rules(event, left)
        return narrowed

    def without_rules(self, event: Event, now: float | None) -> Decision:
        """Returns the decision about a hit for which every rule is skipped: it passes, and counts nowhere."""
        rule = self[event.name].rules[0]
        at_s = (self.now() if now is None else now) or 0.0
        limit, window_s = rule.reaches[0][:2]
        return Decision(True, rule, Quota(True, limit, window_s, limit, 0.0, int(at_s), 0, 0))

    def rules(self) -> Mapping[str, tuple[Rule, ...]]:
        return {name: event.rules for name, event in self._by_name.items()}

    def now(self) -> float | None:
        """Returns epoch seconds by the limiter's clock; None if it has none."""
        return None if self._clock is None else self._clock()

    def question(
        self,
        event: Event,
        features: Features,
        cost: int,
        now: float | None,
        take: bool = True,
        explain: bool = False,
        caller: str | None = None,
        reservation: str | None = None,
    ) -> Question:
        """Makes the question. ParameterInvalid when a feature is missing or the cost is wrong."""
        if cost != 1:
            check_cost(cost)
        if event.remembers is not None:
            caller = (caller or event.remembers.caller(features))[:MAX_CALLER_CHARS]
        rules, keys = event.rules, event.keys
        named = (keys[0].key(features),) if len(keys) == 1 else tuple([each.key(features) for each in keys])
        at_us = int(event.clock() * SECOND_US) if now is None and event.clock is not None else self.at_us(event, now)
        return new(Question, (rules, named, cost, at_us, take, explain, caller or "", reservation))

    def report(self, event: Event, features: Features, cost: int, decision: Decision) -> None:
        """Passes a decision to the listeners."""
        if self._listener is not None:
            self._listener(event.name, cost, decision)
        if event.callers and self._caller_listener is not None:
            for keys in event.callers:
                self._caller_listener(event.name, keys.identity(features), cost, decision)

    def timer(self) -> float:
        """Returns the seconds by which waiters keep deadlines. ValueError if neither timer nor clock was given."""
        if self._timer is None:
            raise ValueError("a limiter without a clock needs a timer to wait by")
        return self._timer()

    def at_us(self, event: Event, now: float | None) -> int | None:
        """Returns the microsecond: the given one, else None for a backend that keeps time, else the clock's."""
        if now is None:
            return None if event.clock is None else int(event.clock() * SECOND_US)
        if not 0 <= now < LATEST_NOW_S:  # nan is neither
            raise ParameterInvalid(f"now must be {NOW_RULE}, not {now!r}", field="now", value=now, rule=NOW_RULE)
        return int(now * SECOND_US)

    def _compiled(self, rules: Iterable[Rule]) -> Mapping[str, Event]:
        of_event: dict[str, list[Rule]] = {}
        for rule in rules:
            of_event.setdefault(rule.event, []).append(rule)
        return {name: self._event(name, tuple(rules)) for name, rules in of_event.items()}

    def _event(self, name: str, rules: tuple[Rule, ...]) -> Event:
        check_together(rules)
        backend = rules[0].backend
        if backend not in self._backends:
            raise RuleInvalid(
                f"limits.{name}: the backend {backend!r} is not set up",
                field="backend",
                value=backend,
                rule="one of " + ", ".join(sorted(self._backends)),
            )
        is_tagged = self._backends[backend].server_of is not None
        if is_tagged:
            check_one_caller(rules)
        keys = tuple(key_maker(rule, is_tagged) for rule in rules)
        lists = [each for each, rule in zip(keys, rules, strict=True) if rule.strategy == "list"]
        callers: dict[object, KeyMaker] = {}
        for each, rule in zip(keys, rules, strict=True):
            if rule.history == "callers" and self._caller_listener is not None:
                callers.setdefault(rule.by, each)
        may_skip = any(rule.optional or rule.unless for rule in rules)
        clock = None if self._backends[backend].keeps_time else self._clock
        remembers = lists[0] if lists else None
        is_reported = self._listener is not None or bool(callers)
        return Event(name, rules, keys, backend, clock, remembers, tuple(callers.values()), is_reported, may_skip)

    def _some_rules(self, event: Event, numbers: tuple[int, ...]) -> Event:
        if not numbers:
            return replace(event, rules=(), keys=(), remembers=None, callers=(), subsets={})
        return self._event(event.name, tuple(event.rules[n] for n in numbers))


def check_cost(cost: object) -> None:
    """Raises ParameterInvalid unless the cost is a whole number from 1 to MAX_LIMIT."""
    if not isinstance(cost, int) or isinstance(cost, bool) or not 1 <= cost <= MAX_LIMIT:
        raise ParameterInvalid(f"the cost must be {COST_RULE}, not {cost!r}", field="cost", value=cost, rule=COST_RULE)


# --- reservations -----------------------------------------------------------------------------------------------------
def new_reservation(event: Event, features: Features, cost: int) -> str:
    """Makes a token that nobody can guess. It holds the cost, so that no backend is asked for it.

    Where keys have tags, the four digits of the caller's tag are the first of the token's digits.
    """
    token = secrets.token_hex(16)
    if event.keys and event.keys[0].is_tagged:
        tag = tag_digits(event.keys[0].key(features))
        token = tag + token[len(tag) :]
    return f"{cost}-{token}"


def held_as(event: Event, reservation: str) -> str:
    """Returns the name under which a backend keeps a reservation: no other event has it."""
    if event.keys and event.keys[0].is_tagged:
        match = _RESERVATION.fullmatch(reservation)
        # What is not a token has some tag, and is unknown there.
        return f"{{{match[2] if match else '0000'}}}{event.name}/{reservation}"
    return f"{event.name}/{reservation}"


def parse_kept(reservation: str, cost: int | None) -> int | None:
    """Returns how much a commit keeps: None for all. ParameterInvalid if it is more than was reserved."""
    if cost is None:
        return None
    if cost != 0:
        check_cost(cost)
    match = _RESERVATION.fullmatch(reservation)
    reserved = int(match[1]) if match else cost  # a text that is not a token will be unknown
    if cost > reserved:
        raise ParameterInvalid(
            f"only {reserved} were reserved: hit the other {cost - reserved} by themselves",
            field="cost",
            value=cost,
            rule=f"a whole number from 0 to {reserved}",
        )
    return cost
