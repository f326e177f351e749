"""The program at the moment for which golden folders were made, and the questions whose answers they hold.

`answers.json` of a folder has the answer to each question that its version knew, asked two hours after the first hit.
`FOR_EVER` are those that are the same at any later time: whole months, and totals of a life.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import httpx

from testing.server import RunningServer, command, plain_environment, run

PROGRAM = "tests.upgrade.program"
GOLDEN = Path(__file__).parent / "golden"
BEGAN = 1_795_176_000  # Friday, 2026-11-20 12:00:00 UTC
HOUR_S = 3600

FOR_EVER = (
    "/v1/links/launch/total",
    "/v1/links/a%2Fb/total",
    "/v1/links/moved/total",
    "/v1/links/logged/total",
    "/v1/links/gone/total",
    "/v1/links/never/total",
    "/v1/total",
    "/v1/links/launch/total?bots=only",
    "/v1/links/launch/total?from=2019-05-01&to=2024-03-01",
    "/v1/links/launch/curve?from=2024-01-01&to=2024-06-01&step=1mo",
    "/v1/links/moved/curve?from=2020-01-01&to=2021-01-01&step=1mo",
    "/v1/links?sort=hits&limit=10",
)
QUESTIONS = (
    *FOR_EVER,
    "/v1/links/launch",
    "/v1/links/moved",
    "/v1/links/launch/total?from=2026-11-20T11:58&to=2026-11-20T12:00",
    "/v1/links/launch/curve?from=2026-11-20T11:55&to=2026-11-20T12:00&step=1m",
    "/v1/links/launch/curve?from=2026-11-19T08:00&to=2026-11-19T09:00&step=5m",
    "/v1/links/launch/curve?from=2026-11-05&to=2026-11-06&step=1h",
    "/v1/links/launch/curve?from=2026-03-02&to=2026-03-23&step=1w",
    "/v1/links/launch/curve?from=2026-11-19T08:01&to=2026-11-19T08:04&step=1m",
    "/v1/curve?from=2026-11-01&to=2026-11-20&step=1d",
    "/v1/limits/login/curve?outcome=asked&from=2026-11-20T12:00&to=2026-11-20T14:00&step=1h",
    "/v1/limits/login/curve?outcome=admitted&from=2026-11-20T12:00&to=2026-11-20T14:00&step=1h",
)

BEFORE_EVENTS = ("0.1.0", "0.2.0")
SINCE_EVENTS = (
    "/v1/links/sold/events",
    "/v1/links/sold/events/by/ref",
    "/v1/groups/shop/events",
    "/v1/events",
    "/v1/links/sold/total?event=sale&measure=value",
    "/v1/links/sold/curve?event=sale&measure=value&from=2026-11-20T11:00&to=2026-11-20T14:00&step=1h",
    "/v1/links?event=sale&measure=value&limit=10",
    "/v1/links/sold/by/ref",
    "/v1/links/sold/by/channel?value=social&value=email",
    "/v1/links/sold/visitors",
    "/v1/groups/shop/total",
    "/v1/notes?from=2026-11-20&to=2026-11-21",
)


def questions_of(version: str) -> tuple[str, ...]:
    """Returns the questions that a golden folder of the version has answers to."""
    return QUESTIONS if version in BEFORE_EVENTS else (*QUESTIONS, *SINCE_EVENTS)


def server_at(moment: float | None, folder: Path) -> RunningServer:
    """Returns a server on `folder`/data that flushes when it starts and stops only; None: at the real time."""
    flags = ("--config", str(folder / "clickcurve.toml"), "--flush-s", "3600")
    if moment is None:
        return RunningServer(folder / "data", *flags)
    return RunningServer(folder / "data", *flags, settings={"UPGRADE_MOMENT": str(moment)}, module=PROGRAM)


def client_of(server: RunningServer, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=server.url, headers=headers, timeout=30.0, trust_env=False)


def ask(client: httpx.Client, questions: Iterable[str]) -> dict[str, Any]:
    """Returns the answer to each question."""
    return {question: client.get(question).raise_for_status().json() for question in questions}


def import_file(file: Path, server: RunningServer, token: str) -> str:
    """Imports a file into the server with the program; returns what it says."""
    done = run("import", str(file), CLICKCURVE_URL=server.url, CLICKCURVE_TOKEN=token)
    assert done.returncode == 0, done.stderr
    return done.stdout


def export_at(moment: float, folder: Path) -> str:
    """Returns the export of `folder`/data, as of the moment."""
    done = subprocess.run(
        command("export", "--data", str(folder / "data"), module=PROGRAM),
        env=plain_environment({"UPGRADE_MOMENT": str(moment)}),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pack(data: Path, into: Path) -> None:
    """Packs a data folder without what is of the process that held it."""
    with ZipFile(into, "w", ZIP_DEFLATED) as packed:
        for file in sorted(data.rglob("*")):
            if file.is_file() and file.name not in ("lock", "spare", "clickcurve.db-shm"):
                member = ZipInfo(file.relative_to(data).as_posix())
                packed.writestr(member, file.read_bytes(), ZIP_DEFLATED)


def unpack(golden: Path, folder: Path) -> str:
    """Unpacks a golden folder, ready for a server; returns its token."""
    with ZipFile(golden / "data.zip") as packed:
        packed.extractall(folder / "data")
    shutil.copy(golden / "clickcurve.toml", folder)
    return (golden / "token.txt").read_text().strip()
