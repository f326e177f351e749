"""The jobs of tokens: a worker follows those of the store, and the first one keeps the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import HOUR_S
from clickcurve.limiter.rule import Rule
from server.job import Job
from server.tokens.audit import AuditLog
from server.tokens.known_tokens import KnownTokens

TOKENS_S = 2  # all workers and nodes know of a new or revoked token within 5 s


def token_jobs(
    tokens: KnownTokens, audit: AuditLog, rules: Callable[[], Sequence[Rule]], *, is_first: bool
) -> Iterator[Job]:
    """Yields the jobs of a worker. rules: the limiter's, of whose changes the first worker tells the audit log."""

    async def follow() -> None:
        await tokens.refresh()
        if is_first:
            with suppress(StoreUnavailable):  # the next look is in two seconds
                await audit.follow_limits(rules())

    yield Job("tokens", follow, TOKENS_S, at_start=False)
    if is_first:
        yield Job("audit", lambda: asyncio.to_thread(audit.forget), HOUR_S, at_start=False)
