"""Sums the hits that were asked for and admitted by event and minute, and hands them to the owner.

That is done once a second, as one batch, and once more at a stop. A kill loses the decisions of the last second.

Decisions count with their cost. A hit that only a rule in shadow mode would have refused was admitted, and so was a hit
that a fallback let pass. A reserved hit was asked for, and admitted, when it was reserved, whatever becomes of it; a
peek is neither.

Callers are kept under a digest that only the owner of the secret can make: it leads from a caller to a history, and
from a history to nobody.
"""

from __future__ import annotations

import errno
import os
import secrets
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from clickcurve.buckets.errors import ClickcurveError, JournalUnknown, ParameterInvalid, StoreUnavailable
from clickcurve.buckets.ladder import DAY_S, MINUTE_S
from clickcurve.keys import OUTCOMES, caller_key, limit_key
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.key import identity_of
from ingest.batch import Batch
from server.data_folder import write_private
from server.job import Job
from server.limiter.limiter import ServerLimiter
from server.logs import log
from server.metrics import Family, Sample

HAND_OVER_S = 1
# Sums that may wait to be taken; when there are more the oldest minutes go, and are counted as lost. Without callers it
# is the sums of fifty events in a week.
MAX_SUMS = 1_000_000
# Callers of a day that get a history of their own; later ones share one.
MAX_CALLERS = 100_000
CALLER_RULE = "feature=value, such as ip=203.0.113.7, or several separated by blanks"
SECRET_BYTES = 32
MOST_SECRET_BYTES = 64

Accept = Callable[[Batch], Awaitable[object]]


FAMILIES = {
    "clickcurve_limit_history_lost_total": Family("Hits that the limiter was asked for and whose history may be lost."),
}


class DecisionSums:
    """Sums of one thread's decisions. lost: hits asked for whose sums had to go."""

    def __init__(self, max_sums: int = MAX_SUMS, max_callers: int = MAX_CALLERS) -> None:
        self.lost = 0
        self._max_sums = max_sums
        self._max_callers = max_callers
        self._minutes: dict[int, dict[str, int]] = {}
        self._keys: dict[str, tuple[str, str]] = {}
        self._callers: set[str] = set()
        self._day = -1

    def add(self, event: str, cost: int, decision: Decision, now: float) -> None:
        """Counts a decision that was made at `now`, epoch seconds."""
        self._add(self._keys.get(event) or self._named(event), cost, decision, now)

    def add_caller(self, event: str, digest: str, cost: int, decision: Decision, now: float) -> None:
        """Counts a decision about a caller, after `add` counted it for the event."""
        today = int(now) // DAY_S
        if today != self._day:
            self._callers.clear()
            self._day = today
        if digest not in self._callers:
            if len(self._callers) < self._max_callers:
                self._callers.add(digest)
            else:
                digest = "others"
        asked, admitted = (caller_key(event, outcome, digest) for outcome in OUTCOMES)
        self._add((asked, admitted), cost, decision, now)

    def _add(self, keys: tuple[str, str], cost: int, decision: Decision, now: float) -> None:
        minute = int(now) // MINUTE_S * MINUTE_S
        sums = self._minutes.get(minute)
        if sums is None:
            sums = self._minutes[minute] = {}
            self._bound()
        asked, admitted = keys
        sums[asked] = sums.get(asked, 0) + cost
        if decision.allowed:
            sums[admitted] = sums.get(admitted, 0) + cost

    def take(self) -> dict[int, dict[str, int]]:
        """Hands all sums over: minute start -> stored key -> count. None of them stay here."""
        taken, self._minutes = self._minutes, {}
        return taken

    def give_back(self, taken: Mapping[int, Mapping[str, int]]) -> None:
        """Takes back sums that could not be kept, to be taken once more."""
        for minute, sums in taken.items():
            mine = self._minutes.setdefault(minute, {})
            for key, count in sums.items():
                mine[key] = mine.get(key, 0) + count
        self._bound()

    def _named(self, event: str) -> tuple[str, str]:
        asked, admitted = (limit_key(event, outcome) for outcome in OUTCOMES)
        self._keys[event] = asked, admitted
        return asked, admitted

    def _bound(self) -> None:
        sums = sum(map(len, self._minutes.values()))
        while sums > self._max_sums:
            oldest = min(self._minutes)
            gone = self._minutes.pop(oldest)
            sums -= len(gone)
            self.lost += asked_in({oldest: gone})


def asked_in(taken: Mapping[int, Mapping[str, int]]) -> int:
    """Returns how many hits were asked for, in sums that were taken; callers' sums are parts of those."""
    end = ":" + OUTCOMES[0]
    return sum(count for sums in taken.values() for key, count in sums.items() if key.endswith(end))


@dataclass(eq=False)
class LimitHistory:
    """`count` and `count_for_caller` are the limiter's listeners. accept is the owner's; secret_file has what
    callers are hashed with. Everything on one event loop.

    events: those that the limiter has rules for. address: the name under which it counts an ip.
    """

    accept: Accept
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

    def jobs(self) -> Iterator[Job]:
        yield Job("limit_history", self.hand_over, HAND_OVER_S, at_start=False)

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        yield Sample("clickcurve_limit_history_lost_total", self.lost)

    async def close(self) -> None:
        """Hands over what was counted last; what is not taken is lost."""
        try:
            await self.hand_over()
        except ClickcurveError as error:
            log.warning("limiter's last counts lost", extra={"reason": error.detail})


def history_of(limiter: ServerLimiter, accept: Accept, clock: Callable[[], float], secret: Path) -> LimitHistory:
    """Makes a history that hears every decision of the limiter, and knows its events and names of callers."""
    events, address = limiter.limiter.events.rules, limiter.addresses.name
    history = LimitHistory(accept, clock, secret, events=events, address=address)
    limiter.listeners.append(history.count)
    limiter.caller_listeners.append(history.count_for_caller)
    return history


# --- callers ----------------------------------------------------------------------------------------------------------
def digest_of(secret: bytes, identity: str) -> str:
    """Returns what stands in keys for a caller (`clickcurve.limiter.key.identity_of`). secret: at most 64 bytes."""
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16, key=secret).hexdigest()


def parse_caller(text: str) -> dict[str, str]:
    """Parses a caller as people write it, `ip=203.0.113.7 endpoint=/links`, into features. ParameterInvalid."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError:
        words = []
    if not words or not all(name and value for name, _, value in words):
        raise ParameterInvalid(
            f"caller {text!r} is not written as feature=value", field="caller", value=text, rule=CALLER_RULE
        )
    return {name: value for name, _, value in words}


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
