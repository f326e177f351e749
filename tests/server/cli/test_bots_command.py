"""`clickcurve bots try`, as people type it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from server.cli.main import main

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


def line(key: str, ip: str = "198.51.100.1", ref: str = "-", agent: str = FIREFOX, at: str = "10:05:03") -> str:
    return f'{ip} - - [17/May/2026:{at} +0000] "GET /{key} HTTP/1.1" 302 0 "{ref}" "{agent}"\n'


LOG = "".join(
    (
        line("a", ref="https://spam.example/1"),
        line("b", ref="https://eu.spam.example/2", at="11:00:00"),
        line("a", ip="192.0.2.7", at="12:00:00"),
        line("a", ref="https://news.example/"),
        line("a", ref="https://spam.example/", agent="Googlebot/2.1"),
        line("a", agent="Mozilla/5.0 SafeLinks"),
        "nonsense\n",
    )
)
RULES = ("--bots-refs", "spam.example,quiet.example", "--bots-networks", "192.0.2.0/24", "--bots-agents", "safelinks")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.write_text(LOG)
    return path


def ask(*arguments: object, stdin: str = "") -> Result:
    env = {"CLICKCURVE_CONFIG": None, "COLUMNS": "80"}
    return CliRunner().invoke(main, ["bots", "try", *map(str, arguments)], input=stdin, env=env)


def test_other_statuses_than_those_of_redirects_are_asked_for(log: Path) -> None:
    log.write_text(LOG.replace(" 302 0 ", " 200 0 "))
    assert "7 lines: 0 hits of people" in ask(*RULES, log).stdout
    assert "7 lines: 5 hits of people, 1 of bots" in ask(*RULES, "--status", "200,304", log).stdout
    wrong = ask(*RULES, "--status", "2xx", log)
    assert wrong.exit_code == 2 and "write codes of three digits" in wrong.output


def test_it_prints_what_each_rule_takes_of_the_hits_of_people(log: Path) -> None:
    shown = ask(*RULES, log)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "7 lines: 5 hits of people, 1 of bots by their agents, 1 bad",
        "the rules would take 4 of the hits of people (80.0%)",
        "",
        "      hits    links  first              last               rule (3 of 3)",
        "         2        2  2026-05-17T10:05Z  2026-05-17T11:00Z  ref:spam.example",
        "         1        1  2026-05-17T10:05Z  2026-05-17T10:05Z  agent:safelinks",
        "         1        1  2026-05-17T12:00Z  2026-05-17T12:00Z  network:192.0.2.0/24",
        "without a hit: 1 of 4 rules: ref:quiet.example",
        "",
        "      hits  agent of people (1 of 1)",
        f"         1  {FIREFOX}",
        "",
        "      hits  agent of bots (3 of 3)",
        f"         3  by a rule: {FIREFOX}",
        "         1  Googlebot, search: Googlebot/2.1",
        "         1  by a rule: Mozilla/5.0 SafeLinks",
    ]


def test_it_prints_what_each_exception_gives_back_of_the_hits_of_bots(log: Path) -> None:
    log.write_text(
        LOG + line("b", agent="OurApp/1 check") * 2 + line("b", ref="https://spam.example/", agent="OurApp/2")
    )
    shown = ask("--bots-people", "ourapp", "--bots-refs", "spam.example", "--top", "1", "--agents", "1", log)
    assert shown.stdout.splitlines() == [
        "10 lines: 5 hits of people, 4 of bots by their agents, 1 bad",
        "the rules would take 2 of the hits of people (40.0%)",
        "the exceptions would give back 3 of the hits of bots (75.0%)",
        "",
        "      hits    links  first              last               rule (1 of 2)",
        "         3        1  2026-05-17T10:05Z  2026-05-17T10:05Z  people:ourapp",
        "",
        "      hits  agent of people (1 of 4)",
        f"         2  {FIREFOX}",
        "",
        "      hits  agent of bots (1 of 2)",
        f"         2  by a rule: {FIREFOX}",
    ]


def test_without_rules_it_names_the_agents_of_people_and_of_bots(log: Path) -> None:
    found = json.loads(ask("--json", log).stdout)
    assert (found["people"], found["bots"], found["taken"], found["given_back"], found["rules"]) == (5, 1, 0, 0, [])
    assert found["agents_of_people"] == [{"agent": FIREFOX, "hits": 4}, {"agent": "Mozilla/5.0 SafeLinks", "hits": 1}]
    googlebot = {"agent": "Googlebot/2.1", "hits": 1, "name": "Googlebot", "kind": "search"}
    assert found["agents_of_bots"] == [googlebot]
    assert "agent of people" not in ask("--agents", "0", log).stdout


def test_it_reads_several_logs_and_packed_ones(log: Path, tmp_path: Path) -> None:
    packed = tmp_path / "access.log.1.gz"
    packed.write_bytes(gzip.compress(LOG.encode()))
    found = json.loads(ask(*RULES, "--json", log, packed).stdout)
    assert (found["lines"], found["people"], found["bots"], found["taken"], found["unused"]) == (14, 10, 2, 8, 1)
    assert found["rules"][0] == {
        "rule": "ref:spam.example",
        "hits": 4,
        "links": 2,
        "first": 1_779_012_300,
        "last": 1_779_015_600,
    }


def test_rules_come_from_the_settings_file_and_from_lists(log: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("# published\n192.0.2.0/24\n")
    config = tmp_path / "clickcurve.toml"
    config.write_text(f'[bots]\nrefs = ["spam.example"]\nfiles = ["{listed}"]\n')
    found = json.loads(ask("--config", config, "--json", log).stdout)
    assert {rule["rule"]: rule["hits"] for rule in found["rules"]} == {"ref:spam.example": 2, "network:192.0.2.0/24": 1}


def test_bad_rules_are_refused(log: Path, tmp_path: Path) -> None:
    bad = ask("--bots-networks", "192.0.2.1/24", log)
    assert (bad.exit_code, "has host bits set" in bad.stderr) == (2, True)
    missing = ask("--bots-files", tmp_path / "none.txt", log)
    assert (missing.exit_code, "must name files that are there" in missing.stderr) == (2, True)


def test_a_file_that_is_no_log_ends_with_1(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("one\ntwo\n")
    shown = ask(*RULES, other)
    assert shown.exit_code == 1
    assert "0 hits of people" in shown.stdout


def test_a_damaged_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = tmp_path / "access.log.gz"
    cut.write_bytes(gzip.compress(LOG.encode() * 50)[:-20])
    shown = ask(*RULES, cut)
    assert shown.exit_code == 1
    assert "read as far as it goes" in shown.stdout
