"""Routes about the server itself: /healthz, /readyz, /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from clickcurve.buckets.errors import ClickcurveError, JournalError, StoreUnavailable
from clickcurve.keys import ALL_LINKS
from ingest.owner_status import OwnerStatus
from server.clock import RIGHT, ClockStatus
from server.metrics import Metrics
from storage.contract import StoredLink

PROBE_S = 2  # for the store to answer /readyz?for=read
STUCK_FLUSHES = 4  # intervals without a complete flush: a large one takes two, and one that failed is tried again


class NotReady(ClickcurveError, status=503, title="not ready"):
    """The server is up, but cannot do what was asked for."""


@dataclass(eq=False)
class Readiness:
    """Can hits be accepted, and can questions be answered?

    ending: returns why no more requests should come, None while they should. in_cluster: returns what there is to say
    of a journal in the cluster, or raises ClickcurveError. clock: what there is to say of the trusted clock.
    """

    status: Callable[[], OwnerStatus]
    flush_s: float
    rows: Callable[[str], Awaitable[StoredLink]]
    ending: Callable[[], str | None]
    check_room: Callable[[], None]
    in_cluster: Callable[[], Mapping[str, object]] = dict
    clock: Callable[[], ClockStatus] = lambda: RIGHT

    def flush_state(self) -> str:
        """Returns "stuck" while the oldest hit that is not in the store waits longer than some flush intervals."""
        return "stuck" if self.status().lag_s > STUCK_FLUSHES * self.flush_s else "ok"

    def for_write(self) -> dict[str, Any]:
        """Raises NotReady with the reason.

        A stuck flush is told, and is no reason: the journal takes hits meanwhile, and where the store is to blame every
        node says the same, so a balancer that took them all out would refuse what can be counted.
        """
        status, clock = self.status(), self._clock()
        self._check_staying()
        if status.state not in ("unclaimed", "open"):
            raise NotReady(f"the owner is {status.state}; the log says why")
        if status.buffer_full:
            raise NotReady(f"the buffer is full: {status.buffer_bytes:,} of {status.buffer_bytes_max:,} bytes")
        try:
            self.check_room()
            in_cluster = self.in_cluster()
        except (JournalError, OSError) as error:
            raise NotReady(str(error)) from error
        store = "up" if status.store_up else "down"
        found = {"ready": True, "store": store, "flush": self.flush_state(), "owner": status.owner}
        return {**found, **clock, **in_cluster}

    async def for_read(self) -> dict[str, Any]:
        """Asks the store. Raises NotReady with the reason."""
        self._check_staying()
        clock = self._clock()
        try:
            await asyncio.wait_for(self.rows(ALL_LINKS), PROBE_S)
        except TimeoutError:
            raise NotReady(f"the store did not answer within {PROBE_S} s") from None
        except StoreUnavailable as error:
            raise NotReady(f"the store cannot answer: {error.detail}") from error
        return {"ready": True, "store": "up", "owner": self.status().owner, **clock}

    def _clock(self) -> dict[str, Any]:
        """Returns what there is to say of the clock. Raises NotReady a moment after a start that is behind."""
        status = self.clock()
        if status.is_unready:
            raise NotReady(
                f"the clock is {-status.off_s:,.0f} s behind what the store already has; hits are stamped no earlier"
            )
        off = {} if status.state == "ok" else {"clock_off_s": round(status.off_s, 3)}
        return {"clock": status.state, **off}

    def _check_staying(self) -> None:
        why = self.ending()
        if why is not None:
            raise NotReady(why)


def router(readiness: Readiness, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["server"])
    not_ready: dict[int | str, dict[str, Any]] = {503: {"description": "It cannot; the problem document says why."}}

    @routes.get("/healthz", summary="Tell whether the process lives", response_model=dict[str, bool])
    async def healthz() -> Response:
        """Always 200 while the process runs. Open to everybody."""
        return JSONResponse({"alive": True})

    @routes.get("/readyz", summary="Tell whether it can accept hits, or answer questions", responses=not_ready)
    async def readyz(
        purpose: Annotated[
            Literal["write", "read"], Query(alias="for", description="Accept hits, or answer questions.")
        ] = "write",
    ) -> Response:
        """200 if hits are accepted. The store may be down meanwhile (`"store": "down"`): the journal keeps the hits.

        `"flush": "stuck"`: the oldest accepted hit waits for the store for more than four flush intervals.

        With `journal = cluster` also `epoch`, `adopting` (owners that are being emptied) and `rounds_missed`: rounds of
        2 s without an answer of the cluster. 503 without an owner, or while the cluster does not answer.

        `"clock"` is `"ok"`; or `"stepped"` while the system's clock has jumped and is not followed yet; or `"behind"`
        while it is before what the store already has. Then `clock_off_s` is that clock less the one that the server
        goes by. For the first 60 s after a start that is behind: 503.

        503 with `"detail": "draining"` after SIGTERM, while requests are still answered for `drain_s` seconds.

        With `for=read`: 200 if the store answers. Open to everybody.
        """
        return JSONResponse(await readiness.for_read() if purpose == "read" else readiness.for_write())

    @routes.get("/metrics", summary="Numbers for Prometheus", response_class=Response)
    async def metrics_(request: Request) -> Response:
        """All workers' numbers, whichever worker is asked; each sample carries the label `journal`."""
        body, content_type = await metrics.answer(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    return routes
