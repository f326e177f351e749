"""`verify`, `export` and `copy` say how many rows are done, and of how many where the store can tell."""

from __future__ import annotations

import pytest

from clickcurve.buckets.ladder import CLICKS
from storage.tools.export import export
from storage.tools.verify import verify
from tests.storage.flushes import NOON
from tests.storage.tools.copies import Make, copied, filled

Steps = list[tuple[int, int | None]]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.tools.verify.LINKS_PER_PAGE", 4)
    monkeypatch.setattr("storage.tools.copy.KEYS_PER_PAGE", 4)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "simulated"])
def test_progress_rises_to_all_rows(make: Make, kind: str) -> None:
    source = filled(make(kind))
    with source.view() as view:
        rows = sum(len(link.rows) for _, link in view.walk(None, 1_000))
    of_links = sum(len(link.rows) for _, link in source.walk(None, 1_000))
    verified: Steps = []
    exported: Steps = []
    written: Steps = []
    report = verify(source, CLICKS, lambda *step: verified.append(step))
    assert len(list(export(source, CLICKS, NOON, pytest.fail, lambda *step: exported.append(step)))) > 0
    copied(source, make("memory"), lambda *step: written.append(step))
    for steps, of in ((verified, rows), (exported, of_links), (written, 2 * rows)):
        assert len(steps) > 1
        assert steps == sorted(steps)
        assert steps[-1] == (of, None if source.shared else of)
    assert report.rows == rows


def test_a_copy_that_goes_on_does_not_know_how_much_is_left(make: Make) -> None:
    source, target = filled(make("memory")), make("memory")
    stopped = RuntimeError("stopped")

    def stop(done: int, total: int | None) -> None:
        raise stopped

    with pytest.raises(RuntimeError):
        copied(source, target, stop)
    steps: Steps = []
    copied(source, target, lambda *step: steps.append(step))
    assert {total for _, total in steps} == {None}
