"""The product with one rule of the protocol switched off, and histories that are about that rule.

Each mutant puts another function in the place of one of the product's, which must still be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest import mock

from clickcurve.access import Access
from clickcurve.buckets import codec
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.parts import apply_parts, decode_parts, encode_parts
from clickcurve.buckets.row import apply
from ingest import claim, claim_table, flush, flushed_rows, owner
from ingest.claim_table import Claimant, Relation
from ingest.corrections import CORRECTIONS_SOURCE, Corrector
from ingest.imports.offsets import Offsets
from ingest.journal.contract import Identity
from query.reader import Reader
from server.corrections.runner import Corrections
from storage.cassandra import store
from storage.cassandra.store import CassandraStore
from storage.cassandra.tables import ids
from storage.cassandra.tables.erasures import Erasures
from storage.cassandra.tables.ids import MARGIN_US, REPLAY_US, Claim, IdsTable
from storage.contract import Held, Source
from tests.simulated import cluster, simulation
from tests.simulated.cells import Cell, Partition, Partitions, absorb
from tests.simulated.cluster import ROWS, Answer, Cluster, Exchange, Faults
from tests.simulated.cql_text import Table
from tests.simulated.history import Plot
from tests.simulated.simulation import DAY_S

Switched = AbstractContextManager[Any]


@dataclass(frozen=True)
class Mutant:
    """off: switches the rule off. seeds: within so many histories of this plot, from the first on, it must be caught.

    first: the seed of the first one; where few histories notice, those before the one that does are left out.
    """

    name: str
    off: Callable[[], Switched]
    plot: Plot = field(default_factory=Plot)
    seeds: int = 40
    first: int = 0


def replaced(place: Any, name: str, by: Any) -> Switched:
    assert hasattr(place, name), f"there is no {name} any more: this mutant says nothing"
    return mock.patch.object(place, name, by)


@contextmanager
def both(one: Switched, other: Switched) -> Iterator[None]:
    with one, other:
        yield


# --- the product's functions with one rule less ---------------------------------------------------------------------
def stamp_without_epoch(epoch: int) -> int:
    return PINNED_STAMP(epoch) & 0xFFFF_FFFF


PINNED_STAMP = store.pinned_stamp


def apply_without_mark(row: Any, *args: Any) -> Any:
    return apply(row._replace(mark=0), *args)


def closed_part_taken_for_stored(self: Any, key: str, before: Any, *args: Any) -> Any:
    """Also in the flush after a failed one, whose closed part may have reached one replica only."""
    found = SAVED(self, key, before, *args)
    stays = found is not None and before is not None and args[0].closed == before.closed
    return None if found is None else found._replace(closed_stays=stays)


SAVED = flushed_rows.FlushedBreakdowns.saved


def parts_applied_without_mark(stored: Any, delta: Any, mark: int, *args: Any, **named: Any) -> Any:
    if stored is not None:
        row = decode_parts(stored)
        stored = encode_parts(row._replace(mark=0), BREAKDOWN)
    return apply_parts(stored, delta, mark, *args, **named)


def flush_without_rewrite(**named: Any) -> flush.Flush:
    return flush.Flush(**{**named, "rewrite": False})


async def row_before_buffer(self: Reader, key: str, now: int, **named: Any) -> Any:
    late = Reader(self._rows, lambda key: [], self._revisit, self._ladder)
    found = await self._rows(key)
    late._rows = lambda _: _answered(found)
    late._pending = self._pending
    return await READ(late, key, now, **named)


READ = Reader.row


def is_claimed_by_owner(owner: int, flush: int, claims: Sequence[Claim]) -> bool:
    return any(claim[0] == owner for claim in claims)


def add_claims_for_hours(self: IdsTable, known: Any, wanted: Any, kept_us: int, attempt: int) -> list[str]:
    return ADD_CLAIMS(self, known, wanted, (kept_us - REPLAY_US - MARGIN_US) // 16, attempt)


ADD_CLAIMS = IdsTable._add_claims


def look_in_vain(self: Erasures) -> Sequence[str] | None:
    return None if LOOK(self) is None else []


LOOK = Erasures.look


def claim_from_anybody(self: Offsets, source: str, held: Held, allowed: Access) -> Source:
    stored = self._store.source(source)
    self._store.claim_source(source, held, stored)
    return Source(held.owner, stored.position, stored.tail) if stored else Source(held.owner, 0, "")


async def no_corrections(self: Corrections, stored: Sequence[str]) -> list[str]:
    return []


def read_moment_last(self: Corrector, *rows: Any) -> Any:
    """When the corrections were erased, as the last answer says."""
    read = READ_ROWS(self, *rows)
    return read._replace(erased_at=read.newest_erased_at)


READ_ROWS = Corrector._joined


async def call_nothing_back(self: Corrector) -> None:
    self._compared = (await self._owner.source(CORRECTIONS_SOURCE)).position


async def _answered(answer: Any) -> Any:
    return answer


@contextmanager
def saving_unheard(self: CassandraStore, held: Any, flush: int) -> Iterator[Any]:
    """What is sent is not waited for, neither by the next piece nor at the end."""

    def save(rows: Any) -> None:
        self._send_own(held, flush, rows)

    yield save


class TwoCells:
    """The mark of a row in a cell of its own: each of the two travels alone, and replicas may have one of them."""

    WRITE, FOUND = Cluster._write, Cluster.found

    @staticmethod
    def write(
        self: Cluster, mutation: tuple[Table, Partitions], targets: Iterable[int], done: Callable[[bool], None]
    ) -> None:
        table, partitions = mutation
        ((key, whole),) = partitions.items()
        cells = {clustering: row.get("data") for clustering, row in whole.rows.items()}
        if table.name != ROWS or not any(cells.values()):
            TwoCells.WRITE(self, mutation, targets, done)
            return
        outcomes: list[bool] = []

        def ended(answers: object) -> None:
            outcomes.append(answers is not None)
            if len(outcomes) == 2:
                done(all(outcomes))

        for column in ("mark", "data"):
            part = Partition()
            for clustering, cell in cells.items():
                assert cell is not None and isinstance(cell.value, bytes)
                if column == "mark":
                    part.write(clustering, column, Cell(cell.stamp, codec.decode(cell.value).mark, None))
                else:
                    part.rows[clustering] = dict(whole.rows[clustering])
            exchange = Exchange(cluster.QUORUM, ended)
            for at in targets:
                replica = self.replicas[at][ROWS]
                self._send(exchange, at, lambda to=replica, what={key: part}: absorb(to, what))  # type: ignore[misc]
            self._sent(exchange)

    @staticmethod
    def found(self: Cluster, table: Table, plan: Any, bound: Any, partitions: Partitions) -> Answer:
        joined = {key: partition.picked(lambda _: True) for key, partition in partitions.items()}
        for partition in joined.values() if table.name == ROWS else ():
            for row in partition.rows.values():
                mark, data = row.pop("mark", None), row.get("data")
                if mark is not None and data is not None:
                    whole = codec.decode(data.value)._replace(mark=mark.value)  # type: ignore[arg-type]
                    row["data"] = data._replace(value=codec.encode(whole))
        return TwoCells.FOUND(self, table, plan, bound, joined)


# --- what the histories are about -----------------------------------------------------------------------------------
def late(rnd: Random) -> Faults:
    """Much comes late, some of it not at all."""
    return Faults(lost=rnd.choice([0.05, 0.2]), late=rnd.choice([0.2, 0.4]), answer_lost=0.1, repair=False)


def lossy(rnd: Random) -> Faults:
    """Much is lost, and reads repair nothing."""
    return Faults(lost=rnd.choice([0.2, 0.35]), late=0.02, answer_lost=0.05, repair=False)


def unsure(rnd: Random) -> Faults:
    """Conditional updates end without an answer, or are not finished."""
    return Faults(answer_lost=0.3, stalled=0.2, late=0.1)


def slow(rnd: Random) -> Faults:
    """Readers wait long for their answers."""
    return Faults(slow=0.5)


def calm(rnd: Random) -> Faults:
    return Faults(lost=0.02, late=0.05)


ONLY = {  # what no plot below needs
    "read": 2.0, "again": 2.0, "to_two": 1.0, "erase": 0.0, "fold": 0.0, "wait": 1.0, "close": 0.0, "new_machine": 0.0,
    "copy": 0.0, "snapshot": 0.0, "put_back": 0.0, "retire": 0.0, "lose_machine": 0.0, "disk_fault": 0.0,
}  # fmt: skip
KILLS = Plot(faults=late, weights={**ONLY, "faulty_flush": 30.0, "kill": 8.0, "start": 20.0})
LOSSES = Plot(
    faults=lossy, links=30, links_at_once=2, weights={**ONLY, "faulty_flush": 20.0, "kill": 12.0, "start": 30.0}
)  # rows that are seldom written, so that no later flush heals them
COPIES = Plot(
    faults=calm, weights={**ONLY, "copy": 5.0, "pause": 8.0, "wake": 8.0, "faulty_flush": 20.0, "start": 15.0}
)
RESTORED = Plot(faults=calm, weights={**ONLY, "snapshot": 8.0, "put_back": 8.0, "start": 15.0})
RESTORED_LATER = Plot(
    faults=calm, links=2, ids=0.0,
    weights={
        **ONLY, "read": 0.5, "again": 0.2, "to_two": 0.2, "wait": 0.3, "kill": 1.0, "pause": 0.2, "faulty_flush": 0.5,
        "snapshot": 10.0, "put_back": 10.0, "close": 14.0, "start": 15.0, "lose_machine": 10.0, "new_machine": 14.0,
        "post": 10.0, "flush": 15.0,
    },
)  # fmt: skip
CLAIMS = Plot(faults=unsure, weights={**ONLY, "post": 40.0, "flush": 5.0, "kill": 15.0, "start": 25.0})
TAKEN_OVER = Plot(faults=calm, weights={**ONLY, "close": 10.0, "start": 10.0, "new_machine": 5.0})
IDS = Plot(faults=calm, ids=0.9, weights={**ONLY, "to_two": 25.0, "again": 20.0})
UNREAD_IDS = Plot(faults=lossy, ids=0.9, weights={**ONLY, "again": 40.0, "flush": 40.0})
OLD_IDS = Plot(
    faults=calm, ids=0.9, waits_s=(60, 6 * 3_600, DAY_S),
    weights={**ONLY, "to_two": 20.0, "again": 20.0, "kill": 8.0, "start": 8.0, "wait": 12.0},
)  # fmt: skip
OLD_JOURNALS = Plot(
    faults=calm, ids=0.9, waits_s=(60, 9 * DAY_S),
    weights={**ONLY, "to_two": 25.0, "kill": 12.0, "start": 8.0, "wait": 8.0},
)  # fmt: skip
ERASED = Plot(
    faults=calm, links=2, ids=0.0,
    weights={**ONLY, "read": 1.0, "wait": 0.2, "post": 40.0, "erase": 12.0, "flush": 40.0, "kill": 1.0},
)  # fmt: skip
DISAVOWED = Plot(
    steps=200, faults=calm, links=2, ids=0.0, waits_s=(1, 60, 3_600, 2.5 * DAY_S),
    weights={
        **ONLY, "read": 0.5, "again": 0.2, "to_two": 0.2, "disavow": 25.0, "undo": 8.0, "follow": 25.0, "erase": 0.5,
        "cross": 8.0, "post": 50.0, "flush": 10.0, "faulty_flush": 1.0, "kill": 1.5, "start": 15.0, "pause": 0.5,
        "wake": 6.0, "wait": 2.0, "node_down": 0.3, "node_up": 3.0, "close": 0.1,
    },
)  # fmt: skip
CROSSED = replace(
    DISAVOWED, steps=120,
    weights={
        **DISAVOWED.weights, "cross": 40.0, "erase": 3.0, "disavow": 20.0, "undo": 15.0, "follow": 30.0, "flush": 15.0,
    },
)  # fmt: skip
READS = Plot(faults=slow, links=2, ids=0.0, weights={**ONLY, "read": 60.0, "flush": 40.0, "kill": 1.0})

MUTANTS = [
    Mutant("a row's stamp without the epoch", lambda: replaced(
        store, "pinned_stamp", stamp_without_epoch), KILLS),
    Mutant("a flush applied without a look at the mark", lambda: replaced(
        flushed_rows, "apply", apply_without_mark), KILLS),
    Mutant("the mark in a cell of its own", lambda: both(
        replaced(Cluster, "_write", TwoCells.write), replaced(Cluster, "found", TwoCells.found)),
        LOSSES, seeds=60, first=680),
    Mutant("no row written again after a failure or a restart", lambda: replaced(
        owner, "Flush", flush_without_rewrite), LOSSES, first=15),
    Mutant("a closed part not written again after a failure", lambda: replaced(
        flushed_rows.FlushedBreakdowns, "saved", closed_part_taken_for_stored), LOSSES, first=170),
    Mutant("a breakdown applied without a look at the mark", lambda: replaced(
        flushed_rows, "apply_parts", parts_applied_without_mark), KILLS),
    Mutant("a flush that begins without asking", lambda: both(
        replaced(CassandraStore, "begin", lambda *_: True),
        replaced(CassandraStore, "_check_fence", lambda *_: None)), COPIES),
    Mutant("a piece that is not waited for", lambda: replaced(CassandraStore, "saving", saving_unheard), LOSSES),
    Mutant("an id is mine if its owner is", lambda: replaced(
        ids, "_is_claimed_by", is_claimed_by_owner), UNREAD_IDS),
    Mutant("ids decided when the hit comes", lambda: replaced(
        CassandraStore, "claim_ids", lambda *_: set()), IDS),
    Mutant("ids forgotten within hours", lambda: replaced(
        IdsTable, "_add_claims", add_claims_for_hours), OLD_IDS),
    Mutant("ids of any age flushed", lambda: replaced(
        owner, "refuse_old_ids", lambda *_: None), OLD_JOURNALS),
    Mutant("every process with the same token", lambda: replaced(
        simulation, "token_of", lambda *_: lambda: "token"), COPIES),
    Mutant("a claim won by the epoch alone", lambda: replaced(
        claim, "_has_won", lambda after, stored: stored is not None and stored.epoch == after.epoch), COPIES),
    Mutant("attempts to claim forgotten", lambda: replaced(
        claim, "_with_attempt", lambda identity, after: replace(identity, attempts=())), CLAIMS),
    Mutant("a journal not asked whether it is the latest", lambda: mock.patch.dict(
        claim_table.TABLE, {Relation.AHEAD: claim_table.TABLE[Relation.OURS]}), COPIES),
    Mutant("a journal not asked for the last flush", lambda: replaced(
        Claimant, "_lacks_a_flush_of", lambda *_: False), RESTORED),
    Mutant("journals that gave a number back not named in its record", lambda: replaced(
        claim, "with_name", lambda name, stored: name), RESTORED_LATER, first=60),
    Mutant("flush numbers without the epoch", lambda: replaced(
        owner, "first_flush", lambda epoch: 0), TAKEN_OVER),
    Mutant("a number taken that was not closed", lambda: replaced(
        claim_table, "_is_free", lambda record: True), TAKEN_OVER),
    Mutant("a number kept after a clean stop", lambda: replaced(
        claim, "given_back", lambda held: Identity(held.owner, held.epoch, held.holder, ())),
        TAKEN_OVER, seeds=80, first=48),
    Mutant("own hits added after the rows were read", lambda: replaced(
        Reader, "row", row_before_buffer), READS),
    Mutant("cached rows not dropped when others erase", lambda: replaced(
        Erasures, "look", look_in_vain), ERASED, seeds=60, first=103),
    Mutant("erasures not looked at in a flush", lambda: replaced(
        flush.Flush, "_buffers_of_erased", lambda *_: {}), ERASED),
    Mutant("writes that one replica has", lambda: replaced(cluster, "QUORUM", 1), LOSSES),
    Mutant("corrections carried out by anybody", lambda: replaced(Offsets, "_claim", claim_from_anybody), DISAVOWED),
    Mutant("a link deleted without its corrections", lambda: replaced(
        Corrections, "_moved_of", no_corrections), DISAVOWED),
    Mutant("nothing called back of erased links", lambda: replaced(
        Corrector, "_call_back_erased", call_nothing_back), CROSSED, first=70),
]  # fmt: skip
