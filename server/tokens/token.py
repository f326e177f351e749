"""Tokens, and what each allows: to write, to read, to administer; everything, or the keys that begin with a prefix.

A token looks like `cc_1f2e3d4c_...`; the middle part is its id, which may be shown, the rest is secret. Of a token only
the SHA-256 is kept: it has 256 bits of chance in it, so a slow hash would add nothing but time.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

import msgspec

from clickcurve.access import PREFIX_BYTES, PREFIX_RULE, group_of_prefix
from clickcurve.buckets.errors import ParameterInvalid, SettingInvalid, shown
from clickcurve.keys import GROUP_BYTES, GROUP_RULE
from server.settings.values import LEAST_TOKEN

NAME_CHARS = 100
NAME_RULE = f"a name of 1 to {NAME_CHARS} printable characters"
SCOPES_RULE = "one or more of write, read, admin"
SECRET_RULE = f"at least {LEAST_TOKEN} visible ASCII characters"
_MARK = "cc_"


class Scope(StrEnum):
    """What a token allows. admin allows the other two as well."""

    write = "write"
    read = "read"
    admin = "admin"


class Token(msgspec.Struct, frozen=True):
    """What is kept of a token: never the token itself. created_at and expires_at in epoch seconds.

    prefix: of the keys that it may touch, None for all. group: the name of the group that counts its hits then.
    from_file: it was taken over from the file of an earlier version, which may still have it after it is revoked.
    """

    id: str
    name: str
    scopes: tuple[Scope, ...]
    sha256: str
    created_at: int
    prefix: str | None = None
    group: str | None = None
    expires_at: int | None = None
    from_file: bool = False

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.admin in self.scopes

    def is_over(self, now: float) -> bool:
        """Returns whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a new token shall be: the body of `POST /v1/tokens`. expires_at: epoch seconds."""

    name: str
    scopes: tuple[Scope, ...]
    prefix: str | None = None
    group: str | None = None
    expires_at: int | None = None

    def checked(self, now: float) -> TokenRequest:
        """Returns it with its group and each scope once; raises ParameterInvalid for the first rule that it breaks."""
        if not 0 < len(self.name) <= NAME_CHARS or not self.name.isprintable():
            name = shown(self.name)
            raise ParameterInvalid(f"a token cannot be named '{name}'", field="name", value=name, rule=NAME_RULE)
        if not self.scopes:
            raise ParameterInvalid("the token has no scope", field="scopes", rule=SCOPES_RULE)
        if self.expires_at is not None and self.expires_at <= now:
            raise ParameterInvalid(
                "the token would have expired already", field="expires_at", value=self.expires_at, rule="later than now"
            )
        scopes = tuple(dict.fromkeys(self.scopes))
        if self.prefix is None:
            if self.group is not None:
                detail, rule = "the token has a group and no prefix", "a group stands beside a prefix"
                raise ParameterInvalid(detail, field="group", value=self.group, rule=rule)
            return msgspec.structs.replace(self, scopes=scopes)
        if Scope.admin in scopes:
            rule = "scopes write and read"
            raise ParameterInvalid("a token with a prefix cannot administer", field="scopes", value="admin", rule=rule)
        if not 0 < _size(self.prefix) <= PREFIX_BYTES:
            detail = "the prefix cannot be used"
            raise ParameterInvalid(detail, field="prefix", value=self.prefix, rule=PREFIX_RULE)
        group = group_of_prefix(self.prefix) if self.group is None else self.group
        if not 0 < _size(group) <= GROUP_BYTES:
            detail = "the token needs a group for its hits" if self.group is None else "no group has such a name"
            raise ParameterInvalid(detail, field="group", value=group, rule=GROUP_RULE)
        return msgspec.structs.replace(self, scopes=scopes, group=group)


def _size(text: str) -> int:
    """Returns the bytes of UTF-8, 0 for what is not Unicode."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def make_token(asked: TokenRequest, taken: Collection[str], now: int) -> tuple[Token, str]:
    """Makes the token that is asked for, and its secret text. taken: ids of others. Raises ParameterInvalid."""
    asked = asked.checked(now)
    token_id = next(fresh for fresh in iter(lambda: secrets.token_hex(4), "") if fresh not in taken)
    secret = f"{_MARK}{token_id}_{secrets.token_urlsafe(32)}"
    token = Token(
        token_id, asked.name, asked.scopes, sha256_of(secret), now, asked.prefix, asked.group, asked.expires_at
    )
    return token, secret


def sha256_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


# --- files ------------------------------------------------------------------------------------------------------------
class _Entry(msgspec.Struct):
    """A token in a file: as it is kept, or as it is sent (`token`)."""

    name: str
    scopes: tuple[Scope, ...]
    token: str | None = None
    sha256: str | None = None
    id: str | None = None
    created_at: int = 0
    prefix: str | None = None
    group: str | None = None
    expires_at: int | None = None

    def kept(self) -> Token:
        """Returns what is kept of it; raises ParameterInvalid for the first rule it breaks."""
        asked = TokenRequest(self.name, self.scopes, self.prefix, self.group).checked(0)
        if self.token is not None and (len(self.token) < LEAST_TOKEN or not _is_visible(self.token)):
            raise ParameterInvalid("the token is easily guessed", field="token", rule=SECRET_RULE)
        digest = self.sha256 if self.token is None else sha256_of(self.token)
        if digest is None or len(digest) != 64:
            raise ParameterInvalid("the token itself is missing", field="token", rule="token, or sha256 in hexadecimal")
        token_id = self.id or digest[:8]
        return Token(
            token_id, self.name, asked.scopes, digest, self.created_at, asked.prefix, asked.group, self.expires_at
        )


def _is_visible(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


class _TokensFile(msgspec.Struct):
    tokens: list[_Entry]


_read_file = msgspec.json.Decoder(_TokensFile, strict=True).decode


def load_tokens(path: Path, setting: str = "data") -> tuple[Token, ...]:
    """Returns the tokens in a file, none when there is no file. Raises SettingInvalid if it cannot be read."""
    try:
        return tuple(entry.kept() for entry in _read_file(path.read_bytes()).tokens)
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError, ParameterInvalid) as error:
        detail = error.detail if isinstance(error, ParameterInvalid) else str(error)
        reason = f"the token file {path} cannot be read: {detail}"
        raise SettingInvalid(reason, field=setting, value=str(path)) from error


def tokens_as_file(tokens: Collection[Token]) -> str:
    """Returns the content of a file with these tokens."""
    return msgspec.json.format(msgspec.json.encode({"tokens": list(tokens)}), indent=1).decode()
