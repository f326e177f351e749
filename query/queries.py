"""The questions a reader can ask, from parameters as they are written to the answer's bytes. Free of HTTP: the routes,
the hot callable and other shapes of the same answers are thin layers over this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from clickcurve.buckets.errors import EventUnknown
from clickcurve.buckets.ladder import fold_day
from clickcurve.buckets.ranges import Bots
from clickcurve.buckets.row import Row, forget
from clickcurve.keys import ALL_LINKS, OUTCOMES, caller_key, kept_days, limit_key, link_key
from query.cache import Remembered
from query.curve import Curves
from query.parameters import (
    CURVE,
    LIMIT_CURVE,
    LIMIT_TOTAL,
    SUMMARY,
    TOP,
    TOTAL,
    Asked,
    Window,
    parse_asked,
    parse_query,
    window,
    window_until,
)
from query.reader import HEAD, Reader
from query.serialize import summary_json, top_csv, top_json, total_json
from query.summary import summary
from query.top import TopLinks
from query.total import total

JSON, CSV = "application/json", "text/csv; charset=utf-8"

_REMEMBERED_BYTES = 100_000  # of query strings whose meaning is remembered

Answer = tuple[str, bytes]  # media type, body


class Limits(Protocol):
    """What is known here of the limiter: the events that have rules, and which digest stands for a caller."""

    @property
    def events(self) -> Callable[[], Collection[str]]: ...

    def caller(self, text: str) -> str:
        """ParameterInvalid if the text names no caller; StoreUnavailable."""
        ...


class Queries:
    """Answers for a node. `clock` is epoch seconds.

    `query` is always the raw query string; `accepts_csv` says what the caller prefers where `format` says nothing; a
    key of None means all links together. Raises ParameterInvalid, StoreUnavailable, RowCorrupt.
    """

    def __init__(self, reader: Reader, top_links: TopLinks, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._top_links = top_links
        self._clock = clock
        self._curves = Curves(reader.ladder)
        self._asked: Remembered[tuple[bytes, tuple[str, ...]], Asked] = Remembered(_REMEMBERED_BYTES)
        self._windows: Remembered[bytes, tuple[int, Window | None, int]] = Remembered(_REMEMBERED_BYTES)

    async def total(self, key: str | None, query: bytes) -> Answer:
        asked = self._parsed(query, TOTAL)
        return await self._total(_stored_key(key), key, asked)

    async def curve(self, key: str | None, query: bytes, accepts_csv: bool = False) -> Answer:
        asked = self._parsed(query, CURVE)
        return await self._curve(_stored_key(key), key, query, asked, accepts_csv)

    async def limit_total(self, event: str, query: bytes, limits: Limits) -> Answer:
        """What was asked of the limiter's event, or admitted; or what one caller asked for. EventUnknown for an event
        that has no rule and never was."""
        asked = self._parsed(query, LIMIT_TOTAL)
        return await self._total(await self._limit_key(event, asked, limits), event, asked)

    async def limit_curve(self, event: str, query: bytes, limits: Limits, accepts_csv: bool = False) -> Answer:
        asked = self._parsed(query, LIMIT_CURVE)
        return await self._curve(await self._limit_key(event, asked, limits), event, query, asked, accepts_csv)

    async def _limit_key(self, event: str, asked: Asked, limits: Limits) -> str:
        digest = None if asked.caller is None else limits.caller(asked.caller)
        await self._check_event(event, limits.events())
        return limit_key(event, asked.outcome) if digest is None else caller_key(event, asked.outcome, digest)

    async def _check_event(self, event: str, known: Collection[str]) -> None:
        if event in known:
            return
        row = await self._reader.row(limit_key(event, OUTCOMES[0]), int(self._clock()), since=HEAD)
        if row.first is None:
            names = ", ".join(sorted(known)) or "none"
            raise EventUnknown(
                f"no rule is for the event {event!r}, and none was; known: {names}",
                field="event",
                value=event,
                rule=names,
            )

    async def _total(self, stored: str, name: str | None, asked: Asked) -> Answer:
        now = int(self._clock())
        row = await self._row(stored, now, since=0 if asked.ranged else HEAD)
        return JSON, total_json(name, total(row, asked, now, self._reader.ladder))

    async def _curve(self, stored: str, name: str | None, query: bytes, asked: Asked, accepts_csv: bool) -> Answer:
        now = int(self._clock())
        over, since = self._window(query, asked, now)
        bots = asked.bots is not Bots.exclude
        row = await self._row(stored, now, since=since, bots=bots)
        curve = self._curves.curve(row, over or window_until(asked, row.first), asked.bots, now)
        if asked.format == "csv" or (accepts_csv and asked.format is None):
            return CSV, self._curves.csv(curve)
        return JSON, self._curves.json(name, curve)

    async def _row(self, stored: str, now: int, *, since: int, bots: bool = True) -> Row:
        """The current row, without what may not be kept any more."""
        days = kept_days(stored)
        if days is None:
            return await self._reader.row(stored, now, since=since, bots=bots)
        return forget(await self._reader.row(stored, now), fold_day(now), days)

    async def summary(self, key: str, query: bytes) -> Answer:
        asked = self._parsed(query, SUMMARY)
        now = int(self._clock())
        row = await self._reader.row(_stored_key(key), now)
        return JSON, summary_json(key, summary(row, asked, now, self._reader.ladder))

    async def top(self, query: bytes, accepts_csv: bool = False) -> Answer:
        asked = self._parsed(query, TOP)
        top = await self._top_links.top(asked, int(self._clock()))
        if asked.format == "csv" or (accepts_csv and asked.format is None):
            return CSV, top_csv(top)
        return JSON, top_json(top)

    def nothing_asked(self, query: bytes) -> None:
        """Refuses parameters where there are none to give."""
        parse_query(query, ())

    def erased(self) -> None:
        """A link was erased: what is remembered of rankings is out of date."""
        self._top_links.forget()

    def _window(self, query: bytes, asked: Asked, now: int) -> tuple[Window | None, int]:
        """What window a curve's query means now, if that does not depend on the link; and the first bucket it needs."""
        remembered = self._windows.get(query)
        if remembered is None or remembered[0] != now:
            ladder = self._reader.ladder
            over = window(asked, now, ladder)
            since = 0 if over is None else ladder.kept(over.start, fold_day(now))[0]
            remembered = self._windows.keep(query, (now, over, since), 1 + len(query))
        return remembered[1:]

    def _parsed(self, query: bytes, known: tuple[str, ...]) -> Asked:
        asked = self._asked.get((query, known))
        if asked is None:
            asked = parse_asked(parse_query(query, known))
            self._asked.keep((query, known), asked, 1 + len(query))
        return asked


def _stored_key(key: str | None) -> str:
    return ALL_LINKS if key is None else link_key(key)
