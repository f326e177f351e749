"""Addresses that show one link or group to anybody who has them: `/share/{id}.{day}.{signature}`.

The day is the last one (UTC) on which it is good. The signature covers the id, the day and the name, by a secret that
never leaves the store, so no part of an address can be made up or changed. Secret and shares are notes of the store: so
every node of a cluster knows them, and a share that is revoked is good nowhere from the next request on.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.buckets.ladder import DAY_S
from clickcurve.waiting import in_thread
from server.logs import log
from storage.contract import Store
from storage.notes import Notes, NoteSpace, TakenAlong

# SHARE, then the id of a share: what it shows until when; SHARE_SECRET is what signs all of them.
SHARE, SHARE_SECRET = "share:", "share-secret"

MAX_DAYS = 3_660
MAX_SHARES = 1_000  # all are read to list or add one
_SHARES = SHARE_SECRET[:5]  # how the names of all notes of shares begin, that of the secret too
_SIGNATURE_CHARS = 32  # of base64: 192 bits


class Share(msgspec.Struct, frozen=True):
    """What an address shows. kind: link or group; until: the last day, as 20261222; created_at in epoch seconds.

    events: also what came of the clicks.
    """

    id: str
    kind: str
    name: str
    until: str
    created_at: int
    events: bool = False

    def signed_by(self, secret: str) -> str:
        """Returns the signed text of the share, the last part of its address."""
        text = json.dumps([self.id, self.until, self.kind, self.name]).encode()
        digest = hmac.digest(bytes.fromhex(secret), text, hashlib.sha256)
        signature = base64.urlsafe_b64encode(digest).decode()[:_SIGNATURE_CHARS]
        return f"{self.id}.{self.until}.{signature}"


_read_share = msgspec.json.Decoder(Share).decode


class Shares:
    """What is shared, in the notes of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def shared(self, signed: str, now: int) -> Share | None:
        """Returns what the text shares now, None if it is made up, ended or revoked.

        Raises StoreUnavailable.
        """
        share_id, _, rest = signed.partition(".")
        until, _, _ = rest.partition(".")
        notes = await in_thread("reading a share", self._noted, (SHARE + share_id, SHARE_SECRET))
        share = _share_in(notes, SHARE + share_id)
        if share is None or share.until != until or share.until < _day(now) or SHARE_SECRET not in notes:
            return None
        is_good = hmac.compare_digest(share.signed_by(notes[SHARE_SECRET]).encode(), signed.encode("utf-8", "replace"))
        return share if is_good else None

    def _noted(self, names: Sequence[str]) -> dict[str, str]:
        return {name: value for name in names if (value := self._store.noted(name)) is not None}

    # --- as commands, which may block -------------------------------------------------------------------------------
    def all(self) -> list[Share]:
        """Returns what is shared, also what has ended and was not dropped yet, oldest first."""
        notes = self._store.notes(_SHARES)
        shares = [share for name in notes if name.startswith(SHARE) and (share := _share_in(notes, name)) is not None]
        return sorted(shares, key=lambda share: (share.created_at, share.id))

    def addresses(self, kind: str, name: str, now: int) -> list[tuple[Share, str]]:
        """Returns what shares this link or group now, each with its signed text, oldest first."""
        notes, today = self._store.notes(_SHARES), _day(now)
        here = (share for share in self.all() if (share.kind, share.name) == (kind, name) and share.until >= today)
        return [(share, share.signed_by(notes[SHARE_SECRET])) for share in here if SHARE_SECRET in notes]

    def add(
        self, kind: str, name: str, days: int, now: int, careful: int | None = None, *, events: bool = False
    ) -> str:
        """Shares a link or group and returns the signed text. What has ended is dropped: by `careful`; None: by now."""
        shares, today = self.all(), _day(now if careful is None else careful)
        if ended := [share for share in shares if share.until < today]:
            self._store.drop_notes([SHARE + share.id for share in ended])
        if len(shares) - len(ended) >= MAX_SHARES:
            detail = f"there are {len(shares) - len(ended)} shares already, {MAX_SHARES} at most"
            raise SettingInvalid(detail, field="share")
        share = Share(secrets.token_hex(6), kind, name, _day(now + days * DAY_S), now, events)
        secret = self._store.note(SHARE_SECRET, secrets.token_hex(32))
        self._store.note(SHARE + share.id, msgspec.json.encode(share).decode(), (days + 2) * DAY_S)
        return share.signed_by(secret)

    def remove(self, share_id: str) -> bool:
        """Revokes a share. Returns False if none has that id."""
        if self._store.noted(SHARE + share_id) is None:
            return False
        self._store.drop_notes([SHARE + share_id])
        return True


def _share_in(notes: Mapping[str, str], name: str) -> Share | None:
    try:
        return _read_share(notes[name]) if name in notes else None
    except msgspec.DecodeError as error:
        log.error("share unreadable", extra={"note": name, "reason": str(error), "then": "it shares nothing"})
        return None


def _day(now: int) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d}"


def _take_along(source: Notes, target: Store, now: int) -> TakenAlong:
    """Makes addresses of shares valid at a target too, unless it has a signing secret of its own."""
    secret = source.get(SHARE_SECRET)
    if secret is None or target.note(SHARE_SECRET, secret) != secret:
        return TakenAlong()
    shares = {name: value for name, value in source.items() if name.startswith(SHARE)}
    for name, value in shares.items():
        target.note(name, value)
    return TakenAlong(len(shares))


SHARE_NOTES = NoteSpace("shares", (SHARE, SHARE_SECRET), _take_along)
