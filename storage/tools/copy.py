"""A copy of everything in one store into another: owners, rows, erasures, claimed ids, and the imports' positions.

A store is copied only while no owner of it is open. Then its rows do not change, and an owner's state (epoch, flush
begun last) tells which rows it has: they can only change under a higher epoch.

- **Owners** are in the target what they are in the source: epoch, holder, journal, state, last flush. They keep their
  number if it is free. So a journal that was used with the source is treated with the target as with the source: it
  goes on, or counts what it holds under a new number, or is quarantined.
- **Rows** are copied byte for byte, under an owner that is open in the copy's name and has the source's epoch, so that
  a later holder wins over any late write. Saving a row again saves the same bytes, and two copies at once do no harm.
  The row of all links is saved last, as in a flush: to `verify` half a copy is an owner in the middle of a flush.
- **The progress** is a source of the target, `copy/UUID/OWNER`, saved after the rows; no import can have such a name.
  It stays for ever: it says that this owner's rows are there, even if another holder has them by then. A copy also
  copies such sources: rows that would reach a store in two ways are refused, not counted twice.
- **Erasures** keep their stamps, except for links that other owners of the target count: their rows would be gone as
  well. For such links the rows that the erasure emptied are saved empty.

If a copy dies at any moment, the next one goes on from there. In the end everything is read back and compared; only
then the owners get the state that they have in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import groupby

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.parts import parts_due, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.row import next_due
from clickcurve.buckets.upper_bounds import UNREADABLE, upper_bounds_of
from clickcurve.keys import ALL_LINKS, breakdown_of, counts_key, kept_days
from clickcurve.row_kinds.names import row_name
from clickcurve.row_kinds.table import kind_of
from clickcurve.times import SECOND_US
from storage.contract import SavedRow, Source, Store
from storage.joined_rows import joining_owners
from storage.notes import NoteSpace
from storage.tools.compare import Compared, Page, Sums, as_saved, compare, erasure_known
from storage.tools.copy_owner import (
    PREFIX,
    CopyRefused,
    Part,
    Progress,
    give_over,
    is_of_an_owner,
    refuse_conflicts,
    take_up,
)
from storage.tools.verify import OnProgress, rows_in
from storage.view import View

KEYS_PER_PAGE = 500
IDS_PER_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class CopiedOwner:
    """An owner of the source and its number in the target. sums: what each side counts; None: copied before."""

    owner: int
    number: int
    sums: tuple[Sums, Sums] | None


@dataclass(slots=True)
class Copied:
    """What a copy did. compared: the result of reading back, if there was anything to copy.

    ids, imports: how many this run copied. notes: how many the target had not, by namespace. kept: a sentence for each
    import of which the target already has another position or keeper, which stays, and what namespaces say.
    """

    owners: list[CopiedOwner] = field(default_factory=list)
    ids: int = 0
    imports: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    compared: Compared = field(default_factory=lambda: Compared({}))


async def copy(
    source: Store,
    target: Store,
    ladder: Ladder,
    since_us: int,
    window_us: int,
    note_spaces: Sequence[NoteSpace],
    on_progress: OnProgress = lambda done, total: None,
) -> Copied:
    """Copies all of `source` into `target`, or goes on with an interrupted copy. Both have this ladder.

    Takes notes of these namespaces along, in their order. Claims the ids that were accepted at or after `since_us`,
    with this window. Each row counts twice for `on_progress`: when it is written and when it is read back. Blocks the
    event loop, so it needs one of its own.

    Raises CopyRefused, StoreUnavailable, OwnerFenced (another process has taken over an owner that is copied into).
    """
    with source.view() as view:
        now = (since_us + window_us) // SECOND_US
        copying = _Copying(source, view, target, ladder, now, note_spaces, on_progress)
        return await copying.run(since_us, window_us)


@dataclass(eq=False)
class _Copying:
    source: Store
    view: View
    target: Store
    ladder: Ladder
    now: int
    note_spaces: Sequence[NoteSpace]
    on_progress: OnProgress

    def __post_init__(self) -> None:
        self._uuid = self.source.uuid()
        self._owners = self.view.owners()
        self._sources = self.view.sources()
        self._rows_done = 0
        self._rows_in_all: int | None = None

    async def run(self, since_us: int, window_us: int) -> Copied:
        if joining := joining_owners(self.view.notes()):
            owners = ", ".join(map(str, sorted(joining)))
            then = "run `clickcurve join-spellings --apply` again, or start their servers"
            raise CopyRefused(f"rows of owners {owners} are being joined: {then}")
        refuse_conflicts(self._uuid, self._owners, self._sources, self.target)
        parts = [take_up(origin, self._owners, self._uuid, self.target) for origin in self._owners]
        todo = [part for part in parts if part.under_way]
        done = Copied()
        if todo:
            for part in todo:
                self._begin(part)
            done.ids = self._claim_ids(todo[0], since_us, window_us)
            if all(part.progress.after is None and not part.progress.whole for part in todo):  # else some are there
                rows = self.view.count_rows(breakdowns=True)
                self._rows_in_all = None if rows is None else 2 * rows
            await self._copy_rows([part for part in todo if not part.progress.whole])
            for part in todo:
                imports = self._finish(part)
                done.imports += len(imports)
                done.kept += self._kept_elsewhere(imports)
            self._take_notes_along(done)
            done.compared = await self._compare(todo)
            if not done.compared.rows_differing:
                self._give_over(todo)
        for part in parts:
            sums = done.compared.sums.get(part.origin.owner)
            done.owners.append(CopiedOwner(part.origin.owner, part.record.owner, sums))
        return done

    def _begin(self, part: Part) -> None:
        if not self.target.begin(part.held, part.origin.begun, part.origin.begun, part.origin.begun_at):
            raise CopyRefused(f"owner {part.record.owner} of the target was changed during the copy")

    def _give_over(self, parts: Sequence[Part]) -> None:
        """Ends the copy: from then on the owners may be taken over, in the state that they have in the source."""
        now = {record.owner: record for record in self.source.owners()}
        for origin in self._owners:
            if now.get(origin.owner) != origin:
                raise CopyRefused(f"owner {origin.owner} went on while it was copied; stop its server and copy again")
        for part in parts:
            give_over(part, self.target)

    # --- rows -----------------------------------------------------------------------------------------------------
    async def _copy_rows(self, parts: Sequence[Part]) -> None:
        """Copies the rows of owners with the same progress together: after a copy that died in a page it differs."""
        ours = {part.record.owner for part in parts}
        for group in [list(some) for _, some in groupby(sorted(parts, key=_last_key), key=_last_key)]:
            for page in self._pages(group[0].progress.after):
                not_erased = await self._erase(page, ours)
                rows = self._rows_of(page, {part.origin.owner for part in group}, not_erased)
                for part in group:
                    self._save_progress(part, replace(part.progress, after=page[-1][0]), rows[part.origin.owner])

    def _pages(self, after: str | None) -> Iterator[Page]:
        """Yields rows of counts, each page with their breakdowns before them: both are saved in one call."""
        while page := self.view.walk(after, KEYS_PER_PAGE):
            after = page[-1][0]
            counts = [(key, link) for key, link in page if not kind_of(key).beside_counts]
            breakdowns = self.view.links([breakdown_of(key) for key, _ in counts])
            if counts:
                yield [*((key, link) for key, link in breakdowns.items() if link.rows), *counts]
            self._rows_done += rows_in(page)
            self.on_progress(self._rows_done, self._rows_in_all)

    async def _erase(self, page: Page, ours: set[int]) -> dict[str, int]:
        """Erases in the target what was erased in the source, unless other owners have rows of the link there.

        Returns the stamps of the erasures that are left out for that reason, by key.
        """
        not_erased = {}
        for key, link in page:
            if not link.erased_at:
                continue
            counts = counts_key(key)  # an erasure is one of both rows
            there = await self.target.rows(counts)
            if there.erased_at >= link.erased_at:
                continue
            if any(row.owner not in ours and erasure_known(counts, row.data) >= there.erased_at for row in there.rows):
                not_erased[key] = link.erased_at
            else:
                self.target.erase([key], link.erased_at)
        return not_erased

    def _rows_of(self, page: Page, owners: set[int], not_erased: dict[str, int]) -> dict[int, dict[str, SavedRow]]:
        """Returns what to save for each of these owners: all except the row of all links, which is saved last."""
        owner_numbers = {record.owner for record in self._owners}
        rows: dict[int, dict[str, SavedRow]] = {owner: {} for owner in owners}
        for key, link in page:
            for row in link.rows:
                if row.owner not in owner_numbers:
                    raise CopyRefused(f"{row_name(key, row.owner)}: the source knows no such owner; see `verify`")
                if row.owner in rows and counts_key(key) != ALL_LINKS:
                    rows[row.owner][key] = self._saved(key, as_saved(key, row.data, not_erased.get(key, 0)))
        return rows

    def _saved(self, key: str, data: bytes) -> SavedRow:
        try:
            if kind_of(key).beside_counts:
                parts = separate_parts(data)
                return SavedRow(parts.open, parts_due(parts, BREAKDOWN), None, parts.closed)
            row = decode(data)
        except RowCorrupt:
            return SavedRow(data, None, upper_bounds=UNREADABLE)  # it is for `verify` to report
        # Lists of the links of some days leave out those that no flush of the days touched: this one was touched when
        # it was last hit.
        due_day = next_due(row, self.ladder, kept_days(key))
        touched_day = None if row.last is None else fold_day(row.last)
        return SavedRow(data, due_day, touched_day, upper_bounds=upper_bounds_of(row, self.ladder))

    def _finish(self, part: Part) -> dict[str, Source]:
        """Saves the row of all links and the imports, then the note that all is there; returns the imports."""
        rows = {
            key: self._saved(key, row.data)
            for key, link in self.view.links([ALL_LINKS, breakdown_of(ALL_LINKS)]).items()
            for row in link.rows
            if row.owner == part.origin.owner
        }
        imports = self._sources_of(part, lambda name: not name.startswith(PREFIX))
        self._save(part, rows, imports | self._sources_of(part, is_of_an_owner))
        if not part.progress.whole:
            self._save_progress(part, replace(part.progress, whole=True), {})
            stored = self.target.source(part.name)
            if stored is None or stored.tail != part.progress.text():
                raise CopyRefused("another copy of the same store is under way; let one of them end")
        return imports

    def _sources_of(self, part: Part, named: Callable[[str], bool]) -> dict[str, Source]:
        """Returns the sources that this owner keeps, as the target is to keep them."""
        return {
            name: Source(part.record.owner, kept.position, kept.tail)
            for name, kept in self._sources.items()
            if kept.owner == part.origin.owner and named(name)
        }

    def _kept_elsewhere(self, imports: dict[str, Source]) -> Iterator[str]:
        for name, wanted in imports.items():
            stored = self.target.source(name)
            assert stored is not None
            if (stored.owner, stored.position) != (wanted.owner, wanted.position):
                yield (
                    f"import {name} is at byte {wanted.position:,} in the source; in the target owner"
                    f" {stored.owner} keeps it, at byte {stored.position:,}"
                )

    def _save_progress(self, part: Part, progress: Progress, rows: dict[str, SavedRow]) -> None:
        part.step += 1
        part.progress = progress
        self._save(part, rows, {part.name: Source(part.record.owner, part.step, progress.text())})

    def _save(self, part: Part, rows: dict[str, SavedRow], sources: dict[str, Source]) -> None:
        self.target.save_own(part.held, part.origin.begun, rows, sources)

    def _take_notes_along(self, done: Copied) -> None:
        notes = self.view.notes()
        for space in self.note_spaces:
            taken = space.take_along(notes, self.target, self.now)
            done.notes[space.name] = taken.new
            done.kept += taken.left

    # --- ids and reading back ---------------------------------------------------------------------------------------
    def _claim_ids(self, part: Part, since_us: int, window_us: int) -> int:
        """Claims recently claimed ids, in the name of one of the owners; returns how many this run claimed."""
        state = repr([(record.owner, record.epoch, record.begun) for record in self._owners])
        name = f"{PREFIX}{self._uuid}/ids-{blake2b(state.encode(), digest_size=8).hexdigest()}"
        kept = self.target.source(name) or Source(part.record.owner, 0, "")
        after, position, claimed = kept.tail or None, kept.position, 0
        while page := self.view.ids(after, IDS_PER_PAGE):
            after, position = page[-1][0], position + len(page)
            recent = {id_: at_us for id_, at_us in page if at_us >= since_us}
            self.target.claim_ids(part.held, part.origin.begun, recent, window_us)
            self._save(part, {}, {name: Source(part.record.owner, position, after)})
            claimed += len(recent)
        return claimed

    async def _compare(self, parts: Sequence[Part]) -> Compared:
        numbers = {part.origin.owner: part.record.owner for part in parts}
        compared = await compare(self._pages(None), self.target, numbers)
        for part in parts:
            if part.origin.owner in compared.owners_differing:
                none = Progress(part.origin.epoch, part.origin.begun)
                self._save_progress(part, none, {})  # so that the next run starts again
        return compared


def _last_key(part: Part) -> str:
    return part.progress.after or ALL_LINKS  # the row of all links is skipped anyway
