"""The buffered links as a ranking asks for them: in steps, while hits come and flushes take, complete and let go."""

from __future__ import annotations

from collections import Counter

from ingest.batch import Batch
from ingest.buffer import Buffer

MINUTE = 1_800_000_000


def test_hits_that_come_between_two_steps_do_not_disturb_them() -> None:
    buffer = Buffer(MINUTE)
    people = {MINUTE: {"a": 1, "b": 2}, MINUTE + 60: {"a": 3}, MINUTE - 60: {"late": 4}}
    buffer.add_batch(Batch(people=people, bots={MINUTE: {"a": 5}}, openings={"old": 6}), 1, False)
    steps = buffer.counted_links()
    parts = Counter(next(filter(None, steps)))
    buffer.add_singles(MINUTE, ["a", "new"], 2)
    buffer.add_batch(Batch(people={MINUTE - 120: {"late": 1, "newer": 1}}, openings={"older": 1}), 3, False)
    for table in steps:
        parts.update(table)
    assert parts["b"] == 2 and parts["old"] == 6
    assert parts["a"] in (9, 10) and parts["late"] in (4, 5), "of now or of then"


def test_a_buffer_that_is_let_go_meanwhile_ends_early() -> None:
    buffer = Buffer(MINUTE)
    buffer.add_batch(Batch(people={MINUTE: {"a": 1, "b": 2}, MINUTE + 60: {"c": 3}}), 1, False)
    steps = filter(None, buffer.counted_links())
    assert next(steps) == {"a": 1, "b": 2}
    buffer.drain(lambda: None)
    assert [*steps] == []
