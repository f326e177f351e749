"""What every store promises. A store holds rows as opaque bytes: it knows keys, owners, flushes and ids, never buckets.

Words. An **owner** is a journal and the one process that holds it; it alone writes its rows, so a link's truth is the
sum of its owners' rows. A **flush** has a number that only rises over an owner's life; each stored row carries, inside
its bytes, the mark: the number of the last flush that it includes.

Two sides use a store:

- the flush (a worker thread of the owner) calls the plain methods; they may block. Each may be repeated after any
  failure: the same call with the same arguments leaves the same state, and one that has succeeded succeeds again.
- readers await `rows` and `claimed`, which must never block the event loop for long.

Walks and lists of due rows come in pages, in an order of the store's own that stays the same; `after` is the last key
of the page before.

Every method raises `StoreUnavailable` when the store cannot answer now, and works again when the store does; no error
of a driver leaves a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from clickcurve.buckets.errors import OwnerFenced

# What an owner's record can say (OwnerRecord.state).
OPEN = "open"
CLOSED = "closed"  # all that it accepted is in the store: a new journal may take the number
COPIED = "copied"  # this store is a copy and the owner's journal stayed with the original: never claimed again
RETIRED = "retired"  # its machine is lost, as a person has said: never claimed again, what it counted stays
FINAL = (COPIED, RETIRED)


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """What the store knows of an owner.

    epoch rises with every claim; holder is the token of the process that claimed last; journal is that journal's uuid
    and place its folder (for people to read); state is OPEN, CLOSED, COPIED or RETIRED; begun is the number of the last
    flush that began; begun_at when, epoch seconds.
    """

    owner: int
    epoch: int
    holder: str
    journal: str
    place: str
    state: str
    begun: int
    begun_at: int


@dataclass(frozen=True, slots=True)
class Held:
    """Who is writing: the fence that `begin` and all writes of a flush check."""

    owner: int
    epoch: int
    holder: str


def claim_condition(record: OwnerRecord) -> tuple[int, str, str, int]:
    """What must still stand in the store for a `claim` to replace this record."""
    return record.epoch, record.holder, record.state, record.begun


def is_open(stored: OwnerRecord | None, held: Held) -> TypeGuard[OwnerRecord]:
    """Does the store know `held` as the open holder?"""
    return stored is not None and (stored.epoch, stored.holder, stored.state) == (held.epoch, held.holder, OPEN)


def check_fence(held: Held, flush: int, stored: OwnerRecord | None) -> None:
    """Raises OwnerFenced unless `held` may write flush `flush`, given the record that is stored now."""
    if is_open(stored, held) and stored.begun == flush:
        return
    now = "unknown to the store"
    if stored is not None:
        now = f"{stored.state}, epoch {stored.epoch}, flush {stored.begun}"
    raise OwnerFenced(f"flush {flush} of owner {held.owner} at epoch {held.epoch} may not write: the owner is {now}")


@dataclass(frozen=True, slots=True)
class StoredRow:
    owner: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredLink:
    """Everything stored of one key, rows by owner. Those whose header knows only of older erasures than `erased_at`
    count for nothing."""

    erased_at: int  # epoch microseconds, 0 = never erased
    rows: tuple[StoredRow, ...]


@dataclass(frozen=True, slots=True)
class OwnRow:
    data: bytes | None
    erased_at: int  # epoch microseconds, 0 = never erased


@dataclass(frozen=True, slots=True)
class SavedRow:
    data: bytes
    due_day: int | None  # the fold day at which folding this row next changes it; None = never
    touched_day: int | None = None  # the fold day of the flush, if that brought new hits of the link


@dataclass(frozen=True, slots=True)
class Source:
    """How far an import has come: `position` bytes of the decompressed source, kept by one owner."""

    owner: int
    position: int
    tail: str  # a fingerprint of the bytes just before position, to tell that the source is still the same
    epoch: int = 0  # the owner's epoch when it claimed the source; filled in by the store


class View(Protocol):
    """The store at one moment, as far as it can: SQLite and memory show a single state until the view is left.

    Other stores read as they go, but ALL_LINKS first: its rows are those from before the view, so that who adds up
    finds out by the marks which owners went on meanwhile.
    """

    def owners(self) -> list[OwnerRecord]: ...

    def walk(self, after: str | None, limit: int) -> list[tuple[str, StoredLink]]:
        """Up to `limit` keys after `after` (None: from the first), each with all its rows."""

    def ids(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """Up to `limit` claimed ids after `after`, each with the newest accept stamp of its claims."""

    def sources(self) -> dict[str, Source]: ...


class Store(Protocol):
    shared: bool  # other machines may write it too: ids are decided at flush, and hits with ids show from then on
    # An id accepted longer ago than this may have been forgotten, so a flush that is as late must not claim it. None:
    # claims are kept until `forget_ids`.
    replay_us: int | None

    def uuid(self) -> str:
        """Which store this is: made once with it, the same for all who open it; a backup or a copy has another."""

    # --- owners -------------------------------------------------------------------------------------------------
    def owners(self) -> list[OwnerRecord]:
        """All owners by number, linearizable."""

    def owner(self, owner: int) -> OwnerRecord | None: ...

    def create_owner(self, record: OwnerRecord) -> bool:
        """Insert if no owner has that number; False if another has (True if this very record is there)."""

    def claim(self, before: OwnerRecord, after: OwnerRecord) -> bool:
        """Replace `before` by `after` if the stored epoch, holder, state and begun still equal those of `before`.

        True too if `after` is stored already. False for a COPIED or RETIRED owner, always. The epoch may stay the same
        only where the state changes: what comes late must find that its condition no longer stands.
        """

    def begin(self, held: Held, previous: int, flush: int, at: int) -> bool:
        """Set begun = flush if held is the open holder and begun is `previous` (or `flush` already). False = fenced."""

    def close_owner(self, held: Held) -> bool:
        """Clean stop: state CLOSED, if held is still the open holder (or has closed it already)."""

    # --- a flush ------------------------------------------------------------------------------------------------
    # `claim_ids` and `save_own` belong to the flush that began last. Where the store can tell that `held` is no longer
    # the open holder, or that another flush began, they raise OwnerFenced and write nothing; where it cannot, what they
    # write must lose against anything a newer epoch writes.

    def claim_ids(self, held: Held, flush: int, ids: Mapping[str, int], window_us: int) -> set[str]:
        """Claim ids ({id: accepted_us}) for this owner and flush; returns those that belong to somebody else.

        An id is somebody else's when another owner or flush has claimed it with an accept stamp at most `window_us`
        away from this one, on either side. What was claimed once stays this flush's, however often it asks.
        """

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        """This owner's rows of these stored keys; a key that has neither a row nor an erasure is left out."""

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        """Replace these rows, whole, and raise these sources' positions: durable when it returns, all or nothing per
        row. A source that another owner keeps, or that stands further already, is left as it is.

        A flush may be saved in many calls. Its last one holds the ALL_LINKS row, in every flush, and the sources: so
        an owner whose ALL_LINKS row has the mark `begun` is between two flushes, which `verify` and `backup` look for.
        """

    # --- erasing, ids, sources -----------------------------------------------------------------------------------
    def erase(self, key: str, at_us: int) -> None:
        """Record that everything counted for this stored key before at_us is gone; a later stamp wins. Durable."""

    def forget_ids(self, before_us: int) -> None:
        """Ids accepted before this need not be kept. Those that an unfinished flush may still ask for must be: its
        claims come out the same each time. Nothing to do for a store where claims expire (`replay_us`)."""

    def source(self, source: str) -> Source | None: ...

    def claim_source(self, source: str, held: Held, before: Source | None) -> bool:
        """Give the source to this owner and epoch, at its stored position (0 when new), if it still equals `before`.

        True too if this owner and epoch have it already. Only a source whose keeper is CLOSED or RETIRED may be taken
        from it, and an owner claims its own sources again in each epoch before it moves them: so whoever read "closed"
        before the keeper came back is refused.
        """

    # --- reading -------------------------------------------------------------------------------------------------
    async def rows(self, key: str) -> StoredLink:
        """Everything stored of one key."""

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        """Those of the ids that are claimed with an accept stamp at or after since_us."""

    def due(self, owner: int, fold_day: int, after: str | None, limit: int) -> list[str]:
        """Up to `limit` stored keys of this owner after `after`: every one whose due day is <= fold_day, and perhaps
        some whose due day has moved on."""

    def visited(self, held: Held, fold_day: int) -> None:
        """Every row that was due at `fold_day` or before has been written since: `due` need not name it again for the
        days until then."""

    def walk(self, after: str | None, limit: int, since_day: int | None = None) -> list[tuple[str, StoredLink]]:
        """Up to `limit` keys after `after` (None: from the first), each with all its rows as of one moment. Keys that
        are only erased do not show. With `since_day`, keys that were not saved with a touched_day of that day or later
        may be left out."""

    def view(self) -> AbstractContextManager[View]:
        """The store as of now, for tools that must add up what they see. Leave it soon: a database keeps what changes
        meanwhile apart."""

    def measures(self) -> Mapping[str, float]:
        """What the store tells of itself on /metrics, by name (`row_cache_hits_total`)."""

    def close(self) -> None:
        """Let go of connections. Changes nothing that is stored."""
