"""Questions and decisions as JSON: what the decision service reads and answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.events import check_cost
from clickcurve.limiter.http.admission import Verb
from clickcurve.limiter.http.headers import sentence
from clickcurve.limiter.rule import EDGES_S, RESERVED, Rule

BODY_BYTES = 64 * 1024
BODY_RULE = 'a JSON object such as {"ip": "203.0.113.7", "cost": 1}'
_EDGES = {width_s: name for name, width_s in EDGES_S.items()}


@dataclass(frozen=True, slots=True)
class ServiceQuestion:
    """A question's body."""

    features: Mapping[str, str]
    cost: int
    verb: Verb
    explain: bool

    @property
    def caller(self) -> str | None:
        """The name that a rule that is a list remembers."""
        return self.features.get("caller")


def read_question(body: bytes) -> ServiceQuestion:
    """Reads the question in a body. ParameterInvalid names the field that is wrong.

    An empty body has no features, and a field that is null counts as left out.
    """
    given = _object(body)
    cost = given.get("cost", 1)
    check_cost(cost)
    peek, reserve, explain = (_switch(given, name) for name in ("peek", "reserve", "explain"))
    if peek and reserve:
        raise ParameterInvalid(
            "peek counts nothing, so there is nothing to reserve", field="reserve", value=True, rule="peek or reserve"
        )
    features = {name: _feature(name, value) for name, value in given.items() if name not in RESERVED}
    return ServiceQuestion(features, cost, "peek" if peek else "reserve" if reserve else "hit", explain)


def read_commit(body: bytes) -> int | None:
    """Reads the cost that a commit keeps; None for all of it."""
    given = _object(body)
    for name, value in given.items():
        if name != "cost":
            raise ParameterInvalid(
                f"a commit has no field {name}", field=name, value=value, rule="cost, or an empty body"
            )
    cost: int | None = given.get("cost")
    return cost


def show_decision(decision: Decision, explain: bool, dialect: str) -> dict[str, Any]:
    """Returns a decision as JSON: `shadow` and `fallback` only where true, `retry_after_s` null if waiting is no help.

    `fallback` says that the backend did not answer, so that each rule's `on_failure` decided.
    """
    shown: dict[str, Any] = {
        "allowed": decision.allowed,
        "rule": decision.rule.name,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after_s": _plain(decision.retry_after_s),
        "reset_at": decision.reset_at,
        "bound": [decision.bound.at_least, decision.bound.at_most],
    }
    if decision.shadow:
        shown["shadow"] = True
    if decision.fallback:
        shown["fallback"] = shown["blind"] = True  # its name until 0.2
    if explain:
        shown["pieces"] = [piece._asdict() for piece in decision.pieces]
    if decision.callers:
        shown["callers"] = list(decision.callers)
    if decision.reservation is not None:
        shown["reservation"] = decision.reservation
    if dialect == "github" and not decision.allowed:
        shown["message"] = sentence(decision)
    return shown


def show_rules(events: Mapping[str, Sequence[Rule]]) -> list[dict[str, Any]]:
    """Returns every rule in the words of the settings file."""
    return [show_rule(rule) for rules in events.values() for rule in rules]


def show_rule(rule: Rule) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "event": rule.event,
        "name": rule.name,
        "by": [names[0] if len(names) == 1 else list(names) for names in rule.by],
        "rates": ", ".join(map(str, rule.rates)),
        "strategy": rule.strategy,
    }
    if rule.strategy == "tiered":
        shown |= {"edge": _EDGES[rule.edge_s], "side": rule.side}
    if rule.burst:
        shown["burst"] = rule.burst
    return shown | {
        "backend": rule.backend,
        "on_failure": rule.on_failure,
        "shadow": rule.shadow,
        "status": rule.status,
        "optional": rule.optional,
        "unless": list(rule.unless),
        "history": rule.history,
        **({"headers": dict(rule.headers)} if rule.headers else {}),
    }


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParameterInvalid(f"the body is not JSON: {error}", field="body", rule=BODY_RULE) from None
    if not isinstance(fields, dict):
        raise ParameterInvalid("the body is not a JSON object", field="body", rule=BODY_RULE)
    return {name: value for name, value in fields.items() if value is not None}


def _switch(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise ParameterInvalid(f"{name} must be true or false", field=name, value=value, rule="true or false")
    return value


def _feature(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ParameterInvalid(f"the feature {name} is not text", field=name, value=value, rule="text")
    return value


def _plain(number: float | None) -> float | int | None:
    return int(number) if number is not None and number.is_integer() else number
