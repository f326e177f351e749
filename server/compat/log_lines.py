"""`POST /v1/logs/{source}`: lines of an access log over HTTP, read as `clickcurve import` reads them.

The source is a name of the sender's choice. A batch with an Idempotency-Key counts once of its source; `once=body`
makes the body itself that key, for senders that can put nothing into a header field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated, Literal, Protocol

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.requests import ClientDisconnect

from clickcurve.access import access
from clickcurve.buckets.errors import ParameterInvalid, SettingInvalid, SwitchedOff
from clickcurve.hosts import Hosts, host_of_key
from clickcurve.waiting import computed
from ingest.agents.bots import bot_judge
from ingest.attributes.profile import ProfileReader
from ingest.batch import Batch
from ingest.hit import ID_CHARACTERS, ID_RULE, EventId, Moment, is_id
from ingest.imports.access_log import REDIRECTS, AccessLog, LogOptions
from ingest.imports.log_body import BODY_TEXTS_KEPT, LogBody, LogReceipt
from ingest.imports.logs.line_reader import client_field
from ingest.imports.logs.log_format import own_format
from ingest.imports.logs.w3c import NAMES_COLUMNS, columns_of
from ingest.imports.routes import SourceName
from ingest.reading.body_budget import BodyBudget, ClientGone, HeldBody, Step, coding_of
from ingest.reading.json_hit import joined_id
from ingest.reading.receipt import IngestCounters
from ingest.reading.request_sums import RequestSums
from query.zones import zone
from server.tokens.route_access import Effect, RouteAccess, RouteEffect

LOGS = "logs"  # among the names of `doors`
FORMAT_CHARACTERS = 2_048
EXCLUDES = 20
AS_SENT = "as-sent"
ACCESS = RouteAccess((RouteEffect("POST", "/v1/logs/{source}", Effect.hits),))

Format = Annotated[
    str,
    Query(
        alias="format",
        max_length=FORMAT_CHARACTERS,
        description="As of the command; or `#Fields: ...`, the columns of W3C lines.",
    ),
]
Status = Annotated[
    str, Query(pattern="^([1-5][0-9]{2}(,[1-5][0-9]{2}){0,19})?$", description="Those that count; else redirects.")
]
ClientField = Annotated[
    str, Query(max_length=200, description="Where the client is, behind a proxy; as of the command.")
]
Exclude = Annotated[list[str], Query(max_length=EXCLUDES, description="Keys that are no links, with * and ?.")]
Zone = Annotated[str, Query(max_length=100, description="Of times that name none.")]
Host = Annotated[str, Query(max_length=253, description="With hosts in keys: of lines that name none.")]
Keys = Annotated[Literal["decoded", "as-sent"], Query(description="Keys percent-decoded, or as they were sent.")]
Once = Annotated[Literal["", "body"], Query(description="`body`: the same bytes count once within 48 hours.")]
Key = Annotated[str | None, Header(max_length=ID_CHARACTERS, description="A batch with it counts once of its source.")]


class LogIntake(Protocol):
    """What counts the hits: the owner."""

    async def accept(self, batch: Batch) -> frozenset[str]: ...


def log_routes(lines: LineCounter, hosts: Hosts, is_on: bool) -> APIRouter:
    """Returns the router. is_on: else the route is 404."""
    router = APIRouter(tags=["writing"])

    @router.post("/v1/logs/{source}", summary="Count lines of an access log")
    async def log_lines(
        request: Request,
        source: SourceName,
        written: Format = "",
        client_field: ClientField = "",
        exclude: Exclude = [],  # noqa: B006
        tz: Zone = "UTC",
        keys: Keys = "decoded",
        status: Status = "",
        host: Host = "",
        once: Once = "",
        idempotency_key: Key = None,
    ) -> Response:
        """Body: lines of text or of JSON, plain, gzip or zstd; their format is recognised, as `clickcurve import` does.

        A receipt, with the lines that are no clicks as `skipped`. A line that cannot be read is refused, the others
        count. The parameters are the options of the command.
        """
        require_on(is_on)
        options, columns = log_options(written, client_field, exclude, tz, keys)
        statuses = frozenset(map(int, status.split(","))) if status else REDIRECTS
        log = AccessLog(bot_judge(), statuses, None, _with_default(hosts, host), options, BODY_TEXTS_KEPT)
        return await lines.answer(request, source, log, columns, once)

    return router


def require_on(is_on: bool) -> None:
    """Raises SwitchedOff if the settings leave logs out."""
    if not is_on:
        raise SwitchedOff("this server takes no lines of logs", field="doors", rule=f"doors = {LOGS}, ...")


@dataclass(frozen=True, slots=True)
class LineCounter:
    """Counts the lines of requests. `moment` is now; `room` is that of all bodies."""

    intake: LogIntake
    moment: Callable[[], Moment]
    counters: IngestCounters
    room: BodyBudget
    reader: ProfileReader

    async def answer(self, request: Request, source: str, log: AccessLog, columns: str, once: str) -> Response:
        """Counts what a body says, read by a log. once: as in the query."""
        coding = coding_of(request.headers.get("content-encoding", ""))
        key, held = _key(request), HeldBody()
        try:
            body = await self.room.receive(held, request.receive)
            if key is None and once:
                key = await computed("hashing a body", body_digest, body)
            lines = self._begun(f"/v1/logs/{source}", key, log, columns)
            await self.room.run(self._steps(held, body, coding, lines))
        except ClientGone:
            self.counters.disconnected += 1
            raise ClientDisconnect from None
        finally:
            self.room.release(held)
        receipt = await self._counted(lines)
        return Response(receipt.encode(), receipt.status, media_type="application/json")

    async def count(self, source: str, key: str, body: bytes, log: AccessLog) -> LogReceipt:
        """Counts lines that came in another shape, once of their source and key. Raises as the owner does."""
        lines = self._begun(source, key, log, "")
        await self.room.run(self._steps(HeldBody(), body, None, lines))
        return await self._counted(lines)

    def _begun(self, source: str, key: str | None, log: AccessLog, columns: str) -> LogBody:
        log.use(self.reader.useful_fields(), self.reader.bot_rules.rules.people)
        name = None if key is None else EventId.of(joined_id(source, key), key)
        return LogBody(
            log, RequestSums(self.moment(), name, reader=self.reader, allowed=access()), bot_judge(), columns
        )

    def _steps(self, held: HeldBody, body: bytes, coding: str | None, lines: LogBody) -> Iterator[Step]:
        if coding is not None:
            body = yield from self.room.decode(held, body, coding)
        if self.reader.lacks_agents:
            yield computed("reading the list of agents", self.reader.load_agents)
        yield from lines.steps(body)
        self.counters.body_bytes += len(body)

    async def _counted(self, lines: LogBody) -> LogReceipt:
        await lines.sums.charge()
        batch = lines.sums.batch()
        receipt = lines.receipt(await self.intake.accept(batch) if batch is not None else frozenset())
        lines.sums.count_into(self.counters, receipt)
        for reason, many in lines.skipped.items():
            self.counters.ignored_events[LOGS, kind_of_skip(reason)] += many
        return receipt


def log_options(written: str, client: str, excluded: list[str], tz: str, keys: str) -> tuple[LogOptions, str]:
    """Returns how lines are to be read, and the columns that W3C lines have at first. Raises ParameterInvalid."""
    columns = None
    try:
        field = client_field(client)
        if written.startswith(NAMES_COLUMNS):
            columns = columns_of(written, field.name)
            if columns is None or not columns.is_complete:
                detail = "these columns have no date and time, path or status"
                raise ParameterInvalid(detail, field="format", value=written, rule=f"{NAMES_COLUMNS} date time ...")
        own = own_format(written, field.name) if written and columns is None else None
    except SettingInvalid as error:
        raise ParameterInvalid(error.detail, field=error.field, value=error.value, rule=error.rule) from None
    options = LogOptions(zone(tz).info, own, field, tuple(excluded), keys == AS_SENT)
    return options, "" if columns is None else columns.kept


def kind_of_skip(reason: str) -> str:
    """Returns why a line is skipped in one of few words, for /metrics: one for all statuses, and for all methods."""
    return next((kind for kind in ("status", "method") if reason.startswith(f"{kind} ")), reason)


def _with_default(hosts: Hosts, host: str) -> Hosts:
    """Returns what keys say of hosts, with a host for lines that name none. Raises ParameterInvalid."""
    if host and not host_of_key(host):
        rule = "a name such as a.example, with a port if it is not 80 or 443"
        raise ParameterInvalid("that is no host", field="host", value=host, rule=rule)
    return replace(hosts, default=host_of_key(host)) if host else hosts


def _key(request: Request) -> str | None:
    """Returns the Idempotency-Key; None if there is none. Raises ParameterInvalid."""
    given = request.headers.getlist("idempotency-key")
    if given and (len(given) > 1 or not is_id(given[0])):
        detail = "the Idempotency-Key is empty, too long, not visible ASCII, or given twice"
        raise ParameterInvalid(detail, field="Idempotency-Key", value=", ".join(given), rule=ID_RULE)
    return given[0] if given else None


def body_digest(body: bytes) -> str:
    """Returns the key that a body itself is."""
    return f"body-{blake2b(body, digest_size=16).hexdigest()}"
