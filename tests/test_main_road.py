"""The main road of docs/architecture.md: its files are there, are few lines together, and keep every promise."""

from __future__ import annotations

import re

from testing.server import ROOT
from tests.test_contributing import defined, table

PAGE = (ROOT / "docs" / "architecture.md").read_text()
MAX_LINES = 3_000
ROAD = table(PAGE, "| read | for |")
PROMISES = table(PAGE, "| promise | kept by |")


def test_the_road_is_the_first_thing_on_the_page() -> None:
    assert re.findall("^## (.+)$", PAGE, re.MULTILINE)[0] == "The main road"


def test_the_road_is_short_and_goes_from_the_post_to_the_curve() -> None:
    files = [file.strip("`") for file, _ in ROAD]
    assert files[0] == "ingest/reading/hit_endpoint.py" and files[-1] == "query/curve.py"
    lines = {file: len((ROOT / file).read_text().splitlines()) for file in files}
    assert len(lines) == len(files) and sum(lines.values()) <= MAX_LINES, lines


def test_each_file_of_the_road_has_one_sentence() -> None:
    for file, sentence in ROAD:
        assert re.fullmatch(r"[A-Z][^.]+\.", sentence), f"{file}: {sentence}"


def test_each_promise_is_kept_by_functions_on_the_road_or_beside_it() -> None:
    promises = re.findall(r"^\*\*(\d+)\. ", (ROOT / "docs" / "promises.md").read_text(), re.MULTILINE)
    assert [promise.partition(".")[0] for promise, _ in PROMISES] == promises
    road = {file.strip("`") for file, _ in ROAD}
    for promise, kept_by in PROMISES:
        named = re.findall(r"`([\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", kept_by)
        assert named, promise
        for file, names in named:
            assert file in road or "beside the road" in kept_by, file
            missing = set(re.findall(r"\w+", names)) - defined(file)
            assert not missing, f"{file} defines no {missing}"
