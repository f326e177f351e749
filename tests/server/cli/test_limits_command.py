"""`clickcurve limits try`, as people type it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from server.cli import limits
from server.cli.main import main

T = 1_772_000_040
TRACE = "".join(f"{T + n} ip=10.0.0.{n % 2}\n" for n in range(6))


def ask(*arguments: str, stdin: str | bytes = TRACE) -> Result:
    env = {"CLICKCURVE_CONFIG": None, "COLUMNS": "80"}
    return CliRunner().invoke(main, ["limits", "try", *arguments], input=stdin, env=env)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "clickcurve.toml"
    path.write_text(
        'port = 9000\n[limits.login]\nby = ["user", "ip"]\nrates = "1/m"\nbackend = "redis"\n'
        '[[limits.shorten]]\nby = "ip"\nrates = "2/m"\n[[limits.shorten]]\nby = [["ip", "endpoint"]]\nrates = "1/d"\n'
    )
    return path


def test_it_prints_what_is_refused_and_the_sums() -> None:
    found = ask("by=ip rates=2/m")
    assert found.exit_code == 0
    assert found.stdout.splitlines() == [
        f"line 5: {T + 4} ip=10.0.0.0 refused by 2/m: again after 57 s",
        f"line 6: {T + 5} ip=10.0.0.1 refused by 2/m: again after 57 s",
        "asked for 6 in 6 lines",
        "admitted 4 in 4 lines",
        "refused 2 in 2 lines, 33.3%",
        "",
        "   refused     asked  caller (2 of 2)",
        "         1         3  ip=10.0.0.0",
        "         1         3  ip=10.0.0.1",
    ]
    assert found.stderr == ""


def test_the_sums_alone_and_fewer_callers() -> None:
    found = ask("--summary", "--top", "1", "by=ip rates=2/m")
    assert found.stdout.startswith("asked for 6 in 6 lines\n")
    assert found.stdout.endswith("caller (1 of 2)\n         1         3  ip=10.0.0.0\n")


def test_rates_alone_are_shared_by_all_lines() -> None:
    assert "refused 4 in 4 lines, 66.7%" in ask("--summary", "2/m, 3/h").stdout


def test_an_event_of_the_settings_file(config: Path) -> None:
    found = ask("--summary", "--config", str(config), "login")
    assert (found.exit_code, "refused 4 in 4 lines" in found.stdout) == (0, True)
    lines = "".join(f"{T + n} ip=a endpoint=/e{n % 2}\n" for n in range(3))
    found = ask("--config", str(config), "shorten", stdin=lines)
    assert "line 3: 1772000042 ip=a endpoint=/e0 refused by shorten.2, 1/d" in found.stdout


def test_an_empty_trace_is_replayed_without_an_error() -> None:
    found = ask("2/m", stdin="")
    assert (found.exit_code, found.stdout) == (
        0,
        "asked for 0 in 0 lines\nadmitted 0 in 0 lines\nrefused 0 in 0 lines\n",
    )


def test_bad_lines_are_printed_with_their_numbers_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SHOWN_BAD_LINES", 2)
    trace = b"# who asked\n\nnonsense\n%d ip=a\n%d ip=\xff\n%d\n%d ip=a" % (T, T, T, T + 1)
    found = ask("by=ip rates=2/m", stdin=trace)
    assert found.exit_code == 1
    assert "asked for 2 in 2 lines" in found.stdout
    assert found.stderr.splitlines() == [
        "line 3 is bad: trace 'nonsense' is not a time",
        "line 5 is bad: ip of the event trace is not text that UTF-8 can hold",
        "bad lines, which are in no sum: 3",
    ]


def test_lines_out_of_order_are_counted_on_standard_error() -> None:
    found = ask("2/m", stdin=f"{T}\n{T - 9}\n")
    assert found.exit_code == 0
    assert found.stderr == "lines with an earlier time than a line before them: a caller's time does not step back: 1\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["by=ip rates=5/m, 20/h"], "quote missing around the rates"),
        (["by=ip rates=5/year"], "has the unit 'year', and the units are s, m, h, d"),
        (["10/m, 5/h"], "can never refuse anything"),
        (["login"], "if it is an event, name its file by --config"),
        ([], "Missing argument 'RULE...'"),
    ],
)
def test_a_rule_that_cannot_be_is_a_usage_error(arguments: list[str], why: str) -> None:
    found = ask(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert why in found.stderr


def test_an_event_that_the_file_does_not_have(config: Path) -> None:
    assert "has no rule for the event 'logn'; known: login, shorten" in ask("--config", str(config), "logn").stderr
    assert ask("--config", str(config), "login", "shorten").exit_code == 2
    assert ask("--config", str(config.with_name("none.toml")), "login").exit_code == 2
    config.write_text("limits = [\n")
    assert "cannot be read" in ask("--config", str(config), "login").stderr


def test_a_file_whose_limits_are_no_tables_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "clickcurve.toml"
    for text, why in (
        ("limits = 5\n", "must be tables such as [limits.login], not 5"),
        ("[limits]\nlogin = 5\n", "a table"),
    ):
        file.write_text(text)
        result = ask("--config", str(file), "login", stdin="")
        assert result.exit_code == 2
        assert why in result.output


def test_a_line_of_a_far_time_is_bad_and_no_traceback() -> None:
    result = ask("by=ip rates=5/m", stdin="4199999999 ip=1\n4294967299 ip=1\n99999999999 ip=1\n")
    assert "line 2 is bad: now must be epoch seconds" in result.output
    assert result.exit_code == 1
    assert "bad lines, which are in no sum: 2" in result.output


def test_units_may_be_spelled_out() -> None:
    assert "admitted 1 in 1 lines" in ask("1 per minute", stdin="1772000040\n1772000041\n").output
