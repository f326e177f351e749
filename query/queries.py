"""The questions that a reader can ask, from parameters as they are written to the answer's bytes.

Free of HTTP: the routes, the hot callable and other shapes of the same answers are thin layers over this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from clickcurve.buckets.errors import EventUnknown
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.ranges import Bots
from clickcurve.buckets.row import Row, forget
from clickcurve.budget import POINTS, spend
from clickcurve.keys import ALL_LINKS, OUTCOMES, caller_key, group_key, kept_days, limit_key, link_key
from query.cache import Cache
from query.curve import Curve, Curves
from query.grid import Grid
from query.lists.key_list import KeyPage
from query.lists.lists import Lists
from query.lists.top import Top
from query.parameters import (
    CURVE,
    CURVE_FORMATS,
    FORMATS,
    LIMIT_CURVE,
    LIMIT_TOTAL,
    LINKS,
    ROWS,
    SUMMARY,
    TOTAL,
    Parameters,
    Window,
    parse_parameters,
    parse_query,
    resolve_until,
    resolve_window,
)
from query.reader import HEAD, Reader
from query.serialize import list_csv, list_json, summary_json, total_json
from query.summary import make_summary
from query.sums import sum_of_rows
from query.total import Total, make_total

JSON, CSV = "application/json", "text/csv; charset=utf-8"

_CACHED_BYTES = 100_000  # of query strings whose meaning is kept

Content = tuple[str, bytes]  # media type, body


class Limits(Protocol):
    """What is known here of the limiter: the events that have rules, and which digest stands for a caller."""

    @property
    def events(self) -> Callable[[], Collection[str]]: ...

    def caller(self, text: str) -> str:
        """Returns the digest of a caller; raises ParameterInvalid if the text names none, and StoreUnavailable."""
        ...


class Queries:
    """Answers for a node. `clock` is epoch seconds.

    `query` is always the raw query string; `accepts_csv` says what the caller prefers where `format` says nothing; a
    key of None means all links together. Every question raises ParameterInvalid, StoreUnavailable and RowCorrupt.
    """

    def __init__(self, reader: Reader, links: Lists, groups: Lists, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._links = links
        self._groups = groups
        self._clock = clock
        self._curves = Curves()
        self._parameters: Cache[tuple[bytes, tuple[str, ...]], Parameters] = Cache(_CACHED_BYTES)
        self._windows: Cache[bytes, tuple[int, Window | None, int]] = Cache(_CACHED_BYTES)

    async def total(self, key: str | None, query: bytes) -> Content:
        parameters = self._parsed(query, TOTAL)
        return await self._total(_stored_key(key), key, parameters)

    async def curve(self, key: str | None, query: bytes, accepts_csv: bool = False) -> Content:
        parameters = self._parsed(query, CURVE)
        return await self._curve(_stored_key(key), key, query, parameters, accepts_csv)

    async def group_total(self, name: str, query: bytes) -> Content:
        parameters = self._parsed(query, TOTAL)
        return await self._total(group_key(name), name, parameters)

    async def group_curve(self, name: str, query: bytes, accepts_csv: bool = False) -> Content:
        parameters = self._parsed(query, CURVE)
        return await self._curve(group_key(name), name, query, parameters, accepts_csv)

    async def sum(self, keys: Sequence[str], query: bytes, accepts_csv: bool = False) -> Content:
        """Returns the curve of a set of links, each read by itself; a key that is given twice counts once."""
        parameters = self._parsed(query, CURVE)
        now = int(self._clock())
        window, since = self._window(query, parameters, now)
        stored = [link_key(key) for key in dict.fromkeys(keys)]
        curve = await sum_of_rows(self._reader, self._curves, stored, parameters, now, window, since)
        return self._content(None, curve, parameters, accepts_csv)

    async def limit_total(self, event: str, query: bytes, limits: Limits) -> Content:
        """Returns how much was asked of the limiter's event, or admitted; or how much one caller asked for.

        Raises EventUnknown for an event that has no rule and never had one.
        """
        parameters = self._parsed(query, LIMIT_TOTAL)
        return await self._total(await self._limit_key(event, parameters, limits), event, parameters)

    async def limit_curve(self, event: str, query: bytes, limits: Limits, accepts_csv: bool = False) -> Content:
        parameters = self._parsed(query, LIMIT_CURVE)
        return await self._curve(
            await self._limit_key(event, parameters, limits), event, query, parameters, accepts_csv
        )

    async def _limit_key(self, event: str, parameters: Parameters, limits: Limits) -> str:
        digest = None if parameters.caller is None else limits.caller(parameters.caller)
        await self._check_event(event, limits.events())
        return limit_key(event, parameters.outcome) if digest is None else caller_key(event, parameters.outcome, digest)

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

    async def _total(self, stored: str, name: str | None, parameters: Parameters) -> Content:
        now = int(self._clock())
        row = await self._row(stored, now, since=0 if parameters.ranged else HEAD)
        return JSON, total_json(name, make_total(row, parameters, now, self._reader.ladder))

    async def _curve(
        self, stored: str, name: str | None, query: bytes, parameters: Parameters, accepts_csv: bool
    ) -> Content:
        now = int(self._clock())
        window, since = self._window(query, parameters, now)
        bots = parameters.bots is not Bots.exclude
        row = await self._row(stored, now, since=since, bots=bots)
        curve = await self._along(row, window or resolve_until(parameters, row.first), parameters.bots, now)
        return self._content(name, curve, parameters, accepts_csv)

    def _content(self, name: str | None, curve: Curve, parameters: Parameters, accepts_csv: bool) -> Content:
        if parameters.as_csv(accepts_csv):
            return CSV, self._curves.csv(curve)
        if parameters.format == ROWS:
            return JSON, self._curves.rows(curve)
        return JSON, self._curves.json(name, curve)

    async def _along(self, row: Row, window: Window, bots: Bots, now: int) -> Curve:
        grid = await self._grid(window, row.fold_day)
        await spend(POINTS, len(grid.edges))
        return self._curves.curve(row, grid, bots, now)

    async def _grid(self, window: Window, day: int) -> Grid:
        known = self._curves.known_grid(window, day)
        return known if known is not None else await self._curves.grid(window, self._reader.ladder, day)

    async def _row(self, stored: str, now: int, *, since: int, bots: bool = True) -> Row:
        """Returns the current row, without what may not be kept any more."""
        days = kept_days(stored)
        if days is None:
            return await self._reader.row(stored, now, since=since, bots=bots)
        return forget(await self._reader.row(stored, now), fold_day(now), days)

    async def summary(self, key: str, query: bytes) -> Content:
        return await self._summary(link_key(key), key, self._parsed(query, SUMMARY))

    async def group_summary(self, name: str, query: bytes) -> Content:
        return await self._summary(group_key(name), name, self._parsed(query, SUMMARY))

    async def _summary(self, stored: str, name: str, parameters: Parameters) -> Content:
        now = int(self._clock())
        row = await self._reader.row(stored, now)
        return JSON, summary_json(name, make_summary(row, parameters, now, self._reader.ladder))

    async def links(self, query: bytes, accepts_csv: bool = False) -> Content:
        """Returns links by their hits, or a page of them in the order of their keys."""
        return await self._list(self._links, query, accepts_csv)

    async def groups(self, query: bytes, accepts_csv: bool = False) -> Content:
        """Returns groups by their hits, or a page of them in the order of their names."""
        return await self._list(self._groups, query, accepts_csv)

    async def _list(self, lists: Lists, query: bytes, accepts_csv: bool) -> Content:
        parameters = self._parsed(query, LINKS)
        found = await lists.list(parameters, int(self._clock()))
        if parameters.as_csv(accepts_csv):
            return CSV, list_csv(found)
        return JSON, list_json(lists.kind.plural, found)

    # --- as values, for answers of other shapes ---------------------------------------------------------------------
    @property
    def ladder(self) -> Ladder:
        return self._reader.ladder

    def now(self) -> int:
        """Returns the moment that an answer given now is of."""
        return int(self._clock())

    async def curve_in(self, stored: str, window: Window) -> Curve:
        """Returns the curve of people's hits of a stored key in a window."""
        now = self.now()
        since = self.ladder.kept(window.start, fold_day(now))[0]
        row = await self._row(stored, now, since=since, bots=False)
        return await self._along(row, window, Bots.exclude, now)

    async def points_in(self, window: Window) -> int:
        """Returns how many points a window has now; raises ParameterInvalid for too many."""
        return max(0, len((await self._grid(window, fold_day(self.now()))).edges) - 1)

    async def total_in(self, stored: str, start: int, end: int) -> Total:
        """Returns the total of people's hits of a stored key in [start, end), with its bounds."""
        now = self.now()
        row = await self._row(stored, now, since=0)
        return make_total(row, Parameters(start=start, end=end), now, self.ladder)

    async def first_hit(self, stored: str) -> int | None:
        """Returns the start of the minute of the first hit of a stored key, None if it was never hit."""
        return (await self._row(stored, self.now(), since=HEAD)).first

    async def top(self, parameters: Parameters) -> Top:
        """Returns the links with the most hits in a range, or over their lives."""
        return await self._links.top.top(parameters, self.now())

    async def key_page(self, parameters: Parameters, of_groups: bool = False) -> KeyPage:
        """Returns a page of links, or of groups, in their order."""
        return await (self._groups if of_groups else self._links).keys.page(parameters, self.now())

    def refuse_parameters(self, query: bytes) -> None:
        """Refuses parameters where there are none to give."""
        parse_query(query, ())

    def link_erased(self) -> None:
        """Forgets the rankings: a link was erased, so they are out of date."""
        self._links.top.forget_rankings()

    def _window(self, query: bytes, parameters: Parameters, now: int) -> tuple[Window | None, int]:
        """Returns the window that a curve's query means now, and the start of the first bucket that it needs.

        The window is None if it depends on the link.
        """
        cached = self._windows.get(query)
        if cached is None or cached[0] != now:
            ladder = self._reader.ladder
            window = resolve_window(parameters, now, ladder)
            since = 0 if window is None else ladder.kept(window.start, fold_day(now))[0]
            cached = self._windows.keep(query, (now, window, since), 1 + len(query))
        return cached[1:]

    def _parsed(self, query: bytes, known: tuple[str, ...]) -> Parameters:
        parameters = self._parameters.get((query, known))
        if parameters is None:
            parameters = parse_parameters(parse_query(query, known), CURVE_FORMATS if "step" in known else FORMATS)
            self._parameters.keep((query, known), parameters, 1 + len(query))
        return parameters


def _stored_key(key: str | None) -> str:
    return ALL_LINKS if key is None else link_key(key)
