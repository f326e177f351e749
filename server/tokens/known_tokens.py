"""The tokens that a worker knows: those of the store, of a mounted file, and the one of the setting `admin_token`.

The store is asked every other second for the version of its tokens, and for the tokens if that is another one. A copy
in the data folder is for a start while the store does not answer: the server must not be open to everybody then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from clickcurve.buckets.errors import SettingInvalid, StoreUnavailable
from server import data_folder
from server.logs import log
from server.settings.table import Settings
from server.tokens.gate import Gate
from server.tokens.token import Scope, Token, load_tokens, sha256_of, tokens_as_file
from server.tokens.token_book import TokenBook

ADMIN_TOKEN = "admin_token"  # the setting, and the id of its token

Signature = tuple[int, int, int] | None  # of a file: when it was written, its size, its number


class KnownTokens:
    """Tells a gate which tokens there are. clock: epoch seconds. writes_copy: whether this worker writes the copy."""

    def __init__(self, settings: Settings, book: TokenBook, clock: Callable[[], float], writes_copy: bool) -> None:
        """Raises SettingInvalid for a file of tokens that cannot be read."""
        self.book = book
        self._settings = settings
        self._clock = clock
        self._writes_copy = writes_copy
        self._admin = admin_token(settings)
        self._stored: Sequence[Token] = read_tokens_copy(settings.data)
        self._mounted = mounted_tokens(settings)
        self._seen = _signature(settings.tokens_file)
        self._version: str | None = None
        self._is_read = self._is_silent = False
        self._day = self._today()
        self._noted: set[str] = set()  # ids whose use of today is noted
        self.gate = Gate(clock, closed=settings.closed, tokens=self.tokens())

    def tokens(self) -> list[Token]:
        """Returns all that are known, also those that have expired."""
        return [*self._stored, *self._mounted, *self._admin]

    def prefixes(self) -> frozenset[str]:
        """Returns the prefixes of the tokens that have not expired."""
        now = self._clock()
        return frozenset([each.prefix for each in self.tokens() if each.prefix and not each.is_over(now)])

    async def begin(self, patience_s: float) -> None:
        """Asks the store before the first request, if it answers in time, and takes over the file of version 0.2."""
        reading = asyncio.ensure_future(self.refresh())
        await asyncio.wait({reading}, timeout=patience_s)
        if reading.done():
            reading.result()
        else:
            log.warning("tokens not read", extra={"reason": f"no answer in {patience_s} s", "then": "it goes on"})

    async def refresh(self) -> None:
        """Follows the store and the mounted file, and notes which tokens were used today."""
        self._follow_file()
        try:
            await asyncio.to_thread(self._follow_store)
            self._is_silent = False
        except StoreUnavailable as error:
            if not self._is_silent:  # once, not every two seconds
                log.warning("tokens not read", extra={"reason": error.detail, "then": "those read before hold"})
            self._is_silent = True
        self.gate.use(self.tokens())

    def _follow_store(self) -> None:
        if not self._is_read:
            former = load_tokens(data_folder.tokens_file(self._settings.data))
            if taken := self.book.take_over(former):
                log.info("tokens taken over", extra={"tokens": taken})
        version = self.book.version()
        if not self._is_read or version != self._version:
            self._stored, self._version = self.book.all(), version
            log.info("tokens read", extra={"tokens": len(self._stored)})
            if self._writes_copy:
                write_tokens_copy(self._settings.data, self._stored)
            self._is_read = True
        self._note_used()

    def _note_used(self) -> None:
        today, used = self._today(), self.gate.used
        self.gate.used = set()
        if today != self._day:
            self._day = today
            self._noted.clear()
            self.gate.begin_day()
        stored = {token.id for token in self._stored}
        if new := (used & stored) - self._noted:
            self.book.note_used(new, today)
            self._noted |= new

    def _follow_file(self) -> None:
        path = self._settings.tokens_file
        signature = _signature(path)
        if path is None or signature == self._seen:
            return
        self._seen = signature
        if signature is None:
            log.warning("tokens vanished", extra={"file": str(path), "then": "those read before still hold"})
            return
        try:
            self._mounted = mounted_tokens(self._settings)
        except SettingInvalid as error:
            log.error("tokens unreadable", extra={"reason": error.detail, "then": "those read before still hold"})

    def _today(self) -> str:
        return f"{datetime.fromtimestamp(self._clock(), UTC):%Y%m%d}"


def admin_token(settings: Settings) -> list[Token]:
    """Returns the token of the setting, none if there is none."""
    if not settings.admin_token:
        return []
    return [Token(ADMIN_TOKEN, ADMIN_TOKEN, (Scope.admin,), sha256_of(settings.admin_token), 0)]


def mounted_tokens(settings: Settings) -> tuple[Token, ...]:
    """Returns the tokens of the setting `tokens_file`; raises SettingInvalid if they cannot be read."""
    return () if settings.tokens_file is None else load_tokens(settings.tokens_file, "tokens_file")


def read_tokens_copy(data: Path) -> tuple[Token, ...]:
    """Returns the copy of the store's tokens; where there is none yet, the tokens of version 0.2."""
    copy = data_folder.tokens_copy(data)
    return load_tokens(copy if copy.exists() else data_folder.tokens_file(data))


def write_tokens_copy(data: Path, tokens: Sequence[Token]) -> None:
    """Replaces the copy of the store's tokens, which holds hashes alone; a disk that takes none is logged."""
    try:
        data_folder.replace_private(data_folder.tokens_copy(data), tokens_as_file(tokens))
    except OSError as error:
        log.warning("tokens not copied", extra={"reason": str(error), "then": "a start needs the store to know them"})


def _signature(path: Path | None) -> Signature:
    try:
        stat = None if path is None else path.stat()
    except OSError:
        return None
    return None if stat is None else (stat.st_mtime_ns, stat.st_size, stat.st_ino)
