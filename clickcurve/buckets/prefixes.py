"""Which of some prefixes a stored key begins with."""

from __future__ import annotations

import sys
from collections.abc import Iterable

ALL_KEYS = ""  # the prefix of all links; rows of other namespaces are not meant by it


def is_of_links(stored: str) -> bool:
    """Tells whether a stored key, or how it begins, is in the namespace of links."""
    return stored[:1] != "\0" or stored[1:2] == "\0"


class Prefixes:
    """Some prefixes, ALL_KEYS among them; finds those that a key begins with."""

    __slots__ = ("_lengths", "_prefixes")

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        self._prefixes = {ALL_KEYS, *prefixes}
        self._lengths = sorted(set(map(len, self._prefixes)), reverse=True)

    def of(self, key: str) -> list[str]:
        """Returns the prefixes that a key begins with, the longest first; ALL_KEYS last, where it is of a link."""
        prefixes = self._prefixes
        begun = [begin for n in self._lengths if (begin := key[:n]) in prefixes and len(begin) == n]
        return begun if is_of_links(key) else begun[:-1]


def after_prefix(prefix: str) -> str | None:
    """Returns the least text after all those that begin with a prefix; None: there is none."""
    for place in range(len(prefix), 0, -1):
        last = ord(prefix[place - 1])
        if last < sys.maxunicode:  # UTF-8 has no surrogates, and its bytes are in the order of characters
            return prefix[: place - 1] + chr(0xE000 if last == 0xD7FF else last + 1)
    return None
