"""Which version of the program runs, and whether its rows are compiled."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError

import clickcurve
from clickcurve.buckets import row


def program_version() -> str:
    """Returns the installed version, or `unknown` for a source tree that is not installed."""
    try:
        return clickcurve.__version__
    except PackageNotFoundError:
        return "unknown"


def program_build() -> str:
    """Returns `compiled` where rows are, as `make compiled` and `make wheel-compiled` build them; `plain` else."""
    return "compiled" if row.__file__.endswith(tuple(EXTENSION_SUFFIXES)) else "plain"


def build_note() -> str:
    """Returns what follows the version where it is printed: nothing for a plain build."""
    build = program_build()
    return "" if build == "plain" else f" ({build})"
