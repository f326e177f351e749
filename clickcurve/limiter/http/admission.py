"""Whether a request may pass: one decision for the middleware and the dependency, also where a backend raises.

A guarded backend does not raise: it obeys the policy of each rule by itself. Where an unguarded one raises, the policy
is obeyed here as far as is possible without counts: a rule that says `closed` refuses, every other admits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Generic, Literal, TypeAlias, TypeVar

from clickcurve.asgi import Scope
from clickcurve.buckets.errors import BackendUnavailable, EventUnknown, ParameterInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.decision import Decision, combine_quotas, quota_without_counts
from clickcurve.limiter.events import Features
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.headers import Fields, HttpRefusal, check_dialect, fields, http_refusal
from clickcurve.limiter.rule import Rule
from clickcurve.problem import MEDIA_TYPE, problem_body

Asked = TypeVar("Asked")
Verb: TypeAlias = Literal["hit", "peek", "reserve"]
Rules: TypeAlias = Sequence[Rule]

RETRY_S = 1.0
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
WEBSOCKET = "WEBSOCKET"  # stands for the method where a client asks to open a web socket
LIMITED = WRITES | {WEBSOCKET}


@dataclass(frozen=True, slots=True)
class Pass:
    """A request that may pass. `shown`: the fields that its answer says how much is left with."""

    event: str
    decision: Decision
    shown: Fields


class Admission(Generic[Asked]):
    """Decides requests of one application.

    event: the event of each request, or a function of the ASGI scope that names it; None, and an event that has no
    rule any more, are not limited. features: a function of what is asked, which may be awaited; `ip` is always added.
    cost: of each hit. only_failures: the hit is reserved, and `settle` says whether it counts.
    """

    def __init__(
        self,
        limiter: AsyncLimiter,
        event: str | Callable[[Scope], str | None],
        *,
        features: Callable[[Asked], Features | Awaitable[Features]] | None = None,
        methods: Collection[str] = LIMITED,
        cost: int = 1,
        dialect: str = "x",
        addresses: Addresses | None = None,
        only_failures: bool = False,
        documentation_url: str = "",
    ) -> None:
        if isinstance(event, str):
            limiter.events[event]  # a name that nobody knows is an error now, not with the first request
        self._limiter, self._event, self._features = limiter, event, features
        self._methods, self._cost, self._dialect = frozenset(methods), cost, check_dialect(dialect)
        self._addresses = addresses or Addresses()
        self.reserves = only_failures
        self._documentation_url = documentation_url

    async def decide(self, scope: Scope, asked: Asked) -> Pass | HttpRefusal | None:
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
        try:
            verb: Verb = "reserve" if self.reserves else "hit"
            decision, rules = await decide_anyway(self._limiter, verb, event, given, self._cost)
        except ParameterInvalid as error:
            return _unnamed_caller(error)
        now = self._limiter.events.now()
        if not decision.allowed:
            return http_refusal(self._dialect, decision, rules, now, self._documentation_url)
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


def _unnamed_caller(error: ParameterInvalid) -> HttpRefusal:
    """Returns the answer to a caller without the features that the rules ask for."""
    content = problem_body(error.status, error.title, error.detail, field=error.field)
    shown = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(content)))]
    return HttpRefusal(error.status, shown, content, error.detail)


# --- verbs that do not raise where a backend does ---------------------------------------------------------------------
async def decide_anyway(
    limiter: AsyncLimiter,
    verb: Verb,
    event: str,
    features: Features,
    cost: int = 1,
    *,
    caller: str | None = None,
    explain: bool = False,
) -> tuple[Decision, Rules]:
    """Returns the verb's decision, or one without the backend; and the rules that it was made by.

    EventUnknown and ParameterInvalid pass through.
    """
    rules_of_event = limiter.events.of(event, features)
    rules = rules_of_event.rules
    try:
        if verb == "peek":
            return await limiter.peek(event, features, cost, explain=explain), rules
        ask = limiter.reserve if verb == "reserve" else limiter.hit
        return await ask(event, features, cost, caller=caller, explain=explain), rules
    except BackendUnavailable:
        decision = without_backend(rules, cost, limiter.events.now())
        if verb != "peek":
            limiter.events.report(rules_of_event, features, cost, decision)
        return decision, rules


async def settle_anyway(limiter: AsyncLimiter, event: str, reservation: str, keep: int | None) -> Settled | None:
    """Ends a reservation and returns how that went; None if the backend did not say.

    Then, and where the event has no rule any more, its hit counts until its windows are over.
    """
    try:
        return await limiter.commit(event, reservation, keep)
    except (BackendUnavailable, EventUnknown):
        return None


def without_backend(rules: Rules, cost: int, now: float | None) -> Decision:
    """Returns what the rules say of a hit that cannot be counted. One that costs more than its limit never fits."""
    return combine_quotas(rules, [quota_without_counts(rule, cost, now or 0.0, RETRY_S) for rule in rules])
