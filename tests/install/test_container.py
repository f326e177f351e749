"""The Containerfile, without a container: its steps are run and looked at one by one."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.server import ROOT
from tests.install.environments import Environment, InstalledServer, pins

FILE = ROOT / "deploy" / "Containerfile"


def steps() -> list[tuple[str, str]]:
    """(instruction, what it says), comments left out, continued lines joined."""
    lines = (line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines() if line]


def said(instruction: str) -> list[str]:
    return [text for name, text in steps() if name == instruction]


def test_the_image_runs_the_server_and_not_as_root() -> None:
    names = [name for name, _ in steps()]
    assert said("USER") == ["clickcurve"]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "useradd --system" in said("RUN")[-1]
    assert said("ENTRYPOINT") == ['["clickcurve"]']
    assert said("CMD") == ['["serve"]']
    assert said("VOLUME") == ["/data"]


def test_what_is_copied_is_what_the_wheel_is_built_of(tree: Path, tmp_path: Path) -> None:
    copied = {name for text in said("COPY") if "--from" not in text for name in text.split()[:-1]}
    assert {path.name for path in tree.iterdir() if path.name in copied} == copied
    assert {
        "clickcurve",
        "ingest",
        "storage",
        "query",
        "retention",
        "dashboard",
        "server",
        "docs",
        "requirements.lock",
    } <= copied


@pytest.mark.needs("sed")
def test_the_build_takes_the_pins_of_the_lock(tree: Path) -> None:
    make, pin, install = said("RUN")[0].split(" && ")
    assert make == "python -m venv /opt/clickcurve"
    subprocess.run(["/bin/sh", "-ec", pin], cwd=tree, check=True, timeout=600)
    made = (tree / "pins.txt").read_text().splitlines()
    (tree / "pins.txt").unlink()
    assert made == [each.partition(" ")[0] for each in pins()]
    assert install.startswith("/opt/clickcurve/bin/pip install ")
    assert install.endswith(" --constraint pins.txt '.[all]'")


@pytest.fixture
def server(installed: Environment, tmp_path: Path) -> Iterator[InstalledServer]:
    with InstalledServer(installed, tmp_path / "data") as running:
        yield running


def healthy(installed: Environment, port: int) -> bool:
    _, _, command = said("HEALTHCHECK")[0].partition("CMD ")
    python, *rest = json.loads(command.replace("8080", str(port)))
    assert python == "python"
    return subprocess.run([str(installed.python), *rest], capture_output=True, timeout=600, check=False).returncode == 0


def test_the_health_check_tells_whether_the_server_is_ready(installed: Environment, server: InstalledServer) -> None:
    assert healthy(installed, server.port)
    assert server.stop() == 0
    assert not healthy(installed, server.port)


def test_without_a_token_the_image_s_settings_are_refused(installed: Environment, tmp_path: Path) -> None:
    settings = dict(setting.split("=", 1) for text in said("ENV") for setting in text.split())
    assert settings["CLICKCURVE_HOST"] == "0.0.0.0"
    refused = installed.call("serve", "--host", settings["CLICKCURVE_HOST"], "--port", "0", folder=tmp_path)
    assert refused.returncode == 2
    assert "token" in refused.stderr
