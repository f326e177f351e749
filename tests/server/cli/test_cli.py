"""The commands, as people type them: against a running server, and on a data folder that none holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from server.cli.main import COMMANDS, EXIT_CODES, main
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.server.commands import ask, said


# --- help -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_examples(name: str) -> None:
    text = said(name, "--help")
    assert "Examples:" in text
    assert f"clickcurve {name}" in text
    command = main.get_command(click.Context(main), name)
    for part in command.commands if isinstance(command, click.Group) else ():
        text = said(name, part, "--help")
        assert "Examples:" in text and f"clickcurve {name} {part}" in text


def test_the_help_names_every_command_and_exit_code() -> None:
    text = said("--help")
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in text and line in text
    for code in EXIT_CODES:
        assert f"\n    {code}  " in text and code in (0, 1, 2, 3, 4, 130, 141)


def test_the_version_is_said_in_two_ways() -> None:
    assert said("version") == said("--version")
    assert re.fullmatch(r"clickcurve, version [\w.]+\n", said("version"))


def test_an_unknown_command_or_flag_is_a_usage_error() -> None:
    assert "No such command" in said("count", code=2)
    assert "No such option" in said("total", "--loud", code=2)


# --- settings and tokens --------------------------------------------------------------------------------------------
def test_settings_lists_all_with_their_origin(tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text("workers = 2\n")
    answer = json.loads(
        said("settings", "--json", "--config", str(config), "--port", "9", env={"CLICKCURVE_SYNC": "off"})
    )
    assert answer["workers"] == {"value": "2", "origin": f"file {config}"}
    assert answer["port"] == {"value": "9", "origin": "flag --port"}
    assert answer["sync"] == {"value": "off", "origin": "environment CLICKCURVE_SYNC"}
    assert answer["flush_s"] == {"value": "15", "origin": "default"}
    assert "flush_s" in said("settings")
    assert "key_bytes" in said("settings", "--limits")


def test_a_wrong_setting_ends_any_command_with_two_and_a_sentence() -> None:
    assert said("total", env={"CLICKCURVE_PROT": "1"}, code=2).startswith("Error: prot is not a setting")
    assert said("settings", "--port", "x", code=2).startswith("Error: port (flag --port) is 'x'")


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    made = ask("token", "create", "shop", "--scope", "write", "--scope", "read", *data)
    token = made.stdout.strip()
    assert made.stderr == f"{tmp_path} is a new data folder: the token is for the server that you start with it\n"
    listing = said("token", "list", *data)
    assert "write,read" in listing and "shop" in listing and token not in listing
    (kept,) = (json.loads(line) for line in said("token", "list", "--json", *data).splitlines())
    assert token.startswith(f"cc_{kept['id']}_") and "sha256" not in kept
    assert said("token", "revoke", kept["id"], *data).strip() == f"revoked {kept['id']}"
    assert said("token", "list", *data) == ""
    assert "there is no token" in said("token", "revoke", kept["id"], *data, code=1)
    assert ask("token", "create", "shop", "--scope", "read", *data).stderr == ""


# --- a running server -----------------------------------------------------------------------------------------------
def test_hits_are_sent_and_asked_for(server: RunningServer) -> None:
    url = {"CLICKCURVE_URL": server.url}
    assert said("send", "launch", env=url) == "counted 1, duplicate 0, late 0, refused 0\n"
    assert said("send", "launch", "--count", "4", "--id", "x1", env=url).startswith("counted 4,")
    assert said("send", "launch", "--count", "4", "--id", "x1", env=url).startswith("counted 0, duplicate 4")
    assert said("send", "launch", "--bot", env=url).startswith("counted 1")
    assert said("send", "a/b ü", "--ts", "2020-01-31T12:00", env=url).startswith("counted 1, duplicate 0, late 1")
    summary = said("total", "launch", env=url).split()
    assert (summary[summary.index("lifetime") + 1], summary[summary.index("bots") + 1]) == ("5", "1")
    assert said("total", "launch", "--last", "7d", env=url).startswith("launch: 5 hits of people, ")
    assert said("total", env=url) == "all links: 6 hits of people, all time\n"
    nothing = said("total", "a/b ü", "--from", "2020-01-02", "--to", "2020-01-03", env=url)
    assert nothing == "a/b ü: 0 hits of people, 2020-01-02 00:00 to 2020-01-03 00:00 UTC\n"
    part = ("--from", "2020-01-31T12:00:30", "--to", "2020-02-01")  # of the minute in which it was hit
    assert "a/b ü: between 0 and 1 hits of people" in said("total", "a/b ü", *part, env=url)
    assert json.loads(said("total", "launch", "--json", env=url))["lifetime"] == 5
    assert said("top", env=url).splitlines()[1].split()[:2] == ["launch", "5"]
    curve = said("curve", "launch", "--last", "60m", "--step", "5m", env=url)
    assert curve.splitlines()[0].startswith("launch: ") and "step 5m" in curve.splitlines()[0]
    assert curve.splitlines()[-1] == "total 5"
    assert max(map(len, curve.splitlines()[1:])) <= 80
    assert "open" in curve
    assert said("curve", "launch", "--csv", env=url).startswith("start,end,count,state")
    assert json.loads(said("curve", "--json", env=url))["total"] == 5


def test_a_file_of_hits_is_sent_and_refusals_are_printed(shared: RunningServer) -> None:
    lines = '{"key": "a", "count": 3}\n{"key": ""}\nnonsense\n{"key": "b"}\n'
    text = said("send", "--file", "-", "--url", shared.url, stdin=lines, code=1)
    assert "counted 4, duplicate 0, late 0, refused 2" in text
    assert "refused hit 1: key is empty" in text
    assert said("total", "a", "--last", "1h", "--url", shared.url).startswith("a: 3 hits of people, ")


def test_a_refused_question_is_printed_in_the_servers_words(shared: RunningServer) -> None:
    text = said("curve", "--last", "7x", "--url", shared.url, code=2)
    assert text.startswith("Error: the server says: invalid parameter: ")
    assert "last '7x' is not a length of time (rule: a whole number from 1 and a unit" in text
    here = said("send", "launch", "--ts", "yesterday", "--url", shared.url, code=2)
    assert here.startswith("Error: ts 'yesterday' is not a time (rule: epoch seconds, or ISO 8601")
    unknown = said("by", "launch", "refs", "--url", shared.url, code=1)
    assert unknown.endswith("dimensions: ref, country, device, source, channel\n"), "said once"


def test_a_time_means_the_same_in_a_flag_and_in_a_hit(shared: RunningServer) -> None:
    with Clickcurve(shared.url) as client:
        client.send([{"key": "dated", "ts": "20251001", "count": 4}, {"key": "dated", "ts": "2025-09-30T23:59"}])
    for since in ("20251001", "2025-10-01", "2025-09-30T24:00", "2025-10-01T02:00+02:00", "1759276800"):
        assert said("total", "dated", "--from", since, "--url", shared.url).startswith("dated: 4 hits of people"), since
    assert "milliseconds?" in said("total", "dated", "--from", "1759276800000", "--url", shared.url, code=2)


def test_no_server_ends_with_three(port: int) -> None:
    text = said("total", "--url", f"http://127.0.0.1:{port}", code=3)
    assert text.startswith(f"Error: no server answers at http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "arguments", [("send",), ("send", "a", "--file", "-"), ("send", "--file", "-", "--count", "2"), ("dump",)]
)
def test_commands_that_make_no_sense_end_with_two(arguments: tuple[str, ...]) -> None:
    assert ask(*arguments, stdin="").exit_code == 2


# --- a store without a server ---------------------------------------------------------------------------------------
@pytest.fixture
def counted(data: Path, tmp_path: Path) -> Path:
    """A data folder in which hits were counted, and which no server holds."""
    counts = {"launch": (1_750_000_020, 5, 0), "old": (1_600_000_020, 1, 0), "b": (1_750_000_020, 0, 1)}
    lines = [{"key": key, "buckets": [[t, t + 60, people, bots]]} for key, (t, people, bots) in counts.items()]
    history = tmp_path / "counted.ndjson"
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "counted 7," in said("import", str(history), "--data", str(data))
    return data


def test_the_store_is_verified_dumped_exported_and_backed_up(counted: Path, tmp_path: Path) -> None:
    data = ("--data", str(counted))
    assert "6 hits of people, 1 of bots, 0 erased; 0 rows break a law" in said("verify", *data)
    assert "people 5" in said("dump", "launch", *data)
    assert "people 6" in said("dump", "--all-links", *data)
    lines = {line["key"]: line for line in map(json.loads, said("export", *data).splitlines())}
    assert {key: line["total"] for key, line in lines.items()} == {"launch": 5, "old": 1, "b": 0}
    copy = tmp_path / "copy.db"
    assert "all flushes of 1 owner so far" in said("backup", str(copy), *data)
    assert "0 rows break a law" in said("verify", "--store", f"sqlite:///{copy}")
    assert said("backup", str(copy), *data, code=2).startswith(f"Error: {copy} exists")
    out = tmp_path / "history.ndjson"
    assert said("export", "--out", str(out), *data) == ""
    assert len(out.read_text().splitlines()) == 3


def test_a_missing_store_is_reported_and_not_made(tmp_path: Path) -> None:
    text = said("verify", "--data", str(tmp_path / "none"), code=3)
    assert text.startswith("Error: there is no database at")
    assert "name a server's data folder by --data" in text
    assert "by --data" in said("backup", str(tmp_path / "copy.db"), "--data", str(tmp_path / "none"), code=3)
    for words in ("token list", "token revoke 1f2e3d4c", "share launch", "share list", "audit"):
        assert "there is no database at" in said(*words.split(), "--data", str(tmp_path / "none"), code=3), words
    assert not (tmp_path / "none").exists()


def test_folding_is_shown_and_done_and_keeps_totals(counted: Path) -> None:
    data = ("--data", str(counted))
    assert "the total stays" in said("fold", "--dry-run", *data)
    assert "journal 1, owner 1: 0 rows visited" in said("fold", *data)
    assert "6 hits of people, 1 of bots, 0 erased; 0 rows break a law" in said("verify", *data)


def test_fold_refuses_while_a_server_holds_the_folder(shared: RunningServer) -> None:
    sentence = f"Error: the data folder {shared.data} is held by clickcurve serve (process {shared.pid})\n"
    assert said("fold", "--data", str(shared.data), code=4) == sentence
    said("fold", "--dry-run", "--data", str(shared.data))


def test_reading_commands_work_while_a_server_runs(shared: RunningServer) -> None:
    assert "0 rows break a law" in said("verify", "--data", str(shared.data))
