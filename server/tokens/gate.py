"""The check of a request's token: which token it is, whether it allows what is asked, and which keys it may touch."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping

from clickcurve.access import ALL_ACCESS, Access
from clickcurve.buckets.errors import NotAllowed, NotAuthenticated, SettingInvalid
from server.settings.values import is_loopback
from server.tokens.token import Scope, Token, sha256_of


class Gate:
    """Checks the tokens of requests, by one hash and one dict lookup each.

    A server that asks for tokens never stops asking while it runs: if the last one is revoked, every request is
    refused. closed: it asks for them. clock: epoch seconds.
    """

    def __init__(self, clock: Callable[[], float], *, closed: bool = False, tokens: Iterable[Token] = ()) -> None:
        self._clock = clock
        self._by_digest: Mapping[str, Token] = {}
        self._access: Mapping[str, Access] = {}
        self.closed = closed
        self.changes = 0  # how often other tokens were given; what was allowed before may be refused after that
        self.refused = {"missing": 0, "unknown": 0, "scope": 0}
        self.used: set[str] = set()  # ids of the tokens that allowed something, until somebody clears it
        self.use(tokens)

    def use(self, tokens: Iterable[Token]) -> None:
        """Takes these tokens in place of those before, without those that have expired."""
        now = self._clock()
        by_digest = {token.sha256: token for token in tokens if not token.is_over(now)}
        if by_digest != self._by_digest:
            self._access = {digest: _access_of(token) for digest, token in by_digest.items()}
            self._by_digest = by_digest
            self.changes += 1
        self.closed = self.closed or bool(by_digest)

    def begin_day(self) -> None:
        """Makes callers that are remembered show their tokens again, so that `used` is of this day."""
        self.changes += 1

    def allows(self, scope: Scope, authorization: bytes | None) -> bool:
        """Tells whether a request may pass that touches any key; counts nothing."""
        if not self.closed:
            return True
        token = None if authorization is None else self._known(authorization)
        if token is None or not token.allows(scope) or token.prefix is not None:
            return False
        self.used.add(token.id)
        return True

    def check(self, scope: Scope, authorization: bytes | None, *, alone: bool = False) -> Access:
        """Returns what a request may touch whose Authorization header allows the scope.

        alone: the token may allow nothing else, since strangers see where it stands. Raises NotAuthenticated or
        NotAllowed.
        """
        if not self.closed:
            return ALL_ACCESS
        if authorization is None:
            self.refused["missing"] += 1
            raise NotAuthenticated("this server asks for a token: send Authorization: Bearer TOKEN")
        token = self._known(authorization)
        if token is None:
            self.refused["unknown"] += 1
            is_bearer = authorization[:7].lower() == b"bearer "
            unknown = "the token is not known here: it was mistyped or revoked, or has expired"
            raise NotAuthenticated(unknown if is_bearer else "the header is not Authorization: Bearer TOKEN")
        if not token.allows(scope):
            self.refused["scope"] += 1
            raise NotAllowed(f"token {token.id} does not have the scope {scope.value}", field="scope", rule=scope.value)
        if alone and token.scopes != (scope,):
            self.refused["scope"] += 1
            detail = f"token {token.id} may do more than {scope.value}, and stands where others can read it"
            raise NotAllowed(detail, field="scope", rule=scope.value)
        self.used.add(token.id)
        return self._access[token.sha256]

    def _known(self, authorization: bytes) -> Token | None:
        kind, _, secret = authorization.decode("latin-1").partition(" ")
        digest = sha256_of(secret.strip())
        token = self._by_digest.get(digest)
        is_known = kind.lower() == "bearer" and token is not None and hmac.compare_digest(token.sha256, digest)
        return token if is_known and token is not None and not token.is_over(self._clock()) else None


def _access_of(token: Token) -> Access:
    if token.prefix is None or token.group is None:
        return Access(token=token.id)
    return Access(token.prefix, token.group, token.id)


def check_reach(host: str, has_tokens: bool, insecure: bool) -> None:
    """Raises SettingInvalid if other machines could reach a server without tokens."""
    if is_loopback(host) or has_tokens or insecure:
        return
    raise SettingInvalid(
        f"host {host} can be reached by others and there are no tokens: make one with `clickcurve token create`, "
        "listen on 127.0.0.1, or give --insecure",
        field="host",
        value=host,
    )
