"""What is packed is what is unpacked, is small, and is known from other bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backends import packed_meters
from clickcurve.limiter.backends.meter import UNBOUNDED, Meter
from clickcurve.limiter.backends.meters import METERS, Opened, Tokens
from clickcurve.limiter.backends.packed_meters import (
    counted_until_us,
    form_of,
    pack_meter,
    rule_of,
    unpack_meter,
)
from clickcurve.limiter.rule import Rule, parse_rules
from clickcurve.times import SECOND_US
from tests.limiter.given import MIDNIGHT

# What memcached takes, less the name and its own head of the item.
MOST_BYTES = 1_024 * 1_024 - 500
AT_US = MIDNIGHT * SECOND_US
RULES: dict[str, dict[str, Any]] = {
    "seconds": {"rates": "20/m, 50/h"},
    "fine": {"rates": "5/s, 20/m"},
    "minutes": {"rates": "50/h", "edge": "minute", "side": "lenient"},
    "fixed": {"rates": "20/m, 50/h", "strategy": "fixed"},
    "per_second": {"rates": "5/s", "strategy": "per_second"},
    "single_counter": {"rates": "20/m", "strategy": "single_counter"},
    "list": {"rates": "20/m", "strategy": "list"},
    "token_bucket": {"rates": "20/m", "burst": 30, "strategy": "token_bucket"},
}


def rule(**given: Any) -> Rule:
    return parse_rules({"e": {"by": "ip", **given}})[0]


def meter_of(rule_: Rule) -> Meter:
    return METERS[rule_.strategy](rule_, AT_US, UNBOUNDED)


hits = st.lists(
    st.tuples(st.integers(-40 * SECOND_US, 90 * SECOND_US), st.integers(1, 5), st.text(max_size=5), st.booleans()),
    max_size=60,
)


@pytest.mark.parametrize("name", RULES)
@given(hits=hits)
def test_a_meter_that_was_packed_after_every_hit_answers_as_one_that_was_not(
    name: str, hits: list[tuple[int, int, str, bool]]
) -> None:
    rule_ = rule(**RULES[name])
    meter, at_us, handles = meter_of(rule_), AT_US, []
    value = pack_meter(rule_, meter, 7)
    for later_us, cost, caller, held in hits:
        at_us += later_us
        packed, life = unpack_meter(rule_, value)
        assert life == 7
        assert counted_until_us(rule_, packed) == counted_until_us(rule_, meter)
        quotas = [each.weigh(rule_, at_us, cost, True) for each in (packed, meter)]
        assert quotas[0] == quotas[1]
        assert packed.explained(rule_, at_us, quotas[0]) == meter.explained(rule_, at_us, quotas[1])
        if quotas[0].fits:
            ends = [each.charge(rule_, at_us, cost, caller, held) for each in (packed, meter)]
            assert ends[0] == ends[1]
            if held:
                handles.append((ends[0], cost, caller))
        elif handles:
            handle, many, who = handles.pop()
            for each in (packed, meter):
                each.refund(rule_, at_us, handle, many, who)
        value = pack_meter(rule_, packed, life)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_the_same_form_packs_and_gives_back_as_the_one_it_was_made_of(name: str) -> None:
    one = rule(**RULES[name])
    other = rule_of(form_of(one))
    assert form_of(other) == form_of(one)
    assert (other.kept_as, other.ticks_s, other.ttl_s) == (one.kept_as, one.ticks_s, one.ttl_s)
    meter = meter_of(one)
    handle = meter.charge(one, AT_US, 3, "ann", True)
    packed, _ = unpack_meter(other, pack_meter(one, meter, 7))
    packed.refund(other, AT_US, handle, 3, "ann")
    assert packed.weigh(other, AT_US, 1, False).at_most == 0


def test_a_token_bucket_knows_under_which_rate_it_was_charged() -> None:
    old, new = rule(rates="10/m", strategy="token_bucket"), rule(rates="60/m", strategy="token_bucket")
    meter = meter_of(old)
    meter.charge(old, AT_US, 9, "", False)
    packed, _ = unpack_meter(new, pack_meter(old, meter, 7))
    assert packed.weigh(new, AT_US + 6 * SECOND_US, 1, False) == meter.weigh(new, AT_US + 6 * SECOND_US, 1, False)


# --- sizes ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("seconds", 38 + 10 * 8), ("fine", 38 + 10 * 8), ("fixed", 6 + 2 * 8), ("per_second", 14)),
        *(("single_counter", 18), ("list", 18 + 10 * 7), ("token_bucket", 38)),
    ],
)
def test_ten_hits_in_ten_buckets_take_few_bytes(name: str, size: int) -> None:
    rule_ = rule(**RULES[name])
    meter = meter_of(rule_)
    for n in range(10):
        meter.charge(rule_, AT_US + n * SECOND_US, 1, "ann", False)
    assert len(pack_meter(rule_, meter, 7)) == size


@pytest.mark.parametrize("rates", ["90000/d", "40/s, 90000/d"])
def test_hits_in_every_second_of_days_stay_below_a_megabyte(rates: str) -> None:
    """Also where fine buckets become one of a second only when some have gathered."""
    rule_ = rule(rates=rates)
    meter, largest, at_us = meter_of(rule_), 0, AT_US
    for n in range(200_000):
        at_us += SECOND_US if n % 6 or rule_.ticks_s == 1 else SECOND_US // 20
        meter.charge(rule_, at_us, 1, "", False)
        if n % 4_000 == 0:
            value = pack_meter(rule_, meter, 7)
            largest = max(largest, len(value))
            meter, _ = unpack_meter(rule_, value)
    assert 690_000 < largest < 830_000 < MOST_BYTES


def test_long_names_in_a_list_stay_below_a_megabyte() -> None:
    """Those that came first are kept; the others count all the same."""
    rule_ = rule(rates="10000/d", strategy="list")
    meter = meter_of(rule_)
    assert isinstance(meter, Opened)
    meter.charge(rule_, AT_US, 1, "first", False)
    meter.charge(rule_, AT_US, 9_999, "\N{SNOWMAN}" * 256, False)
    value = pack_meter(rule_, meter, 7)
    assert len(value) < MOST_BYTES
    packed, _ = unpack_meter(rule_, value)
    assert isinstance(packed, Opened)
    assert packed.count == 10_000
    assert packed.callers[0] == "first"
    assert len(packed.callers) > 500


def test_open_reservations_of_one_bucket_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were made last can be given back."""
    monkeypatch.setattr(packed_meters, "MAX_CLAIMS", 3)
    rule_ = rule(rates="10/m", strategy="token_bucket")
    meter = meter_of(rule_)
    handles = [meter.charge(rule_, AT_US, 1, "", True) for _ in range(5)]
    packed, _ = unpack_meter(rule_, pack_meter(rule_, meter, 7))
    assert isinstance(packed, Tokens)
    for handle in handles:
        packed.refund(rule_, AT_US, handle, 1, "")
    assert packed.weigh(rule_, AT_US, 1, False).remaining == 8


# --- other bytes ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", RULES)
@given(start=st.sampled_from([b"", b"\1t", b"\1f", b"\1s", b"\1l", b"\1b"]), more=st.binary(max_size=80))
@example(b"\1l", b"\0" * 16 + b"{}")
@example(b"\1l", b"\0" * 16 + b"\xff")
@example(b"\1s", b"\0" * 16 + b"[1]")
def test_other_bytes_are_an_error_or_a_meter_and_nothing_else(name: str, start: bytes, more: bytes) -> None:
    rule_ = rule(**RULES[name])
    own = pack_meter(rule_, meter_of(rule_), 7)[:2]
    try:
        unpack_meter(rule_, start + more)
    except BackendUnavailable:
        return
    assert start + more[: 2 - len(start)] == own
