"""Counts and how they changed, in words: one number where one is enough, with the bounds beside it as a title."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.pictures.axes import CLOSE, PERCENT, SPACE, count_words, with_commas

_TIMES = f"\N{MULTIPLICATION SIGN}{SPACE}"
_TIMES_FROM = 3  # as many times as before, from which a change is no longer said in percent
_FAR = 0.2  # the part by which bounds may differ and are said as one number where there is little room


@dataclass(frozen=True, slots=True)
class Count:
    """A count in words, and its bounds in words where they differ."""

    text: str
    bounds: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A change in words. way: up, down, or empty; bounds: what to know of it, such as those of an uncertain one."""

    text: str
    way: str = ""
    bounds: str = ""


NO_CHANGE = Change("")


def count_of(least: int, most: int) -> Count:
    """Says a count: the middle of bounds that lie within one percent, else both."""
    return about(least, most, CLOSE)


def about(least: int, most: int, near: float = _FAR) -> Count:
    """Says a count by one number, the middle of its bounds, unless they are far apart."""
    is_one = least == most or most - least > near * most
    return Count(count_words(least, most, near), "" if is_one else f"{with_commas(least)} to {with_commas(most)}")


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
    if not is_certain and not _is_near(*before, *after):
        return NO_CHANGE
    return Change(text, _way(was, is_now) if is_certain else "", f"{low} to {high}")


def certain_change(before: tuple[int, int], after: tuple[int, int]) -> Change:
    """Says how a count changed where that is known well; else nothing: a list has no room for bounds."""
    change = change_of(before, after) if _is_near(*before, *after) else NO_CHANGE
    return change if change.way else NO_CHANGE


def difference(before: int, after: int) -> Change:
    """Says by how many hits a count changed, with both counts as its bounds."""
    if before == after:
        return Change("0")
    return Change(
        signed(after - before), _way(before, after), f"{with_commas(before)} before, {with_commas(after)} now"
    )


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


def _is_near(before_least: int, before_most: int, least: int, most: int) -> bool:
    return before_most - before_least <= _FAR * before_most and most - least <= _FAR * most
