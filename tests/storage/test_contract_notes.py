"""Notes that all processes of a store share: one is found by its name, and tokens are known at every node in time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clickcurve.buckets.errors import NotAuthenticated
from server.settings.reading import read_settings
from server.tokens.known_tokens import KnownTokens
from server.tokens.token import Scope, TokenRequest
from server.tokens.token_book import TokenBook
from server.tokens.token_jobs import TOKENS_S
from storage.contract import Store
from tests.storage.stores import StoreFactory, in_threads

NOW = 1_767_225_600  # 2026-01-01
KNOWN_WITHIN_S = 5


def test_one_note_is_found_by_its_name(store_factory: StoreFactory) -> None:
    one, other = store_factory(), store_factory()
    names = ["token:1f", "token:1", "tokens-version", "audit:000:x", "salt:ü"]
    assert [other.noted(name) for name in names] == [None] * len(names)
    for name in names:
        one.note(name, f"of {name}")
        assert other.note(name, "another") == f"of {name}"
    assert [other.noted(name) for name in names] == [f"of {name}" for name in names]
    assert other.notes("token:") == {"token:1f": "of token:1f", "token:1": "of token:1"}
    assert set(one.notes("token")) == {*names[:3]}
    assert (list(one.notes("x")), len(one.notes())) == ([], len(names))
    other.drop_notes(["token:1", "none"])
    assert [one.noted(name) for name in names[:2]] == ["of token:1f", None]
    assert one.noted("token") is one.noted("") is None
    one.note("token:1", "new")
    assert other.noted("token:1") == "new"
    one.note("kept for a time", "", 3_600)
    assert other.noted("kept for a time") == ""


def test_a_note_is_changed_by_one_of_those_that_read_the_same(store_factory: StoreFactory) -> None:
    one, other = store_factory(), store_factory()
    assert one.change_note("duty:x", "", "mine") is None, "nothing is noted yet"
    one.note("duty:x", "")
    assert one.change_note("duty:x", "", "mine") == "mine"
    assert other.change_note("duty:x", "", "other's") == "mine"
    assert other.change_note("duty:x", "mine", "other's") == "other's"
    assert one.noted("duty:x") == one.change_note("duty:x", "mine", "again") == "other's"
    got: list[str | None] = []
    names = [f"process {number}" for number in range(4)]
    stores = [store_factory() for _ in names]
    in_threads(
        [
            lambda store=store, name=name: got.append(store.change_note("duty:x", "other's", name))  # type: ignore[misc]
            for store, name in zip(stores, names, strict=True)
        ]
    )
    assert set(got) == {one.noted("duty:x")}, "all hear who has won"


class TokenNode:
    """A node's tokens, over a store of its own to the same rows, with the job that follows them."""

    def __init__(self, store: Store, data: Path) -> None:
        data.mkdir()
        self.now = float(NOW)
        self.book = TokenBook(store)
        self.tokens = KnownTokens(read_settings({"data": str(data)}, {}), self.book, lambda: self.now, writes_copy=True)

    def lets(self, secret: str) -> bool:
        try:
            self.tokens.gate.check(Scope.read, f"Bearer {secret}".encode())
        except NotAuthenticated:
            return False
        return True

    async def wait(self, after_s: float) -> None:
        """Lets the time pass that a node may take, with its looks `after_s` after the change and one period apart."""
        changed_at = self.now
        while after_s <= KNOWN_WITHIN_S:
            self.now = changed_at + after_s
            await self.tokens.refresh()
            after_s += TOKENS_S


@pytest.mark.parametrize("phase", [0.0, 0.999])
def test_two_nodes_know_a_new_and_a_revoked_token_in_time(
    store_factory: StoreFactory, tmp_path: Path, phase: float
) -> None:
    async def story() -> None:
        one, two = (TokenNode(store_factory(), tmp_path / name) for name in ("one", "two"))
        assert 2 * TOKENS_S < KNOWN_WITHIN_S, "a look that fails has another one in time"
        _, admin = one.book.add(TokenRequest("admin", (Scope.admin,)), NOW)
        for node in (one, two):
            await node.tokens.begin(60)
        assert one.lets(admin) and two.lets(admin)
        token, secret = one.book.add(TokenRequest("acme", (Scope.read,), "acme/"), NOW)
        await two.wait(phase * TOKENS_S)
        assert two.lets(secret)
        assert two.tokens.gate.check(Scope.read, f"Bearer {secret}".encode()).group == "acme"
        two.book.remove(token.id)
        await one.wait(phase * TOKENS_S)
        assert one.lets(admin) and not one.lets(secret)

    asyncio.run(story())
