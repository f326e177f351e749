"""What every store promises. A store holds rows as opaque bytes: it knows keys, owners, flushes and ids, never buckets.
It only notes for which ladder they were made, and keeps it for ever. Journals in a store, its view and rankings have
contracts of their own (`storage.journals`, `storage.view`, `storage.rankings`); what notes say, their owners know.

Words. An **owner** is a journal and the one process that holds it; it alone writes its rows, so a link's truth is the
sum of its owners' rows. A **flush** has a number that only rises over an owner's life; each stored row carries, inside
its bytes, the mark: the number of the last flush that it includes.

Two sides use a store:

- The flush (a worker thread of the owner) calls the plain methods; they may block. Each may be repeated after any
  failure: the same call with the same arguments leaves the same state, and a call that has succeeded succeeds again.
- Readers await `rows` and `claimed`, which must never block the event loop for long.

A link has its row of counts, and may have another row beside it, under a stored key of its own (`clickcurve.keys`). The
erasure of a link is of both rows: it is recorded once, under either key, and found under both. Rows that one `save_own`
brings of one link are there both or neither.

Walks and lists of due rows come in pages. The order is the store's own and stays the same; `after` is the last key of
the page before.

Every method raises `StoreUnavailable` when the store cannot answer now, and works again when the store does: what it
was asked to write may be there then, whole, or not. No error of a driver leaves a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.upper_bounds import UpperBounds
from storage.rankings import Ranked

if TYPE_CHECKING:
    from storage.journals import Journals
    from storage.view import View

# What an owner's record can say (OwnerRecord.state).
OPEN = "open"
CLOSED = "closed"  # all that it accepted is in the store: a new journal may take the number
COPIED = "copied"  # this store is a copy and the owner's journal stayed with the original: never claimed again
RETIRED = "retired"  # its machine is lost, as a person has said: never claimed again, what it counted stays
FINAL = (COPIED, RETIRED)
_REWROTE = " rewrote "  # in a holder: after the name of a rewriter, before EPOCH.HOLDER of the last claim by a journal


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """What the store knows of an owner.

    epoch rises with every claim. holder is the token of the process that claimed last. journal names its journal, the
    uuid first, and the journals that gave the number back before (`ingest.claim_table`). place is the journal's address
    (host and folder, for people to read). state is OPEN, CLOSED, COPIED or RETIRED. begun is the number of the last
    flush that began, begun_at when it began, in epoch seconds.
    """

    owner: int
    epoch: int
    holder: str
    journal: str
    place: str
    state: str
    begun: int
    begun_at: int

    @property
    def last_claim(self) -> tuple[int, str]:
        """The epoch and the holder of the last claim by a journal. Later ones may have been made to rewrite rows."""
        _, rewrote, claim = self.holder.partition(_REWROTE)
        if not rewrote:
            return self.epoch, self.holder
        epoch, _, holder = claim.partition(".")
        return int(epoch), holder

    @property
    def rewriter(self) -> str:
        """Who claimed the owner last to rewrite its rows; "": nobody since the last claim by a journal."""
        rewriter, rewrote, _ = self.holder.partition(_REWROTE)
        return rewriter if rewrote else ""

    def rewritten_by(self, rewriter: str) -> OwnerRecord:
        """Returns the record as a claim to rewrite rows needs it: a journal still finds its own claim in it."""
        epoch, holder = self.last_claim
        return replace(self, epoch=self.epoch + 1, holder=f"{rewriter}{_REWROTE}{epoch}.{holder}")


@dataclass(frozen=True, slots=True)
class Held:
    """The holder of an owner, as `begin` and all writes of a flush check it.

    rewrites: not its process, but one that writes rows of an owner again that is not open (`Store.claim`).
    """

    owner: int
    epoch: int
    holder: str
    rewrites: bool = False


@dataclass(frozen=True, slots=True)
class StoredRow:
    owner: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredLink:
    """Everything stored of one key, rows by owner.

    A row whose header knows only of older erasures than `erased_at` counts for nothing.
    """

    erased_at: int  # epoch microseconds, 0 = never erased
    rows: tuple[StoredRow, ...]


class OwnRow(NamedTuple):
    data: bytes | None
    erased_at: int  # epoch microseconds, 0 = never erased
    upper_bounds: UpperBounds | None = None  # if it has any (`storage.rankings`)


class SavedRow(NamedTuple):
    """A row as a flush saves it: the bytes `data`, and after them `closed`, which seldom change.

    due_day: the fold day on which folding next changes this row; None = never. touched_day: if the flush brought new
    hits of the link, the fold day of the flush or of the newest hit in it, whichever is later. closed_stays: the row is
    stored with this `closed` already, for certain. upper_bounds: None of a row that does not count a link, or passes no
    cutoff of `cutoffs`, as they are or were.
    """

    data: bytes
    due_day: int | None
    touched_day: int | None = None
    closed: bytes = b""
    closed_stays: bool = False
    upper_bounds: UpperBounds | None = None

    @property
    def whole(self) -> bytes:
        """All bytes of the row, as a reader gets them."""
        return self.data + self.closed


Save: TypeAlias = Callable[[Mapping[str, SavedRow]], None]


@dataclass(frozen=True, slots=True)
class Source:
    """How far an import has come: `position` bytes of the decompressed source. One owner keeps it."""

    owner: int
    position: int
    tail: str  # a fingerprint of the bytes just before position, to tell that the source is still the same
    epoch: int = 0  # the owner's epoch when it claimed the source; filled in by the store


def first_after(key: str | None) -> str:
    """Returns the least text that comes after a key; None: the least of all."""
    return "" if key is None else f"{key}\0"


class FoundLinks(NamedTuple):
    """Keys that contain a text, each with all its rows. last: the last key that was looked at; None: all were."""

    links: list[tuple[str, StoredLink]]
    last: str | None


class Store(Ranked, Protocol):
    """A store. A method with a body here suits one without a cache or files of its own."""

    shared: bool  # other machines may write it too: a flush decides ids, and hits with ids show from then on
    # The store may have forgotten an id that was accepted longer ago than this: a flush that is as late must not claim
    # it. None: claims are kept until `forget_ids`.
    replay_us: int | None
    links_per_load: int  # whose rows a flush reads at once

    def uuid(self) -> str:
        """Returns the store's identity: made with it, the same for all processes. A backup or a copy has another."""

    def ladder(self) -> Ladder:
        """Returns the ladder that the store was made with. Never blocks.

        Raises StoreUnavailable until the store has been reached once.
        """

    # --- owners -------------------------------------------------------------------------------------------------
    def owners(self) -> list[OwnerRecord]:
        """Returns all owners by number, linearizable."""

    def owner(self, owner: int) -> OwnerRecord | None: ...

    def create_owner(self, record: OwnerRecord) -> bool:
        """Inserts the record if no owner has its number. True if the store holds this very record then."""

    def claim(self, before: OwnerRecord, after: OwnerRecord, *, rewrites: bool = False) -> bool:
        """Replaces `before` by `after` if the stored epoch, holder, state and begun still equal those of `before`.

        True also if `after` is stored already. Always False for a COPIED or RETIRED owner. The epoch may stay the same
        only if the state changes, so that a late duplicate finds that its condition no longer holds.

        rewrites: only of an owner that is not OPEN, also of a COPIED or RETIRED one. `after` differs in its epoch,
        which is higher, and its holder. That may save rows with the number of the flush that began last, until the next
        claim. What the owner wrote late loses against them.
        """

    def begin(self, held: Held, previous: int, flush: int, at: int) -> bool:
        """Sets begun to `flush` if held is the open holder and begun is `previous` or `flush`. False = fenced."""

    def close_owner(self, held: Held) -> bool:
        """Sets the state to CLOSED if held is still the open holder (or has closed it already): a clean stop."""

    def journals(self) -> Journals:
        """Returns what the store keeps of journals that lie in it. May block.

        Raises SettingInvalid if such a store keeps none, StoreMismatch if this one must be prepared for them first.
        """

    # --- a flush ------------------------------------------------------------------------------------------------
    # `claim_ids` and `save_own` belong to the flush that began last. If the store can tell that `held` is no longer the
    # open holder, or that another flush began, they raise OwnerFenced and write nothing. If it cannot tell, what they
    # write must lose against anything that a newer epoch writes.

    def claim_ids(self, held: Held, flush: int, ids: Mapping[str, int], window_us: int) -> set[str]:
        """Claims ids ({id: accepted_us}) for this owner and flush; returns those that belong to another one.

        An id belongs to another owner or flush that has claimed it with an accept stamp at most `window_us` before or
        after this one. An id that this flush has claimed stays its own, however often it claims it.
        """

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        """Returns this owner's rows of these stored keys, without keys that have neither a row nor an erasure.

        For its holder alone: a store may answer with what was saved or loaded before, and follow the erasures of others
        only when the holder begins a flush.
        """

    def read_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        """Returns the same of any owner, as it is stored now."""
        return self.load_own(owner, keys)

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        """Replaces these rows, whole, and raises the positions of these sources.

        All or nothing per row. Raises StoreUnavailable: nobody knows which rows are saved, and a cluster may save one
        later; the same rows are saved again, or those of a later claim win. A source that another owner keeps, or
        whose position is higher already, stays as it is. A flush may be saved in many calls. The last one of every
        flush holds the ALL_LINKS row and the sources: so an owner whose ALL_LINKS row has the mark `begun` is between
        two flushes. `verify` and `backup` look for that. Durable, and so is all that `saving` has saved before.
        """

    def save_together(self, saves: Sequence[tuple[Held, int, Mapping[str, SavedRow]]]) -> None:
        """Replaces rows of several owners, each as `save_own` does: all or none.

        Raises StoreMismatch where the store is `shared`.
        """

    def saving(self, held: Held, flush: int) -> AbstractContextManager[Save]:
        """Gives what saves rows of a flush piece by piece, as `save_own` does, while the caller makes the next piece.

        A piece may still be under way when `Save` returns: the next call, or the end, waits for it and raises what it
        failed with. Without an error at the end all pieces are saved; however the block ends, none is under way
        after it. They are durable with the next `save_own`, whatever that saves: the last of a flush comes after the
        block. In the block no row is loaded that was given.
        """

    # --- erasing, ids, sources -----------------------------------------------------------------------------------
    def erase(self, keys: Sequence[str], at_us: int, last: Sequence[str] = ()) -> None:
        """Records that all hits of these stored keys before at_us are gone. The latest stamp wins. Durable.

        last: more of them, erased after the others: when one of these is found erased, the others are for certain.
        Raises StoreUnavailable: some may be recorded.
        """

    def newest_erasure(self) -> int:
        """Returns the highest stamp of all erasures, 0 = none. A shared store always returns 0.

        What other machines' clocks have stamped says nothing about the clock of this one.
        """
        return 0

    def forget_bytes(self) -> None:
        """Takes what was overwritten or dropped out of the bytes of the store's files.

        A cluster does so by itself, with its next compaction. Raises StoreUnavailable: perhaps not all is gone.
        """
        return

    def forget_ids(self, before_us: int) -> None:
        """Forgets ids that were accepted before this. Does nothing in a store whose claims expire (`replay_us`).

        The caller must keep the ids that an unfinished flush may still claim: its claims come out the same each time.
        """
        return

    def note(self, name: str, value: str, kept_s: int | None = None) -> str:
        """Notes a value under a name, unless the name has one; returns the one that it has then. Durable.

        All processes get the same one. kept_s: it is gone by itself after so many seconds, or by `drop_notes`.
        """

    def change_note(self, name: str, before: str, after: str) -> str | None:
        """Notes `after` if `before` is noted under the name; returns what is noted then, None if nothing is. Durable.

        Of several processes that replace the same `before` by texts of their own, at most one gets its own back.
        """

    def drop_notes(self, names: Sequence[str]) -> None:
        """Forgets what is noted under these names, for good."""

    def notes(self, prefix: str = "") -> dict[str, str]:
        """Returns the notes whose names begin with a prefix, by name. There may be very many."""

    def noted(self, name: str) -> str | None:
        """Returns what is noted under a name, None if nothing is. Costs the same however many notes there are."""

    def source(self, source: str) -> Source | None: ...

    def claim_source(self, source: str, held: Held, before: Source | None) -> bool:
        """Gives the source to this owner and epoch, at its stored position (0 if new), if it still equals `before`.

        True also if this owner and epoch have it already. A source may be taken only from a keeper that is CLOSED or
        RETIRED. An owner claims its own sources again in each epoch before it moves them: so an owner that read
        "closed" before the keeper came back is refused.
        """

    # --- reading -------------------------------------------------------------------------------------------------
    async def rows(self, key: str) -> StoredLink:
        """Returns everything stored of one key."""

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        """Returns those of the ids that are claimed with an accept stamp at or after since_us."""

    def due(self, owner: int, fold_day: int, after: str | None, limit: int) -> list[str]:
        """Returns up to `limit` stored keys of this owner after `after` whose due day is <= fold_day.

        Perhaps also some keys whose due day has moved on.
        """

    def visited(self, held: Held, fold_day: int) -> None:
        """Notes that every row that was due on `fold_day` or before has been written since.

        `due` need not return these rows again for the days until then.
        """
        return

    def walk(self, after: str | None, limit: int, since_day: int | None = None) -> list[tuple[str, StoredLink]]:
        """Returns up to `limit` keys after `after` (None: from the first), each with all its rows as of one moment.

        Rows beside counts are left out, and keys that have an erasure and no rows. With `since_day`, keys that were
        not saved with a touched_day of that day or later may be left out.
        """
        return self.in_order(first_after(after), limit)

    def in_order(self, start: str, limit: int) -> list[tuple[str, StoredLink]]:
        """Returns up to `limit` keys from `start` on, in the order of their characters, each with all its rows.

        That is the order of their bytes in UTF-8 too. What `walk` leaves out is left out. A store whose own order is
        another one goes through all of its keys each time, but keeps no more than `limit` of them.
        """

    def containing(self, text: str, start: str, limit: int, most: int, prefix: str) -> FoundLinks:
        """Returns up to `limit` keys from `start` on that contain `text`, as `in_order` does; ASCII in any case.

        prefix: of each key. Looks at no more than `most` keys, but for a store whose own order is another one: it looks
        at all each time.
        """

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        """Returns what is stored of these keys of counts, without those that have no rows. May block."""

    def view(self) -> AbstractContextManager[View]:
        """Shows the store as of now, for tools that must add up what they see.

        Leave it soon: until then a database keeps what changes apart.
        """

    def measures(self) -> Mapping[str, float]:
        """Returns the store's own numbers for /metrics, by name (`row_cache_hits_total`)."""
        return {}

    def close(self) -> None:
        """Closes connections. Changes nothing that is stored."""
        return
