"""`clickcurve schema apply|show|check`: the tables of a Cassandra keyspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict

import click

from clickcurve.buckets.errors import SettingInvalid
from server.cli.main import FAILED
from server.cli.options import with_settings
from server.cli.output import ReportingGroup, Result
from server.settings.table import Settings
from storage.cassandra.schema import REPLICATION, Administered, Finding, apply_schema, check_schema, schema_text
from storage.cassandra.uri import Address, parse

DATA_CENTRE = "datacenter1"  # what a cluster calls its only one unless told otherwise

_replication = click.option(
    "--replication",
    type=click.IntRange(min=1),
    default=REPLICATION,
    show_default=True,
    help="Replicas of each row in each data centre, for a new keyspace.",
)


@click.group("schema", cls=ReportingGroup)
def schema_command() -> None:
    """Make, show and check the tables of a Cassandra keyspace.

    A server needs them and never makes them by itself. (It makes an SQLite database by itself.)

    \b
    Examples:
      clickcurve schema apply --store cassandra://h1,h2:9042/clicks
      clickcurve schema check --store cassandra://h1,h2:9042/clicks
      clickcurve schema show --store cassandra://h1,h2:9042/clicks --replication 2
    """


@schema_command.command("apply")
@_replication
@with_settings("store", "ladder", "config")
def make_tables(settings: Settings, replication: int) -> Result:
    """Make the keyspace and its tables, or only what is missing or has other options. May be repeated.

    Rows are not changed, nor is the replication of an existing keyspace.

    \b
    Examples:
      clickcurve schema apply --store cassandra://h1,h2:9042/clicks
      clickcurve schema apply --store 'cassandra://h1,h2:9042/clicks?dc=DC1' --replication 2
    """
    with _connected(settings) as cluster:
        done = apply_schema(cluster, settings.ladder, replication)
        findings = check_schema(cluster, settings.ladder)
    keyspace = cluster.address.keyspace
    steps = done or [f"nothing to do: keyspace {keyspace} has everything"]
    object_ = {"keyspace": keyspace, "done": done, "findings": [asdict(one) for one in findings]}
    return Result((*steps, *map(_finding_text, findings)), [object_])


@schema_command.command("show")
@_replication
@with_settings("store", "config")
def show_tables(settings: Settings, replication: int) -> Result:
    """Print the tables as CQL, for cqlsh or for reading. Connects to nothing.

    The data centre is that of the store's address (?dc=), or datacenter1. After making the tables by hand run
    `schema apply`, which notes what the keyspace is for.

    \b
    Examples:
      clickcurve schema show --store 'cassandra://h1,h2:9042/clicks?dc=DC1'
    """
    address = _address(settings)
    text = schema_text(address.keyspace, replication, [address.dc or DATA_CENTRE])
    return Result(text.splitlines(), [{"keyspace": address.keyspace, "cql": text}])


@schema_command.command("check")
@with_settings("store", "ladder", "config")
def check_tables(settings: Settings) -> Result:
    """List what is wrong, and what corrects it; the exit code is 1 if anything is wrong.

    If there is an error no server starts. If there are only warnings it starts, and logs them.

    \b
    Examples:
      clickcurve schema check --store cassandra://h1,h2:9042/clicks
    """
    with _connected(settings) as cluster:
        findings = check_schema(cluster, settings.ladder)
    keyspace = cluster.address.keyspace
    lines = [_finding_text(one) for one in findings] or [f"keyspace {keyspace} is as it should be"]
    object_ = {"keyspace": keyspace, "findings": [asdict(one) for one in findings]}
    return Result(lines, [object_], FAILED if findings else 0)


def _finding_text(finding: Finding) -> str:
    return f"{'error' if finding.fatal else 'warning'}: {finding.sentence}"


def _address(settings: Settings) -> Address:
    if not settings.store.startswith("cassandra:"):
        kind = settings.store.partition(":")[0]
        raise SettingInvalid(
            f"only Cassandra keyspaces have a schema to look after; a store of the kind {kind} needs none:"
            " name a keyspace by --store cassandra://...",
            field="store",
            value=settings.store,
        )
    return parse(settings.store)


@contextmanager
def _connected(settings: Settings) -> Iterator[Administered]:
    address = _address(settings)
    # The driver takes a third of a second to import, which `show` and the help are spared.
    from storage.cassandra.session import connect

    with closing(connect(address)) as session:
        yield session
