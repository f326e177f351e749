"""Imports in random histories of journals in the cluster: clients that ask how far a source has come, and go on there.

Piece n of a source has 4 ** n hits of a link of its own, so the link's total, written in base four, says how often each
piece counts. Laws: no piece is acknowledged again that was acknowledged before the offset was asked for; in the end
each piece below the offset counts once, and no other one does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clickcurve.buckets.errors import ImportElsewhere, ImportOutOfStep
from ingest.batch import Batch, SourceStep
from ingest.owner import Owner
from tests.audit.journals import Wrong

PIECES = 14  # so that a journal can hold their counts


@dataclass
class Import:
    """One source. acknowledged: how many of its pieces certainly are."""

    link: str
    acknowledged: int = 0


class Imports:
    """keeper: the owner that took the last piece."""

    def __init__(self, counted: dict[str, int]) -> None:
        self.all = [Import("import 0")]
        self.keeper: Owner | None = None
        self._counted = counted

    async def piece(self, owner: Owner, minute: int) -> None:
        """Asks for the offset and sends the piece that begins there. Raises what the owner does."""
        one = self.all[-1]
        least = one.acknowledged
        try:
            offset = (await owner.source(one.link)).position
            if offset == PIECES:
                self.all.append(Import(f"import {len(self.all)}"))
                return
            step = SourceStep(one.link, offset, offset + 1, str(offset))
            await owner.accept(Batch(people={minute: {one.link: 4**offset}}, source=step))
        except (ImportElsewhere, ImportOutOfStep):
            self._counted["pieces elsewhere"] += 1
            raise
        if offset < least:  # one that lost its owner may name it, and takes no piece
            raise Wrong(f"{one.link}: piece {offset} was taken, and {least} pieces were acknowledged before")
        self.keeper = owner
        one.acknowledged = max(one.acknowledged, offset + 1)
        self._counted["pieces"] += 1

    def links(self) -> list[str]:
        """The links that were imported."""
        return [each.link for each in self.all]

    def judge(self, totals: Mapping[str, int], offsets: Mapping[str, int]) -> Iterator[str]:
        """What is wrong, when nothing is under way. offsets: what the store has."""
        for each in self.all:
            offset = offsets.get(each.link, 0)
            if offset < each.acknowledged:
                yield f"{each.link}: the offset is {offset}, and {each.acknowledged} pieces were acknowledged"
            if totals[each.link] != (4**offset - 1) // 3:
                yield f"{each.link}: the offset is {offset}, and the total {totals[each.link]:#x}"
