"""Numbers of frames as short text: `0-812,814`. What a flush counts is recorded so, and nearly always one range."""

from __future__ import annotations

from collections.abc import Iterable


def text_of(numbers: Iterable[int]) -> str:
    """Returns the numbers as ascending ranges, "" for none."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join([str(first) if first == last else f"{first}-{last}" for first, last in ranges])


def numbers_in(text: str) -> list[int]:
    """Returns the numbers, ascending. Raises ValueError for what `text_of` does not give."""
    numbers: list[int] = []
    for each in text.split(",") if text else []:
        first, _, last = each.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    if text_of(numbers) != text:
        raise ValueError(f"{text!r} are no numbers of frames")
    return numbers
