"""systemd's units: understood by systemd, hardened, in step with the program; the backup's command runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.app.limits import LIMITS
from server.cli.main import HELD, USAGE
from testing.client import Clickcurve
from testing.server import ROOT
from tests.install.environments import Environment, InstalledServer

DEPLOY = ROOT / "deploy"
PROGRAM = "/usr/local/bin/clickcurve"
UNITS = ("clickcurve.service", "clickcurve-backup.service", "clickcurve-backup.timer")
DAY_S = 86_400


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is missing: install the package systemd"
    command = [program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def values(unit: str, name: str) -> list[str]:
    """All values that a unit gives a name, in their order."""
    text = (DEPLOY / unit).read_text().replace("\\\n", " ")
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


@pytest.mark.needs("systemd")
def test_systemd_understands_the_units(installed: Environment, tmp_path: Path) -> None:
    for unit in UNITS:
        text = (DEPLOY / unit).read_text()
        (tmp_path / unit).write_text(text.replace(PROGRAM, str(installed.program)))
    done = analyze("verify", "--man=no", *(tmp_path / unit for unit in UNITS))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "clickcurve" in line] == []


@pytest.mark.parametrize(("unit", "most"), [("clickcurve.service", 20), ("clickcurve-backup.service", 15)])
@pytest.mark.needs("systemd")
def test_the_services_are_hardened(unit: str, most: int) -> None:
    """systemd's exposure level, in tenths: above it `security` ends with an error. A unit without any of it has 96.

    systemd 252 gives 12 and 7; other versions weigh a little differently.
    """
    done = analyze("security", "--offline=true", f"--threshold={most}", DEPLOY / unit)
    assert done.returncode == 0, done.stdout


def test_the_server_s_unit_is_in_step_with_the_program() -> None:
    (stop_s,) = values("clickcurve.service", "TimeoutStopSec")
    assert int(stop_s) > LIMITS["last_answers_s"].value + LIMITS["last_flush_s"].value + 3
    assert values("clickcurve.service", "RestartPreventExitStatus") == [f"{USAGE} {HELD}"]
    assert values("clickcurve.service", "Type") == ["notify"]
    (files,) = values("clickcurve.service", "LimitNOFILE")
    assert int(files) > 4 * LIMITS["connections"].value


def expanded(text: str, folder: Path) -> str:
    """A line of a unit with what systemd puts in: `%S` is where the state of services is, `%%` one of them."""
    return re.sub(r"%([S%])", lambda found: str(folder / "state") if found.group(1) == "S" else "%", text)


@pytest.fixture
def server(installed: Environment, tmp_path: Path) -> Iterator[InstalledServer]:
    with InstalledServer(installed, tmp_path / "state" / "clickcurve", "--flush-s", "1") as running:
        yield running


def test_the_backup_s_command_copies_checks_and_keeps_two_weeks(
    installed: Environment, server: InstalledServer, tmp_path: Path
) -> None:
    with Clickcurve(server.url) as client:
        client.send({"key": "launch", "count": 7})
        server.wait_until(lambda: client.metrics()['clickcurve_flushes_total{journal="journal-1"}'] > 0)
    backups = tmp_path / "state" / "clickcurve-backup"
    backups.mkdir()
    now = (tmp_path / "state").stat().st_mtime
    for name, days in (("clickcurve-old.db", 15), ("clickcurve-kept.db", 13), ("other.db", 15)):
        (backups / name).touch()
        os.utime(backups / name, (now - days * DAY_S, now - days * DAY_S))
    command = " ".join(values("clickcurve-backup.service", "ExecStart"))
    match = re.fullmatch(r"/bin/sh -ec '(.*)'", expanded(command, tmp_path))
    assert match is not None
    settings = [expanded(value, tmp_path) for value in values("clickcurve-backup.service", "Environment")]
    done = subprocess.run(
        ["/bin/sh", "-ec", match.group(1).replace(PROGRAM, str(installed.program))],
        env={**os.environ, **dict(value.split("=", 1) for value in settings)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 links checked: 7 hits of people" in done.stdout
    (made,) = {path.name for path in backups.iterdir()} - {"clickcurve-kept.db", "other.db"}
    shown = installed.call("dump", "launch", "--store", f"sqlite:///{backups / made}", folder=tmp_path)
    assert "7" in shown.stdout
