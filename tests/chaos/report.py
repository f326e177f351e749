"""What a campaign has shown, as text: plain figures, one a line."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median

from testing.cassandra import jars
from tests.audit.auditor import Outcome
from tests.chaos.campaign import Outcomes, Plan

SHOWN_WRONG = 40
AIM_S = 45.0
LOST = ("killed", "suspended")
JOURNALS = {
    "disk": "on a disk for each owner, which survives",
    "cluster": "in the cluster; the folder of a killed process is deleted, and each start has a new one",
}


def machine() -> str:
    """The shape of this machine, and what it had to do in the last 1, 5 and 15 minutes."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    gib = round(int(memory[1]) / 2**20) if memory else 0
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return f"{os.cpu_count()} cores, {gib} GiB, {platform.system()} {platform.release()}; load average {load}"


def versions() -> str:
    return (
        f"Cassandra {jars.version()}, Java {jars.java_version(jars.java())}, Python {platform.python_version()}, "
        f"cassandra-driver {version('cassandra-driver')}"
    )


def rates(plan: Plan) -> str:
    each = plan.rates
    return (
        f"a node is killed and another one suspended every {each.node_every_s:g} s, an owner killed every "
        f"{each.owner_kill_every_s:g} s{_of(each.owner_away_s, 'away for')} and one suspended every "
        f"{each.owner_pause_every_s:g} s{_of(each.owner_paused_s, 'for')}; {each.lost_answers:.0%} of the answers are "
        f"lost, of conditional updates {each.lost_conditional_answers:.0%}; a request has {plan.timeout_s:g} s"
    )


def _of(averages_s: Sequence[float], what: str) -> str:
    """The averages that a time is chosen from."""
    return f" ({what} {' or '.join(f'{each:g}' for each in averages_s)} s on average)" if any(averages_s) else ""


def losses(found: Outcomes, plan: Plan) -> Iterator[tuple[str, str]]:
    """What the loss of a process and its folder has cost, where journals lie in the cluster."""
    if plan.journal == "disk":
        return
    yield "owners at the end", f"{found.verdict.owners}; at most {found.most_at_once} processes ran at one time"
    for how in LOST:
        times_s = [each.shown_s for each in found.lost.all if each.how == how and each.shown_s is not None]
        hits = sum(each.hits for each in found.lost.all if each.how == how)
        if times_s:
            late = sum(each > AIM_S for each in times_s)
            yield (
                f"until all hits of a process that was {how} showed at another one",
                f"half of the times within {median(times_s):.1f} s, all within {max(times_s):.1f} s, {late} of "
                f"{len(times_s)} over {AIM_S:g} s; {hits:,} hits",
            )


def lines(found: Outcomes, plan: Plan) -> list[tuple[str, str]]:
    """Each figure with its name."""
    done, verdict, hits = found.faults, found.verdict, found.auditor.sums()
    writers, readers, tries = found.writers, found.readers, found.writers.outcomes
    return [
        ("seed", str(found.seed)),
        ("versions", versions()),
        ("machine", machine()),
        ("ring", "3 nodes, RF 3, QUORUM, commit log synced in groups"),
        ("journals", JOURNALS[plan.journal]),
        ("clocks", "one node and one owner 5 minutes ahead"),
        ("rates", rates(plan)),
        ("duration of the faults", f"{found.seconds:.0f} s"),
        ("flushes", ", ".join(map(str, found.flushes)) + f" of the three owners, every {plan.flush_s:g} s at most"),
        (
            "operations",
            f"{len(found.auditor.sent):,}, of which {writers.sent_to_two:,} with ids went to two nodes each",
        ),
        ("hits sent", f"{sum(hits.values()):,}"),
        ("hits acknowledged", f"{hits[Outcome.acknowledged]:,}"),
        ("hits refused", f"{hits[Outcome.refused]:,}"),
        ("hits unknown", f"{hits[Outcome.unknown]:,}"),
        (
            "requests",
            f"{tries[Outcome.acknowledged]:,} acknowledged, {tries[Outcome.refused]:,} refused, "
            f"{tries[Outcome.unknown]:,} unanswered; {writers.repeats:,} repeats of what no node had acknowledged",
        ),
        ("Cassandra nodes killed (-9)", f"{done.nodes_killed:,}"),
        ("Cassandra nodes suspended", f"{done.nodes_suspended:,}"),
        ("owners killed (-9)", f"{done.owners_killed:,}"),
        ("owners suspended", f"{done.owners_paused:,}"),
        ("answers dropped", f"{done.answers_dropped:,}"),
        ("of those, of conditional updates (claims, begins)", f"{done.conditional_answers_dropped:,}"),
        ("connections reset", f"{done.connections_reset:,}"),
        ("stalls of a proxy", f"{done.stalls:,}"),
        (
            "reads checked",
            f"{readers.reads:,} ({readers.all_links_reads:,} of all links together); {readers.unanswered:,} unanswered",
        ),
        ("hits that those reads had to show", f"{readers.certain:,}"),
        ("wrong reads", f"{len(readers.wrong):,}"),
        *losses(found, plan),
        ("longest time without a write", "{:.1f} s at one node, {:.1f} s at all".format(*found.writes_down_s)),
        ("longest time without a read", "{:.1f} s at one node, {:.1f} s at all".format(*found.reads_down_s)),
        ("everything up and flushed after the last fault", f"{found.recovered_s:.1f} s"),
        ("keys read at every node at the end", f"{verdict.keys:,}"),
        ("sum of all keys, and of all links", f"{verdict.people_and_bots:,}"),
        ("clickcurve verify", verdict.verified),
        ("lost", f"{verdict.lost:,}"),
        ("doubled", f"{verdict.doubled:,}"),
    ]


def printed(found: Outcomes, plan: Plan) -> str:
    """The figures for a terminal, then what is wrong."""
    width = max(len(name) for name, _ in lines(found, plan))
    figures = [f"{name:<{width}}  {figure}" for name, figure in lines(found, plan)]
    return "\n".join([*figures, *_wrong(found)])


def _wrong(found: Outcomes) -> Iterator[str]:
    wrong = found.wrong()
    if wrong:
        yield f"\n{len(wrong)} wrong:"
        yield from wrong[:SHOWN_WRONG]


PAGES = {"disk": "chaos-report", "cluster": "chaos-report-cluster"}  # in docs/, without the ending


def page(found: Outcomes, plan: Plan, command: str, date: str) -> str:
    """The figures as the page that is kept in docs/."""
    table = [f"| {name} | {figure} |" for name, figure in lines(found, plan)]
    parts = (HEADS[plan.journal], [f"`{command}`, {date}.", "", "| | |", "| --- | --- |"], table, [""])
    return "\n".join([*(line for part in parts for line in part), *TAILS[plan.journal], *TAIL_ENDS, ""])


JUDGED = """Each hit of a link has a power of four as its count, so a total says of each single hit how often it was
counted. Reads are judged one by one while the faults go on: no hit may show that was not sent, none twice, and none may
be missing that this node had acknowledged, or that another one had flushed. At the end each link's total is read at
every node.
"""
HEADS = {
    "disk": f"""# A campaign of faults on a Cassandra ring

Three Cassandra nodes, three `clickcurve serve` processes, clients that post and read at all of them without a pause,
and faults of every kind.
{JUDGED}""".splitlines(),
    "cluster": """# A campaign of faults on servers without a disk

Three Cassandra nodes, three `clickcurve serve --journal cluster` processes, clients that post and read at all of them
without a pause, and faults of every kind. Whatever process is killed loses its whole folder, so that nothing is left
but the cluster; processes stand still for up to two minutes while others take their owners. How hits and reads are
judged, and what the words mean: [chaos-report.md](chaos-report.md).
""".splitlines(),
}
TAILS = {
    "disk": """How to read it:

- *Refused* is a 429, a 503 or no connection: certainly not counted. *Unknown* is a connection that ended without an
  answer, or that the client closed after ten seconds: counted once or not at all. What carries an id was sent to two
  nodes and repeated until one had acknowledged it.
- *Lost* and *doubled* are hits of the final audit that counted less or more often than their answers allow.
- The times without a write or a read are those between two successes of the clients. An owner that is killed takes a
  few seconds to start; while two Cassandra nodes are away at once there is no quorum, and reads wait while writes go on
  into the journals.
""".splitlines(),
    "cluster": """\
- A killed process is away for up to 72 seconds, a suspended one stands still for up to two minutes; while two Cassandra
  nodes are away at once there is no quorum, and hits are refused.
- A process that is away starts at the moment when another one is killed, half of the time. Then two starts and a server
  that goes on may want one owner.
- The hits of a lost process are those that no other one had been sent too, and that were not known to be flushed when
  it was killed, or suspended for 45 seconds or longer. They are asked for at one other server, one link after the
  other, until the last of them shows; also while no quorum of the nodes runs.
""".splitlines(),
}
TAIL_ENDS = """- The seed decides what is posted and which fault comes when. What it meets then is up to the machine.

`make test-all` runs a short form of the same.
""".splitlines()
