"""/metrics: text that Prometheus reads, and several workers' numbers that never step back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

import pytest
from prometheus_client.parser import text_string_to_metric_families

from server import metrics
from server.app.parts import FAMILIES
from server.metrics import Metrics, Sample

Numbers = dict[tuple[str, str], float]


def parsed(answer: tuple[bytes, str]) -> Numbers:
    body, content_type = answer
    assert content_type.startswith("text/plain")
    return {
        (sample.name, sample.labels["journal"]): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


async def test_every_family_is_named_and_explained_even_before_it_has_numbers() -> None:
    body, _ = await Metrics("journal-1", [], None, FAMILIES).answer("")
    text = body.decode()
    for name in FAMILIES:
        assert f"# HELP {name.removesuffix('_total')}" in text
        assert f"# TYPE {name.removesuffix('_total')}" in text


async def test_samples_carry_their_labels_and_their_journal() -> None:
    samples = [Sample("clickcurve_refused_requests_total", 3, ("413", "body too large"))]
    body, _ = await Metrics("journal-1", [lambda: samples], None).answer("")
    line = 'clickcurve_refused_requests_total{journal="journal-1",status="413",title="body too large"} 3.0'
    assert line in body.decode().splitlines()


async def test_any_worker_answers_for_all_and_no_number_steps_back(tmp_path: Path) -> None:
    metrics.clear_samples(tmp_path / "m")
    hits = {"journal-1": 0.0, "journal-2": 0.0}
    workers = {
        name: Metrics(name, [lambda name=name: [Sample("clickcurve_flushes_total", hits[name])]], tmp_path / "m")  # type: ignore[misc]
        for name in hits
    }
    seen: Numbers = {}
    for asked, counted in [("journal-1", "journal-2"), ("journal-2", "journal-1")] * 5:
        hits[counted] += 1
        hits[asked] += 10
        found = parsed(await workers[asked].answer(""))
        assert found["clickcurve_flushes_total", asked] == hits[asked]
        assert all(found[series] >= seen[series] for series in seen)
        seen = found
    await workers["journal-1"].publish()
    assert parsed(await workers["journal-2"].answer(""))["clickcurve_flushes_total", "journal-1"] == hits["journal-1"]


async def test_a_start_forgets_the_samples_of_former_workers(tmp_path: Path) -> None:
    shared = tmp_path / "m"
    metrics.clear_samples(shared)
    await Metrics("journal-7", [], shared).publish()
    metrics.clear_samples(shared)
    answered = await Metrics("journal-1", [lambda: [Sample("clickcurve_flushes_total", 1)]], shared).answer("")
    assert {journal for _, journal in parsed(answered)} == {"journal-1"}


async def test_a_folder_that_does_not_answer_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "WRITE_S", 0.01)
    answers, writes = Event(), []

    def hanging(self: Metrics, shared: Path, own: list[Sample]) -> None:
        writes.append(own)
        assert answers.wait(60)

    monkeypatch.setattr(Metrics, "_write", hanging)
    worker = Metrics("journal-1", [lambda: [Sample("clickcurve_flushes_total", 1)]], tmp_path)
    for _ in range(3):
        assert parsed(await worker.answer(""))["clickcurve_flushes_total", "journal-1"] == 1
    assert len(writes) == 1
    answers.set()
    await worker.publish()
    assert len(writes) == 2


async def test_a_question_that_comes_as_a_write_ends_does_not_fail_the_one_before(tmp_path: Path) -> None:
    worker = Metrics("journal-1", [lambda: [Sample("clickcurve_flushes_total", 1)]], tmp_path)
    first = asyncio.create_task(worker.publish())
    while worker._written is None or not worker._written.done():
        await asyncio.sleep(0)
    await worker.publish()  # begins before the first one learns that its write has ended
    assert len(await first) == 1


def test_the_process_tells_of_itself() -> None:
    names = {sample.name for sample in metrics.process_samples()}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total"} <= names
