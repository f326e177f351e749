"""What the page and the pictures ask, and the shapes of the answers: those of the HTTP API, read into objects.

So a picture shows what a program would be told, and this part needs nothing of the query code but its questions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import msgspec

# A raw query string in; a media type and a body out.
Question: TypeAlias = Callable[[bytes], Awaitable[tuple[str, bytes]]]


class Answers(Protocol):
    """The questions that are asked here.

    Each takes a raw query string and gives a media type and a body; a key of None is all links.
    """

    async def curve(self, key: str | None, query: bytes, accepts_csv: bool = False) -> tuple[str, bytes]: ...

    async def total(self, key: str | None, query: bytes) -> tuple[str, bytes]: ...

    async def summary(self, key: str, query: bytes) -> tuple[str, bytes]: ...

    async def links(self, query: bytes, accepts_csv: bool = False) -> tuple[str, bytes]: ...

    async def group_curve(self, name: str, query: bytes, accepts_csv: bool = False) -> tuple[str, bytes]: ...

    async def group_total(self, name: str, query: bytes) -> tuple[str, bytes]: ...

    async def group_summary(self, name: str, query: bytes) -> tuple[str, bytes]: ...

    async def groups(self, query: bytes, accepts_csv: bool = False) -> tuple[str, bytes]: ...


class Divisions(Protocol):
    """The questions about what hits say. A subject is a stored key and a name."""

    async def by(self, subject: Any, dimension: str, query: bytes, accepts_csv: bool = False) -> tuple[str, bytes]: ...

    async def visitors(self, subject: Any, query: bytes) -> tuple[str, bytes]: ...


@dataclass(frozen=True, slots=True)
class Divided:
    """A server that divides hits: by which dimensions, whether it keeps days of visitors, and what makes a subject."""

    queries: Divisions
    dimensions: Sequence[str]
    visitors: bool
    subject: Callable[[str, str], object]


class PointAnswer(msgspec.Struct, frozen=True, gc=False):
    """A point of a curve. wide: it is longer than the step, because no finer buckets are kept."""

    start: int
    end: int
    count: int
    state: str = "complete"
    wide: bool = False


class CurveAnswer(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """A curve, of a link or (key None) of all links."""

    key: str | None
    start: int
    end: int
    step: str
    tz: str
    first_hit: int | None
    total: int
    at_least: int
    at_most: int
    exact: bool
    points: list[PointAnswer]


class TotalAnswer(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """A total of a range; without a range of a life."""

    key: str | None
    start: int | None
    end: int | None
    total: int | None
    at_least: int
    at_most: int
    exact: bool


READ_CURVE = msgspec.json.Decoder(CurveAnswer).decode
READ_TOTAL = msgspec.json.Decoder(TotalAnswer).decode


class LinkAnswer(msgspec.Struct, frozen=True):
    """A link at a glance."""

    lifetime: int
    today: int
    yesterday: int
    last_7d: int
    last_30d: int
    bots: int
    first_hit: int | None
    last_hit: int | None
    opening: int
    exact: bool


class ValueAnswer(msgspec.Struct, frozen=True):
    """One value of a dimension, empty for what was not given."""

    value: str
    at_least: int
    at_most: int


class RestAnswer(msgspec.Struct, frozen=True):
    """Values that an answer does not show."""

    values: int
    count: int


class ValuesAnswer(msgspec.Struct, frozen=True):
    """How hits divide by a dimension. Parts and `other` and `unrecorded` are the total."""

    dimension: str
    total: int
    values: list[ValueAnswer]
    not_shown: RestAnswer
    other: int
    unrecorded: int


class VisitorDay(msgspec.Struct, frozen=True):
    """The visitors of one UTC day, or visitor-days of the days that are kept together."""

    start: int
    end: int
    at_least: int
    at_most: int


class VisitorsAnswer(msgspec.Struct, frozen=True):
    """Visitors by days; unknown: hits that said too little, or nothing."""

    at_least: int
    at_most: int
    days: list[VisitorDay]
    unknown: int


READ_LINK = msgspec.json.Decoder(LinkAnswer).decode
READ_VALUES = msgspec.json.Decoder(ValuesAnswer).decode
READ_VISITORS = msgspec.json.Decoder(VisitorsAnswer).decode
