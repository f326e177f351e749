"""Tokens in the store: made, listed, revoked, taken over from files, and known to every worker within seconds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clickcurve.buckets.errors import NotAuthenticated, ParameterInvalid, SettingInvalid, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S
from server.settings.reading import read_settings
from server.settings.table import Settings
from server.tokens.audit import KEPT_DAYS, AuditLog
from server.tokens.known_tokens import KnownTokens
from server.tokens.token import Scope, Token, TokenRequest, load_tokens
from server.tokens.token_book import EXPIRED_SHOWN_S, TokenBook
from storage.memory_store import MemoryStore
from testing.tokens import add_token

NOW = 1_767_225_600  # 2026-01-01
READ = TokenRequest("reader", (Scope.read,))


def settings_of(data: Path, **more: str) -> Settings:
    return read_settings({"data": str(data)}, {f"CLICKCURVE_{name.upper()}": text for name, text in more.items()})


class Worker:
    """A worker's tokens over a store that may be away."""

    def __init__(self, store: MemoryStore, data: Path, **settings: str) -> None:
        self.now = float(NOW)
        data.mkdir(exist_ok=True)
        self.book = TokenBook(store)
        self.tokens = KnownTokens(settings_of(data, **settings), self.book, lambda: self.now, writes_copy=True)

    def lets(self, secret: str, scope: Scope = Scope.read) -> bool:
        try:
            self.tokens.gate.check(scope, f"Bearer {secret}".encode())
        except NotAuthenticated:
            return False
        return True


class AwayStore(MemoryStore):
    """A store that answers when told to."""

    away = True

    def noted(self, name: str) -> str | None:
        if self.away:
            raise StoreUnavailable("it does not answer")
        return super().noted(name)

    def notes(self, prefix: str = "") -> dict[str, str]:
        if self.away:
            raise StoreUnavailable("it does not answer")
        return super().notes(prefix)


async def test_what_one_worker_makes_another_knows_at_its_next_look(tmp_path: Path) -> None:
    store = MemoryStore(CLICKS)
    one, two = Worker(store, tmp_path / "1"), Worker(store, tmp_path / "2")
    await two.tokens.begin(1)
    assert not two.tokens.gate.closed
    token, secret = one.book.add(READ, NOW)
    await two.tokens.refresh()
    assert two.tokens.gate.closed and two.lets(secret) and not two.lets("cc_" + secret)
    assert one.book.remove(token.id) == token and one.book.remove(token.id) is None
    await two.tokens.refresh()
    assert not two.lets(secret)


def test_only_hashes_are_noted() -> None:
    store = MemoryStore(CLICKS)
    _, secret = TokenBook(store).add(READ, NOW)
    assert secret.split("_", 2)[2] not in str(store.notes())


async def test_the_file_of_an_earlier_version_is_taken_over_once_and_kept(tmp_path: Path) -> None:
    store, data = MemoryStore(CLICKS), tmp_path / "data"
    secret = add_token(data / "tokens.json", "old", (Scope.read,), 5)
    before = (data / "tokens.json").read_bytes()
    worker = Worker(store, data)
    await worker.tokens.begin(1)
    assert worker.lets(secret)
    (token,) = worker.book.all()
    assert (token.name, token.created_at, token.from_file) == ("old", 5, True)
    worker.book.remove(token.id)
    again = Worker(store, data)
    await again.tokens.begin(1)
    assert not again.lets(secret), "a revoked token stays revoked although the file has it"
    assert again.tokens.gate.closed
    assert (data / "tokens.json").read_bytes() == before


async def test_a_start_without_the_store_knows_the_tokens_of_before(tmp_path: Path) -> None:
    store, data = AwayStore(CLICKS), tmp_path / "data"
    store.away = False
    first = Worker(store, data)
    _, secret = first.book.add(READ, NOW)
    await first.tokens.begin(1)
    store.away = True
    second = Worker(store, data)
    await second.tokens.begin(1)
    assert second.lets(secret) and not second.lets("something else")
    store.away = False
    first.book.remove(secret.split("_")[1])
    await second.tokens.refresh()
    assert not second.lets(secret)


async def test_a_server_that_others_reach_asks_for_tokens_before_it_knows_any(tmp_path: Path) -> None:
    worker = Worker(AwayStore(CLICKS), tmp_path / "data", host="0.0.0.0")
    await worker.tokens.begin(1)
    with pytest.raises(NotAuthenticated):
        worker.tokens.gate.check(Scope.read, None)


async def test_a_mounted_file_adds_tokens_and_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "secret.json"
    file.write_text(
        '{"tokens": [{"name": "pod", "scopes": ["write"], "token": "a-token-of-this-pod", "prefix": "p/"}]}'
    )
    worker = Worker(MemoryStore(CLICKS), tmp_path / "data", tokens_file=str(file))
    await worker.tokens.begin(1)
    assert worker.tokens.gate.check(Scope.write, b"Bearer a-token-of-this-pod").prefix == "p/"
    file.write_text('{"tokens": [{"name": "pod", "scopes": ["read"], "token": "another-token-of-it"}]}')
    os.utime(file, ns=(1, 1))
    await worker.tokens.refresh()
    assert worker.lets("another-token-of-it") and not worker.lets("a-token-of-this-pod")
    for broken in ("not json", '{"tokens": [{"name": "x", "scopes": ["read"], "token": "short"}]}'):
        file.write_text(broken)
        await worker.tokens.refresh()
        assert worker.lets("another-token-of-it")
        with pytest.raises(SettingInvalid, match="cannot be read"):
            load_tokens(file)
    file.unlink()
    await worker.tokens.refresh()
    assert worker.lets("another-token-of-it")


async def test_the_token_of_the_setting_administers(tmp_path: Path) -> None:
    worker = Worker(MemoryStore(CLICKS), tmp_path / "data", admin_token="first-day-only-1")
    assert worker.lets("first-day-only-1", Scope.admin)
    with pytest.raises(SettingInvalid) as refused:
        settings_of(tmp_path, admin_token="too-short")
    assert "too-short" not in refused.value.detail


async def test_the_day_of_the_last_use_is_noted_once_a_day(tmp_path: Path) -> None:
    store = MemoryStore(CLICKS)
    worker = Worker(store, tmp_path / "data")
    used, secret = worker.book.add(READ, NOW)
    worker.book.add(READ, NOW)
    await worker.tokens.begin(1)
    for day, noted in ((0, {}), (0, {used.id: "20260101"}), (1, {used.id: "20260102"})):
        worker.now = NOW + day * DAY_S
        if noted:
            worker.lets(secret)
        await worker.tokens.refresh()
        if day == 1:  # what came before midnight was noted for the day at which it was looked at
            worker.lets(secret)
            await worker.tokens.refresh()
        assert worker.book.last_used() == noted
    worker.book.remove(used.id)
    assert worker.book.last_used() == {}


def test_an_expired_token_is_listed_for_a_while_and_dropped_by_the_next_one() -> None:
    book = TokenBook(MemoryStore(CLICKS))
    book.add(TokenRequest("short", (Scope.read,), expires_at=NOW + 1), NOW)
    book.add(READ, NOW + EXPIRED_SHOWN_S)
    assert [token.name for token in book.all()] == ["short", "reader"]
    book.add(READ, NOW + EXPIRED_SHOWN_S + 2)
    assert [token.name for token in book.all()] == ["reader", "reader"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (TokenRequest("", (Scope.read,)), "name"),
        (TokenRequest("a\nb", (Scope.read,)), "name"),
        (TokenRequest("a", ()), "scopes"),
        (TokenRequest("a", (Scope.admin,), "p/"), "scopes"),
        (TokenRequest("a", (Scope.read,), ""), "prefix"),
        (TokenRequest("a", (Scope.read,), "p" * 257, "g"), "prefix"),
        (TokenRequest("a", (Scope.read,), "\ud800"), "prefix"),
        (TokenRequest("a", (Scope.read,), "/"), "group"),
        (TokenRequest("a", (Scope.read,), "p" * 66), "group"),
        (TokenRequest("a", (Scope.read,), "p/", "g" * 65), "group"),
        (TokenRequest("a", (Scope.read,), None, "g"), "group"),
        (TokenRequest("a", (Scope.read,), expires_at=NOW), "expires_at"),
    ],
)
def test_a_token_that_cannot_be_is_refused_by_field(asked: TokenRequest, field: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        TokenBook(MemoryStore(CLICKS)).add(asked, NOW)
    assert refused.value.field == field


@pytest.mark.parametrize(("prefix", "group"), [("acme/", "acme"), ("a:", "a"), ("a.b.", "a.b"), ("plain", "plain")])
def test_the_group_is_the_prefix_without_its_separator(prefix: str, group: str) -> None:
    token, _ = TokenBook(MemoryStore(CLICKS)).add(TokenRequest("a", (Scope.read,), prefix), NOW)
    assert (token.prefix, token.group) == (prefix, group)


def test_an_unreadable_note_allows_nothing() -> None:
    store = MemoryStore(CLICKS)
    store.note("token:x", '{"id": "x"}')
    assert TokenBook(store).all() == list[Token]()


def test_the_audit_log_keeps_its_days_and_no_more() -> None:
    now = [float(NOW)]
    store = MemoryStore(CLICKS)
    log = AuditLog(store, lambda: now[0])
    log.note("1f2e3d4c", "link deleted", "launch")
    now[0] += DAY_S
    log.note("command", "token made", "x")
    assert [(each.at, each.token, each.what, each.subject) for each in log.entries()] == [
        (NOW, "1f2e3d4c", "link deleted", "launch"),
        (NOW + DAY_S, "command", "token made", "x"),
    ]
    now[0] = NOW + KEPT_DAYS * DAY_S + 1
    assert [each.what for each in log.entries()] == ["token made"]
    log.forget()
    assert len(store.notes()) == 1
