"""Namespaces of notes: a feature declares how the names of its notes begin, and how a copy of the store treats them.

A store keeps notes by name and knows no namespace. The program has one list of them (`server.app.note_spaces`), which
copy and backup are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from storage.contract import Store
from storage.note_versions import renew_version

Notes: TypeAlias = Mapping[str, str]  # by name


class TakenAlong(NamedTuple):
    """What a copy did with the notes of a namespace. new: how many the target had not; left: sentences for people."""

    new: int = 0
    left: Sequence[str] = ()


# Makes a target know what the notes of a source say: all notes of the source, the target, and now in epoch seconds.
TakeAlong: TypeAlias = Callable[[Notes, Store, int], TakenAlong]


def leave(source: Notes, target: Store, now: int) -> TakenAlong:
    """Takes nothing along: the notes say something of one store only."""
    return TakenAlong()


def take_new(*prefixes: str, version: str | None = None) -> TakeAlong:
    """Makes what notes in a target all that it has not noted under names that begin so.

    version: the note that is another one after each change of them.
    """

    def take(source: Notes, target: Store, now: int) -> TakenAlong:
        theirs = {name for prefix in prefixes for name in target.notes(prefix)}
        new = {name: value for name, value in source.items() if name.startswith(prefixes) and name not in theirs}
        for name, value in new.items():
            target.note(name, value)
        if new and version is not None:
            renew_version(target, version)
        return TakenAlong(len(new))

    return take


@dataclass(frozen=True, slots=True)
class NoteSpace:
    """The notes of one feature. prefixes: how their names begin, or whole names.

    take_along: what a copy does with them. in_backups: whether a backup has them.
    """

    name: str
    prefixes: tuple[str, ...]
    take_along: TakeAlong
    in_backups: bool = True
