"""The check of tokens: which scope a request needs, what a token allows, and who may be reached without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.buckets.errors import NotAllowed, NotAuthenticated, SettingInvalid
from server.app.parts import ROUTES
from server.tokens.gate import Gate, check_reach
from server.tokens.token import Scope, TokenRequest, load_tokens, make_token
from testing.tokens import add_token, gate_of, remove_token


class Clock:
    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def bearer(token: str) -> bytes:
    return f"Bearer {token}".encode()


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/v1/hits", Scope.write),
        ("POST", "/v1/hits/a", Scope.write),
        ("GET", "/v1/links/a/curve", Scope.read),
        ("HEAD", "/v1/total", Scope.read),
        ("GET", "/metrics", Scope.read),
        ("GET", "/v1/import/log-1", Scope.write),
        ("POST", "/v1/import/log-1", Scope.write),
        ("DELETE", "/v1/links/a", Scope.admin),
        ("PATCH", "/v1/whatever", Scope.write),
        ("BREW", "/v1/whatever", Scope.admin),
        ("GET", "/healthz", None),
        ("GET", "/readyz", None),
        ("GET", "/docs", None),
        ("POST", "/healthz", Scope.write),
    ],
)
def test_the_method_and_path_say_which_scope_is_asked(method: str, path: str, scope: Scope | None) -> None:
    assert ROUTES.scope_of(method, path) is scope


@pytest.mark.parametrize(
    ("has", "allowed"),
    [
        ((Scope.write,), {Scope.write}),
        ((Scope.read,), {Scope.read}),
        ((Scope.write, Scope.read), {Scope.write, Scope.read}),
        ((Scope.admin,), {Scope.write, Scope.read, Scope.admin}),
    ],
)
def test_a_token_allows_its_scopes_and_admin_allows_all(
    file: Path, has: tuple[Scope, ...], allowed: set[Scope]
) -> None:
    token = add_token(file, "t", has, 0)
    gate = gate_of(file)
    for scope in Scope:
        if scope in allowed:
            gate.check(scope, bearer(token))
        else:
            with pytest.raises(NotAllowed) as refused:
                gate.check(scope, bearer(token))
            assert refused.value.rule == scope.value
            assert token not in refused.value.detail


@pytest.mark.parametrize(
    "header", [None, b"", b"Bearer", b"Bearer ", b"Bearer wrong", b"Basic abc", b"\xff\xfe", b"Bearer \xff"]
)
def test_without_a_known_token_nobody_gets_in(file: Path, header: bytes | None) -> None:
    add_token(file, "t", (Scope.admin,), 0)
    with pytest.raises(NotAuthenticated):
        gate_of(file).check(Scope.read, header)


def test_the_kind_of_authorization_is_not_case_sensitive_but_must_be_bearer(file: Path) -> None:
    token = add_token(file, "t", (Scope.read,), 0)
    gate = gate_of(file)
    gate.check(Scope.read, f"bearer {token}".encode())
    for header in (f"Basic {token}", token):
        with pytest.raises(NotAuthenticated, match="the header is not Authorization: Bearer TOKEN"):
            gate.check(Scope.read, header.encode())


def test_other_tokens_hold_at_once_and_a_gate_never_falls_open(file: Path) -> None:
    gate = gate_of(file)
    gate.check(Scope.admin, None)  # no tokens: nobody is asked
    first, second = add_token(file, "a", (Scope.read,)), add_token(file, "b", (Scope.read,))
    gate.use(load_tokens(file))
    gate.check(Scope.read, bearer(first))
    changes = gate.changes
    gate.use(load_tokens(file))
    assert gate.changes == changes
    remove_token(file, first)
    gate.use(load_tokens(file))
    assert gate.changes == changes + 1
    gate.check(Scope.read, bearer(second))
    gate.use(())
    for header in (None, bearer(first), bearer(second)):
        with pytest.raises(NotAuthenticated):
            gate.check(Scope.read, header)


def test_a_token_ends_with_its_last_second() -> None:
    clock = Clock()
    token, secret = make_token(TokenRequest("short", (Scope.read,), expires_at=1_010), (), 1_000)
    gate = Gate(clock, tokens=[token])
    clock.at = 1_009.9
    gate.check(Scope.read, bearer(secret))
    clock.at = 1_010.0
    with pytest.raises(NotAuthenticated, match="expired"):
        gate.check(Scope.read, bearer(secret))
    gate.use([token])
    assert gate.changes == 2, "callers that are remembered are asked again"
    with pytest.raises(NotAuthenticated):
        gate.check(Scope.read, None)


def test_a_token_may_touch_its_prefix_and_its_group(file: Path) -> None:
    acme = add_token(file, "acme", (Scope.read,), prefix="acme/")
    plain = add_token(file, "plain", (Scope.read,))
    gate = gate_of(file)
    allowed = gate.check(Scope.read, bearer(acme))
    assert (allowed.prefix, allowed.group) == ("acme/", "acme")
    assert (gate.allows(Scope.read, bearer(acme)), gate.allows(Scope.read, bearer(plain))) == (False, True)
    assert gate.check(Scope.read, bearer(plain)).prefix == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tokens(host: str) -> None:
    check_reach(host, has_tokens=False, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "db.example.org", "127.evil.example", ""])
def test_any_other_address_needs_tokens_or_the_word_insecure(host: str) -> None:
    check_reach(host, has_tokens=True, insecure=False)
    check_reach(host, has_tokens=False, insecure=True)
    with pytest.raises(SettingInvalid, match="can be reached by others and there are no tokens"):
        check_reach(host, has_tokens=False, insecure=False)
