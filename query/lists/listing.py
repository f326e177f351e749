"""The two lists of one kind of rows: by their hits, and in the order of their names."""

from __future__ import annotations

from dataclasses import replace

from clickcurve.access import access
from clickcurve.buckets.measures import Measure
from query.lists.key_list import KeyList, KeyPage
from query.lists.listed_rows import ALL_NAMES, ListedRows, NamesWithin, nobody
from query.lists.rankings import RankedKeys, Rankings
from query.parameters import BY_KEY, Parameters, resolve_range


class Listing(ListedRows):
    """Answers `GET /v1/links`, or `GET /v1/groups`, of its rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rankings = Rankings(self)
        self.keys = KeyList(self)
        self._of_events: dict[Measure, Listing] = {}

    def counting(self, measure: Measure) -> Listing:
        """Returns the lists of the same names by an event, or by its values, in place of clicks."""
        if not measure.event:
            return self
        listing = self._of_events.get(measure)
        if listing is None:
            kind, beside = self.kind.counting(measure), self.buffered_beside
            assert beside is not None, "events are counted where rows beside those of links are"
            listing = replace(
                self, kind=kind, buffered=lambda: beside(kind.name_of), other_workers=nobody, others_within=None
            )
            self._of_events[measure] = listing
        return listing

    def forget_rankings(self) -> None:
        """Forgets the rankings: rows were erased, so they are out of date."""
        for each in (self, *self._of_events.values()):
            each.rankings.forget_rankings()

    async def list(self, parameters: Parameters, now: int) -> RankedKeys | KeyPage:
        """Returns names by their hits, or a page of them in their order, as the parameters say."""
        if parameters.sort == BY_KEY:
            return await self.page(parameters, now)
        return await self.best(parameters, now)

    async def page(self, parameters: Parameters, now: int) -> KeyPage:
        """Returns a page of the names that the request may see, in their order."""
        within = self._within(parameters)
        return KeyPage([], None) if within is None else await self.keys.page(parameters, now, within)

    async def first(self, prefix: str, limit: int, now: int, after: str | None = None) -> KeyPage:
        """Returns the first names that begin with a prefix, those that another worker alone knows yet included.

        They may be fewer, with more behind them, where many were erased.
        """
        prefix = self.key_form.start_of(prefix)
        parameters = Parameters(prefix=prefix, limit=limit, after=after)
        others = () if self.others_within is None else await self.others_within(prefix)
        return await self.keys.page(parameters, now, NamesWithin(prefix), others, may_end_early=True)

    async def best(self, parameters: Parameters, now: int) -> RankedKeys:
        """Returns the names with the most hits of those that the request may see."""
        within = self._within(parameters)
        if within is None:
            start, end = resolve_range(parameters, now, 0) or (None, None)
            return RankedKeys(start, end, [], True)
        return await self.rankings.best(parameters, now, within)

    def _within(self, parameters: Parameters) -> NamesWithin | None:
        """Returns the names that are asked for and may be seen; None: there are none."""
        allowed, within = access(), ALL_NAMES
        if allowed.prefix:
            within = NamesWithin(allowed.group, only=True) if self.kind.are_few else NamesWithin(allowed.prefix)
        return within.narrowed(self.key_form.start_of(parameters.prefix))
