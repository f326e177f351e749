"""Files that only the owner of the data folder may read, replaced at once or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def replace_private(path: Path, text: str) -> None:
    """Replaces the file's content; a crash leaves the old one or the new one, and nobody else can read it."""
    fresh = path.with_suffix(".new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    fresh.replace(path)
