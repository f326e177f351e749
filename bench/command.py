"""The command line of measurements: which parts, how much of each, and one table at the end."""

from __future__ import annotations

import platform
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, TypeAlias

from bench.measure import Line, Measure, measure, render
from bench.workload import Workload


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured. `closing` ends what a part has opened in `folder`, which is its own."""

    folder: Path
    rounds: int = 5
    seconds: float = 2.0
    scale: float = 1.0
    links: Sequence[int] = ()
    hits: int = 10_000_000
    every: int = 20
    closing: ExitStack = field(default_factory=ExitStack)

    def of(self, size: int) -> int:
        """Returns the size, scaled."""
        return max(1, round(size * self.scale))

    def workload(self) -> Workload:
        """Returns the hits of 400 days that end with this hour."""
        return Workload(self.links[0] if self.links else 100_000, self.hits, 400, int(time()) // 3_600 * 3_600)


Part: TypeAlias = Callable[[Options], Iterable[Measure | Line]]


def run(description: str, parts: Mapping[str, Part], words: Sequence[str] | None = None) -> None:
    """Measures the parts that the command line names, all if it names none, and prints one table."""
    asked = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    add_parts(asked, parts)
    asked.add_argument("--rounds", type=int, default=5, help="rounds of each measurement; the table has medians")
    asked.add_argument("--seconds", type=float, default=2.0, help="seconds of each round over HTTP")
    asked.add_argument("--scale", type=float, default=1.0, help="of the sizes of what is measured in one process")
    asked.add_argument("--links", type=int, nargs="+", default=[], help="how many links; growth takes several numbers")
    asked.add_argument("--hits", type=int, default=10_000_000, help="of these links, over HTTP")
    asked.add_argument("--every", type=int, default=20, help="breakdown_file: each so many-th link by popularity")
    given = vars(asked.parse_args(words))
    names, begun, lines = given.pop("parts") or [*parts], time(), list[Line]()
    with tempfile.TemporaryDirectory(prefix="clickcurve-bench-") as folder:
        try:
            for name in names:
                print(f"measuring {name} ...", flush=True)
                place = Path(folder) / name
                place.mkdir(exist_ok=True)
                with ExitStack() as closing:
                    options = Options(**given, folder=place, closing=closing)
                    lines.extend(measure(parts[name](options), options.rounds))
        finally:
            print(f"\n{machine()}, {time() - begun:.0f} s, medians of {given['rounds']} rounds\n\n{render(lines)}")


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


def together(parts: Mapping[str, Part]) -> Part:
    """Returns these parts as one."""

    def all_of(options: Options) -> Iterable[Measure | Line]:
        for part in parts.values():
            yield from part(options)

    return all_of


def circumstances() -> dict[str, Any]:
    """Returns the day, the machine, Python's version and the load now: what a sheet of figures says of its run."""
    processors, _, python = machine().rpartition(", Python ")
    load = round(float(Path("/proc/loadavg").read_text().split()[0]), 1)
    return {"day": datetime.now(UTC).date().isoformat(), "machine": processors, "python": python, "load": load}


def machine() -> str:
    """Returns the processors of this machine, and the version of Python."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    return f"{len(models) or 1} x {model}, Python {platform.python_version()}"
