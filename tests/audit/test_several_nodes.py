"""The auditor of several nodes knows what a read must show where and when, and what it may show."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.audit.auditor import Hit, Outcome, Sent
from tests.audit.hit_source import HitSource
from tests.audit.several_nodes import Holder, NodesAuditor

HERE, THERE = 0, 1


class TwoNodes:
    """Two nodes whose holders and flushes are set by hand."""

    def __init__(self) -> None:
        self.reported = [0, 0]  # by owner
        self.held = [[Holder(HERE)], [Holder(THERE)]]
        self.gone: set[int] = set()  # nodes that nothing accepts at
        self.source = HitSource("k", random.Random(1), open_keys=1)
        self.auditor = NodesAuditor(self)

    def look(self) -> None:
        pass

    def current(self, node: int) -> Holder | None:
        return None if node in self.gone else self.held[node][-1]

    def past(self, node: int) -> Sequence[Holder]:
        return self.held[node]

    def flushes(self, holder: Holder) -> int:
        return self.reported[holder.owner]

    def request(self, hits: int = 1, with_id: bool = False) -> Sent:
        return self.auditor.enter(Sent([self.source.weighted() for _ in range(hits)], with_id))

    def tried(self, sent: Sent, node: int, outcome: Outcome) -> None:
        self.auditor.end(self.auditor.begin(sent, node), outcome)

    def judged(self, total: int, node: int) -> Sequence[str]:
        """What is wrong with a read of k0 that is sent and answered now."""
        must = self.auditor.certain("k0", node).after(self.current(node))
        return [str(misfit) for misfit in self.auditor.judge_read("k0", total, must)]


def test_an_acknowledged_hit_shows_here_at_once_and_elsewhere_after_two_flushes() -> None:
    nodes = TwoNodes()
    nodes.tried(nodes.request(), HERE, Outcome.acknowledged)
    missing = ["k0: hit 0 was acknowledged and counted 0 times (total 0)"]
    assert nodes.judged(0, HERE) == missing
    assert nodes.judged(0, THERE) == nodes.judged(1, THERE) == nodes.judged(1, HERE) == []
    nodes.reported = [1, 9]
    assert nodes.judged(0, THERE) == []
    nodes.reported = [2, 9]
    assert nodes.judged(0, THERE) == missing


def test_a_hit_with_an_id_must_show_once_all_nodes_it_went_to_have_flushed() -> None:
    nodes = TwoNodes()
    sent = nodes.request(with_id=True)
    nodes.tried(sent, HERE, Outcome.acknowledged)
    second = nodes.auditor.begin(sent, THERE)
    nodes.reported = [2, 2]
    assert nodes.judged(0, HERE) == []
    nodes.auditor.end(second, Outcome.unknown)
    assert nodes.judged(0, HERE) == []
    nodes.reported = [2, 4]
    assert len(nodes.judged(0, HERE)) == 1
    nodes.auditor.begin(sent, THERE)  # a repeat of what is in the store changes nothing
    assert len(nodes.judged(0, HERE)) == 1


def test_a_doubled_a_refused_and_an_unsent_hit_never_show() -> None:
    nodes = TwoNodes()
    doubled, refused, unsent = (nodes.request() for _ in range(3))
    nodes.tried(doubled, HERE, Outcome.acknowledged)
    nodes.tried(refused, HERE, Outcome.refused)
    assert unsent.tries == []
    assert nodes.judged(2 + 4 + 16 + 64, THERE) == [
        "k0: hit 0 was acknowledged and counted 2 times (total 86)",
        "k0: hit 1 was refused and counted 1 times (total 86)",
        "k0: hit 2 was refused and counted 1 times (total 86)",
        "k0: the total 86 is more than was ever sent",
    ]


def test_what_is_under_way_or_unknown_may_show() -> None:
    nodes = TwoNodes()
    nodes.auditor.begin(nodes.request(), HERE)
    nodes.tried(nodes.request(), HERE, Outcome.unknown)
    for total in (0, 1, 4, 5):
        assert nodes.judged(total, HERE) == []


def test_what_became_certain_while_a_read_was_under_way_may_be_missing_in_it() -> None:
    nodes = TwoNodes()
    asked = nodes.auditor.certain("k0", HERE)
    nodes.tried(nodes.request(), HERE, Outcome.acknowledged)
    assert nodes.auditor.judge_read("k0", 0, asked.after(nodes.current(HERE))) == []


def test_all_links_together_have_their_bounds() -> None:
    nodes = TwoNodes()
    mine, theirs, refused, unknown = (nodes.request() for _ in range(4))
    nodes.tried(mine, HERE, Outcome.acknowledged)
    nodes.tried(theirs, THERE, Outcome.acknowledged)
    nodes.tried(refused, HERE, Outcome.refused)
    nodes.tried(unknown, HERE, Outcome.unknown)
    for sent in (mine, theirs, refused, unknown):
        nodes.auditor.settle(sent)
    assert (nodes.auditor.all_least(HERE), nodes.auditor.all_least(THERE)) == ((0, 1), (0, 4))
    assert nodes.auditor.all_most() == 1 + 4 + 64
    nodes.reported = [2, 2]
    assert nodes.auditor.all_least(HERE) == nodes.auditor.all_least(THERE) == (1 + 4, 1 + 4)
    assert [sent.outcome for sent in nodes.auditor.by_key["k0"]] == [
        Outcome.acknowledged,
        Outcome.acknowledged,
        Outcome.refused,
        Outcome.unknown,
    ]


def test_a_batch_is_one_request() -> None:
    nodes = TwoNodes()
    batch = nodes.request(hits=3)
    assert batch.hits == [Hit("k0", 0), Hit("k0", 1), Hit("k0", 2)]
    nodes.tried(batch, HERE, Outcome.acknowledged)
    assert len(nodes.judged(0, HERE)) == 3


def test_a_hit_whose_holder_is_gone_must_show_when_its_owner_has_flushed_anywhere() -> None:
    nodes = TwoNodes()
    sent = nodes.request()
    nodes.tried(sent, HERE, Outcome.acknowledged)
    asked = nodes.auditor.certain("k0", HERE)
    elsewhere = nodes.request(with_id=True)
    for node in (HERE, THERE):
        nodes.tried(elsewhere, node, Outcome.acknowledged)
    assert nodes.auditor.only_at(Holder(HERE)) == [sent]
    nodes.held[HERE].append(Holder(THERE, 2))  # another process, as another owner
    assert asked.after(nodes.current(HERE)) == []
    assert nodes.judged(0, HERE) == nodes.judged(1, HERE) == []
    nodes.reported = [2, 0]
    assert len(nodes.judged(0, HERE)) == len(nodes.judged(0, THERE)) == 1
    assert nodes.auditor.only_at(Holder(HERE)) == []


def test_a_request_that_met_two_holders_may_lie_with_either() -> None:
    nodes = TwoNodes()
    sent = nodes.request()
    nodes.gone = {HERE}
    begun = nodes.auditor.begin(sent, HERE)
    nodes.held[HERE] += [Holder(THERE, 2), Holder(HERE, 2)]
    nodes.gone = set()
    nodes.auditor.end(begun, Outcome.acknowledged)
    assert nodes.judged(0, HERE) == []
    nodes.reported = [2, 0]
    assert nodes.judged(0, HERE) == []
    nodes.reported = [2, 2]
    assert len(nodes.judged(0, HERE)) == 1


def test_no_flush_tells_of_a_request_that_its_client_has_given_up() -> None:
    nodes = TwoNodes()
    sent = nodes.request(with_id=True)
    nodes.tried(sent, HERE, Outcome.acknowledged)
    nodes.auditor.give_up(nodes.auditor.begin(sent, THERE))
    nodes.reported = [9, 9]
    assert nodes.judged(0, HERE) == []
    assert nodes.auditor.judge({"k0": 0}) == ["k0: hit 0 was acknowledged and counted 0 times (total 0)"]
