from __future__ import annotations

from typing import Any

import pytest

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.limiter.rates import Rate
from clickcurve.limiter.rule import Rule, parse_rules

GOOD: dict[str, Any] = {"by": "ip", "rates": "5/m"}


def test_a_table_is_a_rule_with_defaults() -> None:
    (rule,) = parse_rules({"signup": {"by": ["user", "ip"], "rates": "5/m, 20/h"}})
    assert (rule.event, rule.name) == ("signup", "signup")
    assert rule.by == (("user",), ("ip",))
    assert rule.rates == (Rate(5, 60), Rate(20, 3_600))
    assert (rule.strategy, rule.edge_s, rule.side) == ("tiered", 1, "strict")
    assert (rule.backend, rule.on_failure, rule.shadow, rule.status) == ("memory", "open", False, 429)


def test_several_tables_are_rules_of_one_event_with_names_of_their_own() -> None:
    rules = parse_rules({"login": [GOOD, {"by": [["ip", "endpoint"]], "rates": "2/s", "name": "pairs"}, GOOD]})
    assert [rule.name for rule in rules] == ["login", "pairs", "login.3"]
    assert {rule.event for rule in rules} == {"login"}
    assert rules[1].by == (("ip", "endpoint"),)


def test_the_burst_of_a_token_bucket_is_its_limit_unless_said() -> None:
    plain, wide, several = parse_rules(
        {
            "a": {**GOOD, "strategy": "token_bucket"},
            "b": {**GOOD, "strategy": "token_bucket", "burst": 50},
            "c": {"by": "ip", "rates": "2/s, 100/d", "strategy": "token_bucket"},
        }
    )
    assert (plain.burst, wide.burst, several.burst) == (5, 50, 0)
    assert [(reach.limit, reach.window_s) for reach in several.reaches] == [(2, 1), (100, 86_400)]
    assert several.keep_s == 86_401


@pytest.mark.parametrize(
    ("edge", "rates", "widths", "keep_s"),
    [
        ("second", "2/s", (1, 20), 2),
        ("second", "2/s, 5/m", (1, 20, 1_200), 61),
        ("second", "10/5s, 5000/d", (1, 4, 240, 14_400), 86_401),
        ("second", "10/20s", (1,), 21),
        ("second", "100/d", (1, 60, 3_600), 86_401),
        ("minute", "100/d", (60, 3_600), 86_460),
        ("hour", "100/d", (3_600,), 90_000),
        ("second", "10/90s", (1, 60), 91),
    ],
)
def test_a_hit_is_counted_in_the_tiers_that_its_windows_need(
    edge: str, rates: str, widths: tuple[int, ...], keep_s: int
) -> None:
    (rule,) = parse_rules({"a": {"by": "ip", "rates": rates, "edge": edge}})
    assert rule.widths == widths
    assert rule.keep_s == rule.ttl_s == keep_s


@pytest.mark.parametrize(
    ("rates", "tick_us"),
    [
        *(("9/s", 50_000), ("9/2s", 100_000), ("9/3s", 100_000), ("9/5s", 250_000), ("9/7s", 250_000)),
        *(("9/10s", 500_000), ("9/19s", 500_000), ("9/20s", 1_000_000), ("9/m", 1_000_000), ("9/s, 99/d", 50_000)),
    ],
)
def test_a_short_window_has_buckets_of_a_twentieth_or_less(rates: str, tick_us: int) -> None:
    (rule,) = parse_rules({"a": {"by": "ip", "rates": rates}})
    assert (rule.tick_us, rule.ticks_s * rule.tick_us) == (tick_us, 1_000_000)
    assert [reach.edge * tick_us for reach in rule.reaches] == [
        tick_us if rate.window_s < 20 else 1_000_000 for rate in rule.rates
    ]
    assert all(
        20 * reach.edge * tick_us <= rate.window_s * 1_000_000
        for rate, reach in zip(rule.rates, rule.reaches, strict=True)
    )


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"rates": "5/fortnight"}, "rates", "has the unit 'fortnight'"),
        ({"rates": "5/0m"}, "rates", "has a window of 0 s"),
        ({"rates": "10/m, 5/h"}, "rates", "can never refuse anything"),
        ({"rates": 5}, "rates", "rates must be text"),
        ({"ttl_s": 60}, "ttl_s", "at least 61 s"),
        ({"ttl_s": 59, "strategy": "fixed"}, "ttl_s", "at least 60 s"),
        ({"ttl_s": "1h"}, "ttl_s", "a whole number"),
        ({"strategy": "sliding"}, "strategy", "one of tiered, fixed, token_bucket, per_second, single_counter, list"),
        (
            {"strategy": "token_bucket", "rates": "5/m, 9/h", "burst": 9},
            "burst",
            "left out where there are several rates",
        ),
        ({"strategy": "single_counter", "rates": "5/m, 9/h"}, "rates", "one rate for the strategy"),
        ({"strategy": "list", "rates": "5/m, 9/h"}, "rates", "one rate for the strategy 'list'"),
        ({"strategy": "list", "rates": "10001/h"}, "rates", "at most 10000 callers"),
        ({"strategy": "per_second"}, "rates", "a rate per second"),
        (
            {"rates": "5/2d"},
            "rates",
            "a day at most for 'tiered', else fixed, token_bucket, single_counter, list",
        ),
        ({"edge": "minute", "rates": "5/90s"}, "rates", "whole edges, which are 60 s wide"),
        ({"edge": "hour"}, "rates", "whole edges, which are 3600 s wide"),
        ({"edge": "day"}, "edge", "one of second, minute, hour"),
        ({"edge": 1}, "edge", "one of second, minute, hour"),
        ({"side": "left"}, "side", "one of strict, lenient"),
        ({"side": "strict", "strategy": "fixed"}, "side", "means nothing to the strategy 'fixed'"),
        ({"edge": "second", "strategy": "fixed"}, "edge", "means nothing to the strategy 'fixed'"),
        ({"burst": 5}, "burst", "means nothing to the strategy 'tiered'"),
        ({"burst": -1, "strategy": "token_bucket"}, "burst", "a whole number from 0"),
        ({"burst": True, "strategy": "token_bucket"}, "burst", "a whole number from 0"),
        ({"backend": "mysql"}, "backend", "one of memory, redis, memcached"),
        ({"on_failure": "pray"}, "on_failure", "one of open, closed, local"),
        ({"shadow": "yes"}, "shadow", "true or false"),
        ({"optional": "yes"}, "optional", "true or false"),
        ({"unless": 5}, "unless", "a feature such as"),
        ({"unless": ["user", "a b"]}, "unless", "a feature such as"),
        ({"unless": "cost"}, "unless", "a field of the question"),
        ({"status": 200}, "status", "a whole number from 400 to 499"),
        ({"status": "429"}, "status", "a whole number from 400 to 499"),
        ({"by": []}, "by", "features such as"),
        ({"by": [[]]}, "by", "features such as"),
        ({"by": ""}, "by", "features such as"),
        ({"by": ["user", 5]}, "by", "features such as"),
        ({"by": "cost"}, "by", "a field of the question"),
        ({"colour": "red"}, "colour", "not a setting of a rule"),
        ({"edge_s": 60}, "edge_s", "not a setting of a rule"),
        ({"name": "a b"}, "name", "1 to 64 letters, digits"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_reason(change: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(RuleInvalid) as refused:
        parse_rules({"login": {**GOOD, **change}})
    assert reason in refused.value.detail
    assert refused.value.detail.startswith("limits.login: ")
    assert refused.value.detail.count("limits.login") == 1
    assert refused.value.field == field


@pytest.mark.parametrize("missing", ["by", "rates"])
def test_every_rule_needs_by_and_rates(missing: str) -> None:
    with pytest.raises(RuleInvalid, match=f"the setting {missing} is missing"):
        parse_rules({"a": {name: value for name, value in GOOD.items() if name != missing}})


@pytest.mark.parametrize("tables", [None, 5, "5/m", [], [5], ["5/m"]])
def test_what_is_no_table_is_refused(tables: object) -> None:
    with pytest.raises(RuleInvalid, match="a table, or a list of tables"):
        parse_rules({"a": tables})


def test_an_event_that_no_path_could_name_is_refused() -> None:
    with pytest.raises(RuleInvalid, match="event must be 1 to 64 letters"):
        parse_rules({"log in": GOOD})


def test_rules_that_cannot_be_decided_together_are_refused() -> None:
    with pytest.raises(RuleInvalid, match="the same for all rules of an event"):
        parse_rules({"a": [GOOD, {**GOOD, "backend": "redis"}]})
    with pytest.raises(RuleInvalid, match="a name that no other rule of the event has"):
        parse_rules({"a": [{**GOOD, "name": "x"}, {**GOOD, "name": "x"}]})


def test_rules_made_in_python_are_checked_too() -> None:
    with pytest.raises(RuleInvalid, match="one of tiered"):
        Rule("a", "a", (("ip",),), (Rate(5, 60),), strategy="none")
    with pytest.raises(RuleInvalid, match="a rule needs a rate"):
        Rule("a", "a", (("ip",),), ())
