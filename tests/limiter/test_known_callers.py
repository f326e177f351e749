"""Other rates for callers that are known: rules that are skipped without their features, or with another one."""

from __future__ import annotations

import asyncio

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.http.headers import fields
from clickcurve.limiter.http.middleware import RateLimit
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.replay import Replay, rules_of
from clickcurve.limiter.rule import parse_rules
from tests.limiter.given import T
from tests.limiter.http.asgi import ask, statuses
from tests.limiter.places import OF_SEVERAL_CALLERS, Place

# As GitHub has it: a high rate by user, and by address a low one for whoever is not known.
KNOWN = {
    "api": [
        {"by": "user", "rates": "6/h", "optional": True, "name": "known"},
        {"by": "ip", "rates": "2/h", "unless": "user", "name": "unknown"},
    ]
}
ANN = {"user": "ann", "ip": "10.0.0.1"}
NOBODY = {"ip": "10.0.0.1"}
ON_EACH = pytest.mark.parametrize("place", OF_SEVERAL_CALLERS, indirect=True)


@ON_EACH
def test_known_and_unknown_callers_have_rates_of_their_own_in_one_event(place: Place) -> None:
    limiter = place.limiter(KNOWN)
    told = [limiter.hit("api", ANN, now=T) for _ in range(7)]
    assert [(each.allowed, each.rule.name, each.limit) for each in told] == [(True, "known", 6)] * 6 + [
        (False, "known", 6)
    ]
    told = [limiter.hit("api", NOBODY, now=T) for _ in range(3)]
    assert [(each.allowed, each.rule.name, each.limit) for each in told] == [(True, "unknown", 2)] * 2 + [
        (False, "unknown", 2)
    ]


@ON_EACH
def test_every_verb_skips_what_a_hit_skips(place: Place) -> None:
    limiter = place.limiter(KNOWN)
    decision = limiter.reserve("api", ANN, 5, now=T)
    assert limiter.peek("api", ANN, now=T).remaining == 1
    assert limiter.peek("api", NOBODY, now=T).remaining == 2
    limiter.cancel("api", decision.reservation or "", now=T)
    assert limiter.peek("api", ANN, explain=True, now=T).remaining == 6
    limiter.hit("api", NOBODY, 2, now=T)
    limiter.reset("api", ANN, now=T)
    assert limiter.peek("api", NOBODY, now=T).remaining == 0
    limiter.reset("api", NOBODY, now=T)
    assert limiter.peek("api", NOBODY, now=T).remaining == 2


@ON_EACH
def test_rules_that_are_not_skipped_are_one_decision_all_or_nothing(place: Place) -> None:
    rules = [{"by": "ip", "rates": "3/h"}, {"by": "user", "rates": "5/h", "optional": True}]
    limiter = place.limiter({"e": rules})
    assert limiter.hit("e", ANN, 3, now=T).allowed
    assert not limiter.hit("e", ANN, now=T).allowed
    assert limiter.peek("e", {"user": "ann", "ip": "10.0.0.2"}, now=T).remaining == 2, "the refused one used up nothing"
    assert not limiter.hit("e", NOBODY, now=T).allowed


def test_where_every_rule_wants_a_feature_that_is_missing_the_question_is_refused() -> None:
    limiter = Limiter(parse_rules(KNOWN), clock=lambda: T)
    for verb in (limiter.hit, limiter.peek, limiter.reserve, limiter.reset):
        with pytest.raises(ParameterInvalid, match="the event api needs"):
            verb("api", {"email": "a@example.org"})


@ON_EACH
def test_a_caller_that_every_rule_spares_passes_and_counts_nowhere(place: Place) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": "1/h", "unless": ["staff", "monitor"]}}, clock=lambda: T)
    told = [limiter.hit("e", {**NOBODY, "staff": "yes"}, 5) for _ in range(3)]
    assert [(each.allowed, each.remaining, each.bound) for each in told] == [(True, 1, (0, 0))] * 3
    assert limiter.reserve("e", {**NOBODY, "monitor": "1"}).reservation is None
    assert limiter.wait("e", {**NOBODY, "monitor": "1"}, wait_s=0.0).allowed
    limiter.reset("e", {**NOBODY, "monitor": "1"})
    with limiter.count_failures("e", {"staff": "yes"}) as attempt:
        attempt.fail()
    assert limiter.hit("e", NOBODY).allowed, "an empty value is none, and nothing was counted"


def test_the_listener_hears_of_a_caller_that_every_rule_spares() -> None:
    rules = parse_rules({"e": {"by": "ip", "rates": "1/h", "unless": "staff"}})
    staff, heard = {**NOBODY, "staff": "yes"}, []

    def listener(event: str, cost: int, decision: Decision) -> None:
        heard.append((event, cost, decision.allowed))

    async def awaited() -> None:
        limiter = AsyncLimiter(rules, clock=lambda: T, listener=listener)
        await limiter.hit("e", staff, 2)
        await limiter.wait("e", staff, 3, wait_s=0.0)
        await limiter.peek("e", staff)

    limiter = Limiter(rules, clock=lambda: T, listener=listener)
    limiter.hit("e", staff, 2)
    limiter.wait("e", staff, 3, wait_s=0.0)
    limiter.peek("e", staff)
    asyncio.run(awaited())
    assert heard == [("e", 2, True), ("e", 3, True)] * 2


def test_a_feature_that_is_empty_is_missing() -> None:
    limiter = Limiter(parse_rules(KNOWN), clock=lambda: T)
    assert limiter.hit("api", {"user": "", "ip": "10.0.0.1"}).rule.name == "unknown"


def test_middleware_and_headers_show_the_rules_that_hold() -> None:
    limiter = AsyncLimiter(parse_rules(KNOWN), clock=lambda: T)

    async def app(scope, receive, send):  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    limited = RateLimit(app, limiter, "api", features=lambda scope: {"user": "ann"}, dialect="ietf")
    answers = ask(limited, times=7)
    assert statuses(answers) == [200] * 6 + [429]
    unknown = RateLimit(app, limiter, "api", dialect="ietf")
    assert statuses(ask(unknown, times=3)) == [200] * 2 + [429]
    rules = limiter.events.of("api", NOBODY).rules
    policy = dict(fields("ietf", asyncio.run(limiter.peek("api", NOBODY)), rules, T))["RateLimit-Policy"]
    assert policy == '"unknown";q=2;w=3600'


def test_a_trace_is_replayed_with_rules_that_lines_skip() -> None:
    replay = Replay(rules_of(["by=user rates=6/h optional=true", "by=ip rates=2/h unless=user"]))
    lines = ["1772000040 ip=10.0.0.1 user=ann"] * 7 + ["1772000041 ip=10.0.0.1"] * 3
    refused = [line for line in map(replay.line, lines) if line]
    assert len(refused) == 2
    assert replay.worst(5) == [("ip=10.0.0.1", 3, 1), ("user=ann", 7, 1)]
