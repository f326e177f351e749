"""Each owner of a store in the store that it is copied into: found again, made, given over, or refused."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from storage.contract import CLOSED, OPEN, Held, OwnerRecord, Source, Store

PREFIX = "copy/"  # of the sources that hold the progress of a copy; an import's name has no slash
ATTEMPTS = 20


class CopyRefused(ClickcurveError, title="copy refused"):
    """The source must not be copied into the target, in the state of the two."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of one owner is in the target, of its rows in the state (epoch, begun).

    The rows up to the key `after`, in the order of the source's walk. If `whole`, all rows and the owner's imports.
    """

    epoch: int
    begun: int
    after: str | None = None
    whole: bool = False

    def text(self) -> str:
        return json.dumps([self.epoch, self.begun, self.after, self.whole])

    @classmethod
    def of(cls, text: str) -> Progress:
        return cls(*json.loads(text))


@dataclass(slots=True)
class Part:
    """One owner that is being copied: its records in the source (origin) and target, its progress, its saves so far."""

    origin: OwnerRecord
    record: OwnerRecord
    name: str
    progress: Progress
    step: int

    @property
    def under_way(self) -> bool:
        """Whether it is open in the copy's name."""
        return (self.record.holder, self.record.state) == (self.name, OPEN)

    @property
    def held(self) -> Held:
        return Held(self.record.owner, self.record.epoch, self.name)


def name_of_copy(uuid: str, owner: int) -> str:
    """Returns the name of the source that holds the progress of this owner of that store."""
    return f"{PREFIX}{uuid}/{owner}"


def is_of_an_owner(name: str) -> bool:
    """Returns whether a source of this name holds the progress of a copied owner."""
    return name.startswith(PREFIX) and name.rpartition("/")[2].isdigit()


def refuse_open(owners: Collection[OwnerRecord]) -> None:
    """Raises CopyRefused if an owner of the source is open: what its journal holds is not in the store yet."""
    reasons = [_why_open(record) for record in owners if record.state == OPEN]
    if reasons:
        raise CopyRefused("; ".join(reasons))


def refuse_conflicts(uuid: str, owners: Collection[OwnerRecord], sources: Mapping[str, Source], target: Store) -> None:
    """Raises CopyRefused if a copy of the store of this uuid would miss hits, or count them twice."""
    if target.uuid() == uuid:
        raise CopyRefused("source and target are the same store")
    refuse_open(owners)
    names = {name_of_copy(uuid, origin.owner) for origin in owners}
    mine = {record.owner for record in target.owners() if record.journal in names}
    mine.update(kept.owner for name in names if (kept := target.source(name)) is not None)
    for name in filter(is_of_an_owner, sources):
        _, whose, owner = name.split("/")
        if whose == target.uuid():
            raise CopyRefused(f"the source holds a copy of the target's owner {owner}, which would count twice")
        there = target.source(name)
        if there is not None and there.owner not in mine:
            raise CopyRefused(f"both hold a copy of owner {owner} of the store {whose}, which would count twice")


def take_up(origin: OwnerRecord, origins: Collection[OwnerRecord], uuid: str, target: Store) -> Part:
    """Finds this owner in the target; unless it was copied before, opens it there in the copy's name.

    Raises CopyRefused if both sides went on since it was copied, or another process has taken over a part of a copy.
    """
    name = name_of_copy(uuid, origin.owner)
    for _ in range(ATTEMPTS):
        records = target.owners()
        # Read after the owners, so that it shows a copy that ended at the same time and left no owner open in its name.
        kept = target.source(name)
        if kept is not None:
            return _copied_before(origin, name, kept, target)
        begun_before = next((record for record in records if record.journal == name), None)
        nothing = Progress(origin.epoch, origin.begun)
        if begun_before is not None:
            return Part(origin, _reopened(begun_before, origin, name, target), name, nothing, 0)
        numbers = {record.owner for record in records}
        number = origin.owner
        if number in numbers:
            number = max(numbers.union(record.owner for record in origins)) + 1
        record = _in_the_copys_name(origin, number, name)
        if target.create_owner(record):
            return Part(origin, record, name, nothing, 0)
    raise StoreUnavailable(f"no owner could be made in {ATTEMPTS} attempts: other processes took each number")


def _copied_before(origin: OwnerRecord, name: str, kept: Source, target: Store) -> Part:
    """Returns an owner of which the target has a part, or all."""
    progress, record = Progress.of(kept.tail), target.owner(kept.owner)
    assert record is not None  # owners stay for ever
    part = Part(origin, record, name, progress, kept.position)
    if (progress.epoch, progress.begun) != (origin.epoch, origin.begun):
        if origin.epoch <= progress.epoch or not (part.under_way or _is_as_copied(record, progress)):
            raise CopyRefused(_diverged(origin, record, progress))
        part.record, part.progress = _reopened(record, origin, name, target), Progress(origin.epoch, origin.begun)
    elif not progress.whole and not part.under_way:
        raise CopyRefused(
            f"owner {record.owner} of the target has a part of owner {origin.owner} and is {record.state} now:"
            " the rest can no longer be added"
        )
    return part


def give_over(part: Part, target: Store) -> None:
    """Gives the copied owner the state that it has in the source: from then on it may be taken over."""
    if not target.claim(part.record, replace(part.origin, owner=part.record.owner)):
        raise CopyRefused(f"owner {part.record.owner} of the target was changed during the copy")


def _reopened(record: OwnerRecord, origin: OwnerRecord, name: str, target: Store) -> OwnerRecord:
    """Opens the target's owner in the copy's name, in the state that the source's owner has by now."""
    after = _in_the_copys_name(origin, record.owner, name)
    if record != after and not target.claim(record, after):
        raise CopyRefused(f"owner {record.owner} of the target is {record.state} and cannot be copied into")
    return after


def _in_the_copys_name(origin: OwnerRecord, number: int, name: str) -> OwnerRecord:
    return replace(origin, owner=number, holder=name, journal=name, state=OPEN)


def _is_as_copied(record: OwnerRecord, progress: Progress) -> bool:
    """Returns whether this owner of the target was not used since it was copied."""
    return progress.whole and (record.epoch, record.begun, record.state) == (progress.epoch, progress.begun, CLOSED)


def _diverged(origin: OwnerRecord, record: OwnerRecord, progress: Progress) -> str:
    if origin.epoch <= progress.epoch:
        since = f"the source is older, or another, with flush {origin.begun} of epoch {origin.epoch}"
    else:
        since = f"both went on, the source to epoch {origin.epoch}, the target to epoch {record.epoch}, {record.state}"
    return (
        f"owner {origin.owner} was copied as owner {record.owner}, with flush {progress.begun} of epoch"
        f" {progress.epoch}; since then {since}: they can no longer be made one"
    )


def _why_open(record: OwnerRecord) -> str:
    if record.journal.startswith(PREFIX):
        return f"owner {record.owner} is being copied into (from {record.place}): end that copy first"
    return (
        f"owner {record.owner} is open ({record.place}): stop its server, which flushes what it holds, after starting"
        f" it again if it was killed; if its machine is lost, `clickcurve owners retire {record.owner}`"
    )
