"""What an answer says of a limit: header fields in one of a few dialects, and the body of a refusal. Pure.

    x        X-RateLimit-Limit, -Remaining, -Reset (epoch seconds)
    github   the same with -Used and -Resource; refusals have GitHub's body. The rule's status may be 403 or 429
    ietf     RateLimit-Policy and RateLimit as the newest draft that is known here has them
    ietf-11  the same, pinned to draft-ietf-httpapi-ratelimit-headers-11
    none     none of these

Every dialect has Retry-After on a refusal, in whole seconds, rounded up, at least 1; left out if waiting is no help.

Clients read a reset as "when may I come again". So where nothing is left, or a hit is refused, it tells when the next
hit, or this one, fits; where some is left, when all is free.

All numbers are those of the decision. A rule in shadow mode and a decision without the backend show none: the first
must not be noticed, and the second knows none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.rates import Rate
from clickcurve.limiter.rule import Rule
from clickcurve.problem import MEDIA_TYPE, problem_body

Fields: TypeAlias = list[tuple[str, str]]

CURRENT_DRAFT = "ietf-11"
QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"  # the draft's type of a refusal
DIALECTS = ("x", "github", "ietf", CURRENT_DRAFT, "none")


class HttpRefusal(NamedTuple):
    """A whole answer: fields include those of the dialect and the content type. detail: why, in a sentence."""

    status: int
    fields: Fields
    body: bytes
    detail: str


def check_dialect(dialect: str) -> str:
    if dialect not in DIALECTS:
        rule = "one of " + ", ".join(DIALECTS)
        raise ParameterInvalid(f"{dialect!r} is not a dialect of headers", field="dialect", value=dialect, rule=rule)
    return dialect


def may_carry_limits(status: int) -> bool:
    """Returns whether an answer of this status may say how much is left.

    A redirect may not: caches keep it, and it is the main answer of a shortener.
    """
    return not 300 <= status < 400


def whole_retry_after_s(decision: Decision) -> int | None:
    """Returns whole seconds for Retry-After; None if the hit is allowed, or never will be."""
    wait_s = decision.retry_after_s
    return None if decision.allowed or wait_s is None else max(1, ceil(wait_s))


def fields(dialect: str, decision: Decision, rules: Sequence[Rule], now: float | None) -> Fields:
    """Returns the fields of an answer. rules: all of the event's; now: epoch seconds, if known (for drafts)."""
    shown: Fields = []
    if not decision.fallback and not decision.rule.shadow:
        if dialect.startswith("ietf"):
            shown = _draft(decision, rules, now)
        elif dialect != "none":
            shown = [
                ("X-RateLimit-Limit", str(decision.limit)),
                ("X-RateLimit-Remaining", str(decision.remaining)),
                ("X-RateLimit-Reset", str(decision.more_at)),
            ]
            if dialect == "github":
                shown.append(("X-RateLimit-Used", str(max(0, decision.limit - decision.remaining))))
                shown.append(("X-RateLimit-Resource", decision.rule.event))
    wait_s = whole_retry_after_s(decision)
    return shown if wait_s is None else [*shown, ("Retry-After", str(wait_s))]


def http_refusal(
    dialect: str, decision: Decision, rules: Sequence[Rule], now: float | None, documentation_url: str = ""
) -> HttpRefusal:
    """Returns the answer to a hit that is not allowed. No cache may keep it (RFC 6585)."""
    detail = sentence(decision)
    if dialect == "github":
        media = "application/json"
        body = {"message": detail, "documentation_url": documentation_url}
        content = json.dumps(body, separators=(",", ":")).encode()
    else:
        media, title = MEDIA_TYPE, "rate limit exceeded"
        more: dict[str, Any] = {}
        if dialect.startswith("ietf") and not decision.fallback:
            more = {"type": QUOTA_EXCEEDED, "violated-policies": [_policy(decision.rule, decision.rate)]}
        content = problem_body(decision.rule.status, title, detail, rule=decision.rule.name, **more)
    shown = fields(dialect, decision, rules, now)
    shown += [("Cache-Control", "no-store"), ("Content-Type", media), ("Content-Length", str(len(content)))]
    return HttpRefusal(decision.rule.status, shown, content, detail)


def sentence(decision: Decision) -> str:
    """Says to people why a hit is refused. GitHub's clients know a refusal by how GitHub's own sentence begins."""
    event, rate = decision.rule.event, decision.rate
    if decision.fallback:
        return f"{event}: the limiter cannot tell now, and the rule {decision.rule.name} refuses meanwhile"
    if decision.never:
        return f"{event}: this costs more than the {decision.limit} that are ever free at once"
    at_once = f", {decision.limit} at once" if decision.limit != rate.limit else ""
    left = f"{decision.remaining} left; again in {whole_retry_after_s(decision)} s"
    return f"API rate limit exceeded for {event}: {rate.limit} in {rate.window_s} s{at_once}, {left}"


# --- the dialect of the drafts ----------------------------------------------------------------------------------------
def _draft(decision: Decision, rules: Sequence[Rule], now: float | None) -> Fields:
    policies = [
        f'"{_policy(rule, rate)}";q={reach.limit};w={reach.window_s}'
        for rule in rules
        if not rule.shadow
        for rate, reach in zip(rule.rates, rule.reaches, strict=True)
    ]
    left = f'"{_policy(decision.rule, decision.rate)}";r={decision.remaining}'
    within_s = _within_s(decision, now)
    return [
        ("RateLimit-Policy", ", ".join(policies)),
        ("RateLimit", left if within_s is None else f"{left};t={within_s}"),
    ]


def _policy(rule: Rule, rate: Rate) -> str:
    """Returns a policy's name, of the characters that a rule's name and its rates may have."""
    return rule.name if len(rule.rates) == 1 else f"{rule.name} {rate}"


def _within_s(decision: Decision, now: float | None) -> int | None:
    """Returns the seconds within which no more than the remaining may be used.

    Of a refusal these are those of Retry-After. Else they last until all is free again, or one more where nothing is
    left, but at least so long that the remaining divided by them is no faster than the rule's own rate: a window that
    is nearly over would promise ten thousand a second.
    """
    if not decision.allowed:
        return whole_retry_after_s(decision)
    share_s = ceil(decision.remaining * decision.window_s / max(1, decision.limit))
    until_s = 0 if now is None else decision.more_at - int(now)
    return max(share_s, until_s, 0)
