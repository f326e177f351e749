"""`/v1/import/{source}`: how far a source has come, and the next chunk of it.

A source is a name of the client's choice, best a fingerprint; its offset is the number of its bytes that were counted.
A chunk says from which byte to which it goes, and is taken only if it begins at the offset; the offset moves with the
hits, in one journal record. So a chunk counts once, however often it is sent and whichever side dies meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Annotated, Protocol

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.requests import ClientDisconnect

from clickcurve.access import Access, access
from clickcurve.buckets.errors import MediaTypeUnsupported, ParameterInvalid
from clickcurve.buckets.ladder import Ladder
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from clickcurve.routes import json_answer
from clickcurve.waiting import computed
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch, SourceStep
from ingest.hit import Moment
from ingest.imports.chunk import ChunkReader
from ingest.imports.places import Ahead, Placing, Wide
from ingest.reading.body import Media, media_of
from ingest.reading.body_budget import BodyBudget, ClientGone, HeldBody, Step, coding_of
from ingest.reading.receipt import IngestCounters
from ingest.reading.request_sums import RequestSums
from storage.contract import Source

SOURCE_CHARS = 200
TAIL_CHARS = 400

SourceName = Annotated[
    str,
    Path(pattern="^[!-.0-~]+$", max_length=SOURCE_CHARS, description="Visible ASCII without a slash."),
]
From = Annotated[int, Query(alias="from", ge=0, lt=2**62, description="The byte that the chunk begins at.")]
To = Annotated[int, Query(ge=0, lt=2**62, description="The byte after its last one.")]
Tail = Annotated[
    str,
    Query(pattern="^[!-~]*$", max_length=TAIL_CHARS, description="A text that is kept with the offset for the client."),
]
WideQuery = Annotated[
    Wide, Query(description="What to do with buckets of history that are wider than those kept here.")
]

AheadQuery = Annotated[Ahead, Query(description="What to do with buckets of history that begin ahead of the clock.")]

VisitorsQuery = Annotated[bool, Query(description="Whether visitors are counted by what hits say.")]


class ImportIntake(Protocol):
    """What an import needs of the owner."""

    async def accept(self, batch: Batch) -> frozenset[str]: ...
    async def kept_offset(self, source: str) -> Source: ...


def import_routes(
    intake: ImportIntake,
    moment: Callable[[], Moment],
    ladder: Callable[[], Ladder],
    counters: IngestCounters,
    room: BodyBudget,
    reader: ProfileReader = NO_DIMENSIONS,
    hosts: Hosts = HOSTS_IGNORED,
) -> APIRouter:
    """Returns the router. `moment` is now; `room` is that of all bodies; `ladder` is the store's."""
    without_visitors = reader.without_visitors() if reader.salts is not None else reader
    router = APIRouter(tags=["importing"])

    @router.get("/v1/import/{source}", summary="How far a source was counted")
    async def import_offset(source: SourceName) -> Response:
        """`{"source", "position", "tail", "fields", "hosts", "people"}`; position 0 for an unknown source.

        `fields`: attributes that count. `hosts`: the setting. `people`: its exceptions. 421: ask over a new connection.
        """
        kept = await intake.kept_offset(source_within(source, access()))
        offset = {"source": source, "position": kept.position, "tail": kept.tail, "hosts": hosts.setting}
        return json_answer({**offset, "fields": reader.useful_fields(), "people": reader.bot_rules.rules.people})

    @router.post("/v1/import/{source}", summary="Count the next chunk of a source")
    async def import_chunk(
        request: Request,
        source: SourceName,
        start: From,
        to: To,
        tail: Tail = "",
        wide: WideQuery = Wide.refuse,
        ahead: AheadQuery = Ahead.refuse,
        visitors: VisitorsQuery = True,
    ) -> Response:
        """Body: NDJSON or a JSON array of `{"key", "ts", "count", "bot"}`, `{"key", "opening"}` or lines of an export.

        The first kind may have the attributes of a hit: `ref`, `ip`, `ua` and so on.
        A receipt with the new `position`. 409: the source stands elsewhere, at `value`. 421: another worker keeps it.
        """
        if to <= start:
            raise ParameterInvalid("a chunk must end after its start", field="to", value=to, rule=f"more than {start}")
        is_array = _is_array(request)
        chosen = reader if visitors else without_visitors
        sums = RequestSums(moment(), reader=chosen, allowed=access())
        coding = coding_of(request.headers.get("content-encoding", ""))

        def steps(body: bytes) -> Iterator[Step]:
            if coding is not None:
                body = yield from room.decode(held_body, body, coding)
            if chosen.lacks_agents and b"ua" in body:
                yield computed("reading the list of agents", chosen.load_agents)
            yield from ChunkReader(ladder(), Placing(wide, ahead)).read_body(body, sums, is_array)
            counters.body_bytes += len(body)

        held_body = HeldBody()
        try:
            await room.run(steps(await room.receive(held_body, request.receive)))
        except ClientGone:
            counters.disconnected += 1
            raise ClientDisconnect from None
        finally:
            room.release(held_body)
        await sums.charge()
        await intake.accept(sums.batch_with(SourceStep(source_within(source, access()), start, to, tail)))
        receipt = sums.receipt()
        sums.count_into(counters, receipt)
        return Response(b'{"position":%d,' % to + receipt.encode()[1:], media_type="application/json")

    return router


def source_within(source: str, allowed: Access) -> str:
    """Returns the name that an offset is kept under: those of a prefix are apart, since no source has a blank."""
    return f"{blake2b(allowed.prefix.encode(), digest_size=8).hexdigest()} {source}" if allowed.prefix else source


def _is_array(request: Request) -> bool:
    media = media_of(request.headers.get("content-type", ""))
    if media is Media.events:
        raise MediaTypeUnsupported("CloudEvents cannot be imported here", field="Content-Type", rule="JSON or NDJSON")
    return media is Media.json
