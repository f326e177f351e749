"""What a worker does for rules that call counted hits bots: it knows them, and the one that may carries them out.

A rule of a row is one of the events beside it, too: these are called by the attributes that they came with.

A rule of many links is carried out for some of them at a time. How far it has come is noted after each piece; a piece
that is done twice changes nothing. Other rules go on in between: the order of two rules changes no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.disavow import CalledLink, Correction, call_back, called_values, disavow, reconcile
from clickcurve.buckets.breakdowns.erased import ERASED
from clickcurve.buckets.errors import ClickcurveError, ImportElsewhere, ParameterInvalid, RowCorrupt, shown
from clickcurve.buckets.measures import clicks_row, rows_with_events
from clickcurve.keys import ALL_LINKS, link_of, moved_key
from clickcurve.waiting import in_thread
from ingest.corrections import Corrector, ErasedAhead
from ingest.owner import Owner
from query.lists.listed_rows import LINK, NamesWithin, walk_of
from server import clock
from server.corrections.rules import CorrectedRows, DisavowBook, DisavowRule, NotedRule, Walked
from server.events.known_events import noted_names
from server.job import Job
from server.logs import log
from storage.contract import Store
from storage.erased_words import ErasureBook

FOLLOW_S = 2
LINKS_PER_PIECE = 200
PIECES_S = 1.0  # pieces of a rule follow one another for so long, then the other rules have their turn
DRY_RUN_LINKS = 20_000  # of 0.2 ms of a processor each, with 11 dimensions

Erase = Callable[[Sequence[str], Sequence[str]], Awaitable[None]]  # stored keys, and those that are erased last


class Corrections:
    """The rules as a worker knows them. `refresh` follows the store, and carries out what is not yet."""

    def __init__(self, owner: Owner, store: Store, bounded: BoundedLadder, clock: Callable[[], float]) -> None:
        """Makes those of a worker with this owner; parameters as of `Corrector`."""
        self._owner, self._store = owner, store
        self.corrector = Corrector(owner, store, bounded, clock)
        self.book = DisavowBook(store)
        self._erasures = ErasureBook(store)
        self.rules: list[NotedRule] = []
        self._events: Collection[str] = ()  # the names of those that are stored, when rules were last read
        self._corrected = CorrectedRows()
        self._is_read = False  # the rules were, once
        self._version = self.book.followed()
        self._failed: dict[str, str] = {}  # why, by the id of a rule
        self._carried_out: dict[str, tuple[str | None, list[int]]] = {}  # for whom a rule of one row was, by its id
        self._is_silent = False
        self._refreshing = asyncio.Lock()

    def is_corrected(self, stored: str) -> bool:
        """Tells whether hits of the row of a stored key may be called bots."""
        return stored in self._corrected

    async def erase_with(self, rows: Sequence[str], erase: Erase) -> None:
        """Erases rows (stored keys) with their corrections: those that they have, and those that are under way.

        The corrections go last, as `Corrector` needs it. A store that never had a rule is asked twice.

        Raises StoreUnavailable, and what `erase` raises: perhaps corrections of erased rows are left, until it is
        called again.
        """
        moved = await self._moved_of(rows)
        await erase(rows, moved)
        # The first rule of all may have read these rows since; one that comes now finds them erased.
        if not moved and (moved := await self._moved_of(rows)):
            await erase(rows, moved)

    async def _moved_of(self, stored: Sequence[str]) -> list[str]:
        version = await in_thread("reading rules", self.book.version, at_first=True)
        return [] if version is None else [moved_key(each) for each in stored]

    async def begin(self, patience_s: float) -> None:
        """Reads the rules before the first question, if the store answers in time; else the next look does."""
        await asyncio.wait({asyncio.ensure_future(self.refresh())}, timeout=patience_s)

    def jobs(self) -> Iterator[Job]:
        yield Job("disavow", self.refresh, FOLLOW_S)

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
        if await in_thread("reading rules", self._version.is_changed) or not self._is_read:
            rules = await in_thread("reading rules", self.book.all)
            await self._read_events()
            # What is called of all links outlives the rules, and comes with a copy.
            called = [await self._store.rows(moved_key(row)) for row in rows_with_events(ALL_LINKS, self._events)]
            all_links = any(link.rows for link in called)
            self._corrected = CorrectedRows((each.rule for each in rules), all_links=all_links)
            self._is_read = True
            self.rules = rules
            known = {each.rule.id for each in rules}
            self._failed = {id_: why for id_, why in self._failed.items() if id_ in known}
            self._carried_out = {id_: of for id_, of in self._carried_out.items() if id_ in known}
            await self._flush_for([each.rule for each in rules if not each.settled])
            self._version.note_read()
        if any(each.undo or not each.settled for each in self.rules):
            await self._carry_out_all()

    async def _read_events(self) -> None:
        self._events = await in_thread("reading events", noted_names, self._store)

    async def _flush_for(self, rules: list[DisavowRule]) -> None:
        if rules:
            await self._owner.flush()  # after a start it claims the owner first
            await in_thread("noting a flush", self.book.note_flushed, rules, self._owner.status.owner)

    async def _carry_out_all(self) -> None:
        noted = await in_thread("reading rules", self.book.all)
        # Asked before rows are read: those have what all other owners had accepted.
        open_owners = await in_thread("reading owners", self.book.open_owners)
        await self._read_events()
        undone: set[object] = set()
        for each in noted:
            try:
                if each.undo and each.rule.target not in undone:
                    undone.add(each.rule.target)
                    await self._undo(each, noted)
                elif not (each.undo or each.settled):
                    await self._carry_out(each, each.waiting(open_owners))
                self._failed.pop(each.rule.id, None)
            except ImportElsewhere:
                return  # another worker does it, or nobody can until that owner is closed or retired
            except ClickcurveError as error:
                self._note_failure(each.rule, error.detail)
                if not isinstance(error, RowCorrupt | ErasedAhead):  # these are of this rule alone
                    return

    def _note_failure(self, rule: DisavowRule, reason: str) -> None:
        if self._failed.get(rule.id) != reason:  # once, not every two seconds
            log.warning("rule not carried out", extra={"rule": rule.id, "reason": reason, "then": "it is tried again"})
        self._failed[rule.id] = reason

    async def _carry_out(self, noted: NotedRule, waiting: list[int]) -> None:
        """Carries a rule out, or goes on with it; again whenever fewer owners are waited for, until there are none."""
        rule = noted.rule
        if rule.prefix is not None:
            walked = await self._walk(noted, waiting, lambda key, link: _call(rule, link))
            is_done = walked.ended and not walked.waiting
        elif self._carried_out.get(rule.id) == (noted.again, waiting):
            return
        else:
            await self._carry_out_beside(rule, lambda link: _call(rule, link))
            self._carried_out[rule.id] = noted.again, waiting
            is_done = not waiting
        if is_done:
            self._carried_out.pop(rule.id, None)
            await in_thread("settling a rule", self.book.settle, noted)

    async def _undo(self, noted: NotedRule, all_noted: Sequence[NotedRule]) -> None:
        rule = noted.rule
        if await in_thread("reading erasures", self._is_being_renamed, rule):
            return  # an owner may have called hits by the value's old name: they could not be called back afterwards
        others = [each.rule for each in all_noted if not each.undo]
        others = [each for each in others if (each.dimension, each.value) == (rule.dimension, rule.value)]

        def undone(key: str, link: CalledLink) -> Correction:
            kept = [(other.since, other.until) for other in others if other.is_of(key)]
            return call_back(link, rule.dimension, rule.value, kept)

        if rule.prefix is not None:
            if not (await self._walk(noted, [], undone)).ended:
                return
        else:
            await self._carry_out_beside(rule, lambda link: undone(rule.stored, link))
            await self._carry_out_beside(rule, reconcile)
        same = [each.rule for each in all_noted if each.undo and each.rule.target == rule.target]
        await in_thread("dropping a rule", self.book.drop, same)

    async def _carry_out_beside(self, rule: DisavowRule, make: Callable[[CalledLink], Correction]) -> None:
        """Makes a correction of a rule's row, and of those of events beside it; raises as `carry_out`."""
        await self.corrector.carry_out(rule.stored, make)
        if events := rows_with_events(rule.stored, self._events)[1:]:
            left_out = await self.corrector.carry_out_many(events, lambda _, link: make(link))
            for error in left_out.values():
                raise error

    def _is_being_renamed(self, rule: DisavowRule) -> bool:
        """Tells whether a rule's value is erased, and some owner has not confirmed that yet."""
        erasure = rule.value.removeprefix(ERASED)
        return erasure != rule.value and self._erasures.is_running(erasure)

    # --- rules of many links --------------------------------------------------------------------------------------
    async def _walk(
        self, noted: NotedRule, waiting: Sequence[int], make: Callable[[str, CalledLink], Correction]
    ) -> Walked:
        """Carries a rule out, or undoes it, for some more of its links; returns how far it has come."""
        rule, walked = noted.rule, noted.walked
        if walked is None or (walked.undo, walked.again) != (noted.undo, noted.again):
            moved = walked.moved if walked and noted.undo else 0
            walked = Walked(noted.undo, noted.again, tuple(waiting), moved=moved)
        elif walked.ended and walked.waiting and set(walked.waiting) != set(waiting):
            walked = Walked(again=noted.again, waiting=tuple(waiting))  # once more, with what these have flushed since
        so_far = walked

        def counted(key: str, link: CalledLink) -> Correction:
            nonlocal so_far
            correction = make(key, link)
            if clicks_row(key) != key:
                return correction  # what is answered of a rule are clicks
            so_far = _with_link(so_far, rule, link, correction, is_called=True)
            return correction

        until = clock.monotonic() + PIECES_S
        while not so_far.ended and clock.monotonic() < until:
            keys, after = await self._links_after(rule, so_far.after)
            rows = [row for key in keys for row in rows_with_events(key, self._events)]
            left_out = await self.corrector.carry_out_many(rows, counted)
            for key, error in left_out.items():
                self._note_failure(rule, f"{shown(link_of(clicks_row(key)))}: {error.detail}")
            so_far = _with_piece(so_far, after, len(keys), len({*map(clicks_row, left_out)}))
            await in_thread("noting links", self.book.note_walked, rule, so_far)
        return so_far

    async def dry_run(self, rule: DisavowRule) -> Walked:
        """Returns what a rule of many links would do. Raises ParameterInvalid where they are too many for an answer."""
        walked = Walked()
        while not walked.ended:
            if walked.links >= DRY_RUN_LINKS:
                detail = f"there are more than {DRY_RUN_LINKS:,} links whose keys begin with {rule.prefix!r}"
                limit = f"a dry run of at most {DRY_RUN_LINKS:,} links"
                raise ParameterInvalid(detail, field="prefix", value=rule.prefix, rule=limit)
            keys, after = await self._links_after(rule, walked.after)
            left_out = 0
            for key in keys:
                try:
                    asked = await self.corrector.ask_divided(key, rule.dimension, partial(_with_asked, walked, rule))
                    walked = asked or walked
                except RowCorrupt:
                    left_out += 1
            walked = _with_piece(walked, after, len(keys), left_out)
        return walked

    async def _links_after(self, rule: DisavowRule, after: str | None) -> tuple[list[str], str | None]:
        """Returns the next links of a rule, and the last stored key that was looked at: None at the end."""
        assert rule.prefix is not None
        walk = walk_of(self._store, LINK, NamesWithin(rule.prefix))
        page = await in_thread("reading links", walk, after, LINKS_PER_PIECE, None)
        keys = [key for key, _ in page if link_of(key) is not None and rule.is_of(key)]
        return keys, page[-1][0] if len(page) == LINKS_PER_PIECE else None


def _with_link(walked: Walked, rule: DisavowRule, link: CalledLink, made: Correction, is_called: bool) -> Walked:
    """Adds a link to what is answered of a rule, with the correction made of it.

    is_called: it is carried out, not only asked for.
    """
    before = called_hits(link, rule)
    if walked.undo:
        return replace(walked, moved=max(0, walked.moved - before))
    called = made.at_least if is_called else 0
    return replace(
        walked,
        moved=walked.moved + before + called,
        at_least=walked.at_least + made.at_least - called,
        at_most=walked.at_most + made.at_most - called,
    )


def _with_asked(walked: Walked, rule: DisavowRule, link: CalledLink) -> Walked:
    return _with_link(walked, rule, link, _call(rule, link), is_called=False)


def _with_piece(walked: Walked, after: str | None, links: int, left_out: int) -> Walked:
    """Adds a piece of so many links, the last of which is `after`; None: there are no more."""
    return replace(
        walked, after=after, ended=after is None, links=walked.links + links, left_out=walked.left_out + left_out
    )


def _call(rule: DisavowRule, link: CalledLink) -> Correction:
    return disavow(link, rule.dimension, rule.value, rule.since, rule.until)


def called_hits(link: CalledLink, rule: DisavowRule) -> int:
    """Counts the hits of a rule's value that are called bots now, in the buckets inside its range."""
    total = 0
    for tier in link.moved.named.dimensions.get(rule.dimension, ()):
        for start in tier:
            low, high = link.span(start)
            if rule.since <= low and high <= rule.until:
                total += called_values(link.moved.named, rule.dimension, low).get(rule.value, 0)
    return total
