"""What the page and the pictures ask, and the shapes of the answers: those of the HTTP API, read into objects.

So a picture shows what a program would be told, and this part needs nothing of the query code but its questions.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class Answers(Protocol):
    """The questions that are asked here.

    Each takes a raw query string and gives a media type and a body; a key of None is all links.
    """

    async def curve(self, key: str | None, query: bytes, accepts_csv: bool = False) -> tuple[str, bytes]: ...

    async def total(self, key: str | None, query: bytes) -> tuple[str, bytes]: ...

    async def summary(self, key: str, query: bytes) -> tuple[str, bytes]: ...

    async def links(self, query: bytes, accepts_csv: bool = False) -> tuple[str, bytes]: ...


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
