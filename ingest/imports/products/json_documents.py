"""JSON of any length, read forward: one document or several, whose long lists are taken apart.

What a file says is no bound on its length, so nothing of it is decoded whole: a document is yielded without the items
of its long lists, and each item before it. What is held at once is one item and the rest of its document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple, TypeAlias

import ijson

from ingest.imports.source import SourceUnreadable

# The names that lead to a list -> whether the values of an object there are taken apart as those of a list are.
LongLists: TypeAlias = Mapping[tuple[str, ...], bool]

HELD_BYTES = 64 << 20  # of memory, which an item and the rest of its document may take
SILENT_BYTES = 1 << 20  # of a file, without a value beginning or ending: a text, a number or blanks
DEEPEST = 64
_VALUE_BYTES = 100  # what CPython takes of a value, or of a name, beside 4 bytes for a character
_READ_BYTES = 64 << 10


class Found(NamedTuple):
    """An item of a long list, or a document. number: of the item in its list, or of the document; from 0."""

    at: tuple[str, ...] | None  # the list; None: a document
    number: int
    value: Any


def documents(name: str, opened: IO[bytes], lists: LongLists) -> Iterator[Found]:
    """Yields the items of long lists and, after its items, each document; raises SourceUnreadable."""
    watched = _Watched(name, opened)
    reading = _Reading(name, lists)
    try:
        # use_float: integers of 64 bits, and an error for longer ones; without it one of 5,000 digits ends the process.
        for event, value in ijson.basic_parse(watched, multiple_values=True, use_float=True, buf_size=_READ_BYTES):
            watched.silent = 0
            if found := reading.take(event, value):
                yield found
    except (ijson.JSONError, ValueError) as error:
        if watched.is_blank:
            return
        raise SourceUnreadable(f"{name} is neither JSON nor lines of JSON: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Returns the first line of what the parser says: the others show where, in the bytes of the file."""
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return text.partition("\n")[0].strip()


class _Watched:
    """A file that is read until too much of it came without an event."""

    def __init__(self, name: str, opened: IO[bytes]) -> None:
        self.silent = 0
        self.is_blank = True
        self._name = name
        self._opened = opened

    def read(self, size: int) -> bytes:
        data = self._opened.read(size)
        self.silent += len(data)
        self.is_blank = self.is_blank and not data.strip()
        if self.silent > SILENT_BYTES:
            raise SourceUnreadable(f"{self._name} has a text of more than {SILENT_BYTES >> 20} MiB, or as many blanks")
        return data


class _Reading:
    """The containers that are open, the outermost first, and what they take."""

    def __init__(self, name: str, lists: LongLists) -> None:
        self._name = name
        self._lists = lists
        self._open: list[dict[str, Any] | list[Any]] = []
        self._names: list[str | None] = []  # in each of them: the last name in an object, None in a list
        self._held = 0
        self._long: tuple[str, ...] | None = None  # where the long list is that is open
        self._long_depth = self._long_held = 0  # how many containers it and those around it are; what they hold
        self._items = self._documents = 0

    def take(self, event: str, value: Any) -> Found | None:
        """Takes the next event of the parser; returns what is whole with it."""
        self._held += _VALUE_BYTES + (4 * len(value) if isinstance(value, str) else 0)
        if self._held > HELD_BYTES:
            raise SourceUnreadable(f"{self._name} has an entry that takes more than {HELD_BYTES >> 20} MiB of memory")
        if event == "map_key":
            self._names[-1] = value
            return None
        if event in ("start_map", "start_array"):
            self._begin({} if event == "start_map" else [])
            return None
        if event in ("end_map", "end_array"):
            value = self._end()
        return self._add(value)

    def _begin(self, container: dict[str, Any] | list[Any]) -> None:
        if len(self._open) == DEEPEST:
            raise SourceUnreadable(f"{self._name} has entries within entries, deeper than {DEEPEST}")
        is_list = isinstance(container, list)
        at = tuple(self._names)
        if self._long is None and at in self._lists and (is_list or self._lists[at]):  # type: ignore[index]
            self._long, self._items = at, 0  # type: ignore[assignment]  # no name in it is None
            self._long_depth, self._long_held = len(self._open) + 1, self._held
        self._open.append(container)
        self._names.append(None)

    def _end(self) -> Any:
        if self._long is not None and len(self._open) == self._long_depth:
            self._long = None
        self._names.pop()
        return self._open.pop()

    def _add(self, value: Any) -> Found | None:
        if not self._open:
            self._held, self._documents = 0, self._documents + 1
            return Found(None, self._documents - 1, value)
        if self._long is not None and len(self._open) == self._long_depth:
            self._held, self._items = self._long_held, self._items + 1
            return Found(self._long, self._items - 1, value)
        within = self._open[-1]
        if isinstance(within, list):
            within.append(value)
        else:
            within[self._names[-1] or ""] = value
        return None
