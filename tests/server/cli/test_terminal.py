"""What strangers wrote, on a real terminal: shown by every command and log line, obeyed by none."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.logs import JsonLine, Sentence
from testing.client import Clickcurve, http_client
from testing.server import RunningServer, free_port, run
from testing.terminal import on_terminal
from tests.server.cli.test_output import NO_RESULT, every_command

# Sets the title, clears the screen, makes a row of its own, turns the text around, ends a line, hides.
HOSTILE = "\x1b]0;PWNED\x07\x9b2J\nFAKE 999999999\r\u202egpj\u2028x\u2066\x7f"
SHOWN = r"\x1b]0;PWNED\x07\x9b2J\nFAKE 999999999\r\u202egpj\u2028x\u2066\x7f"
DRAWN_IN_PLACE = re.compile(r"\x1b\[(\?1049[hl]|\?25[hl]|H|K|J)")  # a screen of its own, and lines over lines
NO_STRANGERS = {
    "alerts test": "names in the settings can be printed",
    "alerts try": "as alerts test",
    "schema apply": "its words are those of the keyspace's tables",
    "schema check": "as schema apply",
    "schema show": "the address is checked to be plain",
    "owners retire": "prints a place as owners list does",
    "copy": "prints numbers, and keys by repr",
    "token revoke": "an id is letters and digits",
    "version": "a number",
    "clock accept": "prints numbers",
    "join-spellings": "makes keys visible as dump does",
    "events list": "names of events are of the settings, and checked there",
}

# They say nothing of what they were given.
SILENT = ("send", "fold", "limits try", "share create", "erase-word add", "erase-word show")


def is_safe(text: str) -> bool:
    return all(sign.isprintable() for line in text.split("\n") for sign in line) and "\nFAKE" not in text


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server whose folder and keys have hostile names."""
    with RunningServer(tmp_path / f"data {HOSTILE}", "--breakdown-dimensions", "ref") as running:
        with Clickcurve(running.url) as client:
            client.send([{"key": HOSTILE}, {"key": "b" + HOSTILE, "bot": True}])
        running.stop()
        yield running.start()


def asked(server: RunningServer, folder: Path) -> Iterator[tuple[str, tuple[str, ...], bytes]]:
    """Yields command, arguments and standard input of questions whose answers hold what strangers wrote."""
    url, data = ("--url", server.url), ("--data", str(server.data))
    log = folder / f"log {HOSTILE}"
    log.write_text(f"a bad line {HOSTILE}\n" * 20)
    trace = f"1772000040 ip={SHOWN.replace(chr(92), '')}\x1b[31m\n" * 3
    yield "send", (HOSTILE, "--ts", HOSTILE, *url), b""
    yield "total", (HOSTILE, *url), b""
    yield "total", (HOSTILE, "--last", HOSTILE, *url), b""
    yield "curve", (HOSTILE, *url), b""
    yield "top", url, b""
    yield "by", (HOSTILE, HOSTILE, *url), b""
    yield "visitors", (HOSTILE, "--last", HOSTILE, *url), b""
    yield "events of", (HOSTILE, "--last", HOSTILE, *url), b""
    yield "events delete", (HOSTILE, *data), b""
    yield "groups", ("--last", HOSTILE, *url), b""
    yield "delete", (f"none {HOSTILE}", "--yes", *url), b""
    yield "why", (HOSTILE, "--last", HOSTILE, *url), b""
    yield "disavow add", (HOSTILE, "--ref", HOSTILE, *url), b""
    yield "disavow list", url, b""
    with http_client(server.url) as http:
        (rule,) = http.get("/v1/disavow").raise_for_status().json()["rules"]
    yield "disavow undo", (rule["id"], *url), b""
    yield "erase-word add", ("ref", "-", "--key", HOSTILE, *url), b"spam.example"
    yield "erase-word show", (HOSTILE, *url), b""
    yield "note", ("PWNED \u202egpj\u2066", "--key", HOSTILE, *url), b""
    yield "notes", url, b""
    yield "share create", (HOSTILE, *data), b""
    yield "share list", data, b""
    yield "share revoke", (HOSTILE, *data), b""
    yield "watch", ("--times", "1", *url), b""
    yield "import", (str(log), *url), b""
    yield "import", (str(log) + "none", *url), b""
    yield "export", data, b""
    yield "fold", ("--dry-run", *data), b""
    yield "fold", data, b""  # a server holds it: the error names the folder
    yield "verify", ("--data", str(server.data) + "none"), b""
    yield "dump", (HOSTILE, *data), b""
    yield "backup", (str(folder / f"copy {HOSTILE}"), *data), b""
    yield "restore", (str(folder / f"none {HOSTILE}"), "--data", str(folder / "other")), b""
    yield "owners list", data, b""
    yield "repair", (HOSTILE, "--drop", *data), b""  # a server holds it: the error names the folder
    yield "limits try", ("by=ip rates=1/m",), (trace + f"{HOSTILE}\n").encode()
    yield "bots try", ("--bots-agents", HOSTILE, str(log)), b""
    yield "token create", (HOSTILE, "--scope", "write", *data), b""
    yield "token create", ("PWNED", "--scope", "write", "--json", *data), b""
    yield "token list", data, b""  # a name that could write on the terminal is refused
    yield "audit", data, b""
    yield "settings", data, b""
    yield "no such command", (HOSTILE,), b""


@pytest.mark.slow
def test_no_command_lets_a_stranger_write_on_the_terminal(server: RunningServer, tmp_path: Path) -> None:
    input_file = tmp_path / "stdin"
    seen = set()
    for name, arguments, stdin in asked(server, tmp_path):
        words = (HOSTILE,) if name == "no such command" else tuple(name.split())
        input_file.write_bytes(stdin)
        with input_file.open("rb") as given:
            text = on_terminal(*words, *arguments, columns=200, stdin=given)
        plain = text.replace("\r\033[K", "")  # what removes a line of progress
        if name == "watch":
            plain = DRAWN_IN_PLACE.sub("", plain)
        assert is_safe(plain), (name, plain)
        assert "PWNED" in plain or name in SILENT, (name, plain)
        seen.add(name)
    everything = {name for name, _ in every_command()}
    assert seen - {"no such command"} == everything - NO_STRANGERS.keys() - NO_RESULT


@pytest.mark.slow
def test_json_for_programs_can_be_looked_at_as_well(server: RunningServer, tmp_path: Path) -> None:
    input_file = tmp_path / "stdin"
    for name, arguments, stdin in asked(server, tmp_path):
        input_file.write_bytes(stdin)
        with input_file.open("rb") as given:
            text = on_terminal(*name.split()[:2], *arguments, "--json", columns=200, stdin=given)
        assert is_safe(text), (name, text)
        assert all(json.loads(line) for line in text.splitlines()), (name, text)
    (link, _) = map(json.loads, run("export", "--data", str(server.data)).stdout.splitlines())
    assert link["key"] == HOSTILE, "an export holds the key itself"


def test_no_log_line_lets_a_stranger_write_on_the_terminal() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        trace = (type(error), error, error.__traceback__)
    record = logging.LogRecord("other", logging.ERROR, "x.py", 1, "refused %s", (HOSTILE,), trace)
    record.__dict__.update({"key": HOSTILE, "of": [HOSTILE, {"deep": HOSTILE}], "bytes": HOSTILE.encode()})
    line = JsonLine().format(record)
    assert is_safe(line) and "\n" not in line
    answer = json.loads(line)
    assert (answer["event"], answer["key"], answer["of"][1]["deep"]) == (f"refused {HOSTILE}", HOSTILE, HOSTILE)
    assert HOSTILE in answer["traceback"]


def test_no_sentence_of_the_log_lets_a_stranger_write_on_the_terminal() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        trace = (type(error), error, error.__traceback__)
    record = logging.LogRecord("other", logging.WARNING, "x.py", 1, "refused %s", (HOSTILE,), trace)
    record.__dict__.update({"key": HOSTILE, "of": [HOSTILE]})
    shown = Sentence().format(record)
    assert all(sign.isprintable() for line in shown.split("\n") for sign in line)
    assert shown.startswith(f"Warning: refused {SHOWN}, key: {SHOWN}, of: [")


@pytest.mark.parametrize(("host", "workers"), [("127.0.0.1", "2"), ("0.0.0.0", "1")])
def test_a_server_on_a_terminal_says_what_to_open_and_nothing_in_json(host: str, workers: str, tmp_path: Path) -> None:
    port = str(free_port())
    flags = (
        "--data",
        str(tmp_path),
        "--port",
        port,
        "--host",
        host,
        "--workers",
        workers,
        "--sync",
        "no",
        "--insecure",
    )
    shown = on_terminal("serve", *flags, interrupt_when=lambda text: "open http" in text, code=0)
    assert shown.count(f"open http://127.0.0.1:{port}/\n") == 1
    assert "Warning: sync is off, then: a crash of the machine loses" in shown
    assert "{" not in shown


def test_a_demo_on_a_terminal_ends_with_the_address(tmp_path: Path) -> None:
    port = str(free_port())
    flags = ("--quiet", "--data", str(tmp_path / "data"), "--port", port)
    shown = on_terminal("demo", *flags, columns=200, interrupt_when=lambda text: "open http" in text, code=0)
    assert (
        shown == f"a year of made-up traffic, in {tmp_path / 'data'}; Ctrl-C ends it\nopen http://127.0.0.1:{port}/\n"
    )


def test_what_the_server_logged_is_safe_too(server: RunningServer) -> None:
    assert "listening" in server.output()
    assert is_safe(server.output())
