"""`GET /v1/export`: the histories of links and groups as NDJSON, in the order of their stored keys, while it is read.

The lines are those that `clickcurve export` writes. What this worker's journal holds is flushed first, so they have
each hit that it has answered. Links are read page by page, each as of one moment, so a slow reader delays nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from itertools import takewhile
from operator import itemgetter
from typing import TypeAlias

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from clickcurve.access import access
from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.keys import AS_GIVEN, FIRST_GROUP, KeyForm, group_key, group_of, link_key, link_of
from clickcurve.routes import raw_query
from clickcurve.visible import json_line
from clickcurve.waiting import WAIT_S, TookTooLong, in_thread
from query.counted import no_events
from query.http.openapi import TEXT, describe_route, parameter
from query.lists.listed_rows import ALL_NAMES, LINK, NamesWithin
from query.parameters import EXPORT, parse_query
from storage.contract import Store, StoredLink
from storage.tools.export import histories

NDJSON = "application/x-ndjson"
_OPERATION = describe_route(
    "The histories of links and groups as NDJSON, which `import` takes back",
    "A line for each link, in the order of keys",
    parameters=[
        parameter("prefix", "Links alone, and those whose keys begin so. Without it, groups come first."),
        parameter("after", "Goes on behind this key."),
    ],
    content={NDJSON: {"schema": TEXT}},
)
Wanted: TypeAlias = list[tuple[str, Callable[[str], bool]]]
_CHUNK_BYTES = 16 * 1024  # some 2 ms: between two chunks others run without this thread beside them
_PAGE = 100  # links that are read at once
_SHARED_PAGE = 5_000  # where each page goes through all keys of the store


def export_routes(
    store: Store,
    flush: Callable[[], Awaitable[None]],
    clock: Callable[[], float],
    bounded: BoundedLadder,
    events: Callable[[], Collection[str]] = no_events,
    key_form: KeyForm = AS_GIVEN,
) -> APIRouter:
    """Makes the router. flush: puts into the store what this worker has accepted. clock: epoch seconds.

    events: returns the names of those that are stored. key_form: in which keys count.
    """
    router = APIRouter(tags=["reading"])
    reading = asyncio.Lock()  # one page at a time, in turn

    @router.get("/v1/export", response_class=Response, **_OPERATION)
    async def exported(request: Request) -> StreamingResponse:
        given = parse_query(raw_query(request), EXPORT)
        wanted = _wanted(key_form.start_of(given.get("prefix", "")))
        try:
            async with asyncio.timeout(WAIT_S):
                await flush()
        except TimeoutError:
            raise TookTooLong(f"the flush before an export takes more than {WAIT_S:g} s") from None
        lines = _lines(store, wanted, given.get("after"), int(clock()), bounded, events())

        async def chunks() -> AsyncIterator[bytes]:
            while True:
                async with reading:
                    chunk = await in_thread("reading the next links", _next_chunk, lines)
                if not chunk:
                    return
                yield chunk

        return StreamingResponse(chunks(), media_type=NDJSON)

    return router


def _wanted(prefix: str) -> Wanted:
    """Returns from where on the stored keys of an answer stand side by side, and which they are, in order.

    Without a prefix groups are in it too; of a token with a prefix that is its own group.
    """
    allowed = access()
    within = NamesWithin(allowed.prefix) if allowed.prefix else ALL_NAMES
    links = within.narrowed(prefix)

    def is_group(stored: str) -> bool:
        return group_of(stored) is not None if not allowed.prefix else stored == allowed.group_row

    def is_link(stored: str) -> bool:
        link = link_of(stored)
        return links is not None and link is not None and link in links

    groups = [] if prefix else [(allowed.group_row or FIRST_GROUP, is_group)]
    starts = [] if links is None else [link_key(links.prefix)] if links.prefix else LINK.starts
    return sorted([*groups, *((start, is_link) for start in starts)], key=itemgetter(0))


def _lines(
    store: Store, wanted: Wanted, after: str | None, now: int, bounded: BoundedLadder, events: Collection[str]
) -> Iterator[bytes]:
    def has_group(name: str) -> bool:
        return any(those(group_key(name)) for _, those in wanted)

    ladder, at = store.ladder(), "" if after is None else f"{link_key(after)}\0"
    for start, those in wanted:
        for page in _pages(store, max(at, start), those):
            for history in histories(store, page, ladder, now, bounded, has_group, events):
                line = {"damaged": history.detail} if isinstance(history, RowCorrupt) else history
                yield json_line(line).encode() + b"\n"
            at = f"{page[-1][0]}\0"


def _pages(store: Store, start: str, those: Callable[[str], bool]) -> Iterator[list[tuple[str, StoredLink]]]:
    """Yields rows from a stored key on, as long as they are of those."""
    size = _SHARED_PAGE if store.shared else _PAGE
    page = store.in_order(start, size)
    while rows := [*takewhile(lambda each: those(each[0]), page)]:
        yield rows
        page = store.in_order(f"{rows[-1][0]}\0", size) if len(rows) == size else []


def _next_chunk(lines: Iterator[bytes]) -> bytes:
    """Returns the next lines, empty at the end. Runs in a thread."""
    chunk = bytearray()
    for line in lines:
        chunk += line
        if len(chunk) >= _CHUNK_BYTES:
            break
    return bytes(chunk)
