"""What an answer says of a limit, dialect by dialect."""

from __future__ import annotations

import json
import random
import re

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.http.admission import without_backend
from clickcurve.limiter.http.headers import (
    DIALECTS,
    QUOTA_EXCEEDED,
    check_dialect,
    fields,
    http_refusal,
    may_carry_limits,
    whole_retry_after_s,
)
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import Rule, parse_rules

NOW = 1_709_204_800
RULES = parse_rules({"login": {"by": "ip", "rates": "5/m, 20/h"}})
BUCKET = parse_rules({"api": {"by": "ip", "rates": "10/s", "burst": 100, "strategy": "token_bucket"}})


def decision(
    remaining: int = 3, wait_s: float | None = 0.0, reset_at: int = NOW + 40, rule: Rule = RULES[0]
) -> Decision:
    allowed = wait_s == 0.0
    limit, window_s = (rule.burst or rule.rates[0].limit), rule.rates[0].window_s
    return Decision(allowed, rule, Quota(allowed, limit, window_s, remaining, wait_s, reset_at, 2, 2))


def told(dialect: str, found: Decision, rules: tuple[Rule, ...] = RULES) -> dict[str, str]:
    return dict(fields(dialect, found, rules, NOW + 0.25))


def test_the_widespread_fields_tell_the_reset_in_epoch_seconds() -> None:
    assert told("x", decision()) == {
        "X-RateLimit-Limit": "5",
        "X-RateLimit-Remaining": "3",
        "X-RateLimit-Reset": str(NOW + 40),
    }


def test_github_has_what_is_used_and_of_what() -> None:
    found = told("github", decision())
    assert (found["X-RateLimit-Used"], found["X-RateLimit-Resource"]) == ("2", "login")
    assert found["X-RateLimit-Reset"] == str(NOW + 40)


def test_the_draft_has_every_policy_and_the_one_that_is_nearest() -> None:
    assert told("ietf", decision()) == {
        "RateLimit-Policy": '"login 5/m";q=5;w=60, "login 20/h";q=20;w=3600',
        "RateLimit": '"login 5/m";r=3;t=40',
    }
    assert told("ietf-11", decision()) == told("ietf", decision())


def test_the_draft_promises_no_faster_rate_than_the_rules() -> None:
    """Ten thousand left and a window that ends in a second do not make ten thousand a second."""
    (rule,) = parse_rules({"api": {"by": "ip", "rates": "10000/h", "strategy": "fixed"}})
    found = told("ietf", decision(10_000, reset_at=NOW + 1, rule=rule), (rule,))
    assert found["RateLimit"] == '"api";r=10000;t=3600'
    assert told("ietf", decision(1, reset_at=NOW + 1, rule=rule), (rule,))["RateLimit"] == '"api";r=1;t=1'


def test_a_token_bucket_shows_its_burst_and_how_long_that_takes_to_come_in() -> None:
    found = told("ietf", decision(40, reset_at=NOW + 6, rule=BUCKET[0]), BUCKET)
    assert found["RateLimit-Policy"] == '"api";q=100;w=10'
    assert found["RateLimit"] == '"api";r=40;t=6'


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("wait_s", "header"),
    [(0.001, "1"), (0.999, "1"), (1.0, "1"), (1.001, "2"), (59.4, "60"), (None, None), (0.0, None)],
)
def test_retry_after_is_whole_seconds_rounded_up_and_absent_when_waiting_does_not_help(
    dialect: str, wait_s: float | None, header: str | None
) -> None:
    assert told(dialect, decision(0, wait_s)).get("Retry-After") == header


def test_a_draft_and_retry_after_point_at_the_same_moment() -> None:
    found = told("ietf", decision(0, 12.3))
    assert (found["RateLimit"], found["Retry-After"]) == ('"login 5/m";r=0;t=13', "13")
    assert told("ietf", decision(4, None))["RateLimit"] == '"login 5/m";r=4', "no time helps"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_shadow_rule_and_a_fallback_tell_no_numbers(dialect: str) -> None:
    shadow = parse_rules({"login": {"by": "ip", "rates": "5/m", "shadow": True}})
    hidden = decision(0, 3.0, rule=shadow[0])._replace(allowed=True, shadow=True)
    assert told(dialect, hidden, shadow) == {}
    assert told(dialect, without_backend(RULES, 1, NOW)) == {}
    closed = parse_rules({"login": {"by": "ip", "rates": "5/m", "on_failure": "closed"}})
    assert told(dialect, without_backend(closed, 1, None), closed) == {"Retry-After": "1"}


def test_a_shadow_rule_is_in_no_policy() -> None:
    both = parse_rules({"e": [{"by": "ip", "rates": "5/m"}, {"by": "ip", "rates": "1/s", "shadow": True}]})
    assert told("ietf", decision(rule=both[0]), both)["RateLimit-Policy"] == '"e";q=5;w=60'


@pytest.mark.parametrize(("status", "may"), [(200, True), (301, False), (302, False), (308, False), (429, True)])
def test_a_redirect_carries_no_limits(status: int, may: bool) -> None:
    assert may_carry_limits(status) is may


def test_a_refusal_is_a_problem_document_that_no_cache_keeps() -> None:
    status, headers, body, _ = http_refusal("x", decision(0, 12.3), RULES, None)
    found = dict(headers)
    assert (status, found["Content-Type"], found["Cache-Control"]) == (429, "application/problem+json", "no-store")
    assert found["Retry-After"] == "13"
    assert int(found["Content-Length"]) == len(body)
    problem = json.loads(body)
    assert (problem["title"], problem["status"], problem["rule"]) == ("rate limit exceeded", 429, "login")
    assert problem["detail"] == "API rate limit exceeded for login: 5 in 60 s, 0 left; again in 13 s"


def test_github_refuses_with_its_own_body_and_the_status_of_the_rule() -> None:
    rules = parse_rules({"api": {"by": "ip", "rates": "60/h", "status": 403}})
    status, headers, body, _ = http_refusal("github", decision(0, 5.0, rule=rules[0]), rules, None, "/docs/limits")
    assert (status, dict(headers)["Content-Type"]) == (403, "application/json")
    answer = json.loads(body)
    assert answer.keys() == {"message", "documentation_url"}
    assert "rate limit exceeded" in answer["message"]
    assert answer["documentation_url"] == "/docs/limits"


SEARCH = {"by": "ip", "rates": "60/h", "burst": 10, "strategy": "token_bucket", "status": 403}


def test_clients_of_github_know_a_refusal_and_wait_until_the_next_hit_fits() -> None:
    """What PyGithub (`Requester.isPrimaryRateLimitError`) and octokit's plugin-throttling (`src/index.ts`) ask."""
    rules = parse_rules({"search": SEARCH})
    limiter = Limiter(rules, clock=None)
    for _ in range(10):
        limiter.hit("search", {"ip": "a"}, now=NOW)
    status, headers, body, _ = http_refusal("github", limiter.hit("search", {"ip": "a"}, now=NOW), rules, NOW)
    found = {name.lower(): value for name, value in headers}
    message = json.loads(body)["message"]
    assert status == 403
    assert message.lower().startswith("api rate limit exceeded")  # PyGithub: RateLimitExceededException
    assert found["x-ratelimit-remaining"] == "0"  # octokit: the primary limit, not the secondary one
    assert max(int(found["x-ratelimit-reset"]) - NOW + 1, 0) == 61  # octokit's wait in seconds; it was 602
    assert found["retry-after"] == "60"
    assert message == "API rate limit exceeded for search: 60 in 3600 s, 10 at once, 0 left; again in 60 s"


def test_a_refusal_has_the_problem_type_of_the_draft() -> None:
    rules = parse_rules({"login": {"by": "ip", "rates": "5/m, 20/h"}})
    for dialect, type_of in (("ietf", QUOTA_EXCEEDED), ("ietf-11", QUOTA_EXCEEDED), ("x", None)):
        problem = json.loads(http_refusal(dialect, decision(0, 12.3, rule=rules[0]), rules, NOW).body)
        assert problem.get("type") == type_of
        assert problem.get("violated-policies") == (["login 5/m"] if type_of else None)
    closed = parse_rules({"login": {"by": "ip", "rates": "5/m", "on_failure": "closed"}})
    assert "type" not in json.loads(http_refusal("ietf", without_backend(closed, 1, NOW), closed, NOW).body)


@pytest.mark.parametrize(
    "rule",
    [
        {"rates": "2/s, 5/m, 20/h"},
        {"rates": "5/m, 20/h", "edge": "minute"},
        {"rates": "5/m, 20/h", "side": "lenient"},
        {"rates": "3/s, 20/m", "strategy": "fixed"},
        SEARCH,
        {"rates": "5/10s", "strategy": "token_bucket"},
        {"rates": "10/m", "strategy": "single_counter"},
        {"rates": "10/m", "strategy": "list"},
    ],
)
def test_where_nothing_is_left_every_reset_tells_when_one_more_fits(rule: dict[str, object]) -> None:
    rules = parse_rules({"e": {"by": "ip", **rule}})
    limiter = Limiter(rules, clock=None)
    chance = random.Random(11)
    now, last = NOW + 0.5, 0
    for _ in range(2_000):
        now += chance.choice((0.0, 0.01, 0.3, 2.0, 30.0))
        decision = limiter.hit("e", {"ip": "a"}, now=now)
        if decision.remaining:
            assert decision.more_at == decision.reset_at
            continue
        last += decision.allowed
        reset = int(dict(fields("x", decision, rules, now))["X-RateLimit-Reset"])
        within_s = int(re.findall(r";t=([0-9]+)", dict(fields("ietf", decision, rules, now))["RateLimit"])[0])
        assert limiter.peek("e", {"ip": "a"}, now=reset).allowed
        assert not limiter.peek("e", {"ip": "a"}, now=max(now, reset - 1.001)).allowed
        assert limiter.peek("e", {"ip": "a"}, now=now + within_s).allowed
        assert within_s <= reset - now + 2
    assert last > 20


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_can_never_pass_says_so(dialect: str) -> None:
    _, headers, body, _ = http_refusal(dialect, decision(5, None), RULES, None)
    assert "Retry-After" not in dict(headers)
    assert "more than the 5" in body.decode()
    assert whole_retry_after_s(decision(5, None)) is None


def test_an_unknown_dialect_is_refused() -> None:
    assert check_dialect("ietf-11") == "ietf-11"
    with pytest.raises(ParameterInvalid, match="is not a dialect"):
        check_dialect("kong")


@pytest.mark.parametrize(
    "rule",
    [
        {"rates": "2/s, 5/m, 20/h"},
        {"rates": "5/m, 20/h", "edge": "minute", "side": "lenient"},
        {"rates": "3/s, 20/m", "strategy": "fixed"},
        {"rates": "60/h", "burst": 10, "strategy": "token_bucket"},
        {"rates": "10/m", "strategy": "single_counter"},
    ],
)
def test_a_client_that_obeys_the_headers_is_served_and_not_too_fast(rule: dict[str, object]) -> None:
    """Who waits for Retry-After passes; and what is left, divided by the time, is no faster rate than a policy's."""
    rules = parse_rules({"e": {"by": "ip", **rule}})
    limiter = Limiter(rules, clock=None)
    chance = random.Random(7)
    now, refused = NOW + 0.5, 0
    for _ in range(2_000):
        now += chance.choice((0.0, 0.01, 0.3, 2.0, 30.0))
        decision = limiter.hit("e", {"ip": "a"}, chance.choice((1, 1, 1, 2)), now=now)
        headers = dict(fields("ietf", decision, rules, now))
        left, within_s = map(int, re.findall(r";[rt]=([0-9]+)", headers["RateLimit"]))
        quotas = [tuple(map(int, pair)) for pair in re.findall(r";q=([0-9]+);w=([0-9]+)", headers["RateLimit-Policy"])]
        assert left == decision.remaining
        if decision.allowed:
            assert any(left * window_s <= within_s * quota for quota, window_s in quotas)
        else:
            refused += 1
            wait_s = int(headers["Retry-After"])
            assert within_s == wait_s
            assert limiter.peek("e", {"ip": "a"}, now=now + wait_s).allowed
    assert refused > 20
