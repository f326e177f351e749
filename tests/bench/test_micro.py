"""The measurements in process run to their end with tiny sizes, and print the kinds of figures that are published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from bench.__main__ import PARTS
from bench.command import run
from bench.measure import Beside, Figures, Measure, measure

PRINTED = {
    "agents": (
        r"clickcurve +0 of \d+ bots missed \(0.0%\) +0 of \d+ people called bots \(0.00%\)",
        r"agents that are new +\S+ us +p99 \S+ us; known \S+ us",
    ),
    "parse": (r"batches of 1, reading +\S+ ns a hit", r"batches of 100, journal's bytes +\S+ ns a hit"),
    "attributes": (
        r"attributes, 4 dimensions +\S+ us a hit",
        r"single: new addresses, and visitors +\S+ us a request of one hit",
        r"flush of 30 links: new addresses, and visitors +\S+ s",
        r"in the buffer: attributes, 4 dimensions +\S+ B a hit +counts itself as \S+ B with its flush",
    ),
    "row_codec": (r"row: full, busy +[\d,]+ B", r"full, busy: decode +\S+ us", r"full, busy: flush +\S+ us"),
    "corrections": (
        r"a correction of 31 buckets +\d+ \+ \d+ bytes +[\d,]+ us",
        r"total, no rule +\S+ us",
        r"by ref, a rule of all links, a third called +\S+ us +\S+ times no rule",
    ),
    "heavy_hitters": (r"attack, life +\d+ of the top 20 found +[\d,]+ distinct; .* other \S+%.* row of [\d,]+ B",),
    "breakdown_file": (r"5 dimensions, a year +\S+ MB +\d+ B of \d+ links; breakdown rows \d+ B a link",),
    "events": (
        r"100 links with 3 events +\d+ B a link +7 rows each",
        r"flush of 100 links, each with sale +\S+ us a link +3 rows of each",
        r"top 20 by the values of sale, last=30d +p50 \S+ p99 \S+ ms +cpu \S+ ms",
        r"all events of 30 d, with rates +p50 \S+ p99 \S+ ms +cpu \S+ ms",
    ),
    "ranking": (r"last=12mo&limit=1000 +p50 \S+ p99 \S+ ms +cpu \S+ ms, [\d,]+ links read",),
    "growth": (r"50 links +flush \S+ us a row +\S+ by the wall; fold \S+ us",),
    "resting": (
        r"resting server +\S+ MB +\S+ MB of it .*; \S+ MB with shared pages divided; \S+ % of a core",
        r"FastAPI, pydantic +\S+ MB",
    ),
}


PRINTED["fast_paths"] = (
    r"Tokens.hit, token_bucket +\S+ us a decision",
    r"Tokens.hit, token_bucket, slow way +\S+ us a decision +\S+ times, middle half of 5 pairs",
    r"kept grids, curve of 24 h +\S+ us",
)
NEED_PROGRAMS = {"fast_paths_remote"}  # tests/bench/test_with_programs.py


TAKE_MINUTES = {"resting"}
SMALL = {
    "breakdown_file": ("--links", "20", "--every", "10"),
    "growth": ("--links", "50", "--seconds", "0.1"),
}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=[pytest.mark.slow] if part in TAKE_MINUTES else [])
        for part in sorted({name.removeprefix("micro.") for name in PARTS if name.startswith("micro.")} - NEED_PROGRAMS)
    ],
)
def test_each_part_prints_its_figures(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(PARTS, [f"micro.{part}", "--scale", "0.001", "--rounds", "1", *SMALL.get(part, ())])
    printed = capsys.readouterr().out
    for figure in PRINTED[part]:
        assert re.search(figure, printed), printed


def test_a_time_is_divided_by_what_it_is_of_and_another_figure_is_what_the_call_returns() -> None:
    made: list[int] = []
    slow = Measure("slow", lambda: made.append(1), lambda _: sum(range(200_000)), "ms", fresh=True)
    for_each = Measure("a row", lambda: None, lambda _: sum(range(200_000)), "ms a row", per=1_000)
    size = Measure("size", lambda: b"12345678", len, "B a row", per=4)
    whole, part, octets = measure([slow, for_each, size], 3)
    assert len(made) == 4
    assert float(whole.figure.split()[0]) > 20 * float(part.figure.split()[0])
    assert octets.figure == "2.00 B a row"


def test_each_way_has_its_figures_beside_those_of_the_first() -> None:
    def turn(of: Iterator[float]) -> Figures:
        return {"{} ms": next(of), "{} of it": 5.0}

    ways = {"slow": partial(turn, iter([2.0, 4.0, 6.0])), "fast": partial(turn, iter([1.0, 1.0, 2.0]))}
    slow, fast = measure([Beside("ways", ways)], 3)
    assert (slow.what, slow.figure, slow.compared) == (
        "ways, slow",
        "4.00 ms",
        "rounds within 50 %; 5.00 of it (within 0 %)",
    )
    assert fast.figure == "1.00 ms"
    assert fast.compared == "0.33 times slow; rounds within 100 %; 5.00 of it (1.00 times, within 0 %)"
