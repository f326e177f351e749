"""How the parts of a measurement are named on a command line."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Collection


def add_parts(asked: ArgumentParser, parts: Collection[str]) -> None:
    """Adds the argument `parts`: any number of these, none if the command has none.

    `choices` is not used: Python 3.11 checks the list that no words make against them.
    """

    def part(text: str) -> str:
        if text not in parts:
            raise ArgumentTypeError(f"{text!r} is none of {', '.join(parts)}")
        return text

    what = f"what to measure, of {', '.join(parts)}; everything if none is named"
    asked.add_argument("parts", nargs="*", type=part, metavar="PART", help=what)
