"""The audit log, in the notes of the store: tokens, shares, deletions, restored backups, changed limits.

An entry names the token by its id, and never holds one. Entries are kept for KEPT_DAYS.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence

import msgspec

from clickcurve.access import access
from clickcurve.buckets.errors import shown
from clickcurve.buckets.ladder import DAY_S
from clickcurve.limiter.rule import Rule
from clickcurve.waiting import in_thread
from server.logs import log
from storage.contract import Store
from storage.notes import NoteSpace, leave, take_new

# AUDIT, then a time: what somebody with a token did. LIMITS: a digest of the limiter's rules, to tell whether they have
# changed.
AUDIT, LIMITS = "audit:", "limits"
AUDIT_NOTES = NoteSpace("the audit log", (AUDIT,), take_new(AUDIT))
LIMITS_NOTES = NoteSpace("limits", (LIMITS,), leave)

KEPT_DAYS = 400
_KEPT_S = KEPT_DAYS * DAY_S
PROMPT = "command"  # stands for a token where a command of this machine did it
SETTINGS = "settings"  # where the file of settings did
NOBODY = "none"  # where the server asks for no tokens
DISAVOWED, UNDONE = "disavowed", "disavowal undone"
_AT_DIGITS = 12  # of epoch seconds in names, then microseconds: their order is that of time


class AuditEntry(msgspec.Struct, frozen=True):
    """What was done when, to what, and the id of the token that allowed it. at in epoch seconds."""

    at: int
    token: str
    what: str
    subject: str


def rule_subject(name: str | None, dimension: str, value: str) -> str:
    """Returns how an entry names a rule that calls hits of a link or group bots."""
    return f"{name}: {dimension} {value}"


def _without_value(subject: str, is_erased: Callable[[str, str], bool]) -> str | None:
    """Returns the subject of a rule without an erased value; None if it names none. A cut one may name any."""
    parts = subject.split(": ")
    for many in range(1, len(parts)):
        dimension, blank, value = ": ".join(parts[many:]).partition(" ")
        if blank and (value.endswith("…") or is_erased(dimension, value)):
            return f"{': '.join(parts[:many])}: {dimension} (erased)"
    return None


_read_entry = msgspec.json.Decoder(AuditEntry).decode


class AuditLog:
    """Writes and lists entries. Blocks where it says nothing else; raises StoreUnavailable. clock: epoch seconds.

    careful: the time that entries are dropped by; None: `clock`.
    """

    def __init__(self, store: Store, clock: Callable[[], float], careful: Callable[[], float] | None = None) -> None:
        self._store = store
        self._clock, self._careful = clock, careful or clock
        self._rules: Sequence[Rule] | None = None  # those that the store knows of

    async def follow_limits(self, rules: Sequence[Rule]) -> None:
        """Writes an entry if these rules are others than the store knows of."""
        if rules != self._rules:
            await asyncio.to_thread(self._note_limits, rules)
            self._rules = rules

    def _note_limits(self, rules: Sequence[Rule]) -> None:
        digest = hashlib.sha256(repr(list(rules)).encode()).hexdigest() if rules else ""
        noted = self._store.noted(LIMITS)
        if digest == (noted or ""):
            return
        self.note(SETTINGS, "limits changed", ", ".join(sorted({rule.event for rule in rules})) or "none")
        self._store.drop_notes([LIMITS])
        self._store.note(LIMITS, digest)

    async def note_request(self, what: str, subject: str) -> None:
        """Writes what the request under way is about to do; call it before it is done."""
        await in_thread("writing the audit log", self.note, access().token or NOBODY, what, subject)

    def note(self, token: str, what: str, subject: str) -> None:
        """Writes an entry of now. Durable."""
        now = self._clock()
        entry = AuditEntry(int(now), token, what, str(shown(subject)))
        name = f"{self._name_at(now)}:{int(now % 1 * 1_000_000):06}:{secrets.token_hex(4)}"
        self._store.note(name, msgspec.json.encode(entry).decode(), _KEPT_S)

    def entries(self) -> Iterator[AuditEntry]:
        """Yields what is kept, oldest first."""
        since = self._name_at(self._clock() - _KEPT_S)
        for name, value in sorted(self._store.notes(AUDIT).items()):
            if name >= since:
                try:
                    yield _read_entry(value)
                except msgspec.DecodeError as error:
                    log.error("audit entry unreadable", extra={"note": name, "reason": str(error)})

    def forget(self) -> None:
        """Drops entries that are older than KEPT_DAYS."""
        before = self._name_at(self._careful() - _KEPT_S)
        if old := [name for name in self._store.notes(AUDIT) if name < before]:
            self._store.drop_notes(old)

    def forget_value(self, is_erased: Callable[[str, str], bool]) -> None:
        """Takes an erased value out of what entries say of rules that name it. is_erased: dimension, value."""
        for name, value in self._store.notes(AUDIT).items():
            try:
                entry = _read_entry(value)
            except msgspec.DecodeError:
                continue  # `entries` says so
            subject = _without_value(entry.subject, is_erased) if entry.what in (DISAVOWED, UNDONE) else None
            if subject is not None:
                # Under another name, and before the old one goes: so a crash between loses no entry.
                without = msgspec.json.encode(msgspec.structs.replace(entry, subject=subject)).decode()
                self._store.note(f"{name}-", without, _KEPT_S)
                self._store.drop_notes([name])

    def _name_at(self, at: float) -> str:
        return f"{AUDIT}{max(0, int(at)):0{_AT_DIGITS}}"
