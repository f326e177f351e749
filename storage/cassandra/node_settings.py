"""The settings of Cassandra's nodes that promises depend on: what each must be, and what happens otherwise.

They stand in `cassandra.yaml`, and a node shows its own in `system_views.settings`. No server can set them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from storage.cassandra.cql import Rows

WRITERS = 64  # the least that go with group commit

NodeSettings = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Demand:
    """A setting, whether a node has the right value, and otherwise the consequence and the remedy."""

    setting: str
    is_met: Callable[[NodeSettings], bool]
    otherwise: str


_NO_GUARDRAIL = "rows have stamps of their own, near 1970; take that guardrail out of cassandra.yaml"

DEMANDS = (
    Demand(
        "commitlog_sync",
        lambda node: node["commitlog_sync"] != "periodic",
        "a crash of machines loses what was counted in the seconds before; set commitlog_sync: group and"
        " commitlog_sync_group_window: 10ms in cassandra.yaml",
    ),
    Demand(
        "concurrent_writes",
        lambda node: node.get("commitlog_sync") != "group" or int(node["concurrent_writes"] or 0) >= WRITERS,
        "each of these threads waits for the commit log, so a node takes at most concurrent_writes /"
        " commitlog_sync_group_window writes a second; set concurrent_writes: 128 in cassandra.yaml",
    ),
    Demand(
        "paxos_variant",
        lambda node: node["paxos_variant"] == "v2",
        "while nodes join, leave or move, two processes could win one conditional update, and hits count twice;"
        " set paxos_variant: v2 in cassandra.yaml",
    ),
    Demand(
        "paxos_state_purging",
        lambda node: node["paxos_state_purging"] in ("repaired", "gc_grace"),
        "what replicas promised in conditional updates is forgotten by a clock; once paxos_variant is v2 and"
        " `nodetool repair --paxos-only` runs every hour, set paxos_state_purging: repaired in cassandra.yaml",
    ),
    Demand(
        "user_timestamps_enabled",
        lambda node: node["user_timestamps_enabled"] != "false",
        f"flushes of a user without superuser rights are refused; {_NO_GUARDRAIL}",
    ),
    Demand(
        "minimum_timestamp_fail_threshold",
        lambda node: node["minimum_timestamp_fail_threshold"] is None,
        f"flushes of a user without superuser rights are refused; {_NO_GUARDRAIL}",
    ),
    Demand(
        "minimum_timestamp_warn_threshold",
        lambda node: node["minimum_timestamp_warn_threshold"] is None,
        f"each write of a user without superuser rights is a warning in the node's log; {_NO_GUARDRAIL}",
    ),
)


def forgetful(settings_by_node: Mapping[str, Rows]) -> str | None:
    """Returns why no journal may lie in the cluster, in a sentence; None if it may."""
    periodic = [node for node, rows in sorted(settings_by_node.items()) if ("commitlog_sync", "periodic") in rows]
    if not periodic:
        return None
    return (
        f"commitlog_sync is periodic on {', '.join(periodic)}, so a power cut there loses hits that were answered: with"
        " journal = cluster it must be group or batch"
    )


_NAMES = ", ".join(f"'{demand.setting}'" for demand in DEMANDS)
SETTINGS_QUERY = f"SELECT name, value FROM system_views.settings WHERE name IN ({_NAMES})"


def unmet(settings_by_node: Mapping[str, Rows]) -> Iterator[str]:
    """Yields a sentence for each demand and wrong value, given what the nodes answered to SETTINGS_QUERY."""
    nodes: dict[str, dict[str, str | None]] = {node: dict(rows) for node, rows in sorted(settings_by_node.items())}
    for demand in DEMANDS:
        wrong: defaultdict[str | None, list[str]] = defaultdict(list)
        for node, settings in nodes.items():
            if demand.setting in settings and not demand.is_met(settings):
                wrong[settings[demand.setting]].append(node)
        for value, where in wrong.items():
            yield f"{demand.setting} is {value} on {', '.join(where)}: {demand.otherwise}"
