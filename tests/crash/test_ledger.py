from __future__ import annotations

import random

from tests.crash.ledger import HITS_A_KEY, Ledger, Outcome, Sent


def ledger() -> Ledger:
    return Ledger("k", random.Random(1), open_keys=1)


def test_totals_as_answered_are_right_and_unknown_hits_may_count_or_not() -> None:
    book = ledger()
    first, second, third = book.weighted(), book.weighted(), book.weighted()
    book.settle([first], Outcome.acknowledged)
    book.settle([second], Outcome.refused)
    book.settle([third], Outcome.unknown)
    assert book.judge({first.key: 1}) == []
    assert book.judge({first.key: 1 + 16}) == []
    assert book.bounds(first.key) == (1, 17)


def test_a_lost_a_doubled_and_a_refused_hit_are_named() -> None:
    book = ledger()
    hits = [book.weighted() for _ in range(3)]
    book.settle(hits[:2], Outcome.acknowledged)
    book.settle(hits[2:], Outcome.refused)
    total = 0 * 1 + 2 * 4 + 1 * 16
    assert book.judge({hits[0].key: total}) == [
        f"k0: hit 0 was acknowledged and counted 0 times (total {total})",
        f"k0: hit 1 was acknowledged and counted 2 times (total {total})",
        f"k0: hit 2 was refused and counted 1 times (total {total})",
    ]


def test_a_total_of_hits_that_were_never_sent_is_named() -> None:
    book = ledger()
    book.settle([book.weighted()], Outcome.acknowledged)
    assert book.judge({"k0": 5}) == ["k0: the total 5 is more than was ever sent"]


def test_an_unanswered_batch_counts_whole_or_not_at_all() -> None:
    book = ledger()
    hits = [book.weighted(), book.weighted()]
    book.settle(hits, Outcome.unknown)
    assert book.judge_whole({"k0": 0}) == []
    assert book.judge_whole({"k0": 5}) == []
    assert book.judge_whole({"k0": 4}) == ["a batch of 2 hits without an answer counted in part, at k0 hit 0"]


def test_a_full_key_is_followed_by_another_one() -> None:
    book = ledger()
    sent = [book.weighted() for _ in range(HITS_A_KEY + 1)]
    assert sent[-2:] == [Sent("k0", HITS_A_KEY - 1), Sent("k1", 0)]
    assert sent[-2].count < 1_000_000_000
