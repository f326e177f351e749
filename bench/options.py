"""What is measured, and how much of it, as a command line names it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured in process. `closing` ends what a measurement has opened in `folder`."""

    folder: Path
    rounds: int = 5
    scale: float = 1.0
    links: Sequence[int] = ()
    every: int = 20
    shape: str = "popular"
    log: Path | None = None
    closing: ExitStack = field(default_factory=ExitStack)

    def of(self, size: int) -> int:
        """The size, scaled."""
        return max(1, round(size * self.scale))


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
