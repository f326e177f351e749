"""A fork of the imported program is what a new process of it would be."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from testing.prefork import Forked, Forks, forks
from testing.server import command, plain_environment

ENVIRONMENT = plain_environment({"CLICKCURVE_PORT": "9123", "COLUMNS": "80"})


def forked(*arguments: str, folder: Path, environment: dict[str, str] = ENVIRONMENT) -> tuple[int, str, str]:
    """What a fork ends with and prints."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr, Path(os.devnull).open("rb") as stdin:
        files = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        status = forks(plain_environment()).fork(arguments, environment, folder, files, new_session=False).wait(60)
        stdout.seek(0)
        stderr.seek(0)
        return status, stdout.read().decode(), stderr.read().decode()


@pytest.mark.parametrize(
    "arguments", [("version",), ("settings",), ("nothing",), ("total", "a", "--last", "never"), ()]
)
def test_a_fork_ends_and_prints_as_a_new_process(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    new = subprocess.run(
        command(*arguments), cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert forked(*arguments, folder=tmp_path) == (new.returncode, new.stdout, new.stderr)


def test_a_fork_has_the_environment_and_the_folder_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "clickcurve.toml").write_text("flush_s = 7\n")
    shown = forked("settings", "--config", "clickcurve.toml", folder=tmp_path)[1]
    rows = {line.split()[0]: line.split()[1] for line in shown.splitlines() if line.split()}
    assert (rows["port"], rows["flush_s"]) == ("9123", "7")
    assert "9123" not in forked("settings", folder=tmp_path, environment=plain_environment())[1]


def serving(folder: Path, of: Forks | None = None) -> Forked:
    with (folder / "log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
        files = (nothing.fileno(), log.fileno(), log.fileno())
        serve = ("serve", "--data", str(folder / "data"), "--port", "0")
        of = of or forks(plain_environment())
        return of.fork(serve, plain_environment(), folder, files, new_session=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_its_status_tells_the_signal_that_ended_it(tmp_path: Path, number: signal.Signals) -> None:
    server = serving(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.02)
    assert server.poll() is None
    assert os.getpgid(server.pid) == server.pid, "it leads a session of its own"
    while b'"listening"' not in (tmp_path / "log").read_bytes():
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(0.02)
    os.kill(server.pid, number)
    expected = -signal.SIGKILL if number == signal.SIGKILL else 0
    assert (server.wait(60), server.poll()) == (expected, expected)


def test_forks_end_with_the_tests_that_started_them_however_these_end(tmp_path: Path) -> None:
    """A run that was interrupted left servers running for good."""
    of = Forks(plain_environment())
    server = serving(tmp_path, of)
    end = os.pidfd_open(server.pid)
    of.close()
    gone = select.poll()
    gone.register(end, select.POLLIN)
    assert gone.poll(600_000)
    os.close(end)


@pytest.mark.parametrize("name", ["PYTHONUTF8", "LC_ALL", "LD_PRELOAD", "TZ"])
def test_an_environment_that_python_reads_early_is_not_alike(name: str) -> None:
    here = forks(plain_environment())
    assert here.alike(plain_environment({"CLICKCURVE_PORT": "1", "HOME": "/nowhere"}))
    assert not here.alike(plain_environment({name: "other"}))
