"""Versions of notes: one note that is another text after each change of some others, so those are seldom read."""

from __future__ import annotations

import secrets

from storage.contract import Store

UNREAD = ""  # before the first look: notes are read then in any case, since a kill in a change may leave no version


def renew_version(store: Store, name: str) -> None:
    """Notes another version, after a change. May block; raises StoreUnavailable."""
    store.drop_notes([name])
    store.note(name, secrets.token_hex(8))
