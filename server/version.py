"""Which version of the program runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import clickcurve


def program_version() -> str:
    """Returns the installed version, or `unknown` for a source tree that is not installed."""
    try:
        return clickcurve.__version__
    except PackageNotFoundError:
        return "unknown"
