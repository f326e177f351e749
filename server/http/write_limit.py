"""The limit of the server's own writes, and requests whose token only their route can read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from starlette.requests import Request

from clickcurve.access import ALL_ACCESS, Access, access, begin_access
from clickcurve.asgi import Scope
from clickcurve.limiter.http.headers import HttpRefusal
from server.http.host_and_origin_guard import HostAndOriginGuard
from server.limiter.limiter import ServerLimiter, WriteRefused
from server.tokens.gate import Gate
from server.tokens.token import Scope as TokenScope

# What a request may touch until its route has let it in: no key begins so.
UNDECIDED = Access(prefix="\0\0undecided", group="\0\0undecided")


async def write_refusal(limiter: ServerLimiter, scope: Scope) -> HttpRefusal | None:
    """Counts a request of the access under way in the limit of writes; returns the answer if that refuses it.

    Where hits are limited, they are charged once the body is read.
    """
    features = {"ip": limiter.addresses.client(scope)}
    if (token := access().token) is not None:
        features["token"] = token
    if limiter.counts_hits:
        begin_access(replace(access(), charge=partial(limiter.charge, features)))
        return None
    return await limiter.refuse_write(features)


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Lets in what the gateway has left undecided, and what writes by GET, which the gateway takes for a question."""

    gate: Gate
    guard: HostAndOriginGuard
    limiter: ServerLimiter | None

    async def let_in(self, request: Request, token: str | None) -> None:
        """Makes the rest of the request touch what its token allows. token: where the gateway does not look for it.

        Raises NotAuthenticated, NotAllowed, ForeignPage, WriteRefused.
        """
        if access() == UNDECIDED:
            shown = None if token is None else b"Bearer " + token.encode("utf-8", "surrogatepass")
            begin_access(self.gate.check(TokenScope.write, shown, alone=True))
        elif request.method != "GET":  # the gateway has checked all
            return
        elif not self.gate.closed:
            self.guard.check_page(dict(request.scope["headers"]))
        await self._limit(request)

    async def let_in_signed(self, request: Request) -> None:
        """Makes the rest of the request touch everything: its signature is right. Raises WriteRefused."""
        if access() == UNDECIDED:
            begin_access(ALL_ACCESS)
            await self._limit(request)

    async def _limit(self, request: Request) -> None:
        if self.limiter is not None and self.limiter.limits_writes:
            refused = await write_refusal(self.limiter, request.scope)
            if refused is not None:
                raise WriteRefused(refused)
