"""Functions that are limited, and a limiter made of rates alone."""

from __future__ import annotations

import asyncio

import pytest

from clickcurve.buckets.errors import ParameterInvalid, RuleInvalid
from clickcurve.limiter import AsyncLimiter, Limiter, LimitReached, parse_rules

T = 1_772_000_000.0


def test_rates_alone_make_a_limiter_that_all_share_or_that_has_keys() -> None:
    limiter = Limiter("2/m; 5 per hour", clock=lambda: T)
    assert [limiter.hit().allowed for _ in range(3)] == [True, True, False]
    assert [limiter.hit(features={"key": "ann"}).allowed for _ in range(3)] == [True, True, False]
    assert limiter.peek(features={"key": "ben"}).remaining == 2
    limiter.reset(features={"key": "ann"})
    assert limiter.hit(features={"key": "ann"}).remaining == 1
    with pytest.raises(RuleInvalid):
        Limiter("often")


def test_a_function_is_run_as_often_as_its_rule_allows() -> None:
    limiter = Limiter(parse_rules({"mail": {"by": "user", "rates": "2/m"}}), clock=lambda: T)
    sent: list[str] = []

    @limiter.limited("mail", lambda user, text="": {"user": user})
    def send(user: str, text: str = "") -> int:
        """Sends."""
        sent.append(user + text)
        return len(sent)

    assert (send("ann", text="!"), send("ann"), send.__doc__) == (1, 2, "Sends.")
    with pytest.raises(LimitReached, match=r"mail: 2/m is used up; again in \d+") as refused:
        send("ann")
    assert (refused.value.status, refused.value.decision.limit) == (429, 2)
    assert refused.value.retry_after_s >= 60
    assert send("ben") == 3
    assert sent == ["ann!", "ann", "ben"]


def test_a_coroutine_function_is_limited_and_may_wait() -> None:
    now = [T]

    async def pause(seconds: float) -> None:
        now[0] += seconds

    async def story() -> list[float]:
        limiter = AsyncLimiter("1/m", clock=lambda: now[0], pause=pause)

        @limiter.limited(wait_s=100.0)
        async def when() -> float:
            return now[0] - T

        first = [await when(), await when()]

        @limiter.limited(cost=2)
        async def never() -> None:
            raise AssertionError

        with pytest.raises(LimitReached, match="more than can ever pass"):
            await never()
        with pytest.raises(TypeError, match="needs a coroutine function"):
            limiter.limited()(len)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="needs a plain function"):
            Limiter("1/m").limited()(when)
        return first

    first = asyncio.run(story())
    assert first[0] == 0
    assert 60 <= first[1] <= 61


@pytest.mark.parametrize("now", [float("nan"), float("inf"), -float("inf"), -1.0, 4.3e9, 1e11])
def test_a_time_that_no_backend_could_keep_is_refused_in_a_sentence(now: float) -> None:
    limiter = Limiter("5/m", clock=lambda: T)
    for verb in (limiter.hit, limiter.peek, limiter.reserve):
        with pytest.raises(ParameterInvalid, match="now must be epoch seconds"):
            verb(now=now)
    assert limiter.hit(now=4.19e9).allowed


def test_a_reservation_belongs_to_its_event() -> None:
    limiter = Limiter(parse_rules({name: {"by": "ip", "rates": "5/m"} for name in ("login", "mail")}), clock=lambda: T)
    reservation = limiter.reserve("login", {"ip": "a"}).reservation or ""
    assert limiter.cancel("mail", reservation).value == "unknown"
    assert limiter.peek("login", {"ip": "a"}).remaining == 4
    assert limiter.cancel("login", reservation).value == "done"


def test_a_first_rule_keeps_its_counts_when_a_second_one_joins() -> None:
    limiter = Limiter(parse_rules({"login": {"by": "ip", "rates": "5/h"}}), clock=lambda: T)
    for _ in range(5):
        limiter.hit("login", {"ip": "a"})
    limiter.replace(parse_rules({"login": [{"by": "ip", "rates": "5/h"}, {"by": "ip", "rates": "100/d"}]}))
    assert limiter.peek("login", {"ip": "a"}).remaining == 0
