"""The auditor's book of a campaign with several nodes: what each read may and must show at the moment it is made.

Every hit has a weight of its own (`tests.crash.ledger`), so a total says of each hit how often it was counted, and the
bounds below are checked hit by hit:

- a hit **may** show as soon as it was sent, and never once it is certainly refused at every node that it was sent to;
- a hit without an id **must** show at the node that acknowledged it, at once, and elsewhere when it is in the store;
- one with an id must show when it is in the store. It may have been sent to several nodes, and which one counts it is
  known only when the flushes of all of them have asked for the id.

That it is in the store is known by the flushes which a node tells of: at the end of a try the node had told of n. The
flush after that may have begun before, the one after it takes what was accepted. So n + 2 flushes are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.crash.ledger import Ledger, Misfit, Outcome, Sent, misfits

FLUSHES_UNTIL_STORED = 2


@dataclass(slots=True, eq=False)
class Try:
    """One attempt to deliver an operation to one node; without an outcome it is under way."""

    node: int
    outcome: Outcome | None = None
    stored_with: int = 0  # flushes of the node, when what it accepted is in the store for certain


@dataclass(slots=True, eq=False)
class Operation:
    """One request with all its hits, which share their fate."""

    hits: Sequence[Sent]
    with_id: bool
    tries: list[Try] = field(default_factory=list)
    stored: bool = False  # known to be in the store, so it stays there

    @property
    def weight(self) -> int:
        return sum(hit.count for hit in self.hits)

    @property
    def acknowledged(self) -> bool:
        return any(one.outcome is Outcome.acknowledged for one in self.tries)

    @property
    def refused(self) -> bool:
        """Certainly counted nowhere."""
        return all(one.outcome is Outcome.refused for one in self.tries)

    @property
    def outcome(self) -> Outcome:
        """What became of it, all tries ended."""
        if self.acknowledged:
            return Outcome.acknowledged
        return Outcome.refused if self.refused else Outcome.unknown


class Book:
    """Writes down every try and judges every read. `flushes`: how many each node has told of since its first start."""

    def __init__(self, ledger: Ledger, flushes: Callable[[], Sequence[int]]) -> None:
        self.ledger = ledger
        self.operations: list[Operation] = []
        self.keys: list[str] = []  # in the order in which they came up
        self._flushes = flushes
        self._by_key: dict[str, list[Operation]] = {}
        self._stored_sum = 0
        self._open: set[Operation] = set()  # not known to be stored, and not refused or given up
        self._most_sum = 0

    # --- writing down -------------------------------------------------------------------------------------------
    def enter(self, hits: Sequence[Sent], with_id: bool) -> Operation:
        """A new operation, before its first try. Its hits are the next ones of their keys."""
        operation = Operation(hits, with_id)
        self.operations.append(operation)
        self._open.add(operation)
        self._most_sum += operation.weight
        for hit in hits:
            known = self._by_key.setdefault(hit.key, [])
            if not known:
                self.keys.append(hit.key)
            assert len(known) == hit.digit, "hits are entered in the order in which the ledger gave them out"
            known.append(operation)
        return operation

    def begin(self, operation: Operation, node: int) -> Try:
        begun = Try(node)
        operation.tries.append(begun)
        return begun

    def end(self, one: Try, outcome: Outcome) -> None:
        one.outcome = outcome
        one.stored_with = self._flushes()[one.node] + FLUSHES_UNTIL_STORED

    def settle(self, operation: Operation) -> None:
        """No further try follows."""
        outcome = operation.outcome
        self.ledger.settle(operation.hits, outcome)
        if outcome is not Outcome.acknowledged:
            self._open.discard(operation)
        if outcome is Outcome.refused:
            self._most_sum -= operation.weight

    # --- what a read must and may show ----------------------------------------------------------------------------
    def certain(self, key: str, node: int) -> list[bool]:
        """For each hit of the key whether a read that is sent to the node now must show it."""
        flushes = self._flushes()
        return [self._is_certain(operation, node, flushes) for operation in self._by_key.get(key, ())]

    def _is_certain(self, operation: Operation, node: int, flushes: Sequence[int]) -> bool:
        if operation.stored:
            return True
        if not operation.acknowledged:
            return False
        if not operation.with_id and operation.tries[0].node == node:
            return True
        if any(one.outcome is None for one in operation.tries):
            return False
        taken = [one for one in operation.tries if one.outcome is not Outcome.refused]
        if all(flushes[one.node] >= one.stored_with for one in taken):
            self._is_stored(operation)
            return True
        return False

    def _is_stored(self, operation: Operation) -> None:
        operation.stored = True
        self._stored_sum += operation.weight
        self._open.discard(operation)

    def judge(self, key: str, total: int, certain: Sequence[bool]) -> list[Misfit]:
        """The hits that a read shows wrongly. `certain`: as it was when the read was sent."""
        expected = []
        for digit, operation in enumerate(self._by_key.get(key, ())):
            must = digit < len(certain) and certain[digit]
            name = "certain" if must else "refused" if operation.refused else "possible"
            expected.append((name, int(must), int(not operation.refused)))
        return misfits(key, total, expected)

    def all_least(self, node: int) -> int:
        """The least that a read of all links together may show at the node, if it is sent now."""
        flushes = self._flushes()
        certain = [operation for operation in list(self._open) if self._is_certain(operation, node, flushes)]
        # Those that are known to be stored now moved into the sum by that.
        return self._stored_sum + sum(operation.weight for operation in certain if not operation.stored)

    def all_most(self) -> int:
        """The most that a read of all links together may show, if it has been answered now."""
        return self._most_sum
