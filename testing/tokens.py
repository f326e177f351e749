"""Tokens for tests: in the file of a data folder, which a server takes over, or in the database of one that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.tokens.gate import Gate
from server.tokens.token import Scope, TokenRequest, load_tokens, make_token, tokens_as_file
from server.tokens.token_book import TokenBook
from storage.from_uri import open_store


def add_token(
    file: Path,
    name: str,
    scopes: tuple[Scope, ...],
    now: int = 0,
    *,
    prefix: str | None = None,
    group: str | None = None,
) -> str:
    """Adds a token to the file and returns it."""
    tokens = load_tokens(file)
    token, secret = make_token(TokenRequest(name, scopes, prefix, group), {each.id for each in tokens}, now)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(tokens_as_file([*tokens, token]))
    return secret


def remove_token(file: Path, token: str) -> None:
    """Removes a token from the file."""
    left = [each for each in load_tokens(file) if each.id != token.split("_")[1]]
    file.write_text(tokens_as_file(left))


def gate_of(file: Path, clock: Callable[[], float] = lambda: 0.0) -> Gate:
    """Makes a gate that knows the tokens of the file."""
    return Gate(clock, tokens=load_tokens(file))


@contextmanager
def token_book(data: Path) -> Iterator[TokenBook]:
    """Opens the tokens in the database of a data folder."""
    store = open_store(f"sqlite:///{data}/clickcurve.db")
    try:
        yield TokenBook(store)
    finally:
        store.close()
