"""Tokens: kept hashed, asked for by scope, re-read when the file changes, and who may be reached without any."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from clickcurve.buckets.errors import NotAllowed, NotAuthenticated, SettingInvalid
from server.http.tokens import (
    RECHECK_S,
    Gate,
    Scope,
    add_token,
    check_reach,
    load_tokens,
    remove_token,
    save_tokens,
    scope_of,
)


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
    assert scope_of(method, path) is scope


def test_only_a_hash_is_kept_and_only_the_owner_may_read_the_file(file: Path) -> None:
    token = add_token(file, "shortener", (Scope.write,), now=5)
    assert token not in file.read_text()
    assert token.split("_", 2)[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (kept,) = load_tokens(file)
    assert (kept.name, kept.scopes, kept.created_at) == ("shortener", (Scope.write,), 5)
    assert token.startswith(f"cc_{kept.id}_")


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
    gate = Gate(file, Clock())
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
        Gate(file, Clock()).check(Scope.read, header)


def test_the_kind_of_authorization_is_not_case_sensitive_but_must_be_bearer(file: Path) -> None:
    token = add_token(file, "t", (Scope.read,), 0)
    gate = Gate(file, Clock())
    gate.check(Scope.read, f"bearer {token}".encode())
    for header in (f"Basic {token}", token):
        with pytest.raises(NotAuthenticated, match="the header is not Authorization: Bearer TOKEN"):
            gate.check(Scope.read, header.encode())


def test_a_running_server_notices_tokens_made_and_revoked(file: Path) -> None:
    clock = Clock()
    gate = Gate(file, clock)
    gate.check(Scope.admin, None)  # no tokens: nobody is asked
    first = add_token(file, "a", (Scope.read,), 0)
    clock.at += RECHECK_S
    gate.check(Scope.read, bearer(first))
    with pytest.raises(NotAuthenticated):
        gate.check(Scope.read, None)
    second = add_token(file, "b", (Scope.read,), 0)
    assert remove_token(file, first.split("_")[1])
    clock.at += RECHECK_S
    gate.check(Scope.read, bearer(second))
    with pytest.raises(NotAuthenticated):
        gate.check(Scope.read, bearer(first))


def test_a_running_server_never_falls_open(file: Path) -> None:
    clock = Clock()
    token = add_token(file, "a", (Scope.read,), 0)
    gate = Gate(file, clock)
    file.write_text("not json")
    clock.at += RECHECK_S
    gate.check(Scope.read, bearer(token))
    with pytest.raises(NotAuthenticated):
        gate.check(Scope.read, None)
    file.unlink()
    clock.at += RECHECK_S
    with pytest.raises(NotAuthenticated):
        gate.check(Scope.read, None)
    save_tokens(file, ())
    clock.at += RECHECK_S
    with pytest.raises(NotAuthenticated):
        gate.check(Scope.read, bearer(token))


def test_a_file_of_something_else_than_tokens_is_refused_at_start(file: Path) -> None:
    file.write_text('{"tokens": [{"id": "x"}]}')
    with pytest.raises(SettingInvalid, match="cannot be read"):
        Gate(file, Clock())


def test_revoking_what_is_not_there_says_so(file: Path) -> None:
    assert not remove_token(file, "nothing")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tokens(host: str) -> None:
    check_reach(host, has_tokens=False, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "db.example.org", "127.evil.example", ""])
def test_any_other_address_needs_tokens_or_the_word_insecure(host: str) -> None:
    check_reach(host, has_tokens=True, insecure=False)
    check_reach(host, has_tokens=False, insecure=True)
    with pytest.raises(SettingInvalid, match="can be reached by others and there are no tokens"):
        check_reach(host, has_tokens=False, insecure=False)
