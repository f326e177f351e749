"""One try to send a batch over a kept connection, and what its answer means."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from clickcurve.buckets.errors import ParameterInvalid

MOST_ANSWER_BYTES = 4 * 1024 * 1024  # a receipt lists 1,000 hits at most
# Statuses that say that this body is never taken; all others may change: a token is made, a proxy comes back.
NEVER = frozenset({400, 413, 415, 422})
CERTAIN = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a try. done: it is answered, with so many hits taken; else it is tried again.

    certain: nothing of it was counted. pause_s: what the server asks to wait. adjusted: hits that count and of which a
    word was lost; lost: of the first of these words, which and why.
    """

    done: bool
    why: str = ""
    taken: int = 0
    certain: bool = True
    pause_s: float | None = None
    adjusted: int = 0
    lost: str = ""


class HitsPost:
    """Posts batches to one server. url: its address, also with a path in front."""

    def __init__(self, url: str, token: str | None, timeout_s: float, clock: Callable[[], float]) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or not _VISIBLE.fullmatch(url):
            rule = "http:// or https://, a host, and perhaps a port and a path"
            detail = f"url {url!r} is not the address of a server: it must have {rule}"
            raise ParameterInvalid(detail, field="url", value=url, rule=rule)
        if token is not None and not _VISIBLE.fullmatch(token):
            raise ParameterInvalid("the token is not visible ASCII", field="token", rule="visible ASCII characters")
        self._host, self._port, self._is_tls = parts.hostname, port, parts.scheme == "https"
        self._path = parts.path.rstrip("/") + "/v1/hits"
        self._timeout_s = timeout_s
        self._clock = clock
        self._headers = {"Content-Type": "application/json", "User-Agent": "clickcurve-client"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        elif parts.username is not None:
            secret = f"{parts.username}:{parts.password or ''}".encode()
            self._headers["Authorization"] = "Basic " + base64.b64encode(secret).decode()
        self._connection: HTTPConnection | None = None

    def send(self, id_: str, body: bytes) -> Tried:
        """Tries once, and a second time where a kept connection turns out to be closed."""
        kept = self._connection is not None
        tried = self._try(id_, body)
        if kept and not tried.done and self._connection is None and not tried.certain:
            again = self._try(id_, body)
            return again if again.done else Tried(False, again.why, certain=False, pause_s=again.pause_s)
        return tried

    def _try(self, id_: str, body: bytes) -> Tried:
        if self._connection is None:
            try:
                self._connection = self._connected()
            except (
                OSError,
                UnicodeError,
            ) as error:  # the latter: a host that no name may be, such as one with two dots
                return Tried(False, f"no connection: {error}")
        try:
            self._connection.request("POST", self._path, body, {**self._headers, "Idempotency-Key": id_})
            answer = self._connection.getresponse()
            text = answer.read(MOST_ANSWER_BYTES)
        except (OSError, HTTPException) as error:
            self.close()
            return Tried(False, f"no answer: {error or type(error).__name__}", certain=False)
        if answer.will_close or not answer.isclosed():
            self.close()
        return self._meaning(answer, text)

    def _connected(self) -> HTTPConnection:
        made = (
            HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=ssl.create_default_context())
            if self._is_tls
            else HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        )
        made.connect()
        return made

    def _meaning(self, answer: HTTPResponse, text: bytes) -> Tried:
        status = answer.status
        receipt = _receipt_in(text) if status in (200, 422) else None
        if receipt is not None:
            why = f"refused: {_reasons(receipt)}" if receipt["refused"] else ""
            taken, adjusted = receipt["counted"] + receipt["duplicate"], receipt.get("adjusted", 0)
            if not isinstance(adjusted, int) or adjusted <= 0:
                return Tried(True, why, taken)
            return Tried(True, why, taken, adjusted=adjusted, lost=_lost_words(receipt))
        why = f"status {status}: {text[:200].decode('utf-8', 'replace')}"
        if status in NEVER:
            return Tried(True, why)
        if status == 200:
            return Tried(False, "it does not answer as a Clickcurve server does", certain=False)
        return Tried(False, why, certain=status < 500 or status in CERTAIN, pause_s=self._retry_after_s(answer))

    def _retry_after_s(self, answer: HTTPResponse) -> float | None:
        text = answer.getheader("Retry-After", "")
        if text.isascii() and text.isdigit():
            return float(text)
        with suppress(ValueError, TypeError):
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._clock())
        return None

    def cut(self) -> None:
        """Ends a try that is under way in another thread."""
        sock = getattr(self._connection, "sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_VISIBLE = re.compile("[!-~]+")
_SUMS = ("counted", "duplicate", "refused")


def _receipt_in(text: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        receipt = json.loads(text)
        if isinstance(receipt, dict) and all(isinstance(receipt.get(name), int) for name in _SUMS):
            return receipt
    return None


def _items(receipt: dict[str, Any], status: str) -> list[dict[str, Any]]:
    items = receipt.get("items")
    listed = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [item for item in listed if item.get("status") == status]


def _reasons(receipt: dict[str, Any]) -> str:
    refused = _items(receipt, "refused")[:3]
    return "; ".join(f"{item.get('field')} {item.get('value')!r}: {item.get('reason')}" for item in refused)


def _lost_words(receipt: dict[str, Any]) -> str:
    """Returns why words were lost, without what they said: that is a visitor's."""
    return "; ".join(dict.fromkeys(str(item.get("reason")) for item in _items(receipt, "adjusted")[:3]))
