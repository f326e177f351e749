"""A worker's parts for rules that call hits bots, and for erased values, over a store that others may share."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.ladder import DAY_S, fold_day
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from server.corrections.erasing import Erasing
from server.corrections.rules import DisavowBook
from server.corrections.runner import Corrections
from server.tokens.audit import AuditLog
from storage.erased_words import ErasureBook, KnownWords
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.http_kit import summed

NOW = 1_770_000_000
READER = ProfileReader(("ref",), country_reader("off"), ReferrerReader())


class CorrectingServer:
    """Its clock is `now`. is_first: whether it erases in rows of owners that are not open."""

    def __init__(self, folder: Path, store: Any, is_first: bool = True) -> None:
        self._folder, self.store, self._is_first = folder, store, is_first
        self.book, self.now = ErasureBook(store), NOW
        self.start()

    def start(self) -> None:
        known = partial(KnownWords(self.book).read, lambda: float(self.now))
        self._disk = TrackedDisk()
        late = DisavowBook(self.store).unsettle_since
        self.owner = OwnerProcess(
            self._folder,
            self.store,
            lambda: float(self.now),
            alone=False,
            disk=self._disk,
            erased_words=known,
            late=late,
        ).owner
        self.corrections = Corrections(self.owner, self.store, BREAKDOWN, lambda: self.now)
        self.erasing = Erasing(
            self.owner,
            self.store,
            BREAKDOWN,
            AuditLog(self.store, lambda: float(self.now)),
            lambda: float(self.now),
            self._is_first,
            list,
            self.corrections.refresh,
        )

    def kill(self) -> None:
        self._disk.kill()

    async def hit(self, link: str, ref: str, count: int = 1) -> None:
        body = json.dumps({"key": link, "ref": ref, "count": count}).encode()
        moment = Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300)
        batch = summed(body, Media.json, RequestSums(moment, reader=READER)).batch()
        assert batch is not None
        await self.owner.accept(batch)

    async def follow(self) -> None:
        for _ in range(3):
            await self.corrections.refresh()
            await self.erasing.refresh()
            await self.owner.flush()
