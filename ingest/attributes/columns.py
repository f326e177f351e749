"""Hits in columns: a field of all of them is looked at by one call of C, where each hit alone costs some of Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple


class HitColumns(NamedTuple):
    """The fields of some hits, in the order of JsonHit; None where one is not given."""

    key: Sequence[str]
    ts: Sequence[int | float | str | None]
    counts: Sequence[int | None]
    id: Sequence[str | None]
    ua: Sequence[str | None]
    bot: Sequence[bool | None]
    ref: Sequence[str | None]
    ip: Sequence[str | None]
    country: Sequence[str | None]
    lang: Sequence[str | None]
    source: Sequence[str | None]
    utm: Sequence[dict[str, str | None] | None]
    tags: Sequence[dict[str, str | None] | None]
    visitor: Sequence[str | None]
    groups: Sequence[list[str] | None]

    def where(self, chosen: Sequence[bool]) -> HitColumns:
        """Returns the columns of those hits alone."""
        return HitColumns._make(tuple(compress(column, chosen)) for column in self)


_OF_HITS: Final = tuple("count" if name == "counts" else name for name in HitColumns._fields)


def columns_of_hits(hits: Sequence[Struct]) -> HitColumns:
    """Returns the columns of some hits of one shape, one at least. Of a field that it lacks all have the default."""
    some = zip(*map(astuple, hits), strict=True)
    columns: dict[str, Sequence[Any]] = dict(zip(hits[0].__struct_fields__, some, strict=True))
    for name in _OF_HITS:
        if name not in columns:
            default = getattr(hits[0], name)
            columns[name] = _nothing(len(hits)) if default is None else (default,) * len(hits)
    return HitColumns._make([columns[name] for name in _OF_HITS])


@lru_cache(512)
def _nothing(hits: int) -> tuple[None, ...]:
    """Returns the column of a field that no hit has: one object for each length, compared by identity."""
    return (None,) * hits


def given_fields(hits: HitColumns) -> set[str]:
    """Returns the fields that some of these hits have."""
    nothing = _nothing(len(hits.key))
    fields = zip(HitColumns._fields, hits, strict=True)
    return {name for name, column in fields if column is not nothing and column != nothing}


def first_given(some: Iterable[str | None], others: Iterable[str | None]) -> list[str | None]:
    """Returns the first column, with the others' values for hits that lack it there."""
    return [other if one is None else one for one, other in zip(some, others, strict=True)]
