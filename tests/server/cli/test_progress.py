"""The line that says how far a long command is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.cli.output import ProgressLine, progress_text
from testing.server import RunningServer
from testing.terminal import on_terminal
from tests.server.commands import said


@pytest.mark.parametrize(
    ("done", "total", "count", "passed_s", "first", "line"),
    [
        (0, 200, 0, 0.0, 0, "verify ░░░░░░░░░░░░░░░░░░░░░░░░░   0 %  0 rows"),
        (50, 200, 50, 10.0, 0, "verify ██████░░░░░░░░░░░░░░░░░░░  25 %  50 rows  5/s  0:30 left"),
        (150, 200, 90, 100.0, 50, "verify ██████████████████░░░░░░░  75 %  90 rows  1/s  0:50 left"),
        (300, 200, 300, 2.0, 0, "verify █████████████████████████ 100 %  300 rows  150/s  0:00 left"),
        (1_234, None, 1_234, 2.0, 0, "verify  1,234 rows  617/s"),
    ],
)
def test_the_line_says_how_much_how_fast_and_how_long(
    done: int, total: int | None, count: int, passed_s: float, first: int, line: str
) -> None:
    assert progress_text("verify", "rows", done, total, count, passed_s, first) == line


def test_without_a_terminal_it_is_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("server.cli.output.clock.monotonic", lambda: now)
    with ProgressLine("access.log", "lines", notes=True) as line, ProgressLine("verify", "rows") as silent:
        for n in range(1, 26):
            now += 1
            line.show(10 * n, 1_000, n)
            silent.show(n, None)
    assert capsys.readouterr().err.splitlines() == [
        "access.log  10 %  10 lines  1/s  1:40 left",
        "access.log  20 %  20 lines  1/s  1:24 left",
    ]


LINE = '10.0.0.1 - - [20/May/2025:21:01:15 +0000] "GET /launch HTTP/1.1" 302 0 "-" "Mozilla/5.0 Firefox/140.0"\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one link."""
    log, data = tmp_path / "access.log", tmp_path / "data"
    log.write_text(LINE * 20)
    said("import", str(log), "--data", str(data))
    return data


LONG = {
    "verify": ("--data", "{data}"),
    "export": ("--data", "{data}", "--out", "{data}/history.ndjson"),
    "copy": ("--from", "sqlite:///{data}/clickcurve.db", "--to", "sqlite:///{data}/copy.db"),
}


@pytest.mark.parametrize("command", LONG)
def test_a_long_command_shows_it_on_a_terminal_alone(data: Path, command: str) -> None:
    words = [word.format(data=data) for word in (command, *LONG[command])]
    shown = on_terminal(*words, columns=100)
    assert f"\r\x1b[K{command} " in shown and " rows" in shown
    assert "\x1b" not in said(*words)


def test_an_import_into_a_server_shows_it_too(shared: RunningServer, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(LINE.replace("launch", "shown") * 20)
    shown = on_terminal("import", str(log), "--url", shared.url, columns=100)
    assert "\r\x1b[Kaccess.log " in shown and "100 %  " in shown and "counted 20," in shown


@pytest.mark.parametrize("command", LONG)
def test_an_interrupted_command_says_so_and_ends_with_130(
    data: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLine, "show", interrupt)
    words = [word.format(data=data) for word in (command, *LONG[command])]
    assert said(*words, code=130).endswith("Error: interrupted\n")


def test_an_export_can_be_read_by_its_owner_alone(data: Path) -> None:
    file = data / "history.ndjson"
    said("export", "--out", str(file), "--data", str(data))
    assert file.stat().st_mode & 0o777 == 0o600
    assert '"launch"' in file.read_text()


def test_an_import_that_is_interrupted_says_what_it_stored_and_goes_on(tmp_path: Path) -> None:
    log, data = tmp_path / "access.log", tmp_path / "data"
    log.write_text(LINE * 200_000)
    words = ("import", str(log), "--data", str(data))
    shown = on_terminal(*words, columns=100, interrupt_when=lambda text: " lines" in text, code=130)
    assert "stopping: what was read is being stored" in shown
    assert "interrupted: the same command goes on where this one stopped" in shown
    stored = int(re.findall(r"counted ([0-9,]+), late", shown)[0].replace(",", ""))
    rest = int(re.findall(r"counted ([0-9,]+), late", said(*words))[0].replace(",", ""))
    assert (stored + rest, rest > 0) == (200_000, True)


def test_the_command_that_was_meant_is_named() -> None:
    assert "No such command 'totla'. Did you mean total?" in said("totla", code=2)
    assert "No such command 'xyzzy'.\n" in said("xyzzy", code=2)
