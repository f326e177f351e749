"""Versions of notes: one note that is another text after each change of some others, so those are seldom read."""

from __future__ import annotations

import secrets

from storage.contract import Store

UNREAD = ""  # no version: whoever begins to follow notes reads them, since a change that a kill cut off leaves none


def renew_version(store: Store, name: str) -> None:
    """Notes another version, after a change. May block; raises StoreUnavailable."""
    store.drop_notes([name])
    store.note(name, secrets.token_hex(8))
