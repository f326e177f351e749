"""`clickcurve import` for real: into a running server, and into a folder that none holds; again, and again."""

from __future__ import annotations

import asyncio
import gzip
import os
import resource
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from ingest.imports.importer import ImportSummary, SourceKind
from server.cli.client.import_receipt import receipt_lines
from server.cli.client.imports import Interrupted, Interruption, follow_line
from server.cli.main import main
from testing.client import Clickcurve
from testing.program import running
from testing.server import RunningServer, command
from testing.terminal import on_terminal
from tests.conftest import Serve
from tests.server.commands import said

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
ROBOT = "Mozilla/5.0 (compatible; Googlebot/2.1)"


def line(path: str, status: int = 302, agent: str = BROWSER, method: str = "GET", minute: int = 0) -> str:
    at = f"20/May/2025:21:{minute:02}:15 +0000"
    return f'10.0.0.1 - - [{at}] "{method} {path} HTTP/1.1" {status} 0 "-" "{agent}"\n'


LOG = "".join(
    [
        line("/launch"),
        line("/launch?x=1", minute=1),
        line("/launch", agent=ROBOT),
        line("/a/b", status=301),
        line("/launch", status=200),
        line("/launch", method="POST"),
        line("/"),
        "nonsense\n",
    ]
)


def imported(*arguments: str, code: int = 0) -> str:
    found = CliRunner().invoke(main, ["import", *arguments])
    assert found.exit_code == code, (found.output, found.exception)
    return found.output


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "access.log"
    file.write_text(LOG * 50)  # long enough to be told from other logs
    return file


def test_a_file_without_one_good_line_is_no_success(shared: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_text("nonsense of no kind\n" * 500)
    assert "500 bad" in imported(str(file), "--url", shared.url, code=1)


def test_a_log_is_counted_once_however_often_and_in_whatever_packing_it_comes(shared: RunningServer, log: Path) -> None:
    log.write_text(log.read_text().replace("/launch", "/spring").replace("/a/b", "/c/d"))
    text = imported(str(log), "--url", shared.url)
    assert "400 lines read, 150 hits of people, 50 of bots, 50 bad" in text
    assert "counted 200, late 200, refused 0\n  late: hits from before today (UTC); they count" in text
    packed = log.with_suffix(".1.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    again = imported(str(log), "--url", shared.url)
    assert "counted 0, late 0, refused 0" in again and "before today" not in again
    assert "counted 0, late 0, refused 0" in imported(str(packed), "--url", shared.url)
    with log.open("a") as grown:
        grown.write(line("/spring"))
    assert "counted 1, late 1, refused 0" in imported(str(log), "--url", shared.url)
    with Clickcurve(shared.url) as client:
        assert client.total("spring")["total"] == 101
        assert client.total("spring", bots="only")["total"] == 50
        assert client.total("c/d")["total"] == 50


def test_a_log_that_was_read_with_other_settings_hints_at_a_label(shared: RunningServer, log: Path) -> None:
    log.write_text(log.read_text().replace("/launch", "/hinted"))
    imported(str(log), "--url", shared.url)
    text = imported(str(log), "--status", "200", "--url", shared.url)
    assert "0 lines read" in text and "with --label NAME it is another source" in text
    assert "--label" not in imported(str(log), "--url", shared.url), "a plain repeat is all right as it is"
    part = log.with_name("part.log")
    part.write_text(log.read_text()[: len(log.read_text()) // 2])
    assert "--label NAME" in imported(str(part), "--status", "200", "--url", shared.url)
    assert "50 hits of people" in imported(str(log), "--status", "200", "--label", "hinted", "--url", shared.url)


def test_a_follower_says_what_it_does_and_ends_with_its_receipt(shared: RunningServer, log: Path) -> None:
    log.write_text(log.read_text().replace("/launch", "/followed"))
    seen = "lines read, 200 hits counted; waiting for more"
    text = on_terminal(
        "import", "--follow", str(log), "--url", shared.url, columns=200, interrupt_when=lambda text: seen in text
    )
    assert text.startswith(f"{log}: following it; Ctrl-C ends this")
    assert seen in text
    receipt = text.rpartition("\r\033[K")[2]
    assert "400 lines read, 150 hits of people, 50 of bots, 50 bad" in receipt
    assert "counted 200, late 200, refused 0" in receipt


def test_a_follower_without_a_terminal_says_it_once_a_minute_and_ends_with_its_receipt(
    shared: RunningServer, log: Path, tmp_path: Path
) -> None:
    log.write_text(log.read_text().replace("/launch", "/piped"))
    follow = command("import", "--follow", str(log), "--url", shared.url)
    with Clickcurve(shared.url) as client, running(follow, tmp_path / "follow.out") as follower:
        follower.until(lambda: bool(client.total("piped")["total"] == 100))
        assert follower.stop() == 0
        first, *rest = follower.output().splitlines()
    assert first == f"{log}: following it; Ctrl-C ends this and prints what was counted"
    assert "150 hits of people" in rest[0] and not any("waiting" in line for line in rest)


def test_what_a_follower_waits_for_is_said(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    assert follow_line(path, ImportSummary()) == f"{path}: 0 lines read, 0 hits counted; waiting until it is there"
    path.touch()
    assert follow_line(path, ImportSummary(lines=1_234, counted=5)).endswith(
        ": 1,234 lines read, 5 hits counted; waiting for more"
    )
    assert follow_line(path, ImportSummary(lines=1, counted=1)).endswith(
        ": 1 line read, 1 hit counted; waiting for more"
    )


def test_one_of_each_is_said_as_one() -> None:
    summary = ImportSummary(
        kind=SourceKind.log, lines=1, people_hits=1, adjusted=1, unanswered=1, left_bytes=1, counted=1
    )
    assert receipt_lines("a.log", summary, hint=False) == [
        "a.log: 1 line read, 1 hit of people, 0 of bots, 0 bad",
        "  counted 1, late 0, refused 0",
        "  1 hit counted without a word that could not be kept whole",
        "  1 chunk counted without an answer: the connection broke",
        "  1 byte of a last line without an end left for the next import",
    ]


@pytest.mark.parametrize("into", ["server", "folder"])
def test_words_that_a_log_holds_and_that_are_cut_are_told(
    shared: RunningServer, tmp_path: Path, log: Path, into: str
) -> None:
    long, kept = "c" * 150, "c" * 97 + "…"
    log.write_text(line(f"/cut?utm_source={long}") + line("/cut?utm_source=mail"))
    where = ("--url", shared.url) if into == "server" else ("--data", str(tmp_path / "data"))
    config = tmp_path / "settings.toml"
    config.write_text('[breakdown]\ndimensions = ["utm_source"]\n')
    server = ("--config", str(config)) if into == "folder" else ()
    text = imported(str(log), *where, *server)
    adjusted = "1 hit counted without a word that could not be kept whole"
    if into == "folder":
        assert adjusted in text
        assert kept in said("export", *where)
    else:
        assert adjusted not in text, "the server counts no campaigns: nothing is kept of them"


def test_a_full_temporary_folder_is_told_with_what_helps(tmp_path: Path) -> None:
    """A bound of the system on the size of files stands for the full folder: the same writes fail."""
    rows = "".join(f"2026-02-03T10:00:05+01:00,,https://s.test/{n:0>400}\n" for n in range(40_000))
    visits = tmp_path / "visits.csv"
    visits.write_text("Date,Potential bot,Visited URL\n" + rows)
    done = subprocess.run(
        command("import", "--from", "shlink", str(visits), "--data", str(tmp_path / "data")),
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9 << 20, 9 << 20)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"the temporary folder {tmp_path} does not take what was read (" in done.stderr
    assert "make room there or name another folder with TMPDIR, and import again" in done.stderr
    assert "Traceback" not in done.stderr and "Errno" not in done.stderr


async def test_the_first_signal_ends_a_follower_between_two_chunks_and_the_second_at_once() -> None:
    interruption = Interruption()
    interruption.between()
    never = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.ensure_future(interruption.wait(3_600))
    await asyncio.sleep(0)
    interruption.signalled(never)
    with pytest.raises(Interrupted):
        await waiting
    with pytest.raises(Interrupted):
        interruption.between(17)
    assert not never.cancelling()
    interruption.signalled(never)
    assert never.cancelling()


def test_other_statuses_count_when_asked_for(shared: RunningServer, log: Path) -> None:
    assert "50 hits of people, 0 of bots" in imported(
        str(log), "--status", "200", "--label", "statuses", "--url", shared.url
    )
    assert "write codes of three digits" in imported(str(log), "--status", "2xx", code=2)


def test_history_goes_from_one_folder_to_another(data: Path, log: Path, tmp_path: Path) -> None:
    imported(str(log), "--data", str(data))
    history = tmp_path / "history.ndjson"
    history.write_text(said("export", "--data", str(data)))
    other = tmp_path / "other"
    assert "counted 200" in imported(str(history), "--data", str(other))
    assert "counted 0" in imported(str(history), "--data", str(other))
    assert said("export", "--data", str(other)) == history.read_text()


def test_an_import_into_a_folder_refuses_while_a_server_holds_it(shared: RunningServer, log: Path) -> None:
    text = imported(str(log), "--data", str(shared.data), code=4)
    assert text == f"Error: the data folder {shared.data} is held by clickcurve serve (process {shared.pid})\n"


def test_what_was_imported_into_a_folder_is_there_when_a_server_starts(serve: Serve, data: Path, log: Path) -> None:
    imported(str(log), "--data", str(data))
    with Clickcurve(serve(data=data).url) as client:
        assert client.total("launch")["total"] == 100


def test_a_missing_file_is_reported_and_the_others_are_counted(shared: RunningServer, log: Path) -> None:
    text = imported(str(log.with_name("none.log")), str(log), "--label", "two", "--url", shared.url, code=1)
    assert "none.log" in text.splitlines()[0]
    assert "counted 200" in text


def test_without_a_server_an_import_ends_with_a_sentence(log: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.cli.client.imports.TRIES", 1)
    assert "does not answer" in imported(str(log), "--url", f"http://127.0.0.1:{port}", code=1)
