"""A rule that is sent again while it is being settled is carried out again, whatever is killed meanwhile."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from clickcurve.buckets.ladder import END_OF_TIME
from server.corrections.rules import DisavowBook, DisavowRule
from storage.memory_store import MemoryStore
from tests.ingest.faulty_store import FaultyStore, Killed

SPAM = DisavowRule("a", "ref", "spam.example", 0, END_OF_TIME, 1)


@pytest.mark.parametrize("sent_before", [0, 1])
def test_a_rule_that_was_sent_again_is_not_settled_for_the_time_before(sent_before: int) -> None:
    """Whoever settles it is killed before and after each of its calls of the store."""
    for call in count(1):
        for when in ("before", "after"):
            store = MemoryStore()
            book, killed = DisavowBook(store), FaultyStore(store)
            for _ in range(sent_before + 1):
                book.add(SPAM)
            (read,) = book.all()
            book.add(SPAM)
            killed.fail_at[call] = (when, Killed)
            try:
                DisavowBook(killed).settle(read)
                is_over = True
            except Killed:
                is_over = False
            (noted,) = book.all()
            assert not noted.settled, (call, when)
            book.settle(noted)
            assert [each.settled for each in book.all()] == [True]
        if is_over:
            return


def test_a_settled_rule_is_not_until_it_is_settled_again() -> None:
    book = DisavowBook(MemoryStore())
    for _ in range(3):
        book.add(SPAM)
        (noted,) = book.all()
        assert not noted.settled
        book.settle(noted)
        (settled,) = book.all()
        assert settled == replace(noted, settled=True)
