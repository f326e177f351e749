"""A replayed rule refuses just what a limiter with that rule would refuse."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import ParameterInvalid, RuleInvalid
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rates import parse_rates
from clickcurve.limiter.replay import EVENT, Replay, Side, rules_of
from clickcurve.limiter.rule import EVERYBODY, Rule, parse_rules
from tests.power import examples

T = 1_772_000_040


def one(text: str) -> Rule:
    (rule,) = rules_of([text])
    return rule


# --- rules as people write them ---------------------------------------------------------------------------------------
def test_rates_alone_are_shared_by_all() -> None:
    assert one("5/m, 20/h") == Rule(EVENT, EVENT, ((EVERYBODY,),), parse_rates("5/m, 20/h"))


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("by=ip rates=5/m", (("ip",),)),
        ("by=user,ip rates=5/m", (("user",), ("ip",))),
        ("rates=5/m by=ip+endpoint", (("ip", "endpoint"),)),
        ("by=user,ip+endpoint rates=5/m", (("user",), ("ip", "endpoint"))),
    ],
)
def test_by_may_be_a_choice_and_several_together(text: str, by: tuple[tuple[str, ...], ...]) -> None:
    assert one(text).by == by


def test_every_setting_of_a_rule_can_be_written_in_a_line() -> None:
    text = "by=ip rates='5/m, 20/h' edge=minute side=lenient ttl_s=9000 status=403 shadow=true name=a on_failure=closed"
    wanted = {
        "by": "ip",
        "rates": "5/m, 20/h",
        "edge": "minute",
        "side": "lenient",
        "ttl_s": 9000,
        "status": 403,
        "shadow": True,
        "name": "a",
        "on_failure": "closed",
    }
    assert (one(text),) == parse_rules({EVENT: wanted})
    bucket = one("rates=5/m strategy=token_bucket burst=9 shadow=false backend=redis")
    assert (bucket.strategy, bucket.burst, bucket.shadow, bucket.backend) == ("token_bucket", 9, False, "redis")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("by=ip rates=5/m, 20/h", "quote missing around the rates"),
        ("by=ip rates='5/m", "quotes of"),
        ("by=ip", "rates is missing"),
        ("5 by minute", "not a limit per time"),
        ("by=ip rates=5/m burst=many strategy=token_bucket", "burst must be a whole number"),
        ("by=ip rates=5/m shadow=perhaps", "shadow must be true or false"),
        ("by=ip rates=5/m colour=red", "'colour' is not a setting of a rule"),
        ("by= rates=5/m", "by must be"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(RuleInvalid) as refused:
        rules_of([text])
    assert why in refused.value.detail


# --- what they would have done ----------------------------------------------------------------------------------------
lines = st.tuples(st.integers(0, 90), st.sampled_from("ab"), st.sampled_from(["", "x"]), st.integers(1, 3))


@settings(max_examples=examples(60))
@given(trace=st.lists(lines, max_size=40))
def test_a_replay_refuses_what_a_limiter_refuses(trace: list[tuple[int, str, str, int]]) -> None:
    texts = ["by=ip rates='3/m, 5/h' backend=redis", "by=user,ip rates=8/10m strategy=fixed backend=redis"]
    replay = Replay(rules_of(texts))
    here = [text.replace("backend=redis", "") for text in texts]
    limiter = Limiter(rules_of(here), clock=None)
    now, asked, admitted = T, 0, 0
    for pause, ip, user, cost in trace:
        now += pause
        said = replay.line(f"{now} ip={ip} user={user} cost={cost}")
        decision = limiter.hit(EVENT, {"ip": ip, "user": user}, cost, now=now)
        assert (said is None) == decision.allowed
        asked, admitted = asked + cost, admitted + cost * decision.allowed
    assert (replay.asked.cost, replay.refused.cost) == (asked, asked - admitted)
    assert sum(replay.refused_by.values()) == replay.refused.cost
    assert (replay.asked.lines, replay.bad, replay.back) == (len(trace), 0, 0)


def test_a_refusal_names_the_caller_the_reason_and_the_time_to_wait() -> None:
    replay = Replay(rules_of(["by=ip rates=2/m"]))
    said = [replay.line(f"{T + n} ip=10.0.0.1") for n in range(3)]
    assert said == [None, None, f"{T + 2} ip=10.0.0.1 refused by 2/m: again after 59 s"]
    assert replay.line(f"{T + 3}.5 ip=b cost=3") == f"{T + 3}.5 ip=b refused by 2/m: it costs more than can ever pass"


def test_of_several_rules_the_one_that_refused_is_named_with_its_caller() -> None:
    replay = Replay(rules_of(["by=ip rates=9/m", "by=ip+endpoint rates=1/m name=each"]))
    line = f"{T} ip=10.0.0.1 endpoint=/links"
    assert replay.line(line) is None
    said = replay.line(line)
    assert said == f"{T} ip=10.0.0.1 endpoint=/links refused by each, 1/m: again after 61 s"
    assert replay.worst(9) == [("ip=10.0.0.1 endpoint=/links", 2, 1)]
    assert replay.asked_by["ip=10.0.0.1"] == 2


def test_a_token_bucket_names_its_rate_and_not_its_burst() -> None:
    replay = Replay(rules_of(["by=ip rates=1/h strategy=token_bucket burst=2"]))
    said = [replay.line(f"{T} ip=a") for _ in range(3)]
    assert said == [None, None, f"{T} ip=a refused by 1/h: again after 3600 s"]


def test_a_rule_in_shadow_mode_is_tried_as_it_would_run() -> None:
    replay = Replay(rules_of(["by=ip rates=1/m shadow=true"]))
    assert replay.line(f"{T} ip=a") is None
    assert str(replay.line(f"{T} ip=a")).endswith("(shadow: admitted all the same)")
    assert replay.refused == Side(1, 1)


def test_bad_lines_are_in_no_sum() -> None:
    replay = Replay(rules_of(["by=ip rates=1/m"]))
    for text in ("nonsense", f"{T}", f"{T} user=ann", f"{T} ip=a cost=0", f"{T} ip=\udcff"):
        with pytest.raises(ParameterInvalid):
            replay.line(text)
    assert replay.line("# a comment") is None
    assert (replay.bad, replay.asked) == (5, Side())


def test_lines_out_of_order_are_counted() -> None:
    """As the limiter does: what lies in the future by more than a second is no count."""
    replay = Replay(rules_of(["by=ip rates=1/m"]))
    assert replay.line(f"{T} ip=a") is None
    assert replay.line(f"{T - 1} ip=a") is not None
    assert replay.line(f"{T - 3600} ip=a") is None
    assert replay.line(f"{T - 3600} ip=b") is None
    assert replay.back == 3


def test_callers_are_listed_by_what_was_refused_and_then_by_name() -> None:
    replay = Replay(rules_of(["by=ip rates=1/h"]))
    for ip in "bbacaaccd":
        replay.line(f"{T} ip={ip}")
    assert replay.worst(9) == [("ip=a", 3, 2), ("ip=c", 3, 2), ("ip=b", 2, 1)]
    assert replay.worst(1) == [("ip=a", 3, 2)]
    assert replay.crowded == 0
