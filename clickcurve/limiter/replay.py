"""Replays a trace against rules: what they would have done with it, in process, by the times of the trace.

A trace has lines that say which caller asked, and when:

    1772000040.5 ip=203.0.113.7 user=ann cost=2
    2026-02-25T06:14:00Z ip=203.0.113.7
    203.0.113.7 - ann [25/Feb/2026:06:14:00 +0000] "POST /links?x=1 HTTP/1.1" 201 12 "-" "curl/8"

The third is a line of an access log, in the common or the combined format: its features are ip, user (unless it is -),
method and endpoint (the path without its query).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clickcurve.access_log import LogLine, parse_log_line, split_request, stamp_seconds
from clickcurve.buckets.errors import ParameterInvalid, RuleInvalid
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import ALL, EVERYBODY, Rule, parse_rules
from clickcurve.times import parse_time, require_in_range

EVENT = "trace"
TEXT_RULE = "rates such as 5/m, 20/h, or settings such as by=ip rates='5/m, 20/h' strategy=fixed"
LINE_RULE = "a time (epoch seconds or ISO 8601), then feature=value pairs and perhaps cost=N; or an access log's line"
_WHOLE = ("burst", "status", "ttl_s")
_SWITCHES = {"true": True, "false": False}


def rules_of(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Parses the rules that people write in one line each, as one event. RuleInvalid.

    Settings are those of a settings file: `by=user,ip` takes the first that is given, `by=ip+endpoint` both together.
    Rates alone are a rule too; without `by` all callers share it.
    """
    return parse_rules({EVENT: [_table(text) for text in texts]})


def _table(text: str) -> Mapping[str, Any]:
    if "=" not in text:
        return {"by": EVERYBODY, "rates": text}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise RuleInvalid(f"the quotes of {text!r} do not match ({error})", field="rule", value=text) from None
    table: dict[str, Any] = {"by": EVERYBODY}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise RuleInvalid(
                f"{word!r} is not a setting of a rule: is a quote missing around the rates?",
                field="rule",
                value=word,
                rule=TEXT_RULE,
            )
        table[name] = _setting_value(name, value)
    return table


def _setting_value(name: str, text: str) -> object:
    if name == "by":
        return [choice.split("+") for choice in text.split(",")]
    if name in _WHOLE and text.isascii() and text.isdigit():
        return int(text)
    if name == "unless":
        return text.split(",")
    return _SWITCHES.get(text, text) if name in ("shadow", "optional") else text


@dataclass(slots=True)
class Side:
    """Lines, and what they asked for together."""

    lines: int = 0
    cost: int = 0

    def add(self, cost: int) -> None:
        self.lines += 1
        self.cost += cost


@dataclass(slots=True)
class Replay:
    """Sums of a trace so far.

    bad: unparsable lines. back: lines older than one before them.

    asked_by and refused_by: by caller (`ip=203.0.113.7`), what was asked for, and what the rule that goes by it
    refused. What a rule in shadow mode would refuse is among the refused.
    """

    rules: Sequence[Rule]
    asked: Side = field(default_factory=Side)
    refused: Side = field(default_factory=Side)
    bad: int = 0
    back: int = 0
    asked_by: Counter[str] = field(default_factory=Counter)
    refused_by: Counter[str] = field(default_factory=Counter)
    _limiter: Limiter = field(init=False, repr=False)
    _backend: MemoryBackend = field(init=False, repr=False)
    _latest: float = 0.0

    def __post_init__(self) -> None:
        self._backend = MemoryBackend()
        here = [replace(rule, backend="memory") for rule in self.rules]
        self._limiter = Limiter(here, clock=None, backends={"memory": self._backend})
        self.rules = here

    def line(self, text: str) -> str | None:
        """Decides the next line of the trace; returns a sentence if it is refused. ParameterInvalid if unparsable."""
        try:
            call = parse_line(text)
            if call is None:
                return None
            call.features.update(ALL)
            decision = self._limiter.hit(self.rules[0].event, call.features, call.cost, now=call.at)
        except ParameterInvalid:
            self.bad += 1
            raise
        self.back += call.at < self._latest
        self._latest = max(self._latest, call.at)
        self.asked.add(call.cost)
        for by in {rule.by for rule in self._limiter.events.of(self.rules[0].event, call.features).rules}:
            self.asked_by[_caller(by, call.features)] += call.cost
        if decision.allowed and not decision.shadow:
            return None
        self.refused.add(call.cost)
        caller = _caller(decision.rule.by, call.features)
        self.refused_by[caller] += call.cost
        return f"{_shown_seconds(call.at)} {caller} refused by {_why(decision, len(self.rules) > 1)}"

    @property
    def crowded(self) -> int:
        """Lines of callers for which there was no room: they shared one limit."""
        return int(self._backend.measures()["memory_overflow_total"])

    def worst(self, many: int) -> list[tuple[str, int, int]]:
        """Returns the callers that were refused most: (caller, asked, refused)."""
        order = sorted(self.refused_by, key=lambda caller: (-self.refused_by[caller], caller))
        return [(caller, self.asked_by[caller], self.refused_by[caller]) for caller in order[:many]]


def _caller(by: tuple[tuple[str, ...], ...], features: Mapping[str, str]) -> str:
    names = next((names for names in by if all(features.get(name) for name in names)), ())
    return " ".join(name if name == EVERYBODY else f"{name}={features[name]}" for name in names)


def _why(decision: Decision, several: bool) -> str:
    name = f"{decision.rule.name}, " if several else ""
    rate = decision.rate
    shadow = " (shadow: admitted all the same)" if decision.shadow else ""
    if decision.retry_after_s is None:
        return f"{name}{rate}: it costs more than can ever pass{shadow}"
    return f"{name}{rate}: again after {_shown_seconds(decision.retry_after_s)} s{shadow}"


def _shown_seconds(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


# --- lines of a trace -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Call:
    """One line: when a caller asked (epoch seconds), its features, and for how much."""

    at: float
    features: dict[str, str]
    cost: int = 1


def parse_line(text: str) -> Call | None:
    """Parses a line; None for a blank line and a comment (#). ParameterInvalid says what is wrong."""
    if not text or text.isspace() or text.startswith("#"):
        return None
    line = parse_log_line(text)
    return _of_log(line) if line else _of_words(text)


def _of_words(text: str) -> Call:
    try:
        words = shlex.split(text) if '"' in text or "'" in text else text.split()
    except ValueError as error:
        raise _trace_error(text, f"its quotes do not match ({error})") from None
    features = {}
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise _trace_error(word, f"{word!r} is not feature=value")
        if name in features:
            raise _trace_error(word, f"{name} is given twice")
        features[name] = value
    cost = features.pop("cost", "1")
    if not (cost.isascii() and cost.isdigit() and len(cost) <= 10):
        raise _trace_error(cost, f"the cost {cost!r} is not a whole number")
    written = parse_time("trace", words[0])
    return Call(require_in_range("trace", words[0], written.utc_s) + written.fraction, features, int(cost))


def _of_log(line: LogLine) -> Call:
    at = stamp_seconds(line.stamp)
    if at is None:
        raise _trace_error(line.stamp, "its time is not valid")
    method, target = split_request(line.request)
    words = line.before.split(" ", 2)
    if not target or len(words) < 3:
        raise _trace_error(line.request, "it has no request, or does not begin with address, identity and user")
    user = words[2].rstrip(" ")
    features = {"ip": words[0], "method": method, "endpoint": target.partition("?")[0]}
    return Call(at, features if user == "-" else {**features, "user": user})


def _trace_error(value: str, why: str) -> ParameterInvalid:
    return ParameterInvalid(why, field="trace", value=value, rule=LINE_RULE)
