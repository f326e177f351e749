"""How people read what came of clicks: counts and rates, each between two bounds. Amounts: see `settings.events`."""

from __future__ import annotations


def count_text(at_least: int, at_most: int) -> str:
    """Writes a number, or both bounds: `31 to 33`."""
    return _between(f"{at_least:,}", f"{at_most:,}")


def rate_text(at_least: float, at_most: float) -> str:
    """Writes events by click as a percentage of three digits: `2.51 %`."""
    return _between(f"{100 * at_least:.3g} %", f"{100 * at_most:.3g} %")


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
