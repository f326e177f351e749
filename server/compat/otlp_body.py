"""The body of an export of OpenTelemetry: its encodings, its bounds, and the turns of others while it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from fastapi import Request
from msgspec import Raw
from msgspec.json import Decoder

from clickcurve.answers.written import JSON
from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import MediaTypeUnsupported
from clickcurve.budget import Cost, spend
from clickcurve.waiting import computed
from ingest.reading.body_budget import unpacked
from server.compat.otlp_protobuf import PROTOBUF

MOST_BYTES = 4 << 20
OBJECTS = Cost("objects in the body", 200_000)
READ_BYTES = Cost("bytes in elements of the body", 64 << 20)
ELEMENT_BYTES = 300  # as long as it takes to begin with one
_Of = TypeVar("_Of")


async def export_body(request: Request, signal: str) -> tuple[str, bytes]:
    """Returns the media type of an export, JSON or PROTOBUF, and its body; signal: `metrics` or `logs`.

    Raises MediaTypeUnsupported, BodyTooLarge, BodyUnreadable.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = request.headers.get("content-encoding", "identity")
    if media not in (JSON, PROTOBUF) or coding not in ("identity", "gzip"):
        variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
        detail = f"{signal} come as protobuf or JSON, plain or in gzip: set {variable} to one"
        raise MediaTypeUnsupported(f"{detail} of http/protobuf and http/json", field="Content-Type", value=media)
    body = await read_bounded(request.stream(), MOST_BYTES)
    if coding == "gzip":
        body = await computed("unpacking a body", unpacked, body, coding, MOST_BYTES)
    return media, body


async def decoded(decoder: Decoder[_Of], elements: Sequence[Raw]) -> AsyncIterator[_Of]:
    """Yields elements that were left as they are sent; raises RequestTooCostly, msgspec.DecodeError."""
    for element in elements:
        await spend(READ_BYTES, ELEMENT_BYTES + len(bytes(element)))
        yield decoder.decode(element)
