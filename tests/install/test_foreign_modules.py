"""An application that has modules of our folders' names, where Python looks first: neither side harms the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.client import Clickcurve
from tests.install.environments import Environment, InstalledServer

ITS_OWN = """
from clickcurve.limiter import Limiter
import ingest, query.routes, server, storage

print(server.WHOSE, storage.WHOSE, query.routes.WHOSE, ingest.WHOSE)
"""


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A folder with an application's own `server.py`, `storage.py`, `ingest.py` and `query/`."""
    folder = tmp_path / "application"
    (folder / "query").mkdir(parents=True)
    for name in ("server.py", "storage.py", "ingest.py", "query/__init__.py", "query/routes.py"):
        (folder / name).write_text("WHOSE = 'application'\n")
    return folder


@pytest.fixture(params=["1", "2"])
def server(request: pytest.FixtureRequest, installed: Environment, application: Path) -> Iterator[InstalledServer]:
    """A server of as many processes, started in the application's folder, with that folder on PYTHONPATH too."""
    workers = ("--workers", request.param, "--flush-s", "1")
    with InstalledServer(installed, application / "data", *workers, python_path=str(application)) as running:
        yield running


def test_the_server_serves_from_the_application_s_folder(server: InstalledServer) -> None:
    with Clickcurve(server.url) as client:
        assert client.hit("launch")["counted"] == 1
        server.wait_until(lambda: bool(client.total("launch")["total"] == 1))
    assert server.stop() == 0


def test_the_application_finds_its_own(installed: Environment, application: Path, tmp_path: Path) -> None:
    wanted = "application application application application\n"
    assert installed.run(ITS_OWN, application).stdout == wanted
    assert installed.run(ITS_OWN, tmp_path, python_path=str(application)).stdout == wanted


def test_commands_run_there_too(installed: Environment, application: Path) -> None:
    done = installed.call("settings", folder=application, python_path=str(application))
    assert done.returncode == 0, done.stderr
    assert "flush_s" in done.stdout
    as_module = installed.call_module("settings", folder=application, python_path=str(application))
    assert as_module.stdout == done.stdout


def test_a_module_of_such_a_name_that_is_loaded_already_is_refused_in_one_sentence(
    installed: Environment, application: Path
) -> None:
    (application / "sitecustomize.py").write_text("import server\n")
    refused = installed.call("settings", folder=application, python_path=str(application))
    assert refused.returncode == 2
    assert refused.stderr == (
        f"Error: a module named server ({application}/server.py) was imported before the program began, by a .pth file "
        "or a sitecustomize: install clickcurve into an environment of its own, as pipx does\n"
    )
