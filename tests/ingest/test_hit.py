from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import HitRejected, shown
from clickcurve.keys import require_key
from ingest.hit import (
    FUTURE,
    FUTURE_RULE,
    Hit,
    JsonHit,
    is_id,
    minute_start,
    refused_count,
    second_by_rules,
    ts_of,
)
from ingest.reading.judge import HitJudge
from ingest.reading.receipt import refusal_class
from tests.ingest.http_kit import DAY, MINUTE, MOMENT, NOW, is_bot, law


def refusal(rule: Callable[..., object], *values: object) -> HitRejected:
    with pytest.raises(HitRejected) as caught:
        rule(*values)
    assert caught.value.rule
    assert caught.value.status == 422
    return caught.value


JUDGE = HitJudge(MOMENT)


def broken_rule(raw: JsonHit) -> str | None:
    """The class of the rule that a hit breaks, as it is found where nobody reads the explanation."""
    try:
        second_by_rules(raw, MOMENT, explains=False)
    except HitRejected as error:
        return refusal_class(error)
    return None


def raw_hit(*values: Any, **named: Any) -> JsonHit:
    return JsonHit(*values, **named)


def hit(**fields: Any) -> Hit:
    return JUDGE.hit_of(raw_hit(**fields), is_bot)


def test_a_hit_with_a_key_alone_is_one_person_now() -> None:
    made = JUDGE.hit_of(raw_hit("a"), is_bot)
    assert (made.key, made.minute, made.count, made.id, made.bot) == ("a", MINUTE, 1, None, False)


@pytest.mark.parametrize(
    "key", ["a", " ", "\0", "a\0b", "/", "ä" * 512, "😀" * 256, "x" * 1024, "é", "e\u0301", "\ufeff"]
)
def test_a_key_is_kept_as_given(key: str) -> None:
    assert require_key(key, HitRejected) == key


@pytest.mark.parametrize(
    ("key", "detail"),
    [
        (None, "missing"),
        (1, "string"),
        (True, "string"),
        (b'{"a":1}', "string"),
        ("", "empty"),
        ("x" * 1025, "1,025 bytes"),
        ("ä" * 513, "1,026 bytes"),
        ("😀" * 257, "1,028 bytes"),
        ("\ud800", "surrogate"),
        ("a\udfffb", "surrogate"),
    ],
)
def test_a_bad_key_is_refused(key: object, detail: str) -> None:
    error = refusal(require_key, key, HitRejected)
    assert error.field == "key"
    assert detail in error.detail


@pytest.mark.parametrize(
    ("ts", "seconds"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (0.99, 0),
        (1.5e9, 1_500_000_000),
        (float(NOW) + 0.999, NOW),
        (NOW + 300, NOW + 300),
        (NOW + 300.9, NOW + 300),
        (None, NOW),
        ("2026-01-01T12:00:34Z", NOW),
        ("2026-01-01", DAY),
        ("2026-01", DAY),
        ("1970-01-01T00:33:40Z", 2_020),
        (10_000, 10_000),
    ],
)
def test_a_time_is_epoch_seconds_floored(ts: object, seconds: int) -> None:
    assert hit(key="a", ts=ts).minute == minute_start(seconds)
    assert ts_of(ts, MOMENT) == seconds
    assert broken_rule(raw_hit("a", ts)) is None


@pytest.mark.parametrize(
    ("ts", "detail"),
    [
        (-1, "before 1970"),
        (-0.1, "before 1970"),
        (-(10**30), "before 1970"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("1970-01-01T00:00:00+00:01", "before 1970"),
        (NOW + 301, "ahead"),
        (float(NOW + 301), "ahead"),
        ("2026-01-01T12:05:35Z", "ahead"),
        ("9999-12-31", "ahead"),
        (NOW * 1000, "13 digits: milliseconds?"),
        (NOW * 1000.5, "13 digits: milliseconds?"),
        (NOW * 10**6, "16 digits: microseconds?"),
        (NOW * 10**9, "19 digits: nanoseconds?"),
        (10**12, "13 digits: milliseconds?"),
        (10**14 - 1, "14 digits: milliseconds?"),
        (10**14, "15 digits: microseconds?"),
        (10**17 - 1, "17 digits: microseconds?"),
        (10**17, "18 digits: nanoseconds?"),
        (10**20 - 1, "20 digits: nanoseconds?"),
        (10**20, "ahead"),
        (10**30, "ahead"),
        (1e300, "ahead"),
        (math.inf, "finite"),
        (-math.inf, "finite"),
        (math.nan, "finite"),
        (1, "a year? write 2026-01-01"),
        (2020, "a year? write 2020-01-01"),
        (9999.5, "a year? write 2026-01-01"),
        (True, "neither"),
        (False, "neither"),
        (b"[1]", "neither"),
        ("", "ISO 8601"),
        ("now", "ISO 8601"),
        ("1767225600", "quotes"),
        ("1767225600000", "quotes"),
    ],
)
def test_a_bad_time_is_refused(ts: object, detail: str) -> None:
    error = refusal(lambda value: hit(key="a", ts=value), ts)
    assert error.field == "ts"
    assert detail in error.detail
    assert broken_rule(raw_hit("a", ts)) == (FUTURE if error.rule == FUTURE_RULE else "ts")


@pytest.mark.parametrize("count", [1, 2, 1_000_000_000])
def test_a_count_is_an_integer_in_bounds(count: int) -> None:
    assert hit(key="a", count=count).count == count
    assert refused_count(count) == count
    assert broken_rule(raw_hit("a", None, count)) is None


def test_a_missing_count_is_one() -> None:
    assert hit(key="a").count == 1


@pytest.mark.parametrize("count", [0, -1, 1_000_000_001, 2**64, 1.0, 1.5, True, False, "1", "", b"9" * 50, math.inf])
def test_a_bad_count_is_refused(count: object) -> None:
    assert refusal(lambda value: hit(key="a", count=value), count).field == "count"
    assert refused_count(count) == 1
    assert broken_rule(raw_hit("a", None, count)) == "count"


@pytest.mark.parametrize("id_", ["1", "!", "~", "a" * 128, "550e8400-e29b-41d4-a716-446655440000", '"{}"'])
def test_an_id_is_visible_ascii(id_: str) -> None:
    assert hit(key="a", id=id_).id == id_
    assert broken_rule(raw_hit("a", id=id_)) is None


@pytest.mark.parametrize(
    "id_", ["", " ", "a b", "a" * 129, "ä", "\t", "a\n", "\x7f", "\0", 7, True, 1.0, b"{}", "\ud800"]
)
def test_a_bad_id_is_refused(id_: object) -> None:
    assert refusal(lambda value: hit(key="a", id=value), id_).field == "id"
    assert broken_rule(raw_hit("a", id=id_)) == "id"


@law
@given(st.text(max_size=200))
def test_an_id_is_1_to_128_characters_from_exclamation_mark_to_tilde(text: str) -> None:
    assert is_id(text) == (1 <= len(text) <= 128 and all("!" <= character <= "~" for character in text))


def test_bot_beats_ua() -> None:
    assert hit(key="a", ua="Googlebot/2.1", bot=False).bot is False
    assert hit(key="a", ua="Mozilla/5.0", bot=True).bot is True
    assert hit(key="a", ua="Googlebot/2.1").bot is True
    assert hit(key="a", ua="").bot is False


@pytest.mark.parametrize("value", [0, 1, "true", "", b"{}", 1.0])
def test_a_bot_is_a_boolean(value: object) -> None:
    assert refusal(lambda value: hit(key="a", bot=value), value).field == "bot"


@pytest.mark.parametrize("value", [0, True, b"[]", 1.5])
def test_a_ua_is_a_string(value: object) -> None:
    assert refusal(lambda value: hit(key="a", ua=value), value).field == "ua"


def test_the_first_broken_rule_is_named() -> None:
    with pytest.raises(HitRejected) as caught:
        hit(key="a", ts=-1, count=0)
    assert caught.value.field == "ts"


@law
@given(st.integers(0, 2**40))
def test_a_minute_holds_its_time(ts: int) -> None:
    start = minute_start(ts)
    assert start <= ts < start + 60
    assert start % 60 == 0


@law
@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.characters()))
def test_a_shown_value_is_short_and_can_be_sent(value: object) -> None:
    sent = msgspec.json.encode(shown(value))
    assert len(sent) < 3000
    assert msgspec.json.decode(sent) == shown(value)


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3)
keys = st.sampled_from(["a", "", "x" * 1025, "\ud800", "ä" * 600]) | anything
times = st.sampled_from([NOW, NOW + 300, NOW + 301, NOW * 1000, -1, "2026-01-01", "x", 10**25]) | anything
ids = st.sampled_from(["1", "", "x" * 129, "a b"]) | anything
counts = st.sampled_from([1, 0, 10**9, 10**9 + 1]) | anything


@law
@given(keys, times, counts, ids, anything, anything)
def test_what_counts_a_refused_hit_finds_the_rule_that_explains_it(
    key: object, ts: object, count: object, id_: object, ua: object, bot: object
) -> None:
    raw = raw_hit(key, ts, count, id_, ua, bot)
    try:
        JUDGE.hit_of(raw, is_bot)
    except HitRejected as error:
        assert broken_rule(raw) == (FUTURE if error.rule == FUTURE_RULE else error.field)
    else:
        assert broken_rule(raw) is None
