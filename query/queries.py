"""The questions that a reader can ask, from parameters as they are written to answers.

Free of HTTP: the routes, the page and other tools' shapes of the same answers are thin layers over this.
"""

from __future__ import annotations

from asyncio import gather
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from clickcurve.answers.counts import (
    CurveAnswer,
    GroupsAnswer,
    GroupsByValueAnswer,
    HoursAnswer,
    KeyCount,
    LinksAnswer,
    LinksByValueAnswer,
    ListBefore,
    NoteAnswer,
    NowAnswer,
    SummaryAnswer,
    TotalAnswer,
)
from clickcurve.buckets.errors import EventUnknown
from clickcurve.buckets.ladder import END_OF_TIME, Ladder, fold_day
from clickcurve.buckets.measures import Measure
from clickcurve.buckets.ranges import Bots, Span, total
from clickcurve.buckets.row import Row, forget
from clickcurve.budget import POINTS, spend
from clickcurve.keys import OUTCOMES, Subject, caller_key, kept_days, limit_key, link_key
from query.breakdowns.queries import BreakdownQueries
from query.cache import Cache
from query.comparison import TimeSpan
from query.counted import NO_EVENTS, KnownEvents
from query.curve import Curve, Grids, make_curve
from query.events.queries import EventQueries
from query.hours import hours_of_week, kept_hours_since
from query.lists.key_list import KeyPage
from query.lists.listing import Listing
from query.lists.rankings import RankedKeys
from query.parameters import (
    CURVE,
    CURVE_FORMATS,
    FORMATS,
    HOURS,
    LINKS,
    NOW,
    SUM,
    SUMMARY,
    TOTAL,
    Parameters,
    Window,
    parse_parameters,
    parse_query,
    require_range,
    resolve_before,
    resolve_range,
    resolve_until,
    resolve_window,
)
from query.reader import HEAD, Reader
from query.recent import RECENT_S, recent_hits
from query.sums import sum_of_rows
from query.total import lifetime, make_summary, make_total

_CACHED_BYTES = 100_000  # of query strings whose meaning is kept
_ROWS_AT_ONCE = 16  # of a list that is compared
_ERASURES = 1_000  # prefixes of which it is known how far a deletion has come


# The parts of a list's answer: its range, keys with counts, are they exact, where a page goes on, the range before.
_Listed: TypeAlias = tuple[int | None, int | None, list[KeyCount], bool, str | UnsetType | None, ListBefore | UnsetType]

# Returns what is noted of a subject in a range of time, oldest first.
Notes: TypeAlias = Callable[[Subject, TimeSpan], list[NoteAnswer]]


class Limits(Protocol):
    """What is known here of the limiter: the events that have rules, and which digest stands for a caller."""

    @property
    def events(self) -> Callable[[], Collection[str]]: ...

    def caller(self, text: str) -> str:
        """Returns the digest of a caller; raises ParameterInvalid if the text names none, and StoreUnavailable."""
        ...


class Queries:
    """Answers for a node. `clock` is epoch seconds.

    events: those that can be asked for in place of clicks.

    `query` is always the raw query string, and `names` the parameters that it may have. Every question raises
    ParameterInvalid, StoreUnavailable, RowCorrupt and RequestTooCostly.
    """

    def __init__(
        self,
        reader: Reader,
        links: Listing,
        groups: Listing,
        clock: Callable[[], float],
        events: KnownEvents = NO_EVENTS,
        notes: Notes = lambda subject, span: [],
    ) -> None:
        self.events = events
        self._reader = reader
        self._notes = notes
        self._links = links
        self._groups = groups
        self._clock = clock
        self._grids = Grids()
        self._parameters: Cache[tuple[bytes, tuple[str, ...]], Parameters] = Cache(_CACHED_BYTES)
        # By prefix: the last key that was found to be erased, and whether this is the second time through.
        self._erasures: dict[str, tuple[str | None, bool]] = {}
        self._windows: Cache[bytes, tuple[int, Window | None, int]] = Cache(_CACHED_BYTES)

    def what_came(self, breakdowns: BreakdownQueries | None) -> EventQueries:
        """Returns the questions what came of clicks, over the same rows."""
        return EventQueries(self._reader, self.events, self._clock, breakdowns)

    async def total(self, subject: Subject, query: bytes, names: tuple[str, ...] = TOTAL) -> TotalAnswer:
        """Returns the total of a range, or of the life."""
        parameters = self._parsed(query, names)
        subject = self.events.subject(subject, parameters.measure)
        now = self.now()
        row = await self._row(subject.stored, now, since=0 if parameters.ranged else HEAD)
        return make_total(row, subject.name, parameters, now, self.ladder)

    async def curve(self, subject: Subject, query: bytes, names: tuple[str, ...] = CURVE) -> CurveAnswer:
        """Returns the curve of a range."""
        parameters = self._parsed(query, names)
        asked, subject = subject, self.events.subject(subject, parameters.measure)
        now = self.now()
        window, since = self._window(query, parameters, now)
        before = None if window is None else self._window_before(parameters, window, now)
        if before is not None:
            since = min(since, self.ladder.kept(before.start, fold_day(now))[0])
        row = await self._row(subject.stored, now, since=since, bots=parameters.bots is not Bots.exclude)
        if window is None:
            window = resolve_until(parameters, row.first)
            before = self._window_before(parameters, window, now)
        curve = await self._along(row, window, parameters.bots, now)
        compared = None if before is None else await self._along(row, before, parameters.bots, now)
        notes = self._notes(asked, (window.start, window.end)) if parameters.notes else None
        return curve.answer(subject.name, compared, notes)

    def _window_before(self, parameters: Parameters, window: Window, now: int) -> Window | None:
        """Returns the window that another one is compared with, at its step; None without a comparison."""
        if parameters.compare is None:
            return None
        now_end = self.ladder.kept(now, fold_day(now))[1]
        span = resolve_before(parameters, (window.start, window.end), now, now_end)
        return None if span is None else Window(*span, window.step, window.zone)

    def before(self, query: bytes, asked: TimeSpan) -> tuple[int, int, int]:
        """Returns where the range before an asked one begins and ends, and up to when it is compared.

        query: of a total, with `compare`. asked: the range, which is cut to whole units where the query has a `last`.
        """
        parameters, now = self._parsed(query, TOTAL), self.now()
        until = self.ladder.kept(now, fold_day(now))[1]
        whole, part = (resolve_before(parameters, asked, now, each) for each in (END_OF_TIME, until))
        assert whole is not None and part is not None  # a comparison is asked for
        return *whole, part[1]

    async def recent(self, subject: Subject, query: bytes) -> NowAnswer:
        """Returns the hits of the last minutes."""
        parameters, now = self._parsed(query, NOW), self.now()
        subject = self.events.subject(subject, parameters.measure)
        since = self.ladder.kept(max(0, now - RECENT_S), fold_day(now))[0]
        row = await self._row(subject.stored, now, since=since, bots=parameters.bots is not Bots.exclude)
        return recent_hits(row, subject.name, parameters.bots, now, self.ladder)

    async def hours(self, subject: Subject, query: bytes) -> HoursAnswer:
        """Returns the hits by weekday and hour of the days that are kept by hours."""
        parameters, now = self._parsed(query, HOURS), self.now()
        subject = self.events.subject(subject, parameters.measure)
        since = kept_hours_since(self.ladder, fold_day(now))
        row = await self._row(subject.stored, now, since=since, bots=parameters.bots is not Bots.exclude)
        asked = resolve_range(parameters, now, row.first)
        await spend(POINTS, 1_000)
        return hours_of_week(row, subject.name, asked, parameters, now, self.ladder)

    async def summary(self, subject: Subject, query: bytes) -> SummaryAnswer:
        """Returns a link or a group at a glance."""
        parameters = self._parsed(query, SUMMARY)
        subject = self.events.subject(subject, parameters.measure)
        now = self.now()
        row = await self._row(subject.stored, now, since=0)
        return make_summary(row, subject.name or "", parameters, now, self.ladder)

    async def sum(self, keys: Sequence[str], query: bytes) -> CurveAnswer:
        """Returns the curve of a set of links, each read by itself; a key that is given twice counts once."""
        parameters = self._parsed(query, SUM)
        now = self.now()
        window, since = self._window(query, parameters, now)
        measure = self.events.checked(parameters.measure)
        stored = [measure.row(link_key(key)) for key in dict.fromkeys(keys)]
        curve = await sum_of_rows(self._reader, self._grids, stored, parameters, now, window, since)
        before = self._window_before(parameters, curve.grid.window, now)
        if before is None:
            return curve.answer(None)
        since = self.ladder.kept(before.start, fold_day(now))[0]
        compared = await sum_of_rows(self._reader, self._grids, stored, parameters, now, before, since)
        return curve.answer(None, compared)

    async def links(self, query: bytes) -> LinksAnswer:
        """Returns links by their hits, or a page of them in the order of their keys."""
        by_value = self._parsed(query, LINKS).measure.of_values
        return (LinksByValueAnswer if by_value else LinksAnswer)(*await self._listed(self._links, query))

    async def groups(self, query: bytes) -> GroupsAnswer:
        """Returns groups by their hits, or a page of them in the order of their names."""
        by_value = self._parsed(query, LINKS).measure.of_values
        return (GroupsByValueAnswer if by_value else GroupsAnswer)(*await self._listed(self._groups, query))

    async def _listed(self, listing: Listing, query: bytes) -> _Listed:
        """Returns the parts of an answer: range, names with counts, whether they are exact, where a page goes on."""
        parameters, now = self._parsed(query, LINKS), self.now()
        require_range(parameters)
        measure = self.events.checked(parameters.measure)
        measured = listing.counting(measure)
        listed = await measured.list(parameters, now)
        counts = [KeyCount(*each) for each in listed.links]
        if measure.of_values:
            names = [name for name, _ in listed.links]
            events = await listing.counting(Measure(measure.event)).rankings.counts_of(names, parameters, now)
            counts = [KeyCount(name, events[name], value) for name, value in listed.links]
        if isinstance(listed, KeyPage):
            return None, None, counts, True, listed.after, UNSET
        if parameters.compare is None or listed.start is None or listed.end is None:
            return listed.start, listed.end, counts, listed.exact, UNSET, UNSET
        compared, before = await self._compared(measured, counts, parameters, (listed.start, listed.end), now)
        return listed.start, listed.end, compared, listed.exact, UNSET, before

    async def _compared(
        self, listing: Listing, counts: list[KeyCount], parameters: Parameters, span: TimeSpan, now: int
    ) -> tuple[list[KeyCount], ListBefore]:
        """Returns the counts of a list with those of the range before, and that range."""
        before = resolve_before(parameters, span, now, self.ladder.kept(now, fold_day(now))[1])
        assert before is not None  # a comparison is asked for
        spans = await self._totals([listing.stored(each.key) for each in counts], before, parameters.bots, now)
        compared = [replace(each, before=span.total) for each, span in zip(counts, spans, strict=True)]
        return compared, ListBefore(*before, all(span.at_least == span.total for span in spans))

    async def _totals(self, some: Sequence[str], span: TimeSpan, bots: Bots, now: int) -> list[Span]:
        """Returns the totals of many stored keys, some rows of which are read at once."""
        since = self.ladder.kept(span[0], fold_day(now))[0]
        totals = []
        for at in range(0, len(some), _ROWS_AT_ONCE):
            keys = some[at : at + _ROWS_AT_ONCE]
            of_bots = bots is not Bots.exclude
            rows = await gather(*(self._row(key, now, since=since, bots=of_bots) for key in keys))
            totals += [total(row, *span, bots, self.ladder) for row in rows]
        return totals

    async def limit_subject(self, event: str, query: bytes, limits: Limits, names: tuple[str, ...]) -> Subject:
        """Returns what was asked of the limiter's event, or admitted, or what one caller asked, as a subject.

        Raises EventUnknown for an event that has no rule and never had one.
        """
        parameters = self._parsed(query, names)
        digest = None if parameters.caller is None else limits.caller(parameters.caller)
        await self._check_event(event, limits.events())
        outcome = parameters.outcome
        return Subject(limit_key(event, outcome) if digest is None else caller_key(event, outcome, digest), event)

    async def _check_event(self, event: str, with_rules: Collection[str]) -> None:
        if event in with_rules:
            return
        row = await self._reader.row(limit_key(event, OUTCOMES[0]), self.now(), since=HEAD)
        if row.first is None:
            names = ", ".join(sorted(with_rules)) or "none"
            raise EventUnknown(
                f"the event {event!r} has no rule and no history; events with rules: {names}",
                field="event",
                value=event,
                rule=names,
            )

    async def _along(self, row: Row, window: Window, bots: Bots, now: int) -> Curve:
        grid = await self._grids.grid(window, self.ladder, row.fold_day)
        await spend(POINTS, len(grid.edges))
        return make_curve(row, grid, bots, now, self.ladder)

    async def _row(self, stored: str, now: int, *, since: int, bots: bool = True) -> Row:
        """Returns the current row, without what may not be kept any more."""
        days = kept_days(stored)
        if days is None:
            return await self._reader.row(stored, now, since=since, bots=bots)
        return forget(await self._reader.row(stored, now), fold_day(now), days)

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

    async def life_in(self, stored: str, window: Window | None) -> tuple[int, int, Curve | None]:
        """Returns the people's hits that a row ever had, those without dates, and its curve in a window."""
        now = self.now()
        since = HEAD if window is None else self.ladder.kept(window.start, fold_day(now))[0]
        row = await self._row(stored, now, since=since, bots=False)
        curve = None if window is None else await self._along(row, window, Bots.exclude, now)
        return lifetime(row, Bots.exclude), row.opening, curve

    async def points_in(self, window: Window) -> int:
        """Returns how many points a window has now; raises ParameterInvalid for too many."""
        return max(0, len((await self._grids.grid(window, self.ladder, fold_day(self.now()))).edges) - 1)

    async def total_in(self, stored: str, start: int, end: int) -> Span:
        """Returns the total of people's hits of a stored key in [start, end), with its bounds."""
        return total(await self._row(stored, self.now(), since=0), start, end, Bots.exclude, self.ladder)

    async def first_hit(self, stored: str) -> int | None:
        """Returns the start of the minute of the first hit of a stored key, None if it was never hit."""
        return (await self._row(stored, self.now(), since=HEAD)).first

    async def top(self, parameters: Parameters) -> RankedKeys:
        """Returns the links with the most hits in a range, or over their lives."""
        return await self._links.counting(self.events.checked(parameters.measure)).best(parameters, self.now())

    async def key_page(self, parameters: Parameters, of_groups: bool = False) -> KeyPage:
        """Returns a page of links, or of groups, in their order; of an event those that have any."""
        listing = (self._groups if of_groups else self._links).counting(self.events.checked(parameters.measure))
        return await listing.page(parameters, self.now())

    async def to_be_erased(self, prefix: str, limit: int) -> tuple[list[str], bool]:
        """Returns so many links whose keys begin with a prefix, whichever worker has them; and whether there are more.

        It goes on where the last call for this prefix ended, since rows that were erased are there still, and looks at
        a bounded number of these. At the end it goes through all of them once more: some may have been hit again.
        """
        after, is_again = self._erasures.pop(prefix, (None, False))
        page = await self._links.first(prefix, limit, self.now(), after)
        keys, more = [key for key, _ in page.links], page.after is not None
        if more:
            after = page.after
        elif after is not None and not is_again:
            again = await self._links.first(prefix, limit, self.now())
            keys = list(dict.fromkeys([*keys, *(key for key, _ in again.links)]))
            more, is_again = again.after is not None or len(keys) > limit, True
            after = again.after if len(keys) <= limit else None
        if more:
            while len(self._erasures) >= _ERASURES:
                del self._erasures[next(iter(self._erasures))]
            self._erasures[prefix] = after, is_again
        return keys[:limit], more

    def rows_erased(self) -> None:
        """Forgets the rankings: links or groups were erased, so they are out of date."""
        for each in (self._links, self._groups):
            each.forget_rankings()

    def _window(self, query: bytes, parameters: Parameters, now: int) -> tuple[Window | None, int]:
        """Returns the window that a curve's query means now, and the start of the first bucket that it needs.

        The window is None if it depends on the link.
        """
        cached = self._windows.get(query)
        if cached is None or cached[0] != now:
            window = resolve_window(parameters, now, self.ladder)
            since = 0 if window is None else self.ladder.kept(window.start, fold_day(now))[0]
            cached = self._windows.keep(query, (now, window, since), 1 + len(query))
        return cached[1:]

    def _parsed(self, query: bytes, names: tuple[str, ...]) -> Parameters:
        parameters = self._parameters.get((query, names))
        if parameters is None:
            parameters = parse_parameters(parse_query(query, names), CURVE_FORMATS if "step" in names else FORMATS)
            self._parameters.keep((query, names), parameters, 1 + len(query))
        return parameters
