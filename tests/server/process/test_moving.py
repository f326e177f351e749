"""What docs/operations.md says of moving to another server, and of starting anew: a data folder is the whole server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testing.client import Clickcurve
from tests.conftest import Serve
from tests.server.commands import said


def test_a_copied_data_folder_is_the_same_server(serve: Serve, data: Path, tmp_path: Path) -> None:
    first = serve(data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "launch", "count": 5, "id": "five"}])
    first.stop()
    shutil.copytree(data, tmp_path / "moved")
    assert said("verify", "--data", str(tmp_path / "moved"))
    second = serve(data=tmp_path / "moved")
    with Clickcurve(second.url) as client:
        assert client.total("launch")["total"] == 5
        assert client.send([{"key": "launch", "count": 5, "id": "five"}])["duplicate"] == 5, "ids moved, too"
        client.hit("launch")
        assert client.total("launch")["total"] == 6


@pytest.mark.slow
def test_a_server_whose_folder_was_moved_away_starts_anew_and_the_old_one_can_be_put_back(
    serve: Serve, data: Path
) -> None:
    first = serve(data=data)
    with Clickcurve(first.url) as client:
        client.hit("launch")
    first.stop()
    old = data.rename(data.with_name("old"))
    anew = serve(data=data)
    with Clickcurve(anew.url) as client:
        assert client.total("launch")["total"] == 0
    anew.stop()
    shutil.rmtree(data)
    old.rename(data)
    again = serve(data=data)
    with Clickcurve(again.url) as client:
        assert client.total("launch")["total"] == 1
