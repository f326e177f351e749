"""What a great traffic takes: the formulas, held by the product's own flush, and the page that is made of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.__main__ import PARTS
from bench.command import run
from bench.scale import one_machine
from bench.scale.cluster import Share, Traffic, first_full, needed, page, row, simulated
from bench.scale.one_machine import MOST_SHARE, Cell, measured, sized, sizing_page, with_workers
from clickcurve.buckets.codec import decode
from testing.server import ROOT

FIGURES = ROOT / "bench" / "scale" / "figures.json"
NOON = 1_790_000_000 // 86_400 * 86_400 + 43_200


def figures() -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(FIGURES.read_text())
    return answer


@pytest.mark.parametrize("skew", [1.0, 1.2])
@pytest.mark.parametrize("links", [900, 1_001, 50_000])
def test_rates_of_groups_are_those_of_each_link(links: int, skew: float) -> None:
    traffic = Traffic(links, 500.0, skew)
    assert sum(number for number, _ in traffic.rates()) == links
    assert sum(number * rate for number, rate in traffic.rates()) == pytest.approx(500.0)
    each = [traffic.rate(rank) for rank in range(1, links + 1)]
    assert sum(each) == pytest.approx(500.0, rel=1e-3)
    assert traffic.rows_per_s(15) == pytest.approx(sum(1 - exp(-rate * 15) for rate in each) / 15, rel=1e-3)


def test_the_products_flush_writes_as_many_rows_as_the_formula_says() -> None:
    traffic = Traffic(20_000, 200.0)
    share = Share(traffic, 4)
    seen = simulated(share, 60)
    assert seen.hits == seen.flushes * round(share.hits_per_s * 60)
    expected = traffic.rows_per_s(60) * 60 / share.part
    assert seen.written / seen.flushes - 1 == pytest.approx(expected, rel=0.1)  # 1: the row of all links
    assert 0 < seen.read < seen.written


def test_a_row_has_the_hits_of_its_rate() -> None:
    lifetime = decode(row(1e-3, NOON, Random(1))).lifetime
    assert lifetime == pytest.approx(400 * 86.4, rel=0.05)
    assert len(row(1e-6, NOON, Random(1))) < len(row(1e-3, NOON, Random(1)))


def test_more_traffic_and_more_replicas_take_more() -> None:
    found = figures()
    traffic = Traffic(found["links"], found["hits_per_s"], found["skew"])
    once, share = needed(traffic, found, found["shares"][0]), found["shares"][0]
    twice = needed(replace(traffic, hits_per_s=2 * traffic.hits_per_s), found, share)
    assert twice["cores busy with hits"] == pytest.approx(2 * once["cores busy with hits"])
    assert once["rows written a second"] < twice["rows written a second"] < 2 * once["rows written a second"]
    single = needed(traffic, found | {"assumed": found["assumed"] | {"replicas": 1}}, share)
    assert once["cores of Cassandra, writes"] == pytest.approx(3 * single["cores of Cassandra, writes"])
    machines = [figure for what, figure in once.items() if what.startswith("machines for ")]
    assert once[f"machines for {first_full(once)}"] == max(machines)


def test_the_simulation_of_the_page_agrees_with_the_formula() -> None:
    found = figures()
    traffic = Traffic(found["links"], found["hits_per_s"], found["skew"])
    for share in found["shares"]:
        expected = traffic.rows_per_s(share["flush_s"]) * share["flush_s"] / found["part"]
        assert share["written"] / share["flushes"] == pytest.approx(expected, rel=0.05)


def test_the_pages_are_made_of_the_figures() -> None:
    for name, made in (("scale.md", page(figures())), ("sizing.md", sizing_page(figures()["sizing"]))):
        kept = (ROOT / "docs" / name).read_text()
        assert made == kept, f"{name}: python -m bench render.scale --sheet bench/scale/figures.json"


def test_the_sizing_page_has_a_row_for_each_traffic() -> None:
    sizing = figures()["sizing"]
    made = sizing_page(sizing)
    for cell in sizing["cells"]:
        assert made.count(f"| {cell['links']:,} | {cell['hits_per_s']:,.0f} | ") >= 2  # counts alone, and attributes


def test_a_simulation_is_written_into_the_sheet(tmp_path: Path) -> None:
    sheet = tmp_path / "figures.json"
    small = figures() | {"links": 2_000, "hits_per_s": 20.0, "part": 20}
    sheet.write_text(json.dumps(small | {"shares": small["shares"][1:2]}))
    run(PARTS, ["scale.simulate", "--sheet", str(sheet)])
    (share,) = json.loads(sheet.read_text())["shares"]
    assert share["flush_s"] == 60 and share["hits"] > 0 and share["written"] > 0 and share["cpu_s"] > 0
    run(PARTS, ["render.scale", "--sheet", str(sheet), "--docs", str(tmp_path)])
    assert "2,000 links get 20 hits a second" in (tmp_path / "scale.md").read_text()


@pytest.mark.parametrize("attributes", [False, True])
def test_a_traffic_is_measured_on_links_with_a_past(attributes: bool, tmp_path: Path) -> None:
    cell = measured(tmp_path / "data", 2_000, 2.0, attributes)
    assert 0 < cell.saved_us < cell.link_us
    assert cell.link_bytes > (5_000 if attributes else 500)
    assert cell.buffer_bytes > 100 and cell.journal_bytes > 1


def test_of_many_links_a_part_is_measured(tmp_path: Path) -> None:
    all_of, part = (measured(tmp_path / str(links), links, links / 100, attributes=False) for links in (2_000, 20_000))
    assert part.link_bytes == pytest.approx(all_of.link_bytes, rel=0.2)
    assert part.buffer_bytes == pytest.approx(all_of.buffer_bytes, rel=0.2)


def test_more_hits_take_more_of_the_interval_and_more_workers_less_of_it() -> None:
    sizing = figures()["sizing"]
    cells = [Cell(**each) for each in sizing["cells"]]
    for cell in cells:
        one, two = with_workers(cell, sizing["hits"], 1), with_workers(cell, sizing["hits"], 2)
        assert two.share < one.share or one.share == 1.0
        assert one.disk_gb < two.disk_gb < 2.1 * one.disk_gb
        more = with_workers(replace(cell, hits_per_s=2 * cell.hits_per_s), sizing["hits"], 1)
        assert one.share < more.share or one.share == 1.0
        assert one.too_much or with_workers(cell, sizing["hits"], 1, 60).turns < one.turns
        found = sized(cell, sizing["hits"])
        assert found.workers == 1 or with_workers(cell, sizing["hits"], found.workers - 1).share > MOST_SHARE


@pytest.mark.long
@pytest.mark.needs("wrk")
def test_one_machine_is_measured_into_the_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_machine, "FLUSH_S", 2)  # of which six are waited for
    sheet = tmp_path / "figures.json"
    sheet.write_text(json.dumps(figures()))
    run(PARTS, ["scale.size", "--sheet", str(sheet), "--links", "300", "--hits-per-s", "100", "--seconds", "1"])
    sizing = json.loads(sheet.read_text())["sizing"]
    assert [cell["attributes"] for cell in sizing["cells"]] == [False, True]
    assert len(re.findall(r"\| 300 \| 100 \| 1 \|", sizing_page(sizing))) == 2
