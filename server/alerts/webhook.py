"""Webhooks by the Standard Webhooks specification: signed, with an id that stays the same when they are sent again."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING

from clickcurve.buckets.errors import ClickcurveError

if TYPE_CHECKING:
    import httpx

EXCHANGE_S = 15.0  # from the connection to the status of the answer
_SHOWN = 200


class NotDelivered(ClickcurveError, title="message not delivered"):
    """A message did not arrive, or nobody knows; it is sent again."""


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Returns the value of `webhook-signature`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


class Webhooks:
    """Posts messages. No redirect is followed."""

    def __init__(self, client: Callable[[], httpx.AsyncClient], clock: Callable[[], float]) -> None:
        self._new_client = client
        self._clock = clock

    async def send(self, url: str, key: bytes, message_id: str, body: bytes) -> None:
        """Sends a message once; raises NotDelivered unless the answer is a success. key: empty for no signature."""
        import httpx  # 4 MB of memory, which a server without alerts need not hold

        timestamp = int(self._clock())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Clickcurve",
            "Accept-Encoding": "identity",
        }
        if key:
            signed = signature(key, message_id, timestamp, body)
            headers |= {
                "webhook-id": message_id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signed,
            }
        try:
            # Only the status counts. The body is left unread: a receiver could send one without an end.
            async with (
                asyncio.timeout(EXCHANGE_S),
                self._new_client() as client,
                client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
        except TimeoutError:
            raise NotDelivered(f"no answer within {EXCHANGE_S:g} s", field="url") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise NotDelivered(f"no answer: {str(error)[:_SHOWN] or type(error).__name__}", field="url") from error
        if not 200 <= status < 300:
            raise NotDelivered(f"the answer was {status}", field="url", value=status)


def webhook_client() -> httpx.AsyncClient:
    import httpx  # as above

    return httpx.AsyncClient(timeout=EXCHANGE_S, follow_redirects=False)
