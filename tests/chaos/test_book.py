"""The book judges reads as its words say: what must show where and when, and what may."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.chaos.book import Book, Operation
from tests.crash.ledger import Ledger, Outcome, Sent

HERE, THERE = 0, 1


class TwoNodes:
    """A book of two nodes whose flushes are set by hand."""

    def __init__(self) -> None:
        self.flushes = [0, 0]
        self.ledger = Ledger("k", random.Random(1), open_keys=1)
        self.book = Book(self.ledger, lambda: self.flushes)

    def operation(self, hits: int = 1, with_id: bool = False) -> Operation:
        return self.book.enter([self.ledger.weighted() for _ in range(hits)], with_id)

    def tried(self, operation: Operation, node: int, outcome: Outcome) -> None:
        self.book.end(self.book.begin(operation, node), outcome)

    def judged(self, total: int, node: int) -> Sequence[str]:
        """What is wrong with a read of k0 that is sent and answered now."""
        return [str(misfit) for misfit in self.book.judge("k0", total, self.book.certain("k0", node))]


def test_an_acknowledged_hit_shows_here_at_once_and_elsewhere_after_two_flushes() -> None:
    nodes = TwoNodes()
    nodes.tried(nodes.operation(), HERE, Outcome.acknowledged)
    missing = ["k0: hit 0 was certain and counted 0 times (total 0)"]
    assert nodes.judged(0, HERE) == missing
    assert nodes.judged(0, THERE) == nodes.judged(1, THERE) == nodes.judged(1, HERE) == []
    nodes.flushes = [1, 9]
    assert nodes.judged(0, THERE) == []
    nodes.flushes = [2, 9]
    assert nodes.judged(0, THERE) == missing


def test_a_hit_with_an_id_must_show_once_all_nodes_it_went_to_have_flushed() -> None:
    nodes = TwoNodes()
    operation = nodes.operation(with_id=True)
    nodes.tried(operation, HERE, Outcome.acknowledged)
    second = nodes.book.begin(operation, THERE)
    nodes.flushes = [2, 2]
    assert nodes.judged(0, HERE) == []
    nodes.book.end(second, Outcome.unknown)
    assert nodes.judged(0, HERE) == []
    nodes.flushes = [2, 4]
    assert len(nodes.judged(0, HERE)) == 1
    nodes.book.begin(operation, THERE)  # a repeat of what is in the store changes nothing
    assert len(nodes.judged(0, HERE)) == 1


def test_a_doubled_a_refused_and_an_unsent_hit_never_show() -> None:
    nodes = TwoNodes()
    doubled, refused, unsent = (nodes.operation() for _ in range(3))
    nodes.tried(doubled, HERE, Outcome.acknowledged)
    nodes.tried(refused, HERE, Outcome.refused)
    assert unsent.tries == []
    assert nodes.judged(2 + 4 + 16 + 64, THERE) == [
        "k0: hit 0 was possible and counted 2 times (total 86)",
        "k0: hit 1 was refused and counted 1 times (total 86)",
        "k0: hit 2 was refused and counted 1 times (total 86)",
        "k0: the total 86 is more than was ever sent",
    ]


def test_what_is_under_way_or_unknown_may_show() -> None:
    nodes = TwoNodes()
    nodes.book.begin(nodes.operation(), HERE)
    nodes.tried(nodes.operation(), HERE, Outcome.unknown)
    for total in (0, 1, 4, 5):
        assert nodes.judged(total, HERE) == []


def test_what_became_certain_while_a_read_was_under_way_may_be_missing_in_it() -> None:
    nodes = TwoNodes()
    asked = nodes.book.certain("k0", HERE)
    nodes.tried(nodes.operation(), HERE, Outcome.acknowledged)
    assert nodes.book.judge("k0", 0, asked) == []


def test_all_links_together_have_their_bounds() -> None:
    nodes = TwoNodes()
    mine, theirs, refused, unknown = (nodes.operation() for _ in range(4))
    nodes.tried(mine, HERE, Outcome.acknowledged)
    nodes.tried(theirs, THERE, Outcome.acknowledged)
    nodes.tried(refused, HERE, Outcome.refused)
    nodes.tried(unknown, HERE, Outcome.unknown)
    for operation in (mine, theirs, refused, unknown):
        nodes.book.settle(operation)
    assert (nodes.book.all_least(HERE), nodes.book.all_least(THERE)) == (1, 4)
    assert nodes.book.all_most() == 1 + 4 + 64
    nodes.flushes = [2, 2]
    assert nodes.book.all_least(HERE) == nodes.book.all_least(THERE) == 1 + 4
    assert nodes.ledger.outcomes["k0"] == [
        Outcome.acknowledged,
        Outcome.acknowledged,
        Outcome.refused,
        Outcome.unknown,
    ]


def test_a_batch_is_one_operation() -> None:
    nodes = TwoNodes()
    batch = nodes.operation(hits=3)
    assert batch.hits == [Sent("k0", 0), Sent("k0", 1), Sent("k0", 2)]
    nodes.tried(batch, HERE, Outcome.acknowledged)
    assert len(nodes.judged(0, HERE)) == 3
