"""The table that decides which owner's number a journal may flush under.

After a copy or a snapshot of the journal, or a backup of the store, what the journal holds may be in the store already.
So each record of an owner that concerns the journal is compared with it, and the cell where that meets what the journal
holds says what to do:

    record | nothing | hits       | import     | flush      | how the record compares with the journal
    ------ | ------- | ---------- | ---------- | ---------- | ---------------------------------------------------------
    OURS   | go on   | go on      | go on      | go on      | claimed last by this journal; or restored from a backup
    UNHELD | go on   | go on      | go on      | quarantine | another number of this journal or a copy, held by nobody
    SHARED | another | go on      | go on      | quarantine | a number that a copy of this journal took and may hold
    ENDED  | another | another    | quarantine | another    | retired, or its store was copied: nobody may claim it
    AHEAD  | another | quarantine | quarantine | quarantine | claimed since, or it began a flush that the journal lacks
    FREE   | reuse   | reuse      | reuse      | another    | closed by any journal: all it accepted is in the store

The journal holds: hits that no flush covers; a piece of an import; a recorded flush that is not complete. If it holds
several of these, the action furthest down this list counts:

- go on: claim the number, one epoch later, under the name in the record. What the journal holds is in none of its rows.
- reuse: claim the number as a new owner. The rows' marks lie below the flushes of the new epoch, but they may lie above
  a flush that was recorded before.
- another: claim the next record's number or, after the last, a new one.
- quarantine: refuse, because what the journal holds may be counted already, or would be hidden by the rows' marks.

After a clean stop another journal may take the number. The record then names that one, and behind it the journals that
gave the number back, each as NAME@OWNER.EPOCH: so a snapshot of one of them still finds that its journal went on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import chain

from ingest.batch import Batch, decode_batch
from ingest.journal.contract import Identity, Journal, JournalState
from storage.contract import CLOSED, FINAL, OwnerRecord
from storage.journals import EMPTYING, IN_STORE

FORMER_NAMES = 128  # of a record: the journals that gave its number back last, of some 45 bytes each
_FORMER = " former "


class Relation(Enum):
    """How the record of an owner compares with a journal: the rows of the table."""

    OURS = "OURS"
    UNHELD = "UNHELD"
    SHARED = "SHARED"
    ENDED = "ENDED"
    AHEAD = "AHEAD"
    FREE = "FREE"


class Holds(Enum):
    """What a journal holds that may not be in the store: the columns of the table."""

    NOTHING = "nothing"
    HITS = "hits"
    IMPORT = "import"
    FLUSH = "flush"


class Action(IntEnum):
    """What to do with a record: the cells of the table."""

    GO_ON = 0
    REUSE = 1
    ANOTHER = 2
    QUARANTINE = 3


GO_ON, REUSE, ANOTHER, QUARANTINE = Action
TABLE = {
    #                 nothing  hits        import      flush
    Relation.OURS:   (GO_ON,   GO_ON,      GO_ON,      GO_ON),
    Relation.UNHELD: (GO_ON,   GO_ON,      GO_ON,      QUARANTINE),
    Relation.SHARED: (ANOTHER, GO_ON,      GO_ON,      QUARANTINE),
    Relation.ENDED:  (ANOTHER, ANOTHER,    QUARANTINE, ANOTHER),
    Relation.AHEAD:  (ANOTHER, QUARANTINE, QUARANTINE, QUARANTINE),
    Relation.FREE:   (REUSE,   REUSE,      REUSE,      ANOTHER),
}  # fmt: skip


def choose_number(
    claimant: Claimant, owners: Sequence[OwnerRecord], holds: Collection[Holds]
) -> tuple[Action, OwnerRecord | None]:
    """Returns what to do, and with which record; (ANOTHER, None): take a new number.

    The record of the owner that the journal was comes first. Then those that it or its copies got since, and those that
    are closed: one that says quarantine counts more than one to go on with, and that more than reuse.
    """
    own = claimant.own(owners)
    if own is not None:
        action = _action(claimant.relation(own, is_own=True), holds)
        if action is not ANOTHER:
            return action, own
    twins = [twin for twin in claimant.twins(owners) if twin != own]
    actions = [(_action(claimant.relation(twin, is_own=False), holds), twin) for twin in twins]
    actions += [(_action(Relation.FREE, holds), record) for record in owners if _is_free(record)]
    for wanted in (QUARANTINE, GO_ON, REUSE):
        for action, record in actions:
            if action is wanted:
                return action, record
    return ANOTHER, None


def _action(relation: Relation, holds: Collection[Holds]) -> Action:
    return max(action for held, action in zip(Holds, TABLE[relation], strict=True) if held in holds)


def _is_free(record: OwnerRecord) -> bool:
    return record.state == CLOSED and record.journal not in (IN_STORE, EMPTYING)


def name_in(record: OwnerRecord) -> str:
    """Returns the name of the journal that has the number; "": of none."""
    return record.journal.partition(_FORMER)[0]


def with_name(name: str, stored: OwnerRecord) -> str:
    """Returns what a record says of journals once the journal of this name takes its number over.

    The journal that had the number joins those that gave it back.
    """
    former = _former_names(stored)
    if name_in(stored):
        former = [*former, f"{_as_one_word(name_in(stored))}@{stored.owner}.{stored.last_claim[0]}"]
    return _FORMER.join([name, " ".join(former[-FORMER_NAMES:])]) if former else name


def without_name(record: OwnerRecord) -> str:
    """Returns what a record says of journals once the one that has its number gives it back unused."""
    return record.journal.removeprefix(name_in(record))


def _former_names(record: OwnerRecord) -> list[str]:
    return record.journal.partition(_FORMER)[2].split()


def _as_one_word(name: str) -> str:
    return name.replace(" after ", "<")


def what_it_holds(journal: Journal) -> set[Holds]:
    """Reads the journal's frames, up to the first piece of an import; {NOTHING} if there is nothing."""
    flush = journal.state.flush
    holds = {Holds.FLUSH} if flush is not None else set()
    for frame in chain(journal.frames(flush) if flush is not None else (), journal.frames()):
        holds.add(Holds.HITS)
        batch = decode_batch(frame.payload)
        if isinstance(batch, Batch) and batch.source is not None:
            return holds | {Holds.IMPORT}
    return holds or {Holds.NOTHING}


@dataclass(frozen=True, slots=True)
class Claimant:
    """A journal that needs a number, as its own state shows it.

    journal: its uuid. last_flush, flush: the numbers of the last complete flush (0: none) and of the unfinished one.
    """

    journal: str
    identity: Identity
    last_flush: int
    flush: int | None

    @classmethod
    def of(cls, journal: str, state: JournalState) -> Claimant:
        return cls(journal, state.identity, state.last_flush, None if state.flush is None else state.flush.number)

    @property
    def newest_flush(self) -> int:
        return self.last_flush if self.flush is None else self.flush

    @property
    def name(self) -> str:
        """What this journal is called in the record of a number that is new to it.

        Copies of it that need a number, too, give the same name; those that went on under another number before do not.
        """
        identity = self.identity
        return f"{self.journal} after {identity.owner}.{identity.epoch}" if identity.owner else self.journal

    def is_named_in(self, record: OwnerRecord) -> bool:
        """Says whether the record names this journal or a copy of it, whatever number it was in need of."""
        return record.journal.partition(" ")[0] == self.journal

    def gave_back(self, record: OwnerRecord) -> bool:
        """Says whether this journal, or a copy of it, got the record's number since and gave it back to others."""
        for former in _former_names(record):
            name, _, last = former.rpartition("@")
            owner, epoch = map(int, last.split("."))
            was_this_owner = owner == self.identity.owner and epoch > self.identity.epoch
            if name == _as_one_word(self.name) or (was_this_owner and name.partition("<")[0] == self.journal):
                return True
        return False

    def has_claimed(self, record: OwnerRecord) -> bool:
        """Says whether the record's last claim is one that this journal made or tried."""
        claims = ((self.identity.epoch, self.identity.holder), *self.identity.attempts)
        return self.is_named_in(record) and record.last_claim in claims

    def own(self, owners: Sequence[OwnerRecord]) -> OwnerRecord | None:
        """Returns the record of the owner that this journal was, if the store has one.

        In a store that another was copied into, that owner may have another number. So the journal's own claim decides,
        then its number, then the newest claim of any copy of it.
        """
        if not self.identity.owner:
            return None
        numbered = next((record for record in owners if record.owner == self.identity.owner), None)
        named = [record for record in owners if self.is_named_in(record)]
        for record in (numbered, *named):
            if record is not None and self.has_claimed(record):
                return record
        # After a clean stop (no holder) any journal may have taken the number. Otherwise another journal can have taken
        # it only in a later epoch; an earlier one says that this store's owner was never this journal.
        gave_back = not self.identity.holder
        was_taken = not gave_back and numbered is not None and numbered.last_claim[0] >= self.identity.epoch
        if numbered in named or was_taken:
            return numbered
        return None if gave_back else max(named, key=lambda record: record.epoch, default=None)

    def twins(self, owners: Sequence[OwnerRecord]) -> list[OwnerRecord]:
        """Returns the records that this journal, or a copy of it, got since it needed a number."""
        return [record for record in owners if name_in(record) == self.name or self.gave_back(record)]

    def relation(self, record: OwnerRecord, *, is_own: bool) -> Relation:
        """Compares a record with this journal; is_own: that of the owner that it was, otherwise a twin."""
        has_claimed = self.has_claimed(record)
        claimed_since = is_own and not has_claimed and record.last_claim[0] >= self.identity.epoch
        if claimed_since or self._lacks_a_flush_of(record) or (not has_claimed and self.gave_back(record)):
            return Relation.AHEAD
        if record.state in FINAL:
            return Relation.ENDED
        if has_claimed or (is_own and record.owner == self.identity.owner):
            return Relation.OURS
        return Relation.UNHELD if is_own or record.state == CLOSED else Relation.SHARED

    def _lacks_a_flush_of(self, record: OwnerRecord) -> bool:
        """Says whether the owner began a flush that this journal did not record, or can no longer finish."""
        if self.flush is not None and record.state in FINAL:
            return record.begun >= self.flush
        return record.begun > self.newest_flush
