"""Hands the limiter's decisions to the owner, which keeps them like hits: in the journal, then in rows.

That happens once a second, as one batch, and once more at a stop. A kill loses the decisions of the last second.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clickcurve.buckets.errors import ClickcurveError, JournalUnknown, StoreUnavailable
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.history import DecisionSums, asked_in, digest_of, parse_caller
from clickcurve.limiter.key import identity_of
from ingest.batch import Batch
from server.data_folder import write_private
from server.logs import log

SECRET_BYTES = 32
MOST_SECRET_BYTES = 64


@dataclass(eq=False)
class LimitHistory:
    """`count` and `count_for_caller` are the limiter's listeners. accept is the owner's; secret_file has what
    callers are hashed with. Everything on one event loop.

    events: those that the limiter has rules for. address: the name under which it counts an ip.
    """

    accept: Callable[[Batch], Awaitable[object]]
    clock: Callable[[], float]
    secret_file: Path
    events: Callable[[], Collection[str]] = tuple
    address: Callable[[str], str] = str

    def __post_init__(self) -> None:
        self._secret: bytes | None = None
        self._reported = False
        self._history = DecisionSums()
        self._lost = 0

    def count(self, event: str, cost: int, decision: Decision) -> None:
        self._history.add(event, cost, decision, self.clock())

    def count_for_caller(self, event: str, caller: str, cost: int, decision: Decision) -> None:
        """Counts a decision for its caller. Without the secret it counts nothing, since a question must be answered."""
        try:
            digest = digest_of(self._key(), caller)
        except OSError:
            return
        self._history.add_caller(event, digest, cost, decision, self.clock())

    def caller(self, text: str) -> str:
        """Returns the digest of the caller that a question names. Raises ParameterInvalid, StoreUnavailable."""
        caller = parse_caller(text)
        if "ip" in caller:
            caller["ip"] = self.address(caller["ip"])
        try:
            return digest_of(self._key(), identity_of(caller))
        except OSError as error:
            raise StoreUnavailable(
                f"the secret of callers, {self.secret_file}, cannot be read: {error.strerror}"
            ) from error

    def _key(self) -> bytes:
        if self._secret is None:
            try:
                self._secret = secret_in(self.secret_file)
            except OSError as error:
                if not self._reported:
                    log.error("no history of callers", extra={"file": str(self.secret_file), "reason": error.strerror})
                self._reported = True
                raise
        return self._secret

    async def hand_over(self) -> None:
        """Passes all that was counted to `accept`, and raises what it raises; then the next call passes it again."""
        taken = self._history.take()
        if not taken:
            return
        try:
            await self.accept(Batch(others=taken))
        except JournalUnknown:  # it may count already; a second time could double it
            self._lost += asked_in(taken)
            raise
        except ClickcurveError:
            self._history.give_back(taken)
            raise

    @property
    def lost(self) -> int:
        """Hits asked for whose counts may not have been kept."""
        return self._lost + self._history.lost


def secret_in(file: Path) -> bytes:
    """Returns the secret in a file. The first process that asks for it makes it."""
    with suppress(FileNotFoundError):
        return _read_secret(file)
    fresh = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    write_private(fresh, secrets.token_bytes(SECRET_BYTES))
    try:
        with suppress(FileExistsError):
            os.link(fresh, file)  # unless another process was quicker
    finally:
        fresh.unlink()
    return _read_secret(file)


def _read_secret(file: Path) -> bytes:
    secret = file.read_bytes()[:MOST_SECRET_BYTES]
    if len(secret) < SECRET_BYTES:
        raise OSError(errno.EINVAL, f"it holds fewer than {SECRET_BYTES} bytes")
    return secret
