"""Three replicas and a coordinator in memory: what the cluster does with a statement, and what its network does to it.

Plain tables are cells on three replicas, written and read at quorum. A message to a replica, or its answer, may be
lost, come twice, or come late: after the caller was told that it timed out, or after it has died. Tables that are
changed by conditional updates are linearizable. A table is either the one or the other; so say the statements, which
must all be known from the start. What a statement may not do is refused with NotUnderstood: it ends the history,
whatever catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from storage.cassandra.cql import Statement, StatementKind, Values
from tests.simulated.bound import Bound, Wanted, checked, key_part, place_of
from tests.simulated.cells import MARKER, Cell, Partition, Partitions, absorb, merged, sortable
from tests.simulated.cql_text import NOW_MS, NotUnderstood, Plan, Table, parse, parse_table
from tests.simulated.linear import Change, Key, LinearTable, live
from tests.simulated.stage import Stage

REPLICAS = 3
QUORUM = 2
AGREED = -1  # the target that stands for all replicas in a round of agreement
ROWS = "rows"  # the table in which nothing may be deleted, expire, or have a stamp that is not pinned


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each of them is.

    hasty: a caller gives up though the answer is on its way. stalled: a conditional update is begun and not finished.
    slow: the answer to a reader takes its time. repair: reads repair what they find different, before they answer.
    """

    lost: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    answer_lost: float = 0.0
    hasty: float = 0.0
    stalled: float = 0.0
    slow: float = 0.0
    repair: bool = True

    def none(self) -> Faults:
        return Faults(repair=self.repair)


@dataclass(frozen=True, slots=True)
class Answer:
    """rows of a read, and where each lies; applied of a condition. error: "timeout" (nobody knows) or "unavailable"
    (never begun)."""

    rows: list[tuple[Any, ...]] | None = None
    places: list[object] | None = None
    applied: bool | None = None
    error: str | None = None


TIMEOUT, UNAVAILABLE = Answer(error="timeout"), Answer(error="unavailable")
Then = Callable[[Answer], None]


class Exchange:
    """A request to some targets. `then` hears once: what `need` of them have answered, or None if they do not."""

    __slots__ = ("_ended", "_need", "_then", "answers", "under_way")

    def __init__(self, need: int, then: Callable[[dict[int, Any] | None], None]) -> None:
        self.answers: dict[int, Any] = {}
        self.under_way = 0
        self._need = need
        self._then = then
        self._ended = False

    def answered(self, target: int, answer: object) -> None:
        self.answers.setdefault(target, answer)
        if len(self.answers) >= self._need:
            self._end(self.answers)

    def time_out(self) -> None:
        self._end(None)

    def _end(self, answers: dict[int, Any] | None) -> None:
        if not self._ended:
            self._ended = True
            self._then(answers)


class Cluster:
    def __init__(
        self,
        stage: Stage,
        faults: Faults,
        clock: Callable[[], float],
        tables: Iterable[str],
        statements: Iterable[Statement],
    ) -> None:
        self.stage, self.faults, self.clock = stage, faults, clock
        self.down: set[int] = set()
        self.requests = 0
        self.skew_s = stage.rnd.uniform(-120, 120)  # of the coordinators' clocks
        self.refused: list[NotUnderstood] = []
        self._rnd = stage.rnd
        self.tables = {table.name: table for table in map(parse_table, tables)}
        self.plans = {statement: self._plan(statement) for statement in statements}
        changed = {plan.table for plan in self.plans.values() if plan.conditions is not None}
        self.linear = {name: LinearTable(self._rnd) for name in sorted(changed)}
        self.replicas: list[dict[str, Partitions]] = [
            {name: {} for name in self.tables if name not in changed} for _ in range(REPLICAS)
        ]
        for statement, plan in self.plans.items():
            if plan.verb != "select" and plan.conditions is None and plan.table in changed:
                raise NotUnderstood(f"{statement.name}: {plan.table} is changed by conditional updates, and without")

    def now(self) -> float:
        return self.clock() + self.skew_s

    # --- statements -----------------------------------------------------------------------------------------------
    def _plan(self, statement: Statement) -> Plan:
        plan = parse(statement.text)
        reads = statement.kind in (StatementKind.READ, StatementKind.SERIAL_READ)
        conditional = statement.kind == StatementKind.CONDITION
        if reads != (plan.verb == "select") or conditional != (plan.conditions is not None):
            raise NotUnderstood(f"{statement.name} is no {statement.kind.value}: {statement.text}")
        if plan.columns == [NOW_MS]:
            return plan
        table = self.tables.get(plan.table)
        if table is None:
            raise NotUnderstood(f"{statement.name}: no table {plan.table}")
        named = {*plan.columns, *plan.assigned} - {"token"}
        for relation in (*plan.where, *(plan.conditions or ())):
            named.update(relation.columns)
        if unknown := named - table.columns.keys():
            raise NotUnderstood(f"{statement.name}: {table.name} has no {unknown}")
        if plan.table == ROWS and not reads and (plan.verb == "delete" or plan.timestamp is None or plan.ttl):
            raise NotUnderstood(f"{statement.name}: no deletion, expiry or stamp of a clock in {ROWS}")
        return plan

    def start(self, statement: Statement, values: Values, then: Then, only: int | None = None) -> None:
        """Carry a statement out; `then` hears of it later. only: the one replica that hears of a write."""
        plan = self.plans.get(statement)
        self.requests += 1
        try:
            if plan is None:
                raise NotUnderstood(f"{statement} is none of the statements that were prepared")
            if len(values) != plan.markers:
                raise NotUnderstood(f"{statement.name} has {plan.markers} question marks, not {len(values)}")
            self._start(plan, Bound(values), statement.kind, then, only)
        except NotUnderstood as error:
            self.refused.append(error)
            raise

    def _start(self, plan: Plan, bound: Bound, kind: StatementKind, then: Then, only: int | None) -> None:
        if plan.columns == [NOW_MS]:
            rows = [(int(self.now() * 1000),)]
            self.stage.soon(lambda: then(Answer(rows=rows)))
        elif REPLICAS - len(self.down) < QUORUM:
            self.stage.soon(lambda: then(UNAVAILABLE))
        elif plan.table in self.linear:
            self._start_linear(plan, bound, kind, then)
        elif kind == StatementKind.SERIAL_READ:
            raise NotUnderstood(f"a serial read of {plan.table}, which no conditional update changes")
        elif plan.verb == "select":
            self._read(self.tables[plan.table], plan, bound, then)
        else:
            targets = range(REPLICAS) if only is None else [only]
            self._write(self._mutation(plan, bound), targets, lambda done: then(Answer(rows=[]) if done else TIMEOUT))

    # --- messages -------------------------------------------------------------------------------------------------
    def _send(self, exchange: Exchange, target: int, act: Callable[[], object]) -> None:
        """One message: act, then answer. Any of it may fail to happen, or happen late or twice."""
        faults, draw = self.faults, self._rnd.random

        def arrive() -> None:
            if target in self.down:
                if draw() < 0.5:  # kept as a hint
                    self.stage.late.append(arrive)
                return
            answer = act()
            if draw() >= faults.answer_lost:
                exchange.answered(target, answer)

        def arrive_in_time() -> None:
            arrive()
            exchange.under_way -= 1
            if not exchange.under_way:
                self.stage.soon(exchange.time_out)

        for _ in range(2 if draw() < faults.twice else 1):
            if draw() < faults.lost:
                continue
            if draw() < faults.late:
                self.stage.late.append(arrive)
            else:
                exchange.under_way += 1
                self.stage.soon(arrive_in_time)

    def _sent(self, exchange: Exchange) -> None:
        if not exchange.under_way or self._rnd.random() < self.faults.hasty:
            self.stage.soon(exchange.time_out)

    # --- plain tables ---------------------------------------------------------------------------------------------
    def _mutation(self, plan: Plan, bound: Bound) -> tuple[Table, Partitions]:
        table = self.tables[plan.table]
        ttl = bound.of(plan.ttl) if plan.ttl is not None else table.ttl_s
        stamp = bound.of(plan.timestamp) if plan.timestamp is not None else int(self.now() * 1e6)
        expires = None if ttl is None else self.clock() + checked("int", ttl)
        checked("bigint", stamp)
        named = {each.columns[0]: bound.of(each.terms[0]) for each in plan.where if each.op == "="}
        named.update({column: bound.of(term) for column, term in plan.assigned.items()})
        for column, value in named.items():
            checked(table.columns[column], value)
        key = tuple(key_part(named.pop(column)) for column in table.partition)
        partition = Partition()
        if plan.verb == "delete":
            whole = not named
            partition.delete(None if whole else tuple(named.pop(column) for column in table.clustering), stamp)
        else:
            clustering = tuple(key_part(named.pop(column)) for column in table.clustering)
            for column, value in named.items():
                partition.write(clustering, column, Cell(stamp, value, expires))
            if plan.verb == "insert":
                partition.write(clustering, MARKER, Cell(stamp, b"", expires))
        return table, {key: partition}

    def _write(self, mutation: tuple[Table, Partitions], targets: Iterable[int], done: Callable[[bool], None]) -> None:
        table, partitions = mutation
        exchange = Exchange(QUORUM, lambda answers: done(answers is not None))
        for target in targets:
            self._send(exchange, target, lambda at=target: absorb(self.replicas[at][table.name], partitions))  # type: ignore[misc]
        self._sent(exchange)

    def _read(self, table: Table, plan: Plan, bound: Bound, then: Then) -> None:
        wanted = Wanted(table, plan.where, bound)

        def answered(answers: dict[int, Partitions] | None) -> None:
            if answers is None:
                then(TIMEOUT)
                return
            whole = merged(answers.values())
            answer = self.found(table, plan, bound, whole)
            behind = [at for at, partitions in answers.items() if partitions != whole]
            if self.faults.repair and behind:
                self._repair(table, whole, behind, lambda done: then(answer if done else TIMEOUT))
            else:
                then(answer)

        exchange = Exchange(QUORUM, answered)
        for target in self._rnd.sample(range(REPLICAS), REPLICAS):
            self._send(exchange, target, lambda at=target: wanted.of(self.replicas[at][table.name]))  # type: ignore[misc]
        self._sent(exchange)

    def _repair(self, table: Table, whole: Partitions, behind: list[int], done: Callable[[bool], None]) -> None:
        """Write what was read to those that lacked it; only then is the read answered."""
        exchange = Exchange(len(behind), lambda answers: done(answers is not None))
        for target in behind:
            self._send(exchange, target, lambda at=target: absorb(self.replicas[at][table.name], whole))  # type: ignore[misc]
        self._sent(exchange)

    def found(self, table: Table, plan: Plan, bound: Bound, partitions: Partitions) -> Answer:
        rows: list[tuple[Any, ...]] = []
        places: list[object] = []
        for place, key in sorted((place_of(key), key) for key in partitions):
            for clustering, columns in partitions[key].live(self.clock()).items():
                keys = zip((*table.partition, *table.clustering), (*key, *clustering), strict=True)
                columns.update(keys, token=place[0])
                rows.append(tuple(columns.get(column) for column in plan.columns))
                places.append((place, sortable(clustering)))
                if plan.distinct:
                    break
        limit = bound.of(plan.limit)
        end = len(rows) if limit is None else checked("int", limit)
        return Answer(rows[:end], places[:end])

    def at(self, replicas: Iterable[int], statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        """What a read that only these replicas answer would give, now and without a fault. Repairs nothing."""
        plan, bound = self.plans[statement], Bound(values)
        table = self.tables[plan.table]
        wanted = Wanted(table, plan.where, bound)
        whole = merged(wanted.of(self.replicas[at][table.name]) for at in replicas)
        return self.found(table, plan, bound, whole).rows or []

    # --- linearizable tables --------------------------------------------------------------------------------------
    def _start_linear(self, plan: Plan, bound: Bound, kind: StatementKind, then: Then) -> None:
        table, linear = self.tables[plan.table], self.linear[plan.table]
        if kind == StatementKind.CONDITION:
            self._change(linear, *self._linear_change(table, plan, bound), then)
            return
        wanted = Wanted(table, plan.where, bound)
        if kind == StatementKind.SERIAL_READ and (wanted.keys is None or len(wanted.keys) != 1):
            raise NotUnderstood(f"a serial read of {table.name} that is not one partition's")

        def look() -> dict[Key, dict[str, object]]:
            if kind == StatementKind.SERIAL_READ:
                assert wanted.keys is not None
                return {key: linear.serial(key, self.clock()) for key in wanted.keys}
            return linear.at_quorum(self.clock(), wanted.keys)

        def answered(answers: dict[int, dict[Key, dict[str, object]]] | None) -> None:
            if answers is None:
                then(TIMEOUT)
                return
            seen = {key: columns for key, columns in answers[AGREED].items() if columns and wanted.has(key)}
            cells = {key: {column: Cell(0, value, None) for column, value in row.items()} for key, row in seen.items()}
            partitions = {key: Partition(rows={(): {MARKER: Cell(0, b"", None), **row}}) for key, row in cells.items()}
            then(self.found(table, plan, bound, partitions))

        exchange = Exchange(1, answered)
        self._send(exchange, AGREED, look)
        self._sent(exchange)

    def _linear_change(self, table: Table, plan: Plan, bound: Bound) -> tuple[Key, Change]:
        named = {each.columns[0]: bound.of(each.terms[0]) for each in plan.where if each.op == "="}
        named.update({column: bound.of(term) for column, term in plan.assigned.items()})
        conditions = tuple((each.columns[0], each.op, bound.of(each.terms[0])) for each in plan.conditions or ())
        for column, value in (*named.items(), *((column, value) for column, _, value in conditions)):
            checked(table.columns[column], value)
        if table.clustering or plan.timestamp is not None or any(each.op != "=" for each in plan.where):
            raise NotUnderstood("a conditional update of something else than one whole partition")
        key = tuple(key_part(named.pop(column)) for column in table.partition)
        ttl = None if plan.ttl is None else checked("int", bound.of(plan.ttl))
        if plan.verb == "delete":
            named = dict.fromkeys(table.columns.keys() - {*table.partition})
        return key, Change(named, plan.exists, conditions, ttl)

    def _change(self, linear: LinearTable, key: Key, change: Change, then: Then) -> None:
        register = linear.register(key)

        def act() -> bool:
            return register.change(change, self._rnd, self.clock())

        def answered(answers: dict[int, bool] | None) -> None:
            if answers is not None:
                register.told = True
            then(TIMEOUT if answers is None else Answer(applied=answers[AGREED]))

        exchange = Exchange(1, answered)
        if self._rnd.random() < self.faults.stalled:
            register.begun.append(change)
        else:
            self._send(exchange, AGREED, act)
        self._sent(exchange)

    def everything(self, table: str) -> dict[Key, dict[str, object]]:
        """What a linearizable table holds now."""
        registers = self.linear[table].registers
        return {key: columns for key, each in registers.items() if (columns := live(each.columns, self.clock()))}
