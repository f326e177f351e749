"""The journal in the cluster with one rule of its protocol switched off, and the histories that notice.

Rules that hardly any history is about have tests of their own, which fail when the rule is switched off:

    rule | test
    ---- | ----
    a read of the fence settles frames acknowledged before it began | tests/ingest/journal/test_frame_protocol.py
    a quorum has a taker's fence before it reads on | tests/storage/test_contract_journals.py: "a store that is down"
    a taker reads the record again after the fence, and then frames | tests/ingest/journal/test_cluster_journal.py
    a fence only rises, whichever taker's write is late | test_contract_journals.py: "a fence only rises"
    a fence is read from a quorum | test_frames_mutants.py
    `done` is of the holder, and names the flush begun last | test_contract_journals.py: "late done", "anybody else"
    a claim belongs to a token, not to an epoch | test_cluster_journal.py: "the same epoch"
    a begin of unknown outcome is repeated as it was | test_cluster_journal.py
    a choice of unknown outcome is repeated, so a start holds one owner | test_frame_protocol.py
    a flush that is carried out again writes all its rows | mutants.py: with journals on disks, by the same code
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest import mock

from clickcurve.buckets.errors import JournalBroken, StoreUnavailable
from ingest.imports.offsets import Offsets
from ingest.journal import cluster_journal
from ingest.journal.cluster_journal import ClusterJournal
from ingest.journal.group_commit import GroupCommit
from ingest.journal.taking import Make
from ingest.journal.window import Window
from storage.cassandra import store
from storage.cassandra.statements import FRAMES
from storage.cassandra.tables.journals import CassandraJournals
from storage.contract import OwnerRecord
from storage.journals import JournalRecord
from tests.simulated import cluster, frames_history
from tests.simulated.cluster import Cluster, Exchange, Faults
from tests.simulated.frames_history import IMPORTING, REPEATING
from tests.simulated.history import Plot
from tests.simulated.mutants import (
    Switched,
    apply_without_mark,
    claim_from_anybody,
    replaced,
    stamp_without_epoch,
)

Off = Callable[[], Switched]


def slow_network(rnd: Random) -> Faults:
    return Faults(lost=0.01, late=0.1, twice=0.05, slow=0.2)


# Owners that live are taken while groups are under way, and little happens at once.
DUELS = Plot(
    steps=400,
    turns=16,
    links=2,
    weights={
        "post": 60.0,
        "adopt": 30.0,
        "pause": 8.0,
        "wake": 8.0,
        "start": 6.0,
        "flush": 4.0,
        "faulty_flush": 0.0,
        "kill": 0.5,
        "close": 0.3,
        "node_down": 0.0,
        "fault": 0.0,
    },
    faults=slow_network,
)


@dataclass(frozen=True)
class Mutant:
    """off: switches the rule off. seeds: within so many histories, from `first` on, it must be caught."""

    name: str
    off: Off
    seeds: int = 60
    first: int = 0
    plot: Plot = field(default_factory=lambda: Plot(steps=90))


def all_of(*several: Switched) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for each in several:
        stack.enter_context(each)
    return stack


# --- the writer -----------------------------------------------------------------------------------------------------
async def read_before_append(self: ClusterJournal, place: Any, frame: bytes, kept: Any) -> None:
    """Confirms a frame by a read of the fence that began before it was acknowledged."""
    try:
        fence = await self._journals.fence(self.held.owner)
        await self._journals.append(place, frame)
    except StoreUnavailable as error:
        self._give_up(place.number, kept, error)
        return
    self._window.acknowledged(place.number)
    self._waiting[place.number] = kept
    counts = self._window.end_read(frozenset([place.number]), fence)
    self._settle(place.number, None if counts else JournalBroken("fenced"))


async def no_fence(self: CassandraJournals, owner: int) -> int:
    return 0


async def fence_lately(self: CassandraJournals, owner: int) -> int:
    """Reads once in 300 events."""
    connection: Any = self._cql
    turns = connection.cluster.stage.turns
    read_at, fence = LEASES.get((connection, owner), (-1_000, 0))
    if turns - read_at > 300:
        fence = await FENCE(self, owner)
        LEASES[connection, owner] = turns, fence
    return fence


LEASES: dict[Any, tuple[int, int]] = {}
FENCE = CassandraJournals.fence


def fewer(kind: str, table: str) -> Switched:
    """One replica is enough to write to or to read from this table."""
    plain: Any = {"write": Cluster._write, "read": Cluster._read}[kind]

    def mutated(self: Cluster, subject: Any, *args: Any) -> None:
        name = subject[0].name if kind == "write" else subject.name
        need = 1 if name == table else cluster.QUORUM
        with mock.patch.object(cluster, "Exchange", lambda _, then: Exchange(need, then)):
            plain(self, subject, *args)

    return replaced(Cluster, f"_{kind}", mutated)


def refuse_what_is_unknown(self: ClusterJournal, number: int, kept: Any, error: BaseException) -> None:
    self._window.give_up(number)
    self._unanswered.end(number)
    kept.set_exception(JournalBroken("not kept"))


def name_what_is_given_up(self: Window, number: int) -> None:
    GIVE_UP(self, number)
    self._counting.add(number)


def go_on_without_a_cut(self: Window, number: int) -> None:
    GIVE_UP(self, number)
    self.gave_up = False


GIVE_UP = Window.give_up


@asynccontextmanager
async def while_others_commit(self: GroupCommit) -> Any:
    yield


RECORD_FLUSH = ClusterJournal.record_flush


def accept_at_once(self: ClusterJournal, *args: Any) -> None:
    """Appends behind the flush that the last holder began."""
    INIT(self, *args)
    self._window._next = max(self._left, default=-1) + 1
    self._window._counting = set(self._left)


def name_both(self: ClusterJournal, number: int, fold_day: int) -> Any:
    if not self._has_begun and self._beginning is None:
        self._left = dict.fromkeys([*self._left, *self._window.counting()], b"")
    return RECORD_FLUSH(self, number, fold_day)


INIT = ClusterJournal.__init__


def drop_before_done(self: ClusterJournal, number: int) -> None:
    flush = self.state.flush
    if isinstance(flush, cluster_journal.NamedFlush):
        self._journals.drop(self.held.owner, flush.behind)
    COMPLETE(self, number)


COMPLETE = ClusterJournal.complete_flush


# --- the taker --------------------------------------------------------------------------------------------------------
def take_without_looking_again(
    store: Any, journals: Any, before: JournalRecord, after: OwnerRecord
) -> JournalRecord | None:
    if not store.claim(before.record, after):
        return None
    journals.raise_fence(after.owner, after.epoch)
    return replace(before, record=after)


def frames_seen(journals: Any, record: JournalRecord) -> dict[int, bytes]:
    """What there is behind the flush before, named or not."""
    found: dict[int, bytes] = journals.frames(record.record.owner, record.previous)
    return found


def frames_in_part(self: CassandraJournals, owner: int, after: int) -> dict[int, bytes]:
    """Takes what there is of a frame for all of it."""
    found: dict[int, bytes] = {}
    for number, _, _, data in self._cql.run(FRAMES, (owner, after, 0)):
        found[number] = found.get(number, b"") + data
    return {**found, **FRAMES_OF(self, owner, after)}


FRAMES_OF = CassandraJournals.frames


def unrepaired(faults: Faults, repair: bool) -> Faults:
    return replace(faults, repair=False)


def make_always(records: Sequence[JournalRecord], owners: Sequence[int], *rest: object) -> Make:
    return Make(max(owners, default=0) + 1)


MUTANTS = [
    Mutant("order", plot=DUELS, off=lambda: replaced(ClusterJournal, "_send", read_before_append), first=40),
    Mutant("fence_read", plot=DUELS, off=lambda: replaced(CassandraJournals, "fence", no_fence)),
    Mutant("lease", plot=DUELS, off=lambda: replaced(CassandraJournals, "fence", fence_lately), first=290),
    Mutant("frame_quorum", lambda: fewer("write", "frames"), seeds=200),
    Mutant("taken_quorum", plot=DUELS, off=lambda: fewer("read", "frames"), seeds=200),
    Mutant("list", lambda: replaced(cluster_journal, "frames_named", frames_seen), seeds=200),
    Mutant("repair", lambda: replaced(frames_history, "replace", unrepaired), seeds=600, first=90),
    Mutant(
        "begin_first",
        lambda: all_of(
            replaced(ClusterJournal, "__init__", accept_at_once),
            replaced(ClusterJournal, "record_flush", name_both),
            replaced(ClusterJournal, "must_flush", property(lambda self: False)),
        ),
    ),
    Mutant(
        "hold and settled",
        lambda: all_of(
            replaced(GroupCommit, "exclusive", while_others_commit),
            replaced(Window, "under_way", property(lambda self: 0)),
        ),
        seeds=40,
        first=20,
    ),
    Mutant("given_up", lambda: replaced(Window, "give_up", name_what_is_given_up)),
    Mutant("cut", plot=REPEATING, off=lambda: replaced(Window, "give_up", go_on_without_a_cut), seeds=60),
    Mutant("whole", lambda: replaced(CassandraJournals, "frames", frames_in_part), seeds=200),
    Mutant("done_first", lambda: replaced(ClusterJournal, "complete_flush", drop_before_done)),
    Mutant("reread", plot=DUELS, off=lambda: replaced(cluster_journal, "take", take_without_looking_again), first=130),
    Mutant("epoch_stamp", lambda: replaced(store, "pinned_stamp", stamp_without_epoch), seeds=200),
    Mutant("mark", lambda: mock.patch("ingest.flushed_rows.apply", apply_without_mark)),
    Mutant("redo_first", lambda: replaced(cluster_journal, "is_unfinished", lambda record: False)),
    Mutant("unknown", lambda: replaced(ClusterJournal, "_give_up", refuse_what_is_unknown), seeds=200),
    Mutant("keeper", plot=IMPORTING, off=lambda: replaced(Offsets, "_claim", claim_from_anybody), seeds=200),
    Mutant("offsets", plot=IMPORTING, off=lambda: replaced(Offsets, "buffered", lambda self, steps: None), seeds=200),
    Mutant("slots", lambda: replaced(frames_history, "choose_identity", make_always)),
]
