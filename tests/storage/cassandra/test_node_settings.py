"""What `schema check` says of settings in cassandra.yaml: of a real node that has them wrong, and of several nodes."""

from __future__ import annotations

import json

import pytest

from storage.cassandra.node_settings import unmet
from storage.cassandra.schema import apply_schema, check_schema
from storage.cassandra.session import connect
from storage.cassandra.uri import parse
from testing.cassandra.ring import place_one, running
from testing.server import run
from tests.storage.stores import LADDER

WRONG = {
    "paxos_variant": "v1",
    "paxos_state_purging": "legacy",
    "concurrent_writes": "32",
    "user_timestamps_enabled": "false",
    "minimum_timestamp_warn_threshold": "10d",
    "minimum_timestamp_fail_threshold": "20d",
}
ASKED_FOR = {
    "commitlog_sync": "group",
    "concurrent_writes": "64",
    "paxos_variant": "v2",
    "paxos_state_purging": "repaired",
    "user_timestamps_enabled": "true",
    "minimum_timestamp_warn_threshold": None,
    "minimum_timestamp_fail_threshold": None,
}


@pytest.mark.usefixtures("cassandra_program")
def test_each_wrong_setting_of_a_node_is_a_warning_that_says_what_mends_it(
    tmp_path_factory: pytest.TempPathFactory, keyspace: str
) -> None:
    with running([place_one(tmp_path_factory.mktemp("wrong"), "group", settings=WRONG)]) as ring:
        uri = f"cassandra://127.0.0.1:{ring.port}/{keyspace}"
        session = connect(parse(uri))
        apply_schema(session, LADDER, replication=1)
        session.define(f"ALTER TABLE {keyspace}.rows WITH read_repair = 'NONE'")
        findings = check_schema(session, LADDER)
        output = run("schema", "check", "--store", uri, "--json")
        apply_schema(session, LADDER, replication=1)
        mended = [str(finding) for finding in check_schema(session, LADDER)]
        session.close()
    sentences = [str(finding) for finding in findings]
    assert not any(finding.fatal for finding in findings)
    for setting, value in WRONG.items():
        (sentence,) = [each for each in sentences if each.startswith(f"{setting} is {value} on 127.0.0.1: ")]
        assert "cassandra.yaml" in sentence
    assert output.returncode == 1
    (shown,) = map(json.loads, output.stdout.splitlines())
    assert shown["findings"] == [{"sentence": each, "fatal": False} for each in sentences]
    options = f"table {keyspace}.rows has other options (read_repair): run `clickcurve schema apply"
    assert any(each.startswith(options) for each in sentences)
    assert len(sentences) == len(mended) + 1 == len(WRONG) + 2, "the single replica is the last one"


def test_what_cassandra_has_by_default_is_warned_of() -> None:
    defaults = {"commitlog_sync": "periodic", "concurrent_writes": "32", "paxos_variant": "v1"}
    said = list(unmet({"h1": [*{**ASKED_FOR, **defaults, "paxos_state_purging": "legacy"}.items()]}))
    assert [each.partition(" ")[0] for each in said] == ["commitlog_sync", "paxos_variant", "paxos_state_purging"]


def test_nodes_with_the_same_value_share_a_sentence() -> None:
    def node(**settings: str) -> list[tuple[str, str | None]]:
        return [*{**ASKED_FOR, **settings}.items()]

    assert list(unmet({"h1": node(), "h2": []})) == []
    few, fewer = "each of these threads waits", "a crash of machines loses"
    said = list(
        unmet(
            {
                "h3": node(concurrent_writes="32"),
                "h2": node(concurrent_writes="63"),
                "h1": node(concurrent_writes="32"),
                "h4": node(commitlog_sync="periodic", concurrent_writes="32"),
            }
        )
    )
    assert [each.partition(";")[0].partition(", so")[0] for each in said] == [
        f"commitlog_sync is periodic on h4: {fewer} what was counted in the seconds before",
        f"concurrent_writes is 32 on h1, h3: {few} for the commit log",
        f"concurrent_writes is 63 on h2: {few} for the commit log",
    ]
