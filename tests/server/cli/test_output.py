"""What all commands have in common: `--json`, errors for programs, and no way around the one place that prints."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from server.cli.main import main
from server.cli.output import ReportingCommand
from testing.server import ROOT, RunningServer, run
from tests.server.commands import ask, said

# Why these have no result: the log of a server is JSON anyway; a script for a shell; a page for `man`.
NO_RESULT = {"serve", "demo", "completion", "manual", "mcp"}
CLI = ROOT / "server" / "cli"


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Yields (words, command) of every command, `token list` among them."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {word}", below) for word, below in command.commands.items())
        else:
            yield name, command


def test_every_command_takes_the_flag_but_a_few() -> None:
    without = {name for name, command in every_command() if not isinstance(command, ReportingCommand)}
    assert without == NO_RESULT
    for name, command in every_command():
        flags = [flag for parameter in command.params for flag in parameter.opts]
        assert flags.count("--json") == (name not in NO_RESULT), name


def test_every_shape_is_on_the_page() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    listed = re.findall(r"^\| `([a-z -]+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for name, _ in every_command() if name not in NO_RESULT)


@pytest.mark.parametrize("file", sorted(CLI.rglob("*.py")), ids=str)
def test_commands_print_nothing_by_themselves(file: Path) -> None:
    if file.name not in ("output.py", "about.py", "manual.py"):
        assert not re.search(r"\b(echo|secho|print|style)\(|\.stdout\.|\.stderr\.", file.read_text())


def shape(name: str) -> set[str]:
    """The members that the page names for a command, of its first object and its lists."""
    page = (ROOT / "docs" / "commands.md").read_text()
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
    return set(re.findall(r'"(\w+)"', row))


def members(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(members, value.values()))
    return set().union(*map(members, value)) if isinstance(value, list) else set()


def objects(*arguments: str, stdin: str | None = None, code: int = 0) -> list[dict[str, object]]:
    found = ask(*arguments, "--json", stdin=stdin)
    assert found.exit_code == code, (found.output, found.exception)
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_what_is_printed_has_the_shape_of_the_page(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    history = tmp_path / "history.ndjson"
    buckets = [[1_600_000_020, 1_600_000_080, 5, 1]]
    lines: list[dict[str, object]] = [{"key": "a", "total": 7}, {"group": "spring"}]
    history.write_text("".join(json.dumps(line | {"buckets": buckets}) + "\n" for line in lines))
    trace = "".join(f"{1_772_000_040 + n} ip=10.0.0.1\n" for n in range(3))
    asked: list[tuple[str, tuple[str, ...]]] = [
        ("import", (str(history), *data)),
        ("verify", data),
        ("dump", ("a", *data)),
        ("export", data),
        ("fold", data),
        ("fold", ("--dry-run", *data)),
        ("backup", (str(tmp_path / "copy.db"), *data)),
        ("restore", (str(tmp_path / "copy.db"), *data)),
        ("owners list", data),
        ("copy", ("--from", f"sqlite:///{tmp_path}/copy.db", "--to", f"sqlite:///{tmp_path}/new.db")),
        ("schema show", ("--store", "cassandra://h1/clicks")),
        ("limits try", ("by=ip rates=2/m",)),
        ("token create", ("shop", "--scope", "write", *data)),
        ("token list", data),
        ("version", ()),
    ]
    printed: defaultdict[str, set[str]] = defaultdict(set)
    for name, arguments in asked:
        printed[name] |= members(objects(*name.split(), *arguments, stdin=trace))
    for name, found in printed.items():
        assert found - _WITHIN.get(name, set()) == shape(name) - _NOT_HERE.get(name, set()), name
    (token,) = objects("token", "list", *data)
    assert objects("token", "revoke", str(token["id"]), *data) == [{"revoked": token["id"]}]


# What the page leaves out, and what only other inputs have.
_WITHIN = {
    "fold": {"tier", "buckets_out", "people_out", "bots_out", "buckets_in", "people_in", "bots_in"},
    "copy": {"people", "bots"},
}
_NOT_HERE = {
    "import": {"line", "reason", "text"},
    "export": {"file", "links", "groups", "by"},
    "dump": {"halved", "by", "visitors", "events"},
}


@pytest.mark.parametrize(
    ("arguments", "code", "title", "detail"),
    [
        (("total", "--loud"), 2, "invalid command or setting", "No such option '--loud'"),
        (("count",), 2, "invalid command or setting", "No such command 'count'"),
        (("send",), 2, "invalid command or setting", "send takes one KEY"),
        (("settings", "--port", "x"), 2, "invalid setting", "port (flag --port) is 'x'"),
        (("verify", "--data", "none"), 3, "store unavailable", "there is no database at"),
    ],
)
def test_an_error_is_a_problem_document(arguments: tuple[str, ...], code: int, title: str, detail: str) -> None:
    found = ask(*arguments, "--json")
    assert (found.exit_code, found.stdout) == (code, "")
    problem = json.loads(found.stderr)
    assert (problem["title"], problem["exit_code"]) == (title, code)
    assert str(problem["detail"]).startswith(detail)


def test_an_error_of_the_server_is_passed_on(shared: RunningServer) -> None:
    found = ask("curve", "--last", "7x", "--url", shared.url, "--json")
    problem = json.loads(found.stderr)
    assert found.exit_code == problem["exit_code"] == 2
    assert (problem["status"], problem["field"], problem["value"]) == (422, "last", "7x")
    assert "rule" in problem


def test_a_word_after_two_dashes_is_no_flag(shared: RunningServer) -> None:
    assert said("send", "--url", shared.url, "--", "--json").startswith("counted 1,")


def test_notes_are_json_too(shared: RunningServer) -> None:
    lines = '{"key": "a", "count": 3}\n{"key": ""}\n'
    found = ask("send", "--file", "-", "--json", "--url", shared.url, stdin=lines)
    assert json.loads(found.stdout) == {"counted": 3, "duplicate": 0, "late": 0, "refused": 1}
    assert json.loads(found.stderr)["note"].startswith("refused hit 1: key is empty")


def test_a_server_that_is_none_is_named(shared: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.cli.client.read.link_path", lambda *_: "/docs")
    assert "does not answer in JSON" in said("total", "a", "--url", shared.url, code=1)


def test_a_terminal_without_unicode_gets_numbers_and_programs_json(shared: RunningServer) -> None:
    said("send", "--url", shared.url, "--", "日本 ü")
    text = run("total", "日本 ü", "--url", shared.url, PYTHONIOENCODING="latin-1").stdout
    assert text.splitlines()[0] == r"\u65e5\u672c \xfc: hits of people, days in UTC"
    output = run("total", "日本 ü", "--json", "--url", shared.url, PYTHONIOENCODING="latin-1").stdout
    assert json.loads(output)["key"] == "日本 ü"
