"""A rule calls the events of the hits that it means, too, and an erased word is in no row of events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from clickcurve.keys import ALL_LINKS, link_key, moved_key
from tests.server.events.told_events import FINE, GROUP, KEYS, MEASURES, NOW, SPAM, ToldEvents, rule_of

RULES = {
    "a link": (rule_of("a"), {"a"}),
    "a link with an odd key": (rule_of(link_key("\0odd")), {link_key("\0odd")}),
    "a group": (rule_of(GROUP), {GROUP}),
    "a prefix": (rule_of(prefix="b/"), {"b/1", "b/2"}),
    "all links": (rule_of(prefix=""), {*map(link_key, KEYS)}),
}


@pytest.mark.parametrize("what", RULES)
async def test_a_rule_calls_the_events_of_its_hits_and_undoing_it_brings_all_back(tmp_path: Path, what: str) -> None:
    rule, called = RULES[what]
    told = ToldEvents(tmp_path, 1)
    await told.filled()
    await told.note(rule)
    await told.settle()
    await told.hold(called)
    await told.filled()  # hits that come later stay as they are, until the rule is sent again
    await told.note(rule)
    await told.settle()
    await told.hold(called)
    await told.undo(rule)
    await told.settle()
    await told.hold(set())
    assert told.servers[0].book.all() == []
    await told.close()


@pytest.mark.parametrize("seed", range(8))
async def test_rules_of_links_groups_and_prefixes_together_in_any_order(tmp_path: Path, seed: int) -> None:
    told, noted = ToldEvents(tmp_path, seed), set[str]()
    await told.flush()  # both owners are known
    for _ in range(6):
        await told.send(told.rnd.randint(0, 1), 20)
        what = told.rnd.choice([*RULES])
        if what in noted and told.rnd.random() < 0.5:
            await told.undo(RULES[what][0])
            noted.discard(what)
        else:
            await told.note(RULES[what][0])
            noted.add(what)
        await told.settle()
    for what in noted:
        await told.note(RULES[what][0])  # it is to call the hits that came since
    await told.settle()
    await told.flush()
    await told.hold({row for what in noted for row in RULES[what][1]})
    for what in noted:
        await told.undo(RULES[what][0])
    await told.settle()
    await told.hold(set())
    await told.close()


async def test_what_is_answered_of_a_rule_are_clicks(tmp_path: Path) -> None:
    told = ToldEvents(tmp_path, 3)
    await told.filled()
    await told.note(rule_of(prefix=""))
    await told.settle()
    (noted,) = told.servers[0].book.all()
    clicks = sum(told.sent[link_key(key), MEASURES[0], SPAM] for key in KEYS)
    assert noted.walked is not None
    assert (noted.walked.links, noted.walked.moved, noted.walked.left_out) == (len(KEYS), clicks, 0)
    await told.close()


async def test_events_of_all_links_stay_called_when_their_link_and_its_rule_are_gone(tmp_path: Path) -> None:
    told = ToldEvents(tmp_path, 4)
    await told.filled()
    await told.note(rule_of("a"))
    await told.settle()
    rows = [measure.row("a") for measure in MEASURES]
    told.store.erase(rows, NOW * 1_000_000 + 900_000_000, [moved_key(row) for row in rows])
    told.now += 1_000
    await told.undo(rule_of("a"))
    await told.settle()
    assert told.servers[0].book.all() == []
    for measure in MEASURES:
        assert told.servers[0].is_corrected(measure.row(ALL_LINKS))
        assert not told.servers[0].is_corrected(measure.row("b/1"))
    await told.close()


# --- erasing a word -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", [None, "a", link_key("\0odd"), GROUP])
async def test_an_erased_word_is_in_no_row_of_events_nor_in_the_buffer(tmp_path: Path, row: str | None) -> None:
    told = ToldEvents(tmp_path, 5)
    await told.filled()
    for n in range(2):
        await told.send(n, 30)  # buffered, or of rows that a flush takes
    book = told.erasings[0].book
    book.add(book.meant("ref", SPAM, row, told.now))
    for _ in range(20):
        told.now += 60
        for erasing in told.erasings:
            await erasing.refresh()
    assert [erasure.done_at is not None for erasure in book.all()] == [True]
    await told.send(0, 30)
    await told.flush()
    for clicks, measure, _ in told.rows():
        sent = {ref: told.sent[clicks, measure, ref] for ref in (SPAM, FINE)}
        if row in (None, clicks):
            assert told.named(measure.row(clicks)) == +Counter({"": sent[SPAM], FINE: sent[FINE]}), (clicks, measure)
        else:
            assert told.named(measure.row(clicks)) == +Counter(sent), (clicks, measure)
    await told.close()


async def test_an_erased_word_of_a_rule_is_in_no_correction_of_events_and_can_be_undone(tmp_path: Path) -> None:
    told = ToldEvents(tmp_path, 6)
    await told.filled()
    await told.note(rule_of("a"))
    await told.settle()
    book = told.erasings[0].book
    book.add(book.meant("ref", SPAM, None, told.now))
    for _ in range(20):
        told.now += 60
        for erasing in told.erasings:
            await erasing.refresh()
    await told.hold({"a"})
    for measure in MEASURES:
        assert SPAM not in told.named(moved_key(measure.row("a")))
    (noted,) = told.servers[0].book.all()
    await told.undo(noted.rule)
    await told.settle()
    await told.hold(set())
    await told.close()
