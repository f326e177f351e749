"""A short campaign of random requests; `python -m tests.hostile --minutes 60` is a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.campaign import Campaign

SECONDS = 45
SEED = 1


@pytest.mark.needs("minutes")
def test_no_random_request_fails_or_holds_up_hits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Campaign(tmp_path / "server", SEED).run(SECONDS)
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.wrong
    assert report.requests.total() > 200
    assert len(report.requests) > 50
    assert report.hit_p99_ms <= 50
