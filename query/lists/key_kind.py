"""What can be listed: links, and groups. Which stored keys are theirs, and where those stand among all stored keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from clickcurve.keys import FIRST_GROUP, group_key, group_of, link_key, link_of

# Stored keys of links that begin with NUL come first, then rows that are no link's, then all other links.
_FIRST_LINKS, _AFTER_OTHERS = "\0\0", "\x01"


class KeyKind(NamedTuple):
    """Rows that have names.

    plural  what they are called in answers. stored_of: name -> stored key. name_of: stored key -> name, None for other
    rows. starts: from each of these on, in order, stored keys of the kind stand side by side.
    """

    plural: str
    stored_of: Callable[[str], str]
    name_of: Callable[[str], str | None]
    starts: tuple[str, ...]

    def start_after(self, stored: str) -> str | None:
        """Returns where stored keys of the kind may stand after one of another kind; None: nowhere."""
        return next((start for start in self.starts if start > stored), None)


class NamesWithin(NamedTuple):
    """The names that a list is about: those that begin with a prefix; with `only`, the one that is the prefix."""

    prefix: str = ""
    only: bool = False

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, str)
        return name == self.prefix if self.only else name.startswith(self.prefix)

    def narrowed(self, prefix: str) -> NamesWithin | None:
        """Returns those of them that begin with another prefix too; None: there are none."""
        if self.prefix.startswith(prefix):
            return self
        return NamesWithin(prefix) if prefix.startswith(self.prefix) and not self.only else None


ALL_NAMES = NamesWithin()
LINK = KeyKind("links", link_key, link_of, (_FIRST_LINKS, _AFTER_OTHERS))
GROUP = KeyKind("groups", group_key, group_of, (FIRST_GROUP,))
