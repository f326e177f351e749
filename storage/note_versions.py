"""Versions of notes: one note that is another text after each change of some others, so those are seldom read."""

from __future__ import annotations

import secrets

from storage.contract import Store

CUT_OFF = ""  # no text that is ever noted
_CHANGED = "-changed"  # after the name of a version: there was a change, or one has begun


def renew_version(store: Store, name: str) -> None:
    """Notes another version, after a change. May block; raises StoreUnavailable."""
    store.note(name + _CHANGED, "")
    store.drop_notes([name])
    store.note(name, secrets.token_hex(8))


class FollowedVersion:
    """The version of some notes, as one that follows them knows it. Methods may block, and raise StoreUnavailable."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._is_first = True  # nothing was read yet
        self._read: str | None = None
        self._seen: str | None = None

    def is_changed(self) -> bool:
        """Tells whether there is another version than the one whose notes were read. One look at a note."""
        self._seen = version_of(self._store, self._name, at_first=self._is_first)
        self._is_first = self._is_first and self._seen != self._read
        return self._seen != self._read

    def note_read(self) -> None:
        """Takes the version of the last look for the one whose notes were read: call it when they were."""
        self._read, self._is_first = self._seen, False


def version_of(store: Store, name: str, *, at_first: bool) -> str | None:
    """Returns the version; None: nothing was changed yet. May block; raises StoreUnavailable.

    at_first: nothing is known yet. A kill in the middle of a change leaves no version: the answer is then CUT_OFF, by
    another look at a note. Later looks find the version gone, which is a change as well.
    """
    version = store.noted(name)
    if version is None and at_first and store.noted(name + _CHANGED) is not None:
        return CUT_OFF
    return version
