"""What a worker does for rules that call counted hits bots: it knows them, and the one that may carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.disavow import call_back, disavow, reconcile
from clickcurve.buckets.errors import ClickcurveError, ImportElsewhere
from clickcurve.keys import moved_key
from clickcurve.waiting import in_thread
from ingest.corrections import Corrector
from ingest.owner import Owner
from server.corrections.rules import DisavowBook, DisavowRule, NotedRule
from server.logs import log
from storage.contract import Store


class Corrections:
    """The rules as a worker knows them. `refresh` follows the store, and carries out what is not yet."""

    def __init__(self, owner: Owner, corrector: Corrector, book: DisavowBook) -> None:
        self._owner, self.corrector = owner, corrector
        self.book = book
        self.rules: list[NotedRule] = []
        self._corrected: frozenset[str] = frozenset()
        self._version: str | None = None
        self._failed: str | None = None
        self._is_silent = False
        self._refreshing = asyncio.Lock()

    @classmethod
    def of(cls, owner: Owner, store: Store, bounded: BoundedLadder, clock: Callable[[], float]) -> Corrections:
        """Makes those of a worker with this owner; parameters as of `Corrector`."""
        return cls(owner, Corrector(owner, store, bounded, clock), DisavowBook(store))

    def is_corrected(self, stored: str) -> bool:
        """Tells whether hits of the row of a stored key may be called bots."""
        return stored in self._corrected

    async def moved_of(self, stored: Sequence[str]) -> list[str]:
        """Returns the stored keys of all corrections of these rows: of rules that were undone, and new ones, too.

        A store that never had a rule is asked once. Raises StoreUnavailable.
        """
        if await in_thread("reading rules", self.book.version) is None:
            return []
        of_rules = {moved_key(each) for each in stored if self.is_corrected(each)}
        return sorted(of_rules | set(await self.corrector.moved_of(stored)))

    async def begin(self, patience_s: float) -> None:
        """Reads the rules before the first question, if the store answers in time; else the next look does."""
        await asyncio.wait({asyncio.ensure_future(self.refresh())}, timeout=patience_s)

    async def refresh(self) -> None:
        """Follows the store; says of new rules that this worker has flushed, and carries out what is not yet."""
        async with self._refreshing:
            try:
                await self._refresh()
                self._is_silent = False
            except ClickcurveError as error:
                if not self._is_silent:  # once, not every two seconds
                    log.warning("rules not read", extra={"reason": error.detail, "then": "those read before hold"})
                self._is_silent = True

    async def _refresh(self) -> None:
        version = await in_thread("reading rules", self.book.version)
        if version != self._version:
            rules = await in_thread("reading rules", self.book.all)
            self._corrected = frozenset(key for each in rules for key in each.rule.corrects())
            self.rules = rules
            await self._flush_for([each.rule for each in rules if not each.settled])
            self._version = version
        if any(each.undo or not each.settled for each in self.rules):
            await self._carry_out_all()

    async def _flush_for(self, rules: list[DisavowRule]) -> None:
        owner = self._owner.status.owner
        if rules and owner is not None:
            await self._owner.flush()
            await in_thread("noting a flush", self.book.note_flushed, rules, owner)

    async def _carry_out_all(self) -> None:
        try:
            for each in self.rules:
                if each.undo:
                    await self._undo(each.rule)
                elif not each.settled:
                    await self._carry_out(each)
            self._failed = None
        except ImportElsewhere:
            return  # another worker does it, or nobody can until that owner is closed or retired
        except ClickcurveError as error:
            if error.detail != self._failed:  # once, not every two seconds
                log.warning("rule not carried out", extra={"reason": error.detail, "then": "it is tried again"})
            self._failed = error.detail

    async def _carry_out(self, noted: NotedRule) -> None:
        rule = noted.rule
        # Asked before: what these owners had accepted is in the rows that are read after it.
        now_noted = next(
            (each for each in await in_thread("reading rules", self.book.all) if each.rule.id == rule.id), noted
        )
        waiting = await in_thread("reading owners", self.book.waiting, now_noted)
        await self.corrector.carry_out(
            rule.stored, lambda link: disavow(link, rule.dimension, rule.value, rule.since, rule.until)
        )
        if not waiting:
            await in_thread("settling a rule", self.book.settle, now_noted)

    async def _undo(self, rule: DisavowRule) -> None:
        await self.corrector.carry_out(rule.stored, lambda link: call_back(link, rule.dimension, rule.value))
        await self.corrector.carry_out(rule.stored, reconcile)
        await in_thread("dropping a rule", self.book.drop, [rule])
