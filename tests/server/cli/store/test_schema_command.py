"""`clickcurve schema` on a real node: made, shown, checked, and refused where there is none to look after."""

from __future__ import annotations

import pytest

from clickcurve.buckets.ladder import CLICKS
from testing.cassandra.node import Node
from testing.cassandra.ring import Ring
from tests.server.commands import said

ONE = ("--replication", "1")


@pytest.fixture
def store(one_node: Node, keyspace: str) -> str:
    """The URI of a keyspace that is not there yet."""
    return f"cassandra://{one_node.address}:{one_node.port}/{keyspace}"


def test_a_keyspace_is_made_once(store: str, keyspace: str) -> None:
    assert "has 1 node: it cannot hold 3 replicas" in said("schema", "apply", "--store", store, code=2)
    made = said("schema", "apply", "--store", store, *ONE)
    assert f"keyspace {keyspace} made, with 1 replicas in datacenter1" in made
    assert "table rows made" in made and f"ladder noted: {CLICKS}" in made
    again = said("schema", "apply", "--store", store, *ONE)
    assert again.startswith(f"nothing to do: keyspace {keyspace} has everything\n")


def test_each_problem_is_printed_with_what_mends_it(one_node: Node, store: str, keyspace: str) -> None:
    mend = f"run `clickcurve schema apply --store {store}`"
    assert f"error: there is no keyspace {keyspace}: {mend}\n" in said("schema", "check", "--store", store, code=1)
    said("schema", "apply", "--store", store, *ONE)
    output = said("schema", "check", "--store", store, code=1)
    assert output.count("\n") == 1
    assert (
        output.startswith(f"warning: keyspace {keyspace} has 1 replica (datacenter1: 1)") and "ALTER KEYSPACE" in output
    )
    one_node.ask(f"ALTER TABLE {keyspace}.rows WITH gc_grace_seconds = 0", timeout_s=600)
    output = said("schema", "check", "--store", store, code=1)
    assert f"warning: table {keyspace}.rows has other options (gc_grace_seconds): {mend}" in output
    assert "table rows: gc_grace_seconds set" in said("schema", "apply", "--store", store)
    assert "other options" not in said("schema", "check", "--store", store, code=1)
    other = said("schema", "check", "--store", store, "--ladder", "60:2,3600:31,month", code=1)
    assert f"error: keyspace {keyspace} holds rows of the ladder {CLICKS}" in other
    assert "holds rows of the ladder" in said(
        "schema", "apply", "--store", store, "--ladder", "60:2,3600:31,month", code=2
    )


def test_the_schema_is_shown_and_is_what_apply_makes(one_node: Node, store: str, keyspace: str) -> None:
    shown = said("schema", "show", "--store", store, *ONE)
    assert f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication" in shown and "'datacenter1': '1'" in shown
    Ring([one_node]).define(*(statement for statement in shown.split(";\n") if statement.strip()))
    done = said("schema", "apply", "--store", store)
    assert "made" not in done and "set" not in done and "version noted: 2" in done
    assert "'DC1': '3'" in said("schema", "show", "--store", "cassandra://h1/clicks?dc=DC1")


def test_a_server_says_what_mends_a_keyspace_that_is_not_there(store: str) -> None:
    assert "run `clickcurve schema apply" in said("verify", "--store", store, code=2)


@pytest.mark.parametrize("command", ["apply", "show", "check"])
def test_other_stores_have_no_schema_of_their_own(command: str) -> None:
    for store in ("sqlite:///clickcurve.db", "memory://", None):
        flag = ("--store", store) if store else ()
        text = said("schema", command, *flag, code=2)
        assert text.startswith("Error: only Cassandra keyspaces have a schema to look after")
        assert (store or "sqlite").partition(":")[0] in text


def test_a_cluster_that_is_not_there_ends_with_three(port: int) -> None:
    assert said("schema", "check", "--store", f"cassandra://127.0.0.1:{port}/clicks", code=3).startswith("Error: ")
