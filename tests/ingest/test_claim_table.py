"""The table of who may flush under which number: as the text shows it, and how a record finds its row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest import claim_table
from ingest.claim_table import (
    ANOTHER,
    FORMER_NAMES,
    GO_ON,
    QUARANTINE,
    REUSE,
    TABLE,
    Action,
    Claimant,
    Holds,
    Relation,
    choose_number,
    name_in,
    with_name,
    without_name,
)
from ingest.journal.contract import Identity
from storage.contract import CLOSED, COPIED, OPEN, RETIRED, OwnerRecord
from storage.journals import EMPTYING, IN_STORE

NOTHING, HITS = {Holds.NOTHING}, {Holds.HITS}
IMPORT, FLUSH = {Holds.HITS, Holds.IMPORT}, {Holds.HITS, Holds.FLUSH}
JOURNAL = Claimant("here", Identity(3, 5, "me", ((6, "tried"),)), last_flush=50, flush=None)
OWN = OwnerRecord(3, 5, "me", "here", "/here", OPEN, 50, 0)
TWIN = OwnerRecord(4, 6, "copy", "here after 3.5", "/copy", OPEN, 50, 0)
OTHER = OwnerRecord(8, 9, "other", "elsewhere", "/other", CLOSED, 900, 0)


def test_the_text_shows_the_table() -> None:
    lines = [line.split("|") for line in (claim_table.__doc__ or "").splitlines() if "|" in line]
    heads, rows = lines[0], lines[2:]
    assert [head.strip() for head in heads[1:5]] == [held.value for held in Holds]
    shown = {Relation[row[0].strip()]: tuple(cell.strip() for cell in row[1:5]) for row in rows}
    names = {GO_ON: "go on", REUSE: "reuse", ANOTHER: "another", QUARANTINE: "quarantine"}
    assert shown == {relation: tuple(names[action] for action in actions) for relation, actions in TABLE.items()}
    assert set(TABLE) == set(Relation)


@pytest.mark.parametrize(
    ("record", "relation"),
    [
        (OWN, Relation.OURS),
        (replace(OWN, state=CLOSED), Relation.OURS),
        (replace(OWN, epoch=6, holder="tried"), Relation.OURS),
        (replace(OWN, epoch=4, holder="before", begun=40), Relation.OURS),  # the store was restored from a backup
        (replace(OWN, owner=7), Relation.OURS),  # the store was copied into another
        (replace(OWN, owner=7, epoch=4, holder="before"), Relation.UNHELD),
        (replace(OWN, epoch=6, holder="another"), Relation.AHEAD),
        (replace(OWN, holder="another"), Relation.AHEAD),  # a copy of the store, in which somebody else went on
        (replace(OWN, begun=51), Relation.AHEAD),
        (replace(OWN, epoch=6, holder="another", state=RETIRED), Relation.AHEAD),
        (replace(OWN, state=RETIRED), Relation.ENDED),
        (replace(OWN, state=COPIED), Relation.ENDED),
    ],
)
def test_the_record_of_the_owner_that_a_journal_was(record: OwnerRecord, relation: Relation) -> None:
    assert JOURNAL.own([OTHER, record]) == record
    assert JOURNAL.relation(record, is_own=True) is relation


@pytest.mark.parametrize(
    ("record", "relation"),
    [
        (TWIN, Relation.SHARED),
        (replace(TWIN, holder="tried"), Relation.OURS),
        (replace(TWIN, state=CLOSED), Relation.UNHELD),
        (replace(TWIN, begun=51), Relation.AHEAD),
        (replace(TWIN, state=RETIRED), Relation.ENDED),
    ],
)
def test_the_record_that_a_copy_got(record: OwnerRecord, relation: Relation) -> None:
    assert JOURNAL.twins([OWN, OTHER, record]) == [record]
    assert JOURNAL.relation(record, is_own=False) is relation


def test_a_flush_that_began_is_known_to_its_journal_unless_nobody_may_finish_it() -> None:
    journal, began = replace(JOURNAL, flush=51), replace(OWN, begun=51)
    assert journal.relation(began, is_own=True) is Relation.OURS
    assert journal.relation(replace(began, state=RETIRED), is_own=True) is Relation.AHEAD
    assert journal.relation(replace(began, state=RETIRED, begun=50), is_own=True) is Relation.ENDED


@pytest.mark.parametrize(
    ("journal", "records"),
    [
        (replace(JOURNAL, identity=Identity(0, 0, "", ())), [OWN]),
        (JOURNAL, [OTHER]),
        (JOURNAL, [replace(OTHER, owner=3, epoch=4)]),  # no journal takes a number without a later epoch
        (replace(JOURNAL, identity=Identity(3, 5, "", ((5, "me"),))), [replace(OTHER, owner=3)]),
        (replace(JOURNAL, identity=Identity(3, 5, "", ((5, "me"),))), [replace(OWN, owner=7, holder="another")]),
    ],
)
def test_a_store_that_does_not_know_the_owner_that_a_journal_was(journal: Claimant, records: list[OwnerRecord]) -> None:
    assert journal.own(records) is None


def test_a_number_that_another_journal_has_taken_in_a_later_epoch_is_still_the_journals_own() -> None:
    taken = replace(OTHER, owner=3)
    assert JOURNAL.own([taken]) == taken
    assert JOURNAL.own([replace(taken, epoch=5)]) == replace(taken, epoch=5), "of the same epoch, in a store of its own"
    assert JOURNAL.relation(taken, is_own=True) is Relation.AHEAD


def test_the_journals_own_claim_decides_before_its_number_and_that_before_the_newest_claim_of_a_copy() -> None:
    moved, later = replace(OWN, owner=7), replace(OWN, owner=9, epoch=8, holder="another")
    assert JOURNAL.own([replace(OTHER, owner=3), moved, later]) == moved
    assert JOURNAL.own([replace(OTHER, owner=3), later]) == replace(OTHER, owner=3)
    assert JOURNAL.own([replace(OTHER, owner=3, epoch=4), replace(later, owner=8, epoch=7), later]) == later


@pytest.mark.parametrize(
    ("owners", "holds", "action", "owner"),
    [
        ([], HITS, ANOTHER, None),
        ([OTHER], NOTHING, REUSE, 8),
        ([OTHER], HITS, REUSE, 8),
        ([OTHER], FLUSH, ANOTHER, None),
        ([replace(OTHER, journal=IN_STORE)], NOTHING, ANOTHER, None),
        ([replace(OTHER, journal=EMPTYING)], HITS, ANOTHER, None),
        ([OWN, OTHER], FLUSH, GO_ON, 3),
        ([OWN, replace(TWIN, begun=51)], HITS, GO_ON, 3),
        ([replace(OWN, begun=51), OTHER], HITS, QUARANTINE, 3),
        ([replace(OWN, begun=51), OTHER], NOTHING, REUSE, 8),
        ([replace(OWN, state=RETIRED), OTHER], HITS, REUSE, 8),
        ([replace(OWN, state=RETIRED), OTHER], IMPORT, QUARANTINE, 3),
        ([replace(OWN, state=RETIRED), OTHER], FLUSH, ANOTHER, None),
        ([replace(OWN, state=RETIRED), TWIN, OTHER], HITS, GO_ON, 4),
        ([replace(OWN, state=RETIRED), TWIN, OTHER], NOTHING, REUSE, 8),
        ([replace(OWN, state=RETIRED), TWIN, OTHER], FLUSH, QUARANTINE, 4),
        ([replace(OWN, state=RETIRED), replace(TWIN, state=CLOSED), OTHER], NOTHING, GO_ON, 4),
        ([replace(OWN, state=RETIRED), TWIN, replace(TWIN, owner=5, begun=51)], HITS, QUARANTINE, 5),
    ],
)
def test_what_is_done_with_which_record(
    owners: list[OwnerRecord], holds: set[Holds], action: Action, owner: int | None
) -> None:
    done, record = choose_number(JOURNAL, owners, holds)
    assert (done, record and record.owner) == (action, owner)


def test_a_record_names_the_journals_that_gave_its_number_back() -> None:
    stored = replace(OTHER, journal="elsewhere after 2.7")
    text = with_name("here", stored)
    assert text == "here former elsewhere<2.7@8.9"
    taken = replace(stored, epoch=10, journal=text)
    assert name_in(taken) == "here"
    assert replace(JOURNAL, identity=Identity(8, 10, "", ())).is_named_in(taken)
    assert without_name(taken) == " former elsewhere<2.7@8.9"
    given_back = replace(taken, journal=without_name(taken))
    assert with_name("third", given_back) == "third former elsewhere<2.7@8.9", "a number given back unused names nobody"
    for n in range(FORMER_NAMES + 5):
        taken = replace(taken, epoch=taken.epoch + 1, journal=with_name(f"next-{n}", taken))
    former = taken.journal.partition(" former ")[2].split()
    assert len(former) == FORMER_NAMES and former[-1] == f"next-{n - 1}@8.{taken.epoch - 1}"
    assert with_name("here", replace(OTHER, journal="")) == "here"


@pytest.mark.parametrize(
    ("identity", "former", "gone_on"),
    [
        (Identity(0, 0, "", ()), "here@8.9", True),
        (Identity(0, 0, "", ((1, "tried"),)), "here@8.9", True),
        (Identity(0, 0, "", ()), "here<3.5@8.9", False),  # it was another owner before
        (Identity(3, 5, "", ()), "here<3.5@8.9", True),
        (Identity(8, 7, "", ()), "here@8.9", True),
        (Identity(8, 9, "", ()), "here@8.9", False),  # the journal itself, after its clean stop
        (Identity(0, 0, "", ()), "elsewhere@8.9", False),
    ],
)
def test_a_snapshot_finds_that_its_journal_went_on_before_others_took_the_number(
    identity: Identity, former: str, gone_on: bool
) -> None:
    snapshot = replace(JOURNAL, identity=identity)
    taken = replace(OTHER, epoch=10, journal=f"third former another@8.3 {former}")
    assert snapshot.gave_back(taken) is gone_on
    assert choose_number(snapshot, [taken], HITS) == ((QUARANTINE, taken) if gone_on else (REUSE, taken))
    assert choose_number(snapshot, [taken], NOTHING) == (REUSE, taken), "it holds nothing that could count twice"


def test_a_flush_is_quarantined_if_a_copy_took_the_journals_old_number_from_somebody_else() -> None:
    """Its number may lie below the marks of that owner's rows, so what it adds would be hidden."""
    moved, taken = replace(OWN, owner=7, state=COPIED), replace(TWIN, owner=3)
    assert choose_number(replace(JOURNAL, flush=51), [taken, moved], FLUSH) == (QUARANTINE, taken)
