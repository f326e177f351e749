"""Frames in the store, without I/O: numbers, bytes, which of them count, who is gone, and which owner to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clickcurve.buckets.errors import JournalDamaged
from ingest.journal.contract import Frame
from ingest.journal.frame_format import decode_frame, encode_frame, numbers_in, text_of
from ingest.journal.taking import (
    DEAD_FOR_ADOPTERS,
    Make,
    Rounds,
    Take,
    Wait,
    choose_identity,
    claimed_record,
    has_lost,
    made,
    process_of,
    to_adopt,
)
from ingest.journal.window import PIECE_BYTES, Window
from storage.contract import CLOSED, COPIED, OPEN, RETIRED, Held
from storage.journals import EMPTYING, IN_STORE, JournalRecord


# --- numbers and bytes ----------------------------------------------------------------------------------------------
@given(st.frozensets(st.integers(0, 400)))
def test_numbers_come_back_from_their_text(numbers: frozenset[int]) -> None:
    assert numbers_in(text_of(numbers)) == sorted(numbers)


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((5,), "5"), ((0, 1, 2), "0-2"), ((3, 0, 1, 9, 8), "0-1,3,8-9")]
)
def test_numbers_are_written_as_ranges(numbers: Sequence[int], text: str) -> None:
    assert text_of(numbers) == text


@pytest.mark.parametrize("text", ["a", "3-", "-3", "5,4", "0-1,2", "4-3", "1,,2", " 1", "1,1"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        numbers_in(text)


@given(st.lists(st.binary(max_size=40)), st.integers(0, 1 << 60))
def test_payloads_come_back_from_their_frame(payloads: list[bytes], accepted_us: int) -> None:
    frame = encode_frame(payloads, accepted_us)
    assert list(decode_frame(frame)) == [Frame(accepted_us, payload) for payload in payloads]


@given(st.lists(st.binary(max_size=40), min_size=1), st.data())
def test_a_frame_that_is_too_short_or_long_is_damaged(payloads: list[bytes], data: st.DataObject) -> None:
    frame = encode_frame(payloads, 1)
    cut = data.draw(st.integers(0, len(frame) - 1))
    for damaged in (frame[:cut], frame + b"x"):
        with pytest.raises(JournalDamaged, match=f"a frame of {len(damaged)} bytes is damaged"):
            list(decode_frame(damaged))


# --- which frames count ---------------------------------------------------------------------------------------------
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(1, PIECE_BYTES)),
        st.tuples(st.just("acknowledged"), st.integers(0, 3)),
        st.tuples(st.just("give up"), st.integers(0, 12)),
        st.tuples(st.just("begin read"), st.just(0)),
        st.tuples(st.just("end read"), st.integers(5, 8)),
    ),
    max_size=60,
)


@example([("open", 1), ("begin read", 0), ("acknowledged", 0), ("end read", 7), ("begin read", 0), ("end read", 7)])
@example([("open", 1), ("acknowledged", 0), ("begin read", 0), ("give up", 0), ("end read", 7)])
@example([("open", 1), ("acknowledged", 0), ("begin read", 0), ("end read", 8), ("begin read", 0), ("end read", 7)])
@given(STEPS)
def test_a_frame_counts_only_after_a_read_that_began_after_its_acknowledgement(steps: list[tuple[str, int]]) -> None:
    """Against a history of what happened when, kept by the test."""
    window = Window(owner=1, epoch=7, after=3)
    acknowledged_at: dict[int, int] = {}
    given_up: set[int] = set()
    reads: list[tuple[int, frozenset[int]]] = []
    allowed: set[int] = set()
    opened = 0
    fenced = False
    for clock, (what, value) in enumerate(steps):
        if what == "open":
            assert window.open_frame(value).number == opened
            opened += 1
        elif what == "acknowledged" and value < opened:
            window.acknowledged(value)
            if value not in given_up:
                acknowledged_at.setdefault(value, clock)
        elif what == "give up" and value < opened and value not in allowed:
            window.give_up(value)
            given_up.add(value)
        elif what == "begin read":
            reads.append((clock, window.begin_read()))
        elif what == "end read" and reads:
            began_at, asked = reads.pop(0)
            confirmed = window.end_read(asked, value)
            fenced |= value > 7
            may = {each for each, at in acknowledged_at.items() if at < began_at and each not in given_up}
            assert confirmed <= (set() if fenced else may)
            assert fenced or may - allowed <= confirmed | set().union(*[read for _, read in reads], allowed)
            allowed |= confirmed
        assert window.counting() == allowed
        assert window.under_way == opened - len(allowed) - len(given_up)
        assert window.fenced == fenced


def test_a_piece_is_left_when_it_is_full_and_one_of_its_frames_counts() -> None:
    window = Window(1, 1, 0)
    first, second = window.open_frame(PIECE_BYTES), window.open_frame(1)
    assert (first.piece, second.piece) == (0, 0)  # none counts: a reader could not know of another piece
    window.acknowledged(second.number)
    window.end_read(window.begin_read(), 1)
    third = window.open_frame(1)
    assert third == (1, 0, 1, 2)
    window.acknowledged(first.number)
    window.end_read(window.begin_read(), 1)
    assert window.open_frame(PIECE_BYTES).piece == 1
    assert window.open_frame(1).piece == 1  # the frame that counts lies in the piece before


# --- which processes are gone ---------------------------------------------------------------------------------------
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), max_size=30))
def test_a_process_is_dead_after_so_many_counted_rounds_without_a_new_beat(beats: list[dict[str, int]]) -> None:
    rounds = Rounds()
    for each in beats:
        rounds.counted(each, "abc")
    for process in "abc":
        seen = [each.get(process, 0) for each in beats]
        unchanged = 0
        while unchanged + 1 < len(seen) and seen[-unchanged - 2] == seen[-1]:
            unchanged += 1
        for least in range(1, 31):
            assert (process in rounds.dead(least)) == (unchanged >= least)


def test_an_observer_that_slept_or_was_cut_off_takes_nobody_for_dead() -> None:
    """No round was counted meanwhile, however long it was."""
    rounds = Rounds()
    rounds.counted({"a": 1}, ["a"])
    assert not rounds.dead(1)
    rounds.counted({"a": 900}, ["a"])
    assert not rounds.dead(1)
    for _ in range(DEAD_FOR_ADOPTERS):
        rounds.counted({"a": 900}, ["a"])
    assert rounds.dead(DEAD_FOR_ADOPTERS) == {"a"}
    rounds.counted({"a": 901}, ["a"])
    assert not rounds.dead(1)


def test_a_process_that_comes_again_is_counted_anew() -> None:
    rounds = Rounds()
    for held in (["a"], ["a"], [], ["a"]):
        rounds.counted({"a": 4}, held)
    assert not rounds.dead(1)


# --- which owner to take --------------------------------------------------------------------------------------------
def owned(owner: int, holder: str, state: str = OPEN, journal: str = IN_STORE) -> JournalRecord:
    return JournalRecord(replace(made(owner, holder, "host", 100), state=state, journal=journal))


def test_a_start_takes_a_closed_owner_then_a_dead_one_waits_and_only_then_makes_one() -> None:
    closed, dead, living = owned(3, "x.1", CLOSED), owned(2, "gone.4"), owned(1, "b.1")
    emptied = owned(4, "b.2", journal=EMPTYING)
    others = [owned(5, "gone.1", RETIRED), owned(6, "gone.1", COPIED)]
    rest = [emptied, *others, living]
    assert choose_identity([dead, closed, *rest], range(7), {"gone"}, "me") == Take(closed)
    assert choose_identity([dead, *rest], range(7), {"gone"}, "me") == Take(dead)
    assert isinstance(choose_identity(rest, range(7), {"gone"}, "me"), Wait)
    assert choose_identity([living, *others], [9, 1], {"gone"}, "me") == Make(10)
    assert choose_identity([], [], (), "me") == Make(1)


def test_a_start_takes_what_an_earlier_attempt_of_it_has_claimed_for_nobody() -> None:
    mine = owned(3, "me.1")
    assert choose_identity([owned(1, "x.1", CLOSED), owned(2, "gone.1"), mine], [3], {"gone"}, "me") == Take(mine)


def test_a_start_repeats_a_choice_of_unknown_outcome_while_it_may_be_carried_out_late() -> None:
    tried, closed = Take(owned(2, "gone.1")), owned(1, "x.1", CLOSED)
    assert choose_identity([closed, tried.before], [1, 2], (), "me", tried) == tried, "whoever lives again"
    for late in (owned(2, "me.1"), JournalRecord(replace(tried.before.record, begun=7)), owned(2, "b.1")):
        chosen = choose_identity([closed, late], [1, 2], (), "me", tried)
        assert chosen == Take(late if late.record.holder == "me.1" else closed), "the claim is decided"
    assert choose_identity([closed], [1], (), "me", Make(2)) == Make(2)
    assert choose_identity([closed, owned(2, "b.1")], [1, 2], (), "me", Make(2)) == Take(closed)


def test_an_owner_that_is_being_emptied_is_adopted_with_its_adopter() -> None:
    both = [owned(1, "gone.1"), owned(2, "gone.2", journal=EMPTYING)]
    assert to_adopt([*both, owned(3, "b.1"), owned(4, "gone.1", CLOSED)], {"gone"}, "me", ()) == both


def test_what_a_process_failed_to_empty_it_adopts_again() -> None:
    failed, under_way, own = owned(1, "me.3", journal=EMPTYING), owned(2, "me.4", journal=EMPTYING), owned(3, "me.1")
    assert to_adopt([failed, under_way, own], (), "me", {2, 3}) == [failed]


def test_an_owner_that_was_taken_from_a_process_unheard_is_adopted_when_the_other_is_gone() -> None:
    taken = JournalRecord(replace(owned(3, "gone.7", journal=EMPTYING).record, epoch=2))
    assert to_adopt([taken], {"gone"}, "me", {3}) == [taken]
    assert to_adopt([taken], (), "me", {3}) == []
    assert has_lost([taken], Held(3, 1, "me.1"))
    assert not has_lost([taken], Held(3, 3, "me.2")), "as it was read before this process took it"
    assert not has_lost([taken], Held(3, 1, "gone.6")), "a claim of its own, after this one"
    assert not has_lost([taken], Held(4, 1, "me.1"))


def test_a_claim_raises_the_epoch_and_keeps_what_began() -> None:
    before = JournalRecord(replace(owned(3, "x.1", CLOSED).record, epoch=4, begun=77), 70, 20_000, "0-3", 77)
    after = claimed_record(before, "me.2", "here", 200, emptying=False)
    assert (after.epoch, after.holder, after.state, after.begun, after.journal) == (5, "me.2", OPEN, 77, IN_STORE)
    assert claimed_record(before, "me.3", "here", 200, emptying=True).journal == EMPTYING


def test_all_claims_of_a_process_name_it() -> None:
    assert {process_of(holder) for holder in ("a.b.1", "a.b.22")} == {"a.b"}
    assert process_of("alone") == "alone"
