"""The auditor finds each hit that counted more or less often than its answers allow, and names it."""

from __future__ import annotations

import random

from tests.audit.auditor import Auditor, Hit, Outcome, Sent
from tests.audit.hit_source import HITS_A_KEY, HitSource


class OneKey(Auditor[Sent]):
    """Requests of a hit each, all of the key k0."""

    def request(self, *outcomes: Outcome, hits: int = 1) -> Sent:
        sent = self.enter(Sent([Hit("k0", len(self.by_key["k0"]) + more) for more in range(hits)]))
        for outcome in outcomes:
            self.tried(sent, outcome)
        return sent


def test_totals_as_answered_are_right_and_unknown_hits_may_count_or_not() -> None:
    auditor = OneKey()
    for outcome in (Outcome.acknowledged, Outcome.refused, Outcome.unknown):
        auditor.request(outcome)
    assert auditor.judge({"k0": 1}) == []
    assert auditor.judge({"k0": 1 + 16}) == []
    assert auditor.sums() == dict.fromkeys(Outcome, 1)


def test_a_lost_a_doubled_and_a_refused_hit_are_named() -> None:
    auditor = OneKey()
    for outcome in (Outcome.acknowledged, Outcome.acknowledged, Outcome.refused):
        auditor.request(outcome)
    total = 0 * 1 + 2 * 4 + 1 * 16
    assert auditor.judge({"k0": total}) == [
        f"k0: hit 0 was acknowledged and counted 0 times (total {total})",
        f"k0: hit 1 was acknowledged and counted 2 times (total {total})",
        f"k0: hit 2 was refused and counted 1 times (total {total})",
    ]
    assert [misfit.lost for misfit in auditor.all_misfits({"k0": total})] == [True, False, False]


def test_a_key_without_a_total_has_lost_its_hits() -> None:
    auditor = OneKey()
    auditor.request(Outcome.acknowledged)
    assert auditor.judge({}) == ["k0: hit 0 was acknowledged and counted 0 times (total 0)"]
    assert auditor.judge({}, keys=["other"]) == []


def test_a_total_of_hits_that_were_never_sent_is_named() -> None:
    auditor = OneKey()
    auditor.request(Outcome.acknowledged)
    assert auditor.judge({"k0": 5}) == ["k0: the total 5 is more than was ever sent"]


def test_one_success_among_several_tries_is_enough_and_only_refusals_are_a_refusal() -> None:
    auditor = OneKey()
    auditor.request(Outcome.unknown, Outcome.acknowledged, Outcome.refused)
    auditor.request(Outcome.refused, Outcome.unknown)
    auditor.request(Outcome.refused, Outcome.refused)
    auditor.begin(auditor.request(Outcome.refused))
    assert [sent.outcome.name for sent in auditor.sent] == ["acknowledged", "unknown", "refused", "unknown"]
    assert auditor.judge({"k0": 1 + 4 + 64}) == auditor.judge({"k0": 1}) == []


def test_what_was_erased_counts_no_more_and_what_comes_later_does() -> None:
    auditor = OneKey()
    auditor.request(Outcome.acknowledged)
    auditor.request(Outcome.unknown)
    auditor.erased("k0")
    auditor.request(Outcome.acknowledged)
    assert auditor.judge({"k0": 16}) == []
    assert auditor.judge({"k0": 1 + 4 + 16}) == [
        "k0: hit 0 was erased and counted 1 times (total 21)",
        "k0: hit 1 was erased and counted 1 times (total 21)",
    ]
    assert auditor.misfits("k0", 1 + 16, erased_may_show=True) == []


def test_a_read_need_not_show_what_was_not_asked_of_it() -> None:
    auditor = OneKey()
    first = auditor.request(Outcome.acknowledged)
    auditor.request(Outcome.acknowledged)
    assert auditor.misfits("k0", 1, must={first}) == []
    assert [misfit.digit for misfit in auditor.misfits("k0", 4, must={first})] == [0]
    assert auditor.misfits("k0", 3, must={first}, most=3) == []


def test_an_unanswered_batch_counts_whole_or_not_at_all() -> None:
    auditor = OneKey()
    auditor.request(Outcome.unknown, hits=2)
    assert auditor.judge_whole({"k0": 0}) == []
    assert auditor.judge_whole({"k0": 5}) == []
    assert auditor.judge_whole({"k0": 4}) == ["a batch of 2 hits without an answer counted in part, at k0 hit 0"]


def test_a_full_key_is_followed_by_another_one() -> None:
    source = HitSource("k", random.Random(1), open_keys=1)
    given = [source.weighted() for _ in range(HITS_A_KEY + 1)]
    assert given[-2:] == [Hit("k0", HITS_A_KEY - 1), Hit("k1", 0)]
    assert given[-2].count < 1_000_000_000
    assert source.single() == Hit("kone-2", 0)
