"""Whether a request may pass: one decision for the middleware and the dependency."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Generic, TypeAlias, TypeVar

from clickcurve.asgi import Scope
from clickcurve.buckets.errors import EventUnknown, ParameterInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.fallback import Verb, decide_anyway, settle_anyway
from clickcurve.limiter.http.headers import Fields, HttpRefusal, check_dialect, fields, http_refusal, sentence
from clickcurve.problem import MEDIA_TYPE, problem_body

Given: TypeAlias = Mapping[str, str]
Asked = TypeVar("Asked")

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
WEBSOCKET = "WEBSOCKET"  # stands for the method where a client asks to open a web socket


@dataclass(frozen=True, slots=True)
class Pass:
    """A request that may pass. `shown`: the fields that its answer says how much is left with."""

    event: str
    decision: Decision
    shown: Fields


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that may not pass: the answer to it, and why in a sentence."""

    answer: HttpRefusal
    detail: str


class Admission(Generic[Asked]):
    """Decides requests of one application.

    event: the event of each request, or a function of the ASGI scope that names it; None, and an event that has no
    rule any more, are not limited. features: a function of what is asked, which may be awaited; `ip` is always added.
    cost: of each hit. reserves: the hit is reserved, and `settle` says whether it counts.
    """

    def __init__(
        self,
        limiter: AsyncLimiter,
        event: str | Callable[[Scope], str | None],
        *,
        features: Callable[[Asked], Given | Awaitable[Given]] | None,
        methods: Collection[str],
        cost: int,
        dialect: str,
        addresses: Addresses | None,
        reserves: bool,
        documentation_url: str,
    ) -> None:
        if isinstance(event, str):
            limiter.events[event]  # a name that nobody knows is an error now, not with the first request
        self._limiter, self._event, self._features = limiter, event, features
        self._methods, self._cost, self._dialect = frozenset(methods), cost, check_dialect(dialect)
        self._addresses = addresses or Addresses()
        self.reserves = reserves
        self._documentation_url = documentation_url

    async def decide(self, scope: Scope, asked: Asked) -> Pass | Refusal | None:
        """Decides a request; `asked` is what `features` gets. None: nothing limits it.

        A request without the features that the event's rules ask for is refused with 422.
        """
        event = self._event_of(scope)
        if event is None:
            return None
        given: dict[str, str] = {"ip": self._addresses.client(scope)}
        if self._features is not None:
            features = self._features(asked)
            given |= await features if isawaitable(features) else features
        events = self._limiter.events
        try:
            rules = events.of(event, given).rules
            verb: Verb = "reserve" if self.reserves else "hit"
            decision = await decide_anyway(self._limiter, verb, event, given, self._cost)
        except ParameterInvalid as error:
            return _unnamed_caller(error)
        now = events.now()
        if not decision.allowed:
            answer = http_refusal(self._dialect, decision, rules, now, self._documentation_url)
            return Refusal(answer, sentence(decision))
        return Pass(event, decision, fields(self._dialect, decision, rules, now))

    def _event_of(self, scope: Scope) -> str | None:
        if (WEBSOCKET if scope["type"] == "websocket" else scope.get("method")) not in self._methods:
            return None
        event = self._event if isinstance(self._event, str) else self._event(scope)
        try:
            if event is not None:
                self._limiter.events[event]
        except EventUnknown:
            return None
        return event

    async def settle(self, passed: Pass, keep: int | None) -> None:
        """Ends the reservation of a request: its hit counts (None), or not (0)."""
        if passed.decision.reservation is not None:
            await settle_anyway(self._limiter, passed.event, passed.decision.reservation, keep)


def _unnamed_caller(error: ParameterInvalid) -> Refusal:
    """Returns the answer to a caller without the features that the rules ask for."""
    content = problem_body(error.status, error.title, error.detail, field=error.field)
    shown = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(content)))]
    return Refusal(HttpRefusal(error.status, shown, content), error.detail)
