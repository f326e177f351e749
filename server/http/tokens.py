"""Tokens, and what each allows: to write, to read, to administer.

A token looks like `cc_1f2e3d4c_...`; the middle part is its id, which may be shown, the rest is secret. The data folder
keeps only the SHA-256 of a token: it has 256 bits of chance in it, so a slow hash would add nothing but time.

The file is read again when it has changed, which is checked every `RECHECK_S` at most. A server that asks for tokens
never stops asking while it runs: if the file vanishes or cannot be read, the tokens read last hold, and if the last
token is revoked, every request is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from clickcurve.buckets.errors import NotAllowed, NotAuthenticated, SettingInvalid
from server.data_folder import replace_private
from server.logs import log
from server.settings.values import is_loopback

RECHECK_S = 1.0
MAX_TOKENS = 1_000
PREFIX = "cc_"


class Scope(StrEnum):
    """What a token allows. admin allows the other two as well."""

    write = "write"
    read = "read"
    admin = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token: never the token itself. created_at in epoch seconds."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    sha256: str
    created_at: int

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.admin in self.scopes


IMPORTS = "/v1/import/"
LIMIT = "/v1/limit/"
# What is asked by POST too, because such questions are long: it changes nothing.
QUESTIONS = frozenset(
    (
        *("/v1/sum", "/render", "/metrics/find", "/metrics/find/", "/metrics/expand", "/functions", "/version"),
        *("/api/v1/query", "/api/v1/query_range", "/api/v1/labels", "/api/v1/series"),
    )
)
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json", "/login"})
OPEN_BELOW = ("/static/", "/share/")  # what pages load; and addresses that are signed
# Forms of the page. The one that shares a link checks the token that is typed in it.
_OPEN_FORMS = frozenset({"/login", "/logout"})
_is_share_form = re.compile(r"/(links|groups)/.+/share", re.DOTALL).fullmatch


def scope_of(method: str, path: str) -> Scope | None:
    """Returns the scope that a request needs, or None for an open path. A new route needs a token by default."""
    if method in ("GET", "HEAD"):
        if path.startswith((IMPORTS, LIMIT)):
            return Scope.write  # an import asks how far it has come; a proxy's question to the limiter counts
        return None if path in OPEN_PATHS or path.startswith(OPEN_BELOW) else Scope.read
    if method == "POST" and (path in _OPEN_FORMS or _is_share_form(path)):
        return None
    if method in ("POST", "PUT", "PATCH"):
        return Scope.read if method == "POST" and path in QUESTIONS else Scope.write
    return Scope.admin


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def load_tokens(path: Path) -> tuple[Token, ...]:
    """Returns the tokens in the file, none when there is no file. Raises SettingInvalid if it cannot be read."""
    try:
        document = json.loads(path.read_text("utf-8"))
        return tuple(
            Token(
                id=str(entry["id"]),
                name=str(entry["name"]),
                scopes=tuple(Scope(scope) for scope in entry["scopes"]),
                sha256=str(entry["sha256"]),
                created_at=int(entry["created_at"]),
            )
            for entry in document["tokens"]
        )
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"the token file {path} cannot be read: {error}"
        raise SettingInvalid(reason, field="data", value=str(path)) from error


def save_tokens(path: Path, tokens: tuple[Token, ...]) -> None:
    """Replaces the file at once, readable by its owner only."""
    replace_private(path, json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=1))


def add_token(path: Path, name: str, scopes: tuple[Scope, ...], now: int) -> str:
    """Adds a token to the file and returns it. It cannot be read again later."""
    tokens = load_tokens(path)
    if len(tokens) >= MAX_TOKENS:
        raise SettingInvalid(f"there are {len(tokens)} tokens already, {MAX_TOKENS} at most", field="token")
    ids = {token.id for token in tokens}
    token_id = next(fresh for fresh in iter(lambda: secrets.token_hex(4), "") if fresh not in ids)
    secret = f"{PREFIX}{token_id}_{secrets.token_urlsafe(32)}"
    save_tokens(path, (*tokens, Token(token_id, name, scopes, _sha256(secret), now)))
    return secret


def remove_token(path: Path, token_id: str) -> bool:
    """Removes a token from the file. Returns False if none has that id."""
    tokens = load_tokens(path)
    kept = tuple(token for token in tokens if token.id != token_id)
    if len(kept) == len(tokens):
        return False
    save_tokens(path, kept)
    return True


class Gate:
    """Checks the tokens of requests, by one hash and one dict lookup each."""

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._seen = self._signature()
        self._by_digest = {token.sha256: token for token in load_tokens(path)}
        self._checked_at = monotonic()
        self.closed = bool(self._by_digest)
        self._readings = 0
        self.refused = {"missing": 0, "unknown": 0, "scope": 0}

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _reread(self) -> None:
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen = signature
        if signature is None:
            log.warning("tokens vanished", extra={"file": str(self._path), "then": "the tokens read before stay valid"})
            return
        try:
            tokens = load_tokens(self._path)
        except SettingInvalid as error:
            log.error("tokens unreadable", extra={"reason": error.detail, "then": "the tokens read before stay valid"})
            return
        self._by_digest = {token.sha256: token for token in tokens}
        self._readings += 1
        self.closed = self.closed or bool(tokens)
        log.info("tokens read", extra={"tokens": len(tokens)})

    def needs_tokens(self) -> bool:
        """Returns whether requests need tokens. Reads the file again if it has changed."""
        now = self._monotonic()
        if now - self._checked_at >= RECHECK_S:
            self._checked_at = now
            self._reread()
        return self.closed

    def readings(self) -> int:
        """Returns how often other tokens were read; what was allowed before may be refused after that."""
        self.needs_tokens()
        return self._readings

    def allows(self, scope: Scope, authorization: bytes | None) -> bool:
        """Tells what `check` would do; counts nothing."""
        if not self.needs_tokens():
            return True
        token = None if authorization is None else self._known(authorization)
        return token is not None and token.allows(scope)

    def check(self, scope: Scope, authorization: bytes | None) -> None:
        """Passes a request whose Authorization header allows the scope; raises NotAuthenticated or NotAllowed."""
        if not self.needs_tokens():
            return
        if authorization is None:
            self.refused["missing"] += 1
            raise NotAuthenticated("this server asks for a token: send Authorization: Bearer TOKEN")
        token = self._known(authorization)
        if token is None:
            self.refused["unknown"] += 1
            is_bearer = authorization[:7].lower() == b"bearer "
            unknown = "the token is not known here: it was mistyped or revoked"
            raise NotAuthenticated(unknown if is_bearer else "the header is not Authorization: Bearer TOKEN")
        if not token.allows(scope):
            self.refused["scope"] += 1
            raise NotAllowed(f"token {token.id} does not have the scope {scope.value}", field="scope", rule=scope.value)

    def _known(self, authorization: bytes) -> Token | None:
        kind, _, secret = authorization.decode("latin-1").partition(" ")
        digest = _sha256(secret.strip())
        token = self._by_digest.get(digest)
        is_known = kind.lower() == "bearer" and token is not None and hmac.compare_digest(token.sha256, digest)
        return token if is_known else None

    def token_id(self, authorization: bytes | None) -> str | None:
        """Returns the id of the token in an Authorization header, or None if it is unknown."""
        _, _, secret = (authorization or b"").decode("latin-1").partition(" ")
        token = self._by_digest.get(_sha256(secret.strip()))
        return None if token is None else token.id


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
