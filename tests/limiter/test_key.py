from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.key import MAX_KEY_CHARS, TAG_CHARS, KeyMaker, key_maker, memcached_key, part, shared_key
from clickcurve.limiter.rule import Rule, parse_rules

values = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30) | st.text("12:/.ab", min_size=1)


def rule_by(by: Any = "ip", event: str = "login", **settings: Any) -> Rule:
    return parse_rules({event: {"by": by, "rates": "5/m", **settings}})[0]


def keys(by: Any = "ip", **settings: Any) -> KeyMaker:
    return key_maker(rule_by(by, **settings))


PAIR = keys([["ip", "endpoint"]])


@given(st.tuples(values, values), st.tuples(values, values))
def test_two_pairs_of_values_share_a_key_only_if_they_are_equal(one: tuple[str, str], other: tuple[str, str]) -> None:
    made = [PAIR.key(dict(zip(("ip", "endpoint"), pair, strict=True))) for pair in (one, other)]
    assert (made[0] == made[1]) == (one == other)


@given(st.lists(st.lists(values, min_size=1, max_size=3).map(tuple), min_size=2, max_size=2))
def test_parts_that_are_joined_stay_distinct(rows: list[tuple[str, ...]]) -> None:
    one, other = ("".join(map(part, row)) for row in rows)
    assert (one == other) == (rows[0] == rows[1])


def test_the_same_value_of_another_feature_rule_event_or_way_of_counting_is_another_key() -> None:
    features = {"ip": "x", "user": "x", "endpoint": "x"}
    rules = [
        rule_by("ip"),
        rule_by("user"),
        rule_by([["ip", "user"]]),
        rule_by([["user", "ip"]]),
        rule_by([["ip", "endpoint"]]),
        rule_by("ip", event="signup"),
        rule_by("ip", name="other"),
        rule_by("ip", edge="minute"),
        rule_by("ip", strategy="fixed"),
        rule_by("ip", strategy="token_bucket"),
    ]
    made = {key_maker(rule).key(features) for rule in rules}
    assert len(made) == len(rules)
    assert not made & {shared_key(rule, 0) for rule in rules}


@given(values, st.sampled_from(["ann", "x" * (MAX_KEY_CHARS + 1), "{0000}"]))
def test_keys_of_one_caller_share_a_tag_whatever_the_rule(value: str, more: str) -> None:
    rules = parse_rules({"e": [{"by": "ip", "rates": "5/m"}, {"by": "ip", "rates": "9/h", "strategy": "fixed"}]})
    features = {"ip": value + more}
    made = [key_maker(rule, is_tagged=True).key(features) for rule in rules]
    assert len(set(made)) == 2
    (tag,) = {key[:TAG_CHARS] for key in made}
    assert re.fullmatch(r"\{[0-9a-f]{4}\}", tag)


def test_another_limit_goes_on_from_the_same_counts() -> None:
    assert keys(rates="5/m").key({"ip": "x"}) == keys(rates="50/m, 60/h").key({"ip": "x"})
    windows = {keys(rates=rates, strategy="fixed").key({"ip": "x"}) for rates in ("5/m", "9/m", "5/m, 60/h")}
    assert len(windows) == 2


def test_the_first_alternative_that_is_given_names_the_caller() -> None:
    either = keys(["user", "ip"])
    user = either.key({"user": "ann", "ip": "10.0.0.1"})
    assert user == either.key({"user": "ann"})
    assert either.key({"ip": "10.0.0.1"}) == either.key({"user": "", "ip": "10.0.0.1"})
    assert either.key({"user": "10.0.0.1"}) != either.key({"ip": "10.0.0.1"})
    assert either.caller({"user": "", "ip": "10.0.0.1"}) == "10.0.0.1"
    assert PAIR.caller({"ip": "10.0.0.1", "endpoint": "/a"}) == "10.0.0.1 /a"


@pytest.mark.parametrize("features", [{}, {"user": "ann"}, {"ip": "x"}, {"endpoint": "x", "ip": ""}])
def test_a_missing_feature_is_said(features: dict[str, str]) -> None:
    with pytest.raises(ParameterInvalid, match="the event login needs ip and endpoint") as refused:
        PAIR.key(features)
    assert refused.value.field == "ip"


@pytest.mark.parametrize("value", [5, 5.5, ["x"], b"x", True])
def test_a_value_that_is_no_text_is_said(value: Any) -> None:
    for made in (keys("ip"), PAIR):
        with pytest.raises(ParameterInvalid, match="ip of the event login is not text"):
            made.key({"ip": value, "endpoint": "x"})


def test_a_lone_surrogate_is_not_text() -> None:
    for made in (keys("ip"), PAIR):
        with pytest.raises(ParameterInvalid, match="not text that UTF-8 can hold"):
            made.key({"ip": "\ud800", "endpoint": "x"})


def test_a_very_long_value_is_kept_as_a_digest() -> None:
    long = [keys().key({"ip": "x" * 100_000 + end}) for end in "ab"]
    assert long[0] != long[1]
    assert max(map(len, long)) < MAX_KEY_CHARS
    assert all(key.startswith("#") for key in long)
    assert keys().key({"ip": long[0]}) != long[0]


@given(st.lists(values | st.text(min_size=150, max_size=300), min_size=2, max_size=2, unique=True))
def test_memcached_gets_keys_that_it_takes_and_can_tell_apart(pair: list[str]) -> None:
    try:
        made = [memcached_key(keys().key({"ip": value})) for value in pair]
    except ParameterInvalid:
        return  # a surrogate
    assert made[0] != made[1]
    for key in made:
        assert re.fullmatch(r"[!-~]{1,200}", key)
