"""The rate limiter: rules for events, decided all or nothing, on buckets that can tell what they counted.

    from clickcurve.limiter import Limiter, parse_rules

    limiter = Limiter(parse_rules({"login": {"by": "ip", "rates": "5/m, 20/h"}}))
    decision = limiter.hit("login", {"ip": "203.0.113.7"})

What a program needs for its own process is here by name. What needs another library or server has its own import:
`clickcurve.limiter.backends.redis` and `.memcached`, `clickcurve.limiter.http.middleware`, `.dependency`, `.routes`.

rates            limits per time, and the grammar they are written in
rule             which callers share a limit, and how it is kept; what is refused at start
key              the name under which one caller is counted
quota            what one key has left under one rule
decision         the one answer that the rules of an event give together
sliding_window   sliding windows over buckets of seconds, minutes and hours (`tiered`): the arithmetic
fixed_window     windows of the clock, and windows that a hit opens
token_bucket     tokens in whole numbers
backend          what every backend promises, and the question that it gets
backends/        where counts are kept: in process, on Redis, on memcached; and what is done when nobody answers there
events           rules compiled by event; questions made of events and features
async_limiter    the verbs, for event loops
limiter          the same verbs, for threads
wait_queue       queues of callers that wait until their hit fits
http/            middleware, a FastAPI dependency, the decision service, headers, addresses
replay           what rules would have done with lines of the past

No clock but the default of a parameter, and no input or output but a backend's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clickcurve.buckets.errors import BackendUnavailable, EventUnknown, ParameterInvalid, RuleInvalid
    from clickcurve.limiter.async_limiter import AsyncLimiter
    from clickcurve.limiter.backend import AsyncBackend, Backend, Question, Settled
    from clickcurve.limiter.backends.forms import Immediate, Threaded
    from clickcurve.limiter.backends.guard import AsyncGuarded, Guarded, Patience
    from clickcurve.limiter.backends.memory import MemoryBackend
    from clickcurve.limiter.decision import Decision, LimitReached
    from clickcurve.limiter.events import Attempt
    from clickcurve.limiter.limiter import Limiter
    from clickcurve.limiter.quota import Quota
    from clickcurve.limiter.rates import Rate
    from clickcurve.limiter.rule import Rule, parse_rules
else:
    _HOMES = {
        "clickcurve.buckets.errors": ("BackendUnavailable", "EventUnknown", "ParameterInvalid", "RuleInvalid"),
        "clickcurve.limiter.async_limiter": ("AsyncLimiter",),
        "clickcurve.limiter.backend": ("AsyncBackend", "Backend", "Question", "Settled"),
        "clickcurve.limiter.backends.forms": ("Immediate", "Threaded"),
        "clickcurve.limiter.backends.guard": ("AsyncGuarded", "Guarded", "Patience"),
        "clickcurve.limiter.backends.memory": ("MemoryBackend",),
        "clickcurve.limiter.decision": ("Decision", "LimitReached"),
        "clickcurve.limiter.events": ("Attempt",),
        "clickcurve.limiter.limiter": ("Limiter",),
        "clickcurve.limiter.quota": ("Quota",),
        "clickcurve.limiter.rates": ("Rate",),
        "clickcurve.limiter.rule": ("Rule", "parse_rules"),
    }

    def __getattr__(name: str) -> object:
        """Imports a public name when it is first used.

        Together they load asyncio, which takes 30 ms; a command that only reads rules need not wait for that.
        """
        for module, names in _HOMES.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AsyncBackend",
    "AsyncGuarded",
    "AsyncLimiter",
    "Attempt",
    "Backend",
    "BackendUnavailable",
    "Decision",
    "EventUnknown",
    "Guarded",
    "Immediate",
    "LimitReached",
    "Limiter",
    "MemoryBackend",
    "ParameterInvalid",
    "Patience",
    "Question",
    "Quota",
    "Rate",
    "Rule",
    "RuleInvalid",
    "Settled",
    "Threaded",
    "parse_rules",
]
