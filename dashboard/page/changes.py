"""Counts and how they changed, in words: one number where one is enough, with the bounds beside it as a title."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.pictures.axes import PERCENT, SPACE, with_commas

_TIMES = f"\N{MULTIPLICATION SIGN}{SPACE}"
_TIMES_FROM = 3  # as many times as before, from which a change is no longer said in percent
_CLOSE = 0.01  # bounds that differ by at most this part are said as one number
_FAR = 0.2  # and from which they are never, also where there is little room


@dataclass(frozen=True, slots=True)
class Count:
    """A count in words, and its bounds in words where they differ."""

    text: str
    bounds: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A change in words. way: up, down, or empty; bounds: of an uncertain one."""

    text: str
    way: str = ""
    bounds: str = ""


NO_CHANGE = Change("")


def count_of(least: int, most: int) -> Count:
    """Says a count: the middle of bounds that lie within one percent, else both."""
    if least == most:
        return Count(with_commas(least))
    return about(least, most) if most - least <= _CLOSE * most else Count(_both(least, most))


def about(least: int, most: int) -> Count:
    """Says a count by one number, the middle of its bounds, unless they are far apart."""
    if least == most:
        return Count(with_commas(least))
    if most - least > _FAR * most:
        return Count(_both(least, most) if least else f"at most {with_commas(most)}")
    return Count(f"about {with_commas((least + most) // 2)}", _both(least, most))


def change_of(before: tuple[int, int], after: tuple[int, int]) -> Change:
    """Says how a count changed. Both are given by their bounds, which meet where the count is certain."""
    if not before[1]:
        return Change("new", "up") if after[0] else Change("")
    was, is_now = sum(before) / 2, sum(after) / 2
    text = _ratio(was, is_now)
    if before[0] == before[1] and after[0] == after[1]:
        return Change(text, _way(was, is_now))
    low = _ratio(before[1], after[0])
    high = _ratio(before[0], after[1]) if before[0] else "any"
    is_certain = after[0] > before[1] or after[1] < before[0]
    return Change(text, _way(was, is_now) if is_certain else "", f"{low} to {high}")


def certain_change(before: tuple[int, int], after: tuple[int, int]) -> Change:
    """Says how a count changed where that is known well; else nothing: a list has no room for bounds."""
    is_known = all(most - least <= _FAR * most for least, most in (before, after))
    change = change_of(before, after) if is_known else NO_CHANGE
    return change if change.way else NO_CHANGE


def signed(change: int) -> str:
    """Writes a change with its sign: `+1,380`."""
    return f"{change:+,}".replace("-", "\N{MINUS SIGN}")


def _ratio(was: float, is_now: float) -> str:
    if is_now >= _TIMES_FROM * was:
        times = is_now / was
        return f"{_TIMES}{times:.1f}" if times < 10 else f"{_TIMES}{times:,.0f}"
    return f"{round((is_now - was) * 100 / was):+,}{PERCENT}".replace("-", "\N{MINUS SIGN}").replace("+0", "0")


def _way(was: float, is_now: float) -> str:
    return "up" if is_now > was else "down" if is_now < was else ""


def _both(least: int, most: int) -> str:
    return f"{with_commas(least)} to {with_commas(most)}"
