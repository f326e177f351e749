"""Making, checking and showing a keyspace, on a real node."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from cassandra import OperationTimedOut

from clickcurve.buckets.errors import StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, Ladder
from storage.cassandra import schema as schema
from storage.cassandra.cql import Rows
from storage.cassandra.requests import Request
from storage.cassandra.schema import TABLES
from storage.cassandra.session import Session, connect
from storage.cassandra.statements import STATEMENTS
from storage.cassandra.uri import parse
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.server import run
from tests.storage.stores import LADDER, in_flush, saved


class Changed:
    """A connection of which a test changes something."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@pytest.fixture
def cluster(one_node: Node, keyspace: str) -> Iterator[Session]:
    """A connection for a keyspace that is not there yet."""
    session = connect(parse(f"cassandra://{one_node.address}:{one_node.port}/{keyspace}"))
    yield session
    session.define(f"DROP KEYSPACE IF EXISTS {keyspace}")
    session.close()


@pytest.fixture(scope="module")
def made(one_node: Node) -> Iterator[Session]:
    """A connection to a keyspace that is made; leave it as it is."""
    session = connect(parse(f"cassandra://{one_node.address}:{one_node.port}/test_{secrets.token_hex(6)}"))
    schema.apply_schema(session, LADDER, replication=1)
    yield session
    session.close()


def sentences(cluster: Session, ladder: Ladder | None = LADDER) -> list[str]:
    """What is wrong, but for the single replica that a single node can hold."""
    return [said for said in map(str, schema.check_schema(cluster, ladder)) if "replica" not in said]


def change(cluster: Session, text: str) -> None:
    cluster.define(text.format(keyspace=cluster.address.keyspace))


def test_a_keyspace_is_made_once(cluster: Session) -> None:
    (problem,) = schema.check_schema(cluster, LADDER)
    assert problem.fatal
    assert str(problem).endswith(f"run `clickcurve schema apply --store {cluster.address.uri}`")
    done = schema.apply_schema(cluster, LADDER, replication=1)
    assert len(done) == 1 + len(TABLES) + 4
    assert schema.apply_schema(cluster, LADDER, replication=1) == []
    assert sentences(cluster) == []


def test_more_replicas_than_nodes_are_refused_before_anything_is_made(cluster: Session) -> None:
    with pytest.raises(StoreMismatch, match=r"data centre datacenter1 has 1 node: it cannot hold 3 replicas"):
        schema.apply_schema(cluster, LADDER)
    assert "no keyspace" in sentences(cluster)[0]


def test_an_older_cassandra_is_refused_before_anything_is_made(cluster: Session) -> None:
    class Older(Changed):
        def on_each_node(self, text: str) -> dict[str, Rows]:
            (node,) = self._session.on_each_node(text)
            return {node: [("4.1.10",)]}

    with pytest.raises(StoreMismatch, match=r"127.0.0.1 runs Cassandra 4.1.10: 5.0 or newer is needed"):
        schema.apply_schema(Older(cluster), LADDER)
    assert "no keyspace" in sentences(cluster)[0]


def test_the_text_that_is_shown_makes_the_same_tables(cluster: Session) -> None:
    for statement in schema.schema_text(cluster.address.keyspace, 1, ["datacenter1"]).split(";")[:-1]:
        cluster.define(statement)
    (missing,) = sentences(cluster)
    assert "does not say its dc, ladder, uuid, version" in missing
    assert len(schema.apply_schema(cluster, LADDER, replication=1)) == 4
    assert sentences(cluster) == []


def test_a_missing_table_and_other_options_are_mended(cluster: Session) -> None:
    schema.apply_schema(cluster, LADDER, replication=1)
    change(cluster, "DROP TABLE {keyspace}.due")
    change(cluster, "ALTER TABLE {keyspace}.touched WITH default_time_to_live = 5 AND gc_grace_seconds = 7")
    change(cluster, "ALTER TABLE {keyspace}.owners WITH read_repair = 'NONE' AND speculative_retry = '99p'")
    change(cluster, "ALTER TABLE {keyspace}.rows WITH compaction = {{'class': 'SizeTieredCompactionStrategy'}}")
    assert "has no table due" in sentences(cluster)[0]
    assert sorted(schema.apply_schema(cluster, LADDER, replication=1)) == [
        "table due made",
        "table owners: read_repair, speculative_retry set",
        "table rows: compaction set",
        "table touched: gc_grace_seconds, default_time_to_live set",
    ]
    assert sentences(cluster) == []


def as_former_version(cluster: Session) -> None:
    """Makes of the keyspace what a program of the schema before would have made."""
    schema.apply_schema(cluster, LADDER, replication=1)
    for table in TABLES:
        if table.since > schema.FORMER_VERSION:
            change(cluster, f"DROP TABLE {{keyspace}}.{table.name}")
        for column in table.added:
            change(cluster, f"ALTER TABLE {{keyspace}}.{table.name} DROP {column}")
    change(cluster, "UPDATE {keyspace}.meta SET value = '1' WHERE name = 'version' IF EXISTS")


def test_the_former_schema_works_but_for_journals_and_is_raised_by_apply(cluster: Session) -> None:
    as_former_version(cluster)
    assert sentences(cluster) == []
    said: list[str] = []
    with closing(open_store(cluster.address.uri, LADDER, warn=said.append)) as store:
        held = in_flush(store)
        store.save_own(held, 1, saved("a"), {})
        assert not [sentence for sentence in said if "replica" not in sentence]
        with pytest.raises(StoreMismatch, match="has schema 1, and journals in it need 2: run `clickcurve schema"):
            store.journals()
        done = schema.apply_schema(cluster, LADDER, replication=1)
        assert sorted(done) == [
            "schema 1 raised to 2",
            "table beats made",
            "table fences made",
            "table frames made",
            "table owners: previous, fold_day, frames, done added",
        ]
        assert schema.apply_schema(cluster, LADDER, replication=1) == []
        assert sentences(cluster) == []
        found = store.journals().record(1)
        assert found is not None and (found.record.begun, found.previous, found.frames, found.done) == (1, 0, "", 0)
        assert store.begin(held, 1, 2, 1_700_000_000)


def test_an_apply_that_was_cut_short_leaves_the_former_schema_working(cluster: Session) -> None:
    as_former_version(cluster)
    change(cluster, "ALTER TABLE {keyspace}.owners ADD previous bigint")
    assert sentences(cluster) == []
    assert "schema 1 raised to 2" in schema.apply_schema(cluster, LADDER, replication=1)


@pytest.mark.parametrize("lacking", [["by_closed"], ["by_open", "by_closed"]], ids=["one", "two"])
def test_columns_that_an_older_program_did_not_know_are_added(cluster: Session, lacking: list[str]) -> None:
    schema.apply_schema(cluster, LADDER, replication=1)
    for column in lacking:
        change(cluster, f"ALTER TABLE {{keyspace}}.rows DROP {column}")
    assert sentences(cluster)[0].startswith(f"table {cluster.address.keyspace}.rows lacks {', '.join(lacking)}: run")
    assert schema.apply_schema(cluster, LADDER, replication=1) == [f"table rows: {', '.join(lacking)} added"]
    assert sentences(cluster) == []


def test_tables_of_something_else_are_left_alone(cluster: Session) -> None:
    schema.apply_schema(cluster, LADDER, replication=1)
    change(cluster, "ALTER TABLE {keyspace}.rows ADD more text")
    with pytest.raises(StoreMismatch, match="has other columns than this program's"):
        schema.apply_schema(cluster, LADDER, replication=1)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("version", "0", "has the older schema 0, not 2: run `clickcurve schema apply"),
        ("version", "3", "has the newer schema 3, not 2: use a newer Clickcurve"),
        ("ladder", "60:1,month", f"holds rows of the ladder 60:1,month, not {LADDER}: set"),
        ("dc", "DC1", "is used with ?dc=DC1 in the store's address, and all nodes must use it like that"),
    ],
)
def test_a_keyspace_for_something_else_is_refused(made: Session, name: str, value: str, sentence: str) -> None:
    meta = f"{made.address.keyspace}.meta"
    (before,) = [text for noted, text in made.look_up(f"SELECT name, value FROM {meta}") if noted == name]
    put = f"INSERT INTO {meta} (name, value) VALUES ('{name}', '{{}}')"
    made.look_up(put.format(value))
    with pytest.raises(StoreMismatch) as refused:
        open_store(made.address.uri, LADDER)
    made.look_up(put.format(before))
    assert sentence in refused.value.detail


@pytest.mark.parametrize("asked", [None, Ladder.parse("60:1,300:1,3600:31,week:366,month")])
def test_a_keyspace_keeps_the_ladder_it_was_made_with(cluster: Session, asked: Ladder | None) -> None:
    former = Ladder.parse("60:1,300:1,3600:31,week:366,month")
    schema.apply_schema(cluster, former, replication=1)
    assert schema.apply_schema(cluster, asked, replication=1) == []
    assert sentences(cluster, asked) == []
    with closing(open_store(cluster.address.uri, asked)) as store:
        assert store.ladder() == former


def test_a_new_keyspace_gets_the_default_ladder_unless_asked_for_another(cluster: Session) -> None:
    schema.apply_schema(cluster, None, replication=1)
    with closing(open_store(cluster.address.uri)) as store:
        assert store.ladder() == CLICKS


def test_a_ladder_of_a_newer_program_is_refused_with_a_sentence(made: Session) -> None:
    put = f"INSERT INTO {made.address.keyspace}.meta (name, value) VALUES ('ladder', '{{}}')"
    made.look_up(put.format("60:1,fortnight"))
    with pytest.raises(StoreMismatch, match="has a ladder of a newer program: 'fortnight' is not a width"):
        open_store(made.address.uri)
    made.look_up(put.format(LADDER))


def test_a_data_centre_in_one_address_and_none_in_another_do_not_go_together(made: Session) -> None:
    """Their conditional updates would not see each other."""
    with pytest.raises(StoreMismatch, match="is used without dc in the store's address"):
        open_store(f"{made.address.uri}?dc=datacenter1", LADDER)


def test_a_store_of_one_data_centre_works_there(cluster: Session) -> None:
    uri = f"{cluster.address.uri}?dc=datacenter1"
    local = connect(parse(uri))
    schema.apply_schema(local, LADDER, replication=1)
    local.close()
    store = open_store(uri, LADDER)
    assert store.owners() == []
    assert store.walk(None, 5) == []
    store.close()


def test_who_opens_a_store_hears_what_is_weak_about_it(made: Session) -> None:
    said: list[str] = []
    open_store(made.address.uri, LADDER, warn=said.append).close()
    (weak,) = said
    assert "has 1 replica (datacenter1: 1)" in weak
    assert f"ALTER KEYSPACE {made.address.keyspace} WITH replication =" in weak


def test_a_commit_log_that_is_not_synced_is_reported_by_node(made: Session) -> None:

    class Unsynced(Changed):
        def on_each_node(self, text: str) -> dict[str, Rows]:
            assert list(self._session.on_each_node(text)) == ["127.0.0.1"]
            periodic = [("commitlog_sync", "periodic")]
            return {"h1": periodic, "h2": [("commitlog_sync", "group")], "h3": periodic, "h4": []}

    problems = schema.check_schema(Unsynced(made), LADDER)
    (unsynced,) = [problem for problem in problems if "commitlog_sync" in problem.sentence]
    assert "periodic on h1, h3:" in unsynced.sentence
    assert "set commitlog_sync: group" in unsynced.sentence
    assert not unsynced.fatal


def test_notes_whose_outcome_nobody_knows_are_made_again(made: Session) -> None:
    class Lost(Changed):
        lost = 0

        def send(self, request: Request) -> Any:
            sent = self._session.send(request)
            self.lost += 1
            if self.lost % 2:
                sent.result()
                raise OperationTimedOut
            return sent

    schema.apply_schema(Lost(made), LADDER, replication=1)
    assert sentences(made) == []

    class Never(Changed):
        def send(self, request: Request) -> Any:
            raise OperationTimedOut

    with pytest.raises(StoreUnavailable, match="run it again"):
        schema.apply_schema(Never(made), LADDER, replication=1)


def test_every_statement_fits_the_tables(made: Session) -> None:
    made.use(STATEMENTS.values())


def test_nothing_in_the_table_of_rows_deletes_expires_or_takes_a_clock() -> None:
    of_rows = [
        each.text for each in STATEMENTS.values() if " rows " in each.text and not each.text.startswith("SELECT")
    ]
    assert len(of_rows) == 5
    for text in of_rows:
        assert text.startswith("UPDATE rows USING TIMESTAMP ? SET")
        assert "TTL" not in text
    assert all(table.gc_grace_s > 0 for table in TABLES)
    assert next(table for table in TABLES if table.name == "rows").ttl_s == 0


def test_the_server_refuses_a_keyspace_that_is_not_made(one_node: Node, keyspace: str) -> None:
    uri = f"cassandra://{one_node.address}:{one_node.port}/{keyspace}"
    output = run("verify", "--store", uri)
    assert output.returncode != 0
    assert f"run `clickcurve schema apply --store {uri}`" in output.stderr
    assert "Traceback" not in output.stderr
