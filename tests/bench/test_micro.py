"""The measurements in process run to their end with tiny sizes, and print the kinds of figures that are published."""

from __future__ import annotations

import re

import pytest

from bench.command import run
from bench.measure import Measure, measure
from bench.micro.__main__ import PARTS

PRINTED = {
    "parse": (r"batches of 1, reading +\S+ ns a hit", r"batches of 100, in the journal +\S+ B a hit"),
    "attributes": (
        r"attributes, 4 dimensions +\S+ us a hit",
        r"single with attributes and visitors +\S+ us a request of one hit",
        r"flush with visitors too, 30 links +\S+ s",
        r"4 dimensions in the buffer +\S+ B a hit",
    ),
    "row_codec": (r"full, busy: bytes +[\d,]+ B", r"full, busy: decode +\S+ us", r"full, busy: flush +\S+ us"),
    "corrections": (
        r"a correction of 31 buckets +\d+ \+ \d+ bytes +[\d,]+ us",
        r"total: no rule +\S+ us",
        r"by ref: a rule of all links, a third called +\S+ us +\S+ times, in turn",
    ),
    "heavy_hitters": (r"attack, life +\d+ of the top 20 found +[\d,]+ distinct; .* other \S+%.* row of [\d,]+ B",),
    "breakdown_file": (r"5 dimensions, a year +\S+ MB +\d+ B of \d+ links; breakdown rows \d+ B a link",),
    "ranking": (r"last=12mo&limit=1000 +p50 \S+ p99 \S+ ms +cpu \S+ ms, [\d,]+ links read",),
    "growth": (r"50 links +flush \S+ us a row +\S+ by the wall; fold \S+ us",),
    "resting": (r"resting server, memory +\S+ MB", r"\.\.\. FastAPI, pydantic +\S+ MB"),
}


PAIR = r"slow way \S+ us a \w+, \S+ times, middle half of 5 pairs"
PRINTED["fast_paths"] = (rf"Tokens.hit, token_bucket +\S+ us a decision +{PAIR}", r"kept grids, curve of 24 h +\S+ us")
NEED_PROGRAMS = {"fast_paths_remote"}  # tests/bench/test_with_programs.py


TAKE_MINUTES = {"resting"}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=[pytest.mark.needs("minutes")] if part in TAKE_MINUTES else [])
        for part in sorted(PARTS.keys() - NEED_PROGRAMS)
    ],
)
def test_each_part_prints_its_figures(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    links = ["--links", "20", "--every", "10"] if part == "breakdown_file" else []
    run("", PARTS, [part, "--scale", "0.001", "--rounds", "1", *links])
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
