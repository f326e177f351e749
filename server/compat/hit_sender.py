"""Passes hits that came in another shape to the write routes, so that they count as all hits do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from fastapi import Response

from clickcurve.asgi import Application, Headers, Message
from clickcurve.problem import MEDIA_TYPE
from ingest.reading.hit_endpoint import HITS


@dataclass(frozen=True, slots=True)
class SentHits:
    """What the write route answered."""

    status: int
    headers: Headers
    body: bytes

    @property
    def is_receipt(self) -> bool:
        return self.status in (200, 422)

    def refused(self) -> tuple[int, str]:
        """Returns how many of at most RECEIPT_ITEMS hits were refused, and why the first one was."""
        receipt = msgspec.json.decode(self.body)
        reasons = [str(item["reason"]) for item in receipt["items"] if item["status"] == "refused"]
        return len(reasons), reasons[0] if reasons else "refused"

    def passed_on(self) -> Response:
        """Returns the answer as it is, where it is no receipt."""
        headers = {name.decode(): value.decode() for name, value in self.headers if name != b"content-length"}
        return Response(self.body, self.status, headers={"content-type": MEDIA_TYPE, **headers})

    def first_reason(self) -> str:
        """Returns why nothing or not all of it counted."""
        receipt = msgspec.json.decode(self.body)
        items = [item for item in receipt.get("items", ()) if item["status"] != "adjusted"]
        return str(items[0]["reason"] if items else receipt.get("detail", ""))


class HitSender:
    """Asks the write routes, as one request with an array of hits."""

    def __init__(self, hits: Application) -> None:
        self._hits = hits

    async def send(self, hits: Sequence[object]) -> SentHits:
        """Returns the answer; raises JournalUnknown where nobody knows whether they count."""
        body = msgspec.json.encode(hits)
        answered: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            answered.append(message)

        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        scope = {
            "type": "http",
            "method": "POST",
            "path": HITS.decode(),
            "raw_path": HITS,
            "query_string": b"",
            "headers": headers,
        }
        await self._hits(scope, receive, send)
        start, *parts = answered
        return SentHits(start["status"], tuple(start["headers"]), b"".join(part["body"] for part in parts))
