"""Which of some prefixes a key begins with."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable

ALL_KEYS = ""  # the prefix of every key
_ALL_KEYS_ALONE = (ALL_KEYS,)
_NONE = -1


class Prefixes:
    """Some prefixes, ALL_KEYS among them; finds those that a key begins with.

    It does so at once if the key before stood beside it. A key begins with the last prefix that does not stand after
    it, or with some of those that this begins with.
    """

    __slots__ = ("_beyond", "_found", "_next_shorter", "_sorted")

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        self._sorted = sorted({ALL_KEYS, *prefixes})
        self._beyond = [after_prefix(prefix) for prefix in self._sorted]
        self._next_shorter: list[int] = []  # for each, where the longest other one is that it begins with
        for at, prefix in enumerate(self._sorted):
            shorter = at - 1
            while shorter != _NONE and not prefix.startswith(self._sorted[shorter]):
                shorter = self._next_shorter[shorter]
            self._next_shorter.append(shorter)
        self._found: tuple[str, str | None, tuple[str, ...]] = "", "", ()

    def of(self, key: str) -> tuple[str, ...]:
        """Returns the prefixes that a key begins with, the longest first, ALL_KEYS last."""
        if len(self._sorted) == 1:
            return _ALL_KEYS_ALONE
        first, beyond, found = self._found  # at once, since several threads may ask
        if first <= key and (beyond is None or key < beyond):
            return found
        last = at = bisect_right(self._sorted, key) - 1
        while not key.startswith(self._sorted[at]):
            at = self._next_shorter[at]
        ends = [self._beyond[at], *self._sorted[last + 1 : last + 2]]  # from there on keys may have others
        prefixes = []
        while at != _NONE:
            prefixes.append(self._sorted[at])
            at = self._next_shorter[at]
        self._found = key, min((end for end in ends if end is not None), default=None), tuple(prefixes)
        return self._found[2]


def after_prefix(prefix: str) -> str | None:
    """Returns the least text after all those that begin with a prefix; None: there is none."""
    for place in range(len(prefix), 0, -1):
        last = ord(prefix[place - 1])
        if last < sys.maxunicode:  # UTF-8 has no surrogates, and its bytes are in the order of characters
            return prefix[: place - 1] + chr(0xE000 if last == 0xD7FF else last + 1)
    return None
