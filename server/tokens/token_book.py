"""The tokens of a store, in its notes: so every worker and node knows each of them, and none that was revoked.

Any change is followed by another version, which is all that the others look at until it differs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S
from server.logs import log
from server.tokens.token import Token, TokenRequest, make_token
from storage.contract import Store
from storage.note_versions import renew_version
from storage.notes import NoteSpace, take_new

# TOKEN, then the id of a token: what it allows; TOKENS_VERSION is another one after each change of tokens. TOKEN_USED,
# then the id of a token and a day: it was used then.
TOKEN, TOKEN_USED, TOKENS_VERSION = "token:", "token-used:", "tokens-version"
TOKEN_NOTES = NoteSpace("tokens", (TOKEN, TOKENS_VERSION), take_new(TOKEN, version=TOKENS_VERSION))
USE_NOTES = NoteSpace("uses of tokens", (TOKEN_USED,), take_new(TOKEN_USED))

MAX_TOKENS = 1_000
EXPIRED_SHOWN_S = 30 * DAY_S  # a token that has expired is listed for so long, and then dropped
# What is noted of a token that came from a file and was revoked: it is not taken over once more.
_REVOKED = "revoked"

_read_token = msgspec.json.Decoder(Token).decode


class TokenBook:
    """Makes, lists and revokes the tokens of a store. May block, and raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def version(self) -> str | None:
        """Returns a text that is another one after each change."""
        return self._store.noted(TOKENS_VERSION)

    def all(self) -> list[Token]:
        """Returns the tokens, those that have expired lately too, oldest first."""
        tokens = [token for name, value in self._notes() if (token := _token_in(name, value)) is not None]
        return sorted(tokens, key=lambda token: (token.created_at, token.id))

    def last_used(self) -> dict[str, str]:
        """Returns the last day (UTC, as 20261123) on which each token was used, by id."""
        used: dict[str, str] = {}
        for name in self._store.notes(TOKEN_USED):
            token_id, _, day = name.removeprefix(TOKEN_USED).rpartition(":")
            used[token_id] = max(day, used.get(token_id, ""))
        return used

    def add(self, asked: TokenRequest, now: int, careful: int | None = None) -> tuple[Token, str]:
        """Makes a token and returns it with its text, which cannot be read again. Raises ParameterInvalid.

        careful: the time that old tokens are dropped by; None: now.
        """
        tokens = self.all()
        old = [token for token in tokens if token.is_over((now if careful is None else careful) - EXPIRED_SHOWN_S)]
        self._drop([token.id for token in old])
        if len(tokens) - len(old) >= MAX_TOKENS:
            detail, rule = f"there are {len(tokens) - len(old):,} tokens already", f"at most {MAX_TOKENS:,}"
            raise ParameterInvalid(detail, field="token", rule=rule)
        token, secret = make_token(asked, {each.id for each in tokens}, now)
        self._note(token)
        self._change()
        return token, secret

    def remove(self, token_id: str) -> Token | None:
        """Revokes a token and returns it; None if there is none with that id."""
        token = next((each for each in self.all() if each.id == token_id), None)
        if token is None:
            return None
        self._drop([token_id])
        if token.from_file:
            self._store.note(TOKEN + token_id, _REVOKED)
        self._change()
        return token

    def take_over(self, tokens: Iterable[Token]) -> int:
        """Notes the tokens of a file that were never noted here; returns how many."""
        noted = {name for name, _ in self._notes()}
        new = [token for token in tokens if TOKEN + token.id not in noted]
        for token in new:
            self._note(msgspec.structs.replace(token, from_file=True))
        if new:
            self._change()
        return len(new)

    def note_used(self, token_ids: Collection[str], day: str) -> None:
        """Notes that these tokens were used on a day, and forgets their earlier days."""
        for token_id in token_ids:
            self._store.note(f"{TOKEN_USED}{token_id}:{day}", "")
        names = {f"{TOKEN_USED}{token_id}:" for token_id in token_ids}
        days = self._store.notes(TOKEN_USED)
        if old := [name for name in days if name[:-8] in names and name[-8:] < day]:
            self._store.drop_notes(old)

    def _notes(self) -> list[tuple[str, str]]:
        return [*self._store.notes(TOKEN).items()]

    def _note(self, token: Token) -> None:
        self._store.note(TOKEN + token.id, msgspec.json.encode(token).decode())

    def _drop(self, token_ids: Collection[str]) -> None:
        if token_ids:
            used = [f"{TOKEN_USED}{token_id}:" for token_id in token_ids]
            days = [name for name in self._store.notes(TOKEN_USED) if name.startswith(tuple(used))]
            self._store.drop_notes([*(TOKEN + token_id for token_id in token_ids), *days])

    def _change(self) -> None:
        renew_version(self._store, TOKENS_VERSION)


def _token_in(name: str, value: str) -> Token | None:
    if value == _REVOKED:
        return None
    try:
        return _read_token(value)
    except msgspec.DecodeError as error:
        log.error("token unreadable", extra={"note": name, "reason": str(error), "then": "it allows nothing"})
        return None
