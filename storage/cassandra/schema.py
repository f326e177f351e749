"""The tables of a Clickcurve keyspace: made, checked, and shown as text.

A partition of `rows` holds one link: a packed row for each owner, each in one cell, and its breakdown in two. A cell is
written whole, with a pinned stamp. So any version of it is a whole row as of its mark, repeats change nothing, and a
newer epoch wins over any late write of an older one. Nothing in `rows` is deleted or expires: it has no tombstones.

Of a breakdown most flushes write the open part only. That the closed part beside it belongs to it is sure: the first
flush of an epoch, and any that follows a failed one, write both parts of all rows that a late write can be of.

No table has gc_grace_seconds = 0: for that long replicas keep what they promised in rounds of conditional updates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from clickcurve.buckets.errors import LadderInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder
from storage.cassandra.cql import Rows, Statement
from storage.cassandra.node_settings import SETTINGS_QUERY, unmet
from storage.cassandra.requests import Driver, Requests
from storage.cassandra.statements import ASKED_BY_JOURNALS, NOTE, RAISE_VERSION
from storage.cassandra.uri import Address

VERSION = 2  # of the tables below
FORMER_VERSION = 1  # without what journals in the store need: works with journals on disks
REPLICATION = 3
ATTEMPTS = 3  # to note something in meta
# A quorum that has answered with a version has it: what a read returned is never missing in the next one. Where a
# replica stands still another one is asked soon: by 99p alone after seconds, since it counts what waits for the first.
OF_ALL_TABLES = {"read_repair": "BLOCKING", "speculative_retry": "MIN(99p,100ms)"}
NOTES = {"version", "ladder", "dc", "uuid"}  # the names in meta

# Rows with traffic are rewritten in every flush, so most of what is on disk is older versions. Levels (L) of fan-out 4
# merge these soon and keep a partition in few files: the number of files is the cost of reading a cold row.
_REWRITTEN = {"class": "UnifiedCompactionStrategy", "scaling_parameters": "L4"}


def _by_time(hours: int) -> dict[str, str]:
    """Returns the compaction for rows that are written once and expire: each file has one span of time."""
    return {
        "class": "TimeWindowCompactionStrategy",
        "compaction_window_unit": "HOURS",
        "compaction_window_size": str(hours),
    }


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    what: str
    columns: Mapping[str, str]
    key: str
    compaction: Mapping[str, str] = field(default_factory=lambda: _REWRITTEN)
    gc_grace_s: int = 10 * DAY_S
    ttl_s: int = 0
    since: int = FORMER_VERSION  # the version that made the table
    added: tuple[str, ...] = ()  # columns of VERSION that FORMER_VERSION has not

    def create(self, keyspace: str) -> str:
        columns = ",\n    ".join([*map(" ".join, self.columns.items()), f"PRIMARY KEY ({self.key})"])
        return f"CREATE TABLE IF NOT EXISTS {keyspace}.{self.name} (\n    {columns}\n) WITH {self._options()}"

    def alter(self, keyspace: str) -> str:
        return f"ALTER TABLE {keyspace}.{self.name} WITH {self._options()}"

    def add(self, keyspace: str, columns: Iterable[str]) -> str:
        added = ", ".join(f"{name} {self.columns[name]}" for name in columns)
        return f"ALTER TABLE {keyspace}.{self.name} ADD ({added})"

    def lacks(self, columns: Mapping[str, str]) -> list[str]:
        """Returns which columns an older program's table lacks; [] if it has all, or others."""
        return [name for name in self.columns if name not in columns] if columns.items() <= self.columns.items() else []

    def _options(self) -> str:
        return (
            f"compaction = {_map(self.compaction)}\n    AND gc_grace_seconds = {self.gc_grace_s}"
            f"\n    AND default_time_to_live = {self.ttl_s}\n    AND comment = '{self.what}'"
            + "".join([f"\n    AND {name} = '{value}'" for name, value in OF_ALL_TABLES.items()])
        )


def _typed(columns: str) -> dict[str, str]:
    """Returns the types of columns by name."""
    return dict(column.split(" ") for column in columns.split(", "))


TABLES = (
    # The row of all links together has the key \0, because a partition key cannot be empty.
    Table(
        "rows",
        "one packed row per link and owner, where owner 0 says when the link was erased",
        _typed("short_key text, owner int, data blob, erased_at bigint, by_open blob, by_closed blob"),
        "(short_key), owner",
    ),
    Table(
        "owners",
        "who may write, and which flush began last, by conditional updates only",
        _typed(
            "owner int, epoch int, holder text, journal text, place text, state text, begun bigint, begun_at bigint,"
            " previous bigint, fold_day int, frames text, done bigint"
        ),
        "owner",
        added=("previous", "fold_day", "frames", "done"),
    ),
    # Claims expire with a time to live of their own, which follows the window.
    Table(
        "ids",
        "who counted an id (owner, flush, accepted at), by conditional updates only",
        {"id": "text", "claims": "frozen<list<frozen<tuple<int, bigint, bigint>>>>"},
        "id",
        _by_time(12),
        DAY_S,
    ),
    Table(
        "sources",
        "how far each import has come, by conditional updates only",
        _typed("source text, owner int, epoch int, position bigint, tail text"),
        "source",
    ),
    Table(
        "due",
        "own rows to fold from a fold day on, a hint, deleted by the partition",
        _typed("owner int, day int, shard int, short_key text"),
        "(owner, day, shard), short_key",
    ),
    Table("due_days", "the days that due has", _typed("owner int, day int"), "(owner), day"),
    Table(
        "touched",
        "links with hits by fold day, for listing only",
        _typed("day int, shard int, short_key text"),
        "(day, shard), short_key",
        _by_time(48),
        DAY_S,
        40 * DAY_S,
    ),
    Table(
        "erasures",
        "recent erasures, by when they were logged",
        _typed("hour int, logged_us bigint, short_key text"),
        "(hour), logged_us, short_key",
        _by_time(12),
        DAY_S,
        7 * DAY_S,
    ),
    # Nobody reads a partition twice after its flush is done, so what comes back after gc_grace_seconds is bytes only.
    Table(
        "frames",
        "accepted hits that are in no row yet, deleted by the partition when they are",
        _typed("owner int, after bigint, piece int, number int, part int, parts int, data blob"),
        "(owner, after, piece), number, part",
        {"class": "UnifiedCompactionStrategy", "scaling_parameters": "T4"},
        DAY_S,
        since=VERSION,
    ),
    Table(
        "fences",
        "the least epoch of an owner that may append frames",
        _typed("owner int, epoch int"),
        "owner",
        since=VERSION,
    ),
    Table(
        "beats",
        "which processes live, by the token of each",
        _typed("shard int, holder text, beat bigint"),
        "(shard), holder",
        gc_grace_s=DAY_S,
        since=VERSION,
    ),
    Table("meta", "what the tables were made for", _typed("name text, value text"), "name"),
)


class Administered(Driver, Protocol):
    """The connection that schema work needs, which is not in the keyspace yet."""

    address: Address

    def define(self, text: str) -> None: ...
    def look_up(self, text: str) -> Rows: ...
    def use(self, statements: Iterable[Statement]) -> None: ...
    def on_each_node(self, text: str) -> dict[str, Rows]: ...
    def data_centres(self) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a keyspace, with its remedy. `fatal`: no server starts like this."""

    sentence: str
    fatal: bool

    def __str__(self) -> str:
        return self.sentence


def schema_text(keyspace: str, replication: int, data_centres: Iterable[str]) -> str:
    """Returns the whole schema as CQL, ready for cqlsh, except what `apply_schema` notes in meta."""
    statements = [_create_keyspace(keyspace, replication, data_centres)]
    return ";\n\n".join([*statements, *(table.create(keyspace) for table in TABLES)]) + ";\n"


def apply_schema(cluster: Administered, ladder: Ladder | None, replication: int = REPLICATION) -> list[str]:
    """Makes what is missing and sets the options of what is there; returns what was done, in sentences.

    Repeated, it does nothing. Rows stay as they are, and so does the replication of a keyspace that exists: changing it
    needs a repair. ladder None: the keyspace's own, for a new one the default. Raises StoreUnavailable, and
    StoreMismatch if the keyspace is another program's or has another ladder.
    """
    keyspace = cluster.address.keyspace
    _check_release(cluster)
    centres = cluster.data_centres()
    done: list[str] = []
    if _replication_of(cluster) is None:
        few = {name: nodes for name, nodes in centres.items() if nodes < replication}
        if few:
            name, nodes = min(few.items())
            there = f"{nodes} node: it" if nodes == 1 else f"{nodes} nodes: they"
            raise StoreMismatch(f"data centre {name} has {there} cannot hold {replication} replicas")
        cluster.define(_create_keyspace(keyspace, replication, centres))
        done.append(f"keyspace {keyspace} made, with {replication} replicas in {', '.join(sorted(centres))}")
    columns, wrong = _columns(cluster), _wrong_options(cluster)
    for table in TABLES:
        if table.name not in columns:
            cluster.define(table.create(keyspace))
            done.append(f"table {table.name} made")
            continue
        if lacking := table.lacks(columns[table.name]):
            cluster.define(table.add(keyspace, lacking))
            done.append(f"table {table.name}: {', '.join(lacking)} added")
            columns[table.name] = dict(table.columns)
        if columns[table.name] == table.columns and table.name in wrong:
            cluster.define(table.alter(keyspace))
            done.append(f"table {table.name}: {', '.join(wrong[table.name])} set")
    done += _write_notes(cluster, ladder or CLICKS)
    finding = next((finding for finding in check_schema(cluster, ladder) if finding.fatal), None)
    if finding is not None:
        raise StoreMismatch(finding.sentence)
    return done


def check_schema(cluster: Administered, ladder: Ladder | None) -> list[Finding]:
    """Returns all faults of the keyspace. Raises StoreUnavailable."""
    return list(_findings(cluster, ladder))


def open_keyspace(
    cluster: Administered, ladder: Ladder | None, statements: Iterable[Statement]
) -> tuple[Ladder, list[str]]:
    """Begins to work in the keyspace; returns its ladder, and the faults with which that is possible, in sentences.

    Raises StoreMismatch if it is not possible, with the remedy, and StoreUnavailable.
    """
    findings = check_schema(cluster, ladder)
    for finding in findings:
        if finding.fatal:
            raise StoreMismatch(finding.sentence)
    noted = _noted(cluster)
    cluster.use(statements if int(noted["version"]) < VERSION else [*statements, *ASKED_BY_JOURNALS])
    return Ladder.parse(noted["ladder"]), [finding.sentence for finding in findings]


def _findings(cluster: Administered, ladder: Ladder | None) -> Iterator[Finding]:
    keyspace = cluster.address.keyspace
    remedy = f"run `clickcurve schema apply --store {cluster.address.uri}`"
    replication = _replication_of(cluster)
    if replication is None:
        yield Finding(f"there is no keyspace {keyspace}: {remedy}", fatal=True)
        return
    columns = _columns(cluster)
    version = int(_noted(cluster).get("version", VERSION)) if "meta" in columns else VERSION
    for table in TABLES:
        if table.name not in columns:
            if version < table.since:
                continue
            yield Finding(f"keyspace {keyspace} has no table {table.name}: {remedy}", fatal=True)
            return
        lacking = table.lacks(columns[table.name])
        if lacking and version < VERSION and set(lacking) <= set(table.added):
            continue
        if lacking:
            yield Finding(f"table {keyspace}.{table.name} lacks {', '.join(lacking)}: {remedy}", fatal=True)
            return
        if columns[table.name] != table.columns:
            yield Finding(
                f"table {keyspace}.{table.name} has other columns than this program's: use another keyspace", fatal=True
            )
            return
    for name, wrong in _wrong_options(cluster).items():
        yield Finding(f"table {keyspace}.{name} has other options ({', '.join(wrong)}): {remedy}", fatal=False)
    yield from _wrong_notes(cluster, ladder, remedy)
    yield from _weak_replication(keyspace, replication, cluster)
    for sentence in unmet(cluster.on_each_node(SETTINGS_QUERY)):
        yield Finding(sentence, fatal=False)


def _wrong_notes(cluster: Administered, ladder: Ladder | None, remedy: str) -> Iterator[Finding]:
    """Compares what the keyspace was made for with what it is used for now."""
    address, noted = cluster.address, _noted(cluster)
    missing = sorted(NOTES - noted.keys())
    if missing:
        yield Finding(f"keyspace {address.keyspace} does not say its {', '.join(missing)}: {remedy}", fatal=True)
        return
    if int(noted["version"]) not in (FORMER_VERSION, VERSION):
        age, then = ("older", remedy) if int(noted["version"]) < VERSION else ("newer", "use a newer Clickcurve")
        yield Finding(
            f"keyspace {address.keyspace} has the {age} schema {noted['version']}, not {VERSION}: {then}", fatal=True
        )
    try:
        own = Ladder.parse(noted["ladder"])
    except LadderInvalid as error:
        yield Finding(f"keyspace {address.keyspace} has a ladder of a newer program: {error.detail}", fatal=True)
    else:
        if ladder not in (None, own):
            yield Finding(
                f"keyspace {address.keyspace} holds rows of the ladder {own}, not {ladder}: set ladder to that or leave"
                " it out, or use another keyspace",
                fatal=True,
            )
    if noted["dc"] != (address.dc or ""):
        # Rounds of all data centres and rounds of one do not see each other: two could win one conditional update.
        used = f"with ?dc={noted['dc']}" if noted["dc"] else "without dc"
        yield Finding(
            f"keyspace {address.keyspace} is used {used} in the store's address, and all nodes must use it like that;"
            f" to change it, stop all and put another value: UPDATE {address.keyspace}.meta SET value ="
            f" '{address.dc or ''}' WHERE name = 'dc'",
            fatal=True,
        )


def _noted(cluster: Administered) -> dict[str, str]:
    """Returns what meta says, as far as it is there."""
    names = ", ".join(f"'{name}'" for name in sorted(NOTES))
    # By name: a scan of the table cannot avoid a node that has just died, and servers must be able to start then.
    query = f"SELECT name, value FROM {cluster.address.keyspace}.meta WHERE name IN ({names})"
    return dict(cluster.look_up(query))


def _weak_replication(keyspace: str, replication: Mapping[str, str], cluster: Administered) -> Iterator[Finding]:
    centres = cluster.data_centres()
    replicas = {name: int(count) for name, count in replication.items() if name in centres and count.isdigit()}
    if cluster.address.dc:
        replicas = {name: count for name, count in replicas.items() if name == cluster.address.dc}
    if sum(replicas.values()) < REPLICATION:
        count = f"{sum(replicas.values())} replica{'s' * (sum(replicas.values()) != 1)}"
        shown = ", ".join(f"{name}: {number}" for name, number in sorted(replicas.items())) or "none by data centre"
        yield Finding(
            f"keyspace {keyspace} has {count} ({shown}): one node that is down takes the store down; with more nodes,"
            f" ALTER KEYSPACE {keyspace} WITH replication = {_replication(REPLICATION, centres)},"
            " then nodetool repair --full on each",
            fatal=False,
        )


def _check_release(cluster: Administered) -> None:
    """Raises StoreMismatch if a node's Cassandra is too old for the compaction of `rows`."""
    for node, rows in cluster.on_each_node("SELECT release_version FROM system.local").items():
        release = str(rows[0][0])
        if int(release.partition(".")[0]) < 5:
            raise StoreMismatch(f"{node} runs Cassandra {release}: 5.0 or newer is needed")


def _write_notes(cluster: Administered, ladder: Ladder) -> Iterator[str]:
    """Notes what the keyspace is for; what is noted already stays."""
    noted = {"version": str(VERSION), "ladder": str(ladder), "dc": cluster.address.dc or "", "uuid": str(uuid4())}
    requests = Requests(lambda: cluster, in_flight=1)
    for name, value in noted.items():
        for _ in range(ATTEMPTS):
            applied = requests.apply_if(NOTE, (name, value))
            if applied is not None:
                break
        else:
            raise StoreUnavailable(f"could not confirm that {name} was written to meta; run it again")
        if applied:
            yield f"{name} noted: {value or 'none'}"
    while _noted(cluster)["version"] == str(FORMER_VERSION):  # its tables are made, so it may be said
        if requests.apply_if(RAISE_VERSION, (str(VERSION), str(FORMER_VERSION))):
            yield f"schema {FORMER_VERSION} raised to {VERSION}"


def _create_keyspace(keyspace: str, replication: int, data_centres: Iterable[str]) -> str:
    return f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {_replication(replication, data_centres)}"


def _replication(count: int, data_centres: Iterable[str]) -> str:
    return _map({"class": "NetworkTopologyStrategy", **{name: str(count) for name in sorted(data_centres)}})


def _map(values: Mapping[str, str]) -> str:
    return json.dumps(dict(values)).replace('"', "'")


def _replication_of(cluster: Administered) -> Mapping[str, str] | None:
    name = cluster.address.keyspace
    rows = cluster.look_up(f"SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{name}'")
    return dict(rows[0][0]) if rows else None


def _columns(cluster: Administered) -> dict[str, dict[str, str]]:
    """Returns the names and types of the columns of each table that is there."""
    columns: dict[str, dict[str, str]] = {}
    query = "SELECT table_name, column_name, type FROM system_schema.columns"
    for table, column, kind in cluster.look_up(f"{query} WHERE keyspace_name = '{cluster.address.keyspace}'"):
        columns.setdefault(table, {})[column] = kind
    return columns


def _wrong_options(cluster: Administered) -> dict[str, list[str]]:
    """Returns the names of the options of each table that are not as they should be."""
    wrong: dict[str, list[str]] = {}
    tables = {table.name: table for table in TABLES}
    options = ", ".join(["compaction", "gc_grace_seconds", "default_time_to_live", *OF_ALL_TABLES])
    query = f"SELECT table_name, {options} FROM system_schema.tables WHERE keyspace_name = '{cluster.address.keyspace}'"
    for name, compaction, gc_grace_s, ttl_s, *others in cluster.look_up(query):
        if (table := tables.get(name)) is None:
            continue
        set_to = {option: value.rpartition(".")[2] for option, value in dict(compaction).items()}
        pairs = {
            "compaction": {option: set_to.get(option) for option in table.compaction} == table.compaction,
            "gc_grace_seconds": gc_grace_s == table.gc_grace_s,
            "default_time_to_live": ttl_s == table.ttl_s,
            **{name: value == values for (name, value), values in zip(OF_ALL_TABLES.items(), others, strict=True)},
        }
        if not all(pairs.values()):
            wrong[name] = [option for option, right in pairs.items() if not right]
    return wrong
