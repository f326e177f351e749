"""One string chooses the store and says where it is.

memory://                          nothing survives the process
sqlite:///clickcurve.db            a path from the working folder
sqlite:////var/lib/clickcurve.db   a path from the root; what follows the third slash is the path as it stands
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from buckets.errors import SettingInvalid
from storage.contract import Store
from storage.memory_store import MemoryStore
from storage.sqlite_store import SqliteStore


def open_store(uri: str, ladder: str, *, read_only: bool = False) -> Store:
    """Open the store that `uri` names, for rows of this ladder (its text).

    Raises SettingInvalid for a URI that names none, StoreUnavailable, StoreMismatch.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in OPENERS:
        known = ", ".join(f"{scheme}://" for scheme in OPENERS)
        raise SettingInvalid(f"{uri!r} names no store; known are {known}", field="store", value=uri)
    return OPENERS[scheme](uri, rest, ladder, read_only)


def _memory(uri: str, rest: str, ladder: str, read_only: bool) -> Store:
    if rest:
        raise SettingInvalid(f"{uri!r}: memory:// takes nothing behind the slashes", field="store", value=uri)
    return MemoryStore()


def _sqlite(uri: str, rest: str, ladder: str, read_only: bool) -> Store:
    path = rest.removeprefix("/")
    if not rest.startswith("/") or not path or path.endswith("/"):
        raise SettingInvalid(
            f"{uri!r}: write sqlite:///file for a path from the working folder, sqlite:////file for one from the root",
            field="store",
            value=uri,
        )
    return SqliteStore(Path(path), ladder, read_only=read_only)


OPENERS: dict[str, Callable[[str, str, str, bool], Store]] = {"memory": _memory, "sqlite": _sqlite}
