"""Addresses that show one link or group to anybody who has them: `/share/{id}.{day}.{signature}`.

The day is the last one (UTC) on which it is good. The signature covers the id, the day and the name, by a secret that
never leaves the data folder, so no part of an address can be made up or changed; and the folder's list says which are
not revoked. A running server notices changes at the next request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from clickcurve.buckets.errors import SettingInvalid
from server.logs import log
from server.private_file import replace_private

DAY_S = 86_400
MAX_DAYS = 3_660
MAX_SHARES = 10_000
_SIGNATURE_CHARS = 32  # of base64: 192 bits


@dataclass(frozen=True, slots=True)
class Share:
    """What an address shows. kind: link or group; until: the last day, as 20261222; created_at in epoch seconds."""

    id: str
    kind: str
    name: str
    until: str
    created_at: int


@dataclass(frozen=True, slots=True)
class ShareList:
    """The secret that signs, and what is shared."""

    secret: str
    shares: tuple[Share, ...]

    def sign(self, share: Share) -> str:
        """Returns the signed text of a share, the last part of its address."""
        text = json.dumps([share.id, share.until, share.kind, share.name]).encode()
        digest = hmac.digest(bytes.fromhex(self.secret), text, hashlib.sha256)
        signature = base64.urlsafe_b64encode(digest).decode()[:_SIGNATURE_CHARS]
        return f"{share.id}.{share.until}.{signature}"


def load_shares(path: Path) -> ShareList:
    """Returns what the file has, a new secret and no shares when there is no file; raises SettingInvalid."""
    try:
        document = json.loads(path.read_text("utf-8"))
        secret = str(document["secret"])
        if len(bytes.fromhex(secret)) < 32:
            raise ValueError("the secret is too short")
        shares = tuple(
            Share(str(each["id"]), str(each["kind"]), str(each["name"]), str(each["until"]), int(each["created_at"]))
            for each in document["shares"]
        )
        return ShareList(secret, shares)
    except FileNotFoundError:
        return ShareList(secrets.token_hex(32), ())
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"the file of shares {path} cannot be read: {error}"
        raise SettingInvalid(reason, field="data", value=str(path)) from error


def add_share(path: Path, kind: str, name: str, days: int, now: int) -> str:
    """Adds a share to the file and returns its signed text. Those that have ended are dropped."""
    found = load_shares(path)
    today = _day(now)
    kept = tuple(share for share in found.shares if share.until >= today)
    if len(kept) >= MAX_SHARES:
        raise SettingInvalid(f"there are {len(kept)} shares already, {MAX_SHARES} at most", field="share")
    share = Share(secrets.token_hex(6), kind, name, _day(now + days * DAY_S), now)
    fresh = ShareList(found.secret, (*kept, share))
    _save(path, fresh)
    return fresh.sign(share)


def remove_share(path: Path, share_id: str) -> bool:
    """Removes a share from the file. Returns False if none has that id."""
    found = load_shares(path)
    kept = tuple(share for share in found.shares if share.id != share_id)
    if len(kept) == len(found.shares):
        return False
    _save(path, ShareList(found.secret, kept))
    return True


def _save(path: Path, found: ShareList) -> None:
    document = {"secret": found.secret, "shares": [asdict(share) for share in found.shares]}
    replace_private(path, json.dumps(document, indent=1))


def _day(now: int) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d}"


class Shares:
    """Judges signed texts. A file that cannot be read shares nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._found = ShareList("", ())

    def shared(self, signed: str, now: int) -> tuple[str, str] | None:
        """Returns the kind and name that the text shares now, None if it is made up, ended or revoked."""
        self._reread()
        share_id, _, rest = signed.partition(".")
        until, _, _ = rest.partition(".")
        share = next((each for each in self._found.shares if each.id == share_id and each.until == until), None)
        if share is None or share.until < _day(now):
            return None
        is_good = hmac.compare_digest(self._found.sign(share).encode(), signed.encode("utf-8", "replace"))
        return (share.kind, share.name) if is_good else None

    def _reread(self) -> None:
        try:
            stat = self._path.stat()
        except OSError:
            self._seen, self._found = None, ShareList("", ())
            return
        signature = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if signature == self._seen:
            return
        self._seen = signature
        try:
            self._found = load_shares(self._path)
        except SettingInvalid as error:
            self._found = ShareList("", ())
            log.error("shares unreadable", extra={"reason": error.detail, "then": "nothing is shared"})
