"""The questions a reader can ask, from parameters as they are written to the answer's bytes. Free of HTTP: the routes,
the hot callable and other shapes of the same answers are thin layers over this.
"""

from __future__ import annotations

from collections.abc import Callable

from query.answers import summary_json, top_csv, top_json, total_json
from query.asked import CURVE, SUMMARY, TOP, TOTAL, Asked, parse_asked, parse_query
from query.curve import Curves
from query.read import Reader
from query.remembered import Remembered
from query.summary import summary
from query.top import TopLinks
from query.total import total
from storage.contract import ALL_LINKS, link_key

JSON, CSV = "application/json", "text/csv; charset=utf-8"

_QUERIES_REMEMBERED = 2_000
_LONGEST_REMEMBERED = 300  # bytes of a query string

Answer = tuple[str, bytes]  # media type, body


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
        self._asked: Remembered[tuple[bytes, tuple[str, ...]], Asked] = Remembered(_QUERIES_REMEMBERED)

    async def total(self, key: str | None, query: bytes) -> Answer:
        asked = self._parsed(query, TOTAL)
        now = int(self._clock())
        row = await self._reader.row(_stored_key(key), now, cells=asked.ranged)
        return JSON, total_json(key, total(row, asked, now, self._reader.ladder))

    async def curve(self, key: str | None, query: bytes, accepts_csv: bool = False) -> Answer:
        asked = self._parsed(query, CURVE)
        now = int(self._clock())
        row = await self._reader.row(_stored_key(key), now)
        curve = self._curves.curve(row, self._curves.window(row, asked, now), asked.bots, now)
        if asked.format == "csv" or (accepts_csv and asked.format is None):
            return CSV, self._curves.csv(curve)
        return JSON, self._curves.json(key, curve)

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

    def _parsed(self, query: bytes, known: tuple[str, ...]) -> Asked:
        asked = self._asked.get((query, known))
        if asked is None:
            asked = parse_asked(parse_query(query, known))
            if len(query) <= _LONGEST_REMEMBERED:
                self._asked.keep((query, known), asked)
        return asked


def _stored_key(key: str | None) -> str:
    return ALL_LINKS if key is None else link_key(key)
