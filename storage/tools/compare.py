"""The comparison of a copy with its source: each row is read back from the target and compared byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.keys import link_of
from clickcurve.row_kinds.names import row_name
from clickcurve.row_kinds.table import kind_of
from storage.contract import Store, StoredLink
from storage.tools.verify import SENTENCES

Page = list[tuple[str, StoredLink]]


@dataclass(slots=True)
class Sums:
    """What one owner has: its rows, including ALL_LINKS and other namespaces, and the hits of links that count."""

    rows: int = 0
    people: int = 0
    bots: int = 0

    def add(self, key: str, data: bytes, erased_at: int) -> int:
        """Adds a row; returns how many of its hits count."""
        self.rows += 1
        if link_of(key) is None:
            return 0
        try:
            row = decode_header(data)
        except RowCorrupt:
            return 0
        if row.erased_at < erased_at:
            return 0
        self.people += row.lifetime
        self.bots += row.bots
        return row.lifetime + row.bots


@dataclass(slots=True)
class Compared:
    """The result. sums: of the source and of the target, by the owner's number in the source.

    differing: a sentence for each of rows_differing rows. erased: a sentence for each link that was erased in the
    target only, so that the source's hits of it count for nothing there. At most SENTENCES of each.
    """

    sums: dict[int, tuple[Sums, Sums]]
    rows_differing: int = 0
    owners_differing: set[int] = field(default_factory=set)
    differing: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)


async def compare(pages: Iterator[Page], target: Store, numbers: Mapping[int, int]) -> Compared:
    """Compares the rows of these owners (number in the source: number in the target) with the target's.

    Raises StoreUnavailable.
    """
    compared = Compared({owner: (Sums(), Sums()) for owner in numbers})
    for page in pages:
        mine = [(key, link) for key, link in page if any(row.owner in numbers for row in link.rows)]
        links_there = await asyncio.gather(*[target.rows(key) for key, _ in mine])
        for (key, link), there in zip(mine, links_there, strict=True):
            _compare_link(compared, key, link, there, numbers)
    return compared


def _compare_link(
    compared: Compared, key: str, link: StoredLink, there: StoredLink, numbers: Mapping[int, int]
) -> None:
    stored = {row.owner: row.data for row in there.rows}
    for row in link.rows:
        if row.owner not in numbers:
            continue
        of_source, of_target = compared.sums[row.owner]
        counts = of_source.add(key, row.data, link.erased_at)
        data = stored.get(numbers[row.owner])
        counts_there = 0 if data is None else of_target.add(key, data, there.erased_at)
        if data is None or not _is_same(key, row.data, data, link.erased_at, there.erased_at):
            compared.rows_differing += 1
            compared.owners_differing.add(row.owner)
            what = "is missing in the target" if data is None else "has other bytes in the target"
            _add_sentence(compared.differing, f"{row_name(key, row.owner)}: {what}")
        elif counts != counts_there:
            hits = f"{counts:,} hits of the source count for nothing there"
            _add_sentence(compared.erased, f"{row_name(key, row.owner)}: erased in the target, so {hits}")


def _is_same(key: str, data: bytes, data_there: bytes, erased_at: int, erased_there: int) -> bool:
    """Returns whether `data_there` is what a copy saves of `data`.

    If both stores know of the erasure, a row that it emptied may be in either form: the erasure may have reached the
    target while the copy was interrupted.
    """
    if erased_there < erased_at:
        return data_there == as_saved(key, data, erased_at)
    return data_there == data or data_there == as_saved(key, data, erased_at)


def _add_sentence(sentences: list[str], sentence: str) -> None:
    if len(sentences) < SENTENCES:
        sentences.append(sentence)


def as_saved(key: str, data: bytes, not_erased: int) -> bytes:
    """Returns a row as a copy saves it: as it is, or empty if an erasure that empties it is not in the target.

    not_erased: the stamp of that erasure, 0 = none.
    """
    kind = kind_of(key)
    try:
        return data if kind.erasure_known(data) >= not_erased else kind.emptied(data, not_erased)
    except RowCorrupt:
        return data


def erasure_known(key: str, data: bytes) -> int:
    """Returns the stamp of the last erasure that the row knows of, 0 = none."""
    try:
        return kind_of(key).erasure_known(data)
    except RowCorrupt:
        return 0
