"""The command line of measurements: which parts, how much of each, and one table at the end."""

from __future__ import annotations

import json
import platform
import tempfile
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, TypeAlias

from bench.measure import Beside, Line, Measure, measure, render
from bench.workload import Workload


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured. `closing` ends what a part has opened in `folder`, which is its own.

    sheet: figures of which a page is made; it is written after each line of a part.
    """

    folder: Path
    rounds: int = 5
    seconds: float = 2.0
    scale: float = 1.0
    links: Sequence[int] = ()
    hits: int = 10_000_000
    hits_per_s: Sequence[float] = ()
    every: int = 20
    peers: Sequence[str] = ()
    sheet: dict[str, Any] = field(default_factory=dict)
    docs: Path = Path("docs")
    agents: Path | None = None
    begun: float = field(default_factory=time)
    closing: ExitStack = field(default_factory=ExitStack)

    def of(self, size: int) -> int:
        """Returns the size, scaled."""
        return max(1, round(size * self.scale))

    def circumstances(self) -> dict[str, Any]:
        """Returns what a sheet says of a run: day, machine, Python, the load now, seconds, how much was measured."""
        processors, _, python = machine().rpartition(", Python ")
        load = round(float(Path("/proc/loadavg").read_text().split()[0]), 1)
        run = {"day": datetime.now(UTC).date().isoformat(), "machine": processors, "python": python, "load": load}
        sizes = {"links": self.workload().links, "hits": self.hits, "days": self.workload().days}
        return {**run, "took_s": round(time() - self.begun), **sizes, "rounds": self.rounds, "seconds": self.seconds}

    def workload(self) -> Workload:
        """Returns the hits of 400 days that end with this hour."""
        return Workload(self.links[0] if self.links else 100_000, self.hits, 400, int(time()) // 3_600 * 3_600)


Part: TypeAlias = Callable[[Options], Iterable[Beside | Measure | Line]]


def run(
    parts: Mapping[str, Part], words: Sequence[str] | None = None, usual: Sequence[str] = (), said: str | None = None
) -> None:
    """Measures the parts that the command line names, the usual ones if it names none, and prints one table.

    A word names a part, or all parts before whose point it stands: `limiter` is `limiter.memory` and the others.
    """
    given = _given(parts, words, said)
    named, file = given.pop("parts") or usual, given.pop("file", None)
    given["sheet"] = json.loads(file.read_text()) if file and file.exists() else {}
    begun, lines = time(), list[Line]()
    with tempfile.TemporaryDirectory(prefix="clickcurve-bench-") as folder:
        try:
            for name in (name for word in named for name in _named(parts, word)):
                print(f"measuring {name} ...", flush=True)
                place = Path(folder) / name.replace(".", "-")
                place.mkdir(exist_ok=True)
                with ExitStack() as closing:
                    options = Options(place, closing=closing, **given)
                    for line in measure(parts[name](options), options.rounds):
                        lines.append(line)
                        if file:
                            file.write_text(json.dumps(options.sheet, indent=1) + "\n")
        finally:
            print(f"\n{machine()}, {time() - begun:.0f} s, medians of {given['rounds']} rounds\n\n{render(lines)}")


def _given(parts: Mapping[str, Part], words: Sequence[str] | None, said: str | None) -> dict[str, Any]:
    """Returns the parts, the file of the sheet, and the options that the command line names."""
    asked = ArgumentParser(description=said, formatter_class=RawDescriptionHelpFormatter, argument_default=SUPPRESS)
    asked.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure, of {', '.join(parts)}")
    asked.add_argument("--rounds", type=int, default=5, help="rounds of each measurement; the table has medians")
    asked.add_argument("--seconds", type=float, help="seconds of each round over HTTP")
    asked.add_argument("--scale", type=float, help="of the sizes of what is measured in one process")
    asked.add_argument("--links", type=int, nargs="+", help="how many links; growth takes several numbers")
    asked.add_argument("--hits", type=int, help="of these links, over HTTP")
    asked.add_argument("--hits-per-s", type=float, nargs="+", help="rates of scale.size")
    asked.add_argument("--every", type=int, help="breakdown_file: each so many-th link by popularity")
    asked.add_argument("--peers", nargs="+", help="the stores that are compared; all if none is named")
    asked.add_argument("--agents", type=Path, help="a file of labelled agents for micro.agents")
    asked.add_argument("--docs", type=Path, help="where render puts pages")
    asked.add_argument("--sheet", dest="file", type=Path, help="of figures, which growth, peers and scale add to")
    given = vars(asked.parse_args(words))
    for word in given.setdefault("parts", []):
        if not _named(parts, word):
            asked.error(f"{word!r} is none of {', '.join(parts)}")
    return given


def _named(parts: Mapping[str, Part], word: str) -> list[str]:
    return [name for name in parts if name == word or name.startswith(f"{word}.")]


def machine() -> str:
    """Returns the processors of this machine, and the version of Python."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    return f"{len(models) or 1} x {model}, Python {platform.python_version()}"
