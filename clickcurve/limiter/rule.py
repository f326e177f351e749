"""A rule: which callers of an event share a limit, the limit, and how it is kept. RuleInvalid says what is wrong.

A settings file has one table `[limits.EVENT]`, or several `[[limits.EVENT]]` that are decided together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.buckets.ladder import DAY_S
from clickcurve.limiter.rates import MAX_LIMIT, MAX_WINDOW_S, Rate, in_order, parse_rates
from clickcurve.limiter.token_bucket import Flow, flow_of
from clickcurve.times import SECOND_US

EDGES_S = {"second": 1, "minute": 60, "hour": 3_600}
# A window that is shorter has finer buckets than seconds, of a twentieth of it or less: strict counts the bucket that
# is being left, and of a window of a second a whole second more would be half of the rate.
FINE_BELOW_S = 20
_FINE_US = (500_000, 250_000, 100_000, 50_000)
SIDES = ("strict", "lenient")
FAILURES = ("open", "closed", "local")
HISTORIES = ("event", "callers")
COSTS = ("requests", "hits")
# The event of a limiter that was made of rates alone.
IMPLIED = "limit"
# The feature that everybody shares, and its value.
EVERYBODY = "everybody"
ALL: Mapping[str, str] = {EVERYBODY: "all"}
# A list remembers each caller by name.
MAX_LIST = 10_000
# Fields of a question that are not features.
RESERVED = ("cost", "peek", "explain", "reserve")

STRATEGIES = ("tiered", "fixed", "token_bucket", "per_second", "single_counter", "list")
BACKENDS = ("memory", "redis", "memcached")
_SEVERAL_RATES = ("tiered", "fixed", "token_bucket")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,64}")


class Reach(NamedTuple):
    """A rate in the numbers that a decision needs; edge, decided and other are in ticks of the rule.

    Of the buckets of the edge's width, those that begin less than `decided` before now are held against the limit;
    those that begin less than `other` before now give the other end of the bound. A token bucket's limit is its burst,
    and its window the time in which that comes in: the same rate.
    """

    limit: int
    window_s: int
    edge: int
    decided: int
    other: int


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of an event. Checked on construction: RuleInvalid names the field, its value and what is wrong.

    by: the alternatives, each the features that name a caller together; the first that a question has all of is taken.
    edge_s and side only mean something to `tiered`, burst only to a `token_bucket` of one rate (0: the rate's limit, as
    it is of several). tick_us: in which a backend counts time, a second or the width of the fine buckets; edge: of the
    finest buckets, in ticks. flows: of a `token_bucket`, one for each rate. ttl_s: how long a backend keeps what it
    counted (0: as long as it needs). history: whether listeners hear of the event alone, or of its callers too.
    optional: it is skipped where its features are missing; unless: where one of these features is given. headers: of
    which header fields a proxy's question takes features, as pairs of a feature and a field's name. cost: what a
    server's own rule of writes counts; all other hits say their cost themselves.
    """

    event: str
    name: str
    by: tuple[tuple[str, ...], ...]
    rates: tuple[Rate, ...]
    strategy: str = "tiered"
    edge_s: int = 1
    side: str = "strict"
    burst: int = 0
    backend: str = "memory"
    on_failure: str = "open"
    shadow: bool = False
    status: int = 429
    optional: bool = False
    unless: tuple[str, ...] = ()
    ttl_s: int = 0
    history: str = "event"
    headers: tuple[tuple[str, str], ...] = ()
    cost: str = COSTS[0]
    # Worked out once, for the sake of every decision.
    tick_us: int = field(init=False, repr=False, compare=False)
    ticks_s: int = field(init=False, repr=False, compare=False)
    edge: int = field(init=False, repr=False, compare=False)
    reaches: tuple[Reach, ...] = field(init=False, repr=False, compare=False)
    flows: tuple[Flow, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            _check_rule(self)
        except RuleInvalid as error:
            raise _with_event(error, self.event) from None
        put = object.__setattr__
        put(self, "rates", in_order(self.rates))
        put(self, "tick_us", self._tick_us())
        put(self, "ticks_s", SECOND_US // self.tick_us)
        put(self, "edge", 1 if self.ticks_s > 1 else self.edge_s)
        put(self, "reaches", tuple(self._reach(rate) for rate in self.rates))
        put(self, "flows", ())
        if self.strategy == "token_bucket":
            flows = tuple(flow_of(rate.limit, rate.window_s, self.burst or rate.limit) for rate in self.rates)
            put(self, "burst", flows[0].burst if len(flows) == 1 else 0)
            put(self, "flows", flows)
            put(
                self,
                "reaches",
                tuple(Reach(each.burst, each.window_s, 1, each.window_s, each.window_s) for each in flows),
            )
        put(self, "ttl_s", self.ttl_s or self.keep_s)

    def _tick_us(self) -> int:
        shortest_s = self.rates[0].window_s
        if self.strategy != "tiered" or self.edge_s > 1 or shortest_s >= FINE_BELOW_S:
            return SECOND_US
        return next(tick_us for tick_us in _FINE_US if FINE_BELOW_S * tick_us <= shortest_s * SECOND_US)

    def _reach(self, rate: Rate) -> Reach:
        edge = self.edge if rate.window_s < FINE_BELOW_S else self.edge_s * self.ticks_s
        inside = outside = rate.window_s * self.ticks_s
        if self.strategy == "tiered":
            outside = inside + edge
        decided, other = (outside, inside) if self.side == "strict" else (inside, outside)
        return Reach(rate.limit, rate.window_s, edge, decided, other)

    @property
    def is_strict(self) -> bool:
        return self.side == "strict"

    @property
    def keep_s(self) -> int:
        """How long the oldest count matters: a bucket may be forgotten this long after its start."""
        longest = self.rates[-1].window_s
        if self.strategy == "token_bucket":
            return max(-(-flow.full // flow.gain) * flow.tick_us // 1_000_000 + 1 for flow in self.flows)
        return longest + self.edge_s if self.strategy == "tiered" else longest

    @property
    def widths(self) -> tuple[int, ...]:
        """The tiers that a hit is counted in, in ticks: from the finest edge up to the longest window's."""
        longest = self.rates[-1].window_s
        widths_s = [width_s for width_s in EDGES_S.values() if self.edge_s <= width_s <= longest]
        return tuple([1] * (self.ticks_s > 1) + [width_s * self.ticks_s for width_s in widths_s])

    @property
    def kept_as(self) -> str:
        """What must be equal for two versions of a rule to go on from each other's counts."""
        if self.strategy == "tiered":
            return f"tiered {self.edge_s}" if self.ticks_s == 1 else f"tiered 1/{self.ticks_s}"
        if self.strategy == "fixed":
            return "fixed " + " ".join(str(rate.window_s) for rate in self.rates)
        if self.strategy == "token_bucket" and len(self.rates) > 1:
            return f"token_bucket {len(self.rates)}"
        return self.strategy


def parse_rules(limits: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Parses a settings file's `limits`: each event's table, or list of tables. RuleInvalid for the first wrong one.

    All rules of an event live on one backend, since they are decided together.
    """
    return tuple(rule for event, tables in limits.items() for rule in _parse_event(event, tables))


def rules_of_rates(rates: str) -> tuple[Rule, ...]:
    """Parses rates alone into the rule of the event that is implied: by `key`, and where none is given for all."""
    return parse_rules({IMPLIED: {"by": ["key", EVERYBODY], "rates": rates}})


def _parse_event(event: str, tables: object) -> Sequence[Rule]:
    try:
        many = tables if isinstance(tables, list) else [tables]
        if not many or not all(isinstance(table, Mapping) for table in many):
            raise _rule_error("limits", tables, "a table, or a list of tables")
        # The first keeps its name, and so its counts, when a second one joins.
        names = [event, *(f"{event}.{number}" for number in range(2, len(many) + 1))]
        rules = [_parse_table(event, name, table) for name, table in zip(names, many, strict=True)]
        check_together(rules)
    except RuleInvalid as error:
        raise _with_event(error, event) from None
    return rules


def check_together(rules: Sequence[Rule]) -> None:
    """Raises RuleInvalid unless these rules of one event can be decided together: distinct names, one backend."""
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise _rule_error("name", name, "a name that no other rule of the event has")
    named: dict[str, str] = {}
    for feature, header in (pair for rule in rules for pair in rule.headers):
        if named.setdefault(feature, header) != header:
            raise _rule_error("headers", header, f"the same field for {feature} in all rules of an event")
    if len({rule.cost for rule in rules}) > 1:
        raise _rule_error("cost", "requests, hits", "the same for all rules of an event")
    backends = {rule.backend for rule in rules}
    if len(backends) > 1:
        raise _rule_error("backend", ", ".join(sorted(backends)), "the same for all rules of an event")


def check_one_caller(rules: Sequence[Rule]) -> None:
    """Raises RuleInvalid unless all rules of an event are by the same features, as a Redis Cluster needs."""
    if any(rule.by != rules[0].by for rule in rules):
        different = "; ".join(dict.fromkeys(" or ".join(" and ".join(names) for names in rule.by) for rule in rules))
        raise _with_event(
            _rule_error(
                "by", different, "the same in all rules of an event on a Redis Cluster, or an event for each caller"
            ),
            rules[0].event,
        )


def _parse_table(event: str, name: str, table: Mapping[str, Any]) -> Rule:
    settings = {each.name for each in fields(Rule) if each.init} - {"event", "edge_s"} | {"edge"}
    for setting in table:
        if setting not in settings:
            raise RuleInvalid(
                f"{setting!r} is not a setting of a rule",
                field=setting,
                value=table[setting],
                rule=", ".join(sorted(settings)),
            )
    for setting in ("by", "rates"):
        if setting not in table:
            raise RuleInvalid(f"the setting {setting} is missing", field=setting, rule="every rule has by and rates")
    unless = table.get("unless", [])
    given = {"name": name, **table, "by": _parse_by(table["by"])}
    given["unless"] = tuple(unless) if isinstance(unless, list) else (unless,)
    given["headers"] = _parse_headers(table.get("headers", {}))
    if not isinstance(table["rates"], str):
        raise _rule_error("rates", table["rates"], "text such as '2/s, 5/m'")
    given["rates"] = parse_rates(table["rates"])
    _check_fit(table, given.get("strategy", "tiered"))
    if "edge" in given:
        given["edge_s"] = EDGES_S[_check_choice("edge", given.pop("edge"), tuple(EDGES_S))]
    return Rule(event=event, **given)


def _parse_headers(headers: object) -> tuple[tuple[str, str], ...]:
    rule = 'a table of features and names of header fields, such as user = "x-user"'
    if not isinstance(headers, Mapping):
        raise _rule_error("headers", headers, rule)
    for name in headers.values():
        if not isinstance(name, str) or not _HEADER.fullmatch(name.lower()):
            raise _rule_error("headers", name, rule)
    return tuple((feature, name.lower()) for feature, name in headers.items())


def _parse_by(by: object) -> tuple[tuple[str, ...], ...]:
    choices = by if isinstance(by, list) else [by]
    return tuple(tuple(choice) if isinstance(choice, list) else (choice,) for choice in choices)


def _check_fit(table: Mapping[str, Any], strategy: object) -> None:
    """Refuses settings that the strategy would ignore, since the author of the rule relies on them."""
    for name, only in (("edge", "tiered"), ("side", "tiered"), ("burst", "token_bucket")):
        if name in table and strategy != only:
            raise RuleInvalid(
                f"{name} means nothing to the strategy {strategy!r}", field=name, value=table[name], rule=f"{only} only"
            )


# --- what a rule must be ----------------------------------------------------------------------------------------------
def _check_rule(rule: Rule) -> None:
    for name in ("event", "name"):
        if not isinstance(getattr(rule, name), str) or not _NAME.fullmatch(getattr(rule, name)):
            raise _rule_error(name, getattr(rule, name), "1 to 64 letters, digits and _ . -")
    _check_by(rule.by)
    _check_features("unless", rule.unless, 'a feature such as "user", or a list of them')
    _check_features("headers", [feature for feature, _ in rule.headers], "a feature, and the name of a header field")
    _check_choice("strategy", rule.strategy, STRATEGIES)
    _check_choice("side", rule.side, SIDES)
    _check_choice("on_failure", rule.on_failure, FAILURES)
    _check_choice("backend", rule.backend, BACKENDS)
    _check_choice("history", rule.history, HISTORIES)
    _check_choice("cost", rule.cost, COSTS)
    if rule.edge_s not in EDGES_S.values():
        raise _rule_error("edge", rule.edge_s, "one of " + ", ".join(EDGES_S))
    for name in ("shadow", "optional"):
        if not isinstance(getattr(rule, name), bool):
            raise _rule_error(name, getattr(rule, name), "true or false")
    _check_whole("status", rule.status, 400, 499)
    _check_whole("burst", rule.burst, 0, MAX_LIMIT)
    _check_whole("ttl_s", rule.ttl_s, 0, 10 * MAX_WINDOW_S)
    _check_rates(rule)


def _check_by(by: Sequence[Sequence[str]]) -> None:
    rule = 'features such as ["user", "ip"], or [["ip", "endpoint"]] for both together'
    if not by or not all(by):
        raise _rule_error("by", by, rule)
    for choice in by:
        _check_features("by", choice, rule)


def _check_features(field: str, names: Sequence[str], rule: str) -> None:
    for name in names:
        if not isinstance(name, str) or not _FEATURE.fullmatch(name):
            raise _rule_error(field, name, rule)
        if name in RESERVED:
            raise _rule_error(field, name, f"a feature, and {name} is a field of the question")


def _check_rates(rule: Rule) -> None:
    rates = in_order(rule.rates)
    shown = ", ".join(map(str, rates))
    if len(rates) > 1 and rule.strategy not in _SEVERAL_RATES:
        raise _rule_error("rates", shown, f"one rate for the strategy {rule.strategy!r}")
    if len(rates) > 1 and rule.burst:
        raise _rule_error("burst", rule.burst, "left out where there are several rates: the limit of each is its burst")
    if rule.strategy == "per_second" and rates[0].window_s != 1:
        raise _rule_error("rates", shown, "a rate per second, such as 10/s, for the strategy 'per_second'")
    if rule.strategy == "list" and rates[0].limit > MAX_LIST:
        raise _rule_error("rates", shown, f"at most {MAX_LIST} callers, since a list remembers each")
    if rule.strategy == "tiered":
        _check_windows(rates, rule.edge_s)
    longest_s = rates[-1].window_s + (rule.edge_s if rule.strategy == "tiered" else 0)
    if 0 < rule.ttl_s < longest_s:
        raise _rule_error(
            "ttl_s", rule.ttl_s, f"at least {longest_s} s: counts must outlive the window that they are for"
        )


def _check_windows(rates: Sequence[Rate], edge_s: int) -> None:
    for rate in rates:
        if rate.window_s > DAY_S:
            others = ", ".join(each for each in STRATEGIES if each not in ("tiered", "per_second"))
            raise _rule_error("rates", str(rate), f"a window of a day at most for 'tiered', else {others}")
        if rate.window_s % edge_s:
            raise _rule_error("rates", str(rate), f"a window of whole edges, which are {edge_s} s wide")


def _check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _rule_error(name, value, "one of " + ", ".join(choices))
    return value


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _rule_error(name, value, f"a whole number from {least} to {most}")


def _rule_error(name: str, value: object, rule: str) -> RuleInvalid:
    return RuleInvalid(f"{name} must be {rule}, not {value!r}", field=name, value=value, rule=rule)


def _with_event(error: RuleInvalid, event: str) -> RuleInvalid:
    """Returns the same refusal, with the event in its sentence once."""
    start = f"limits.{event}: "
    detail = error.detail if error.detail.startswith(start) else start + error.detail
    return RuleInvalid(detail, field=error.field, value=error.value, rule=error.rule)
