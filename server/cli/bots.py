"""`clickcurve bots`: which agents count as bots', and rules of the operator for that."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import click

from ingest.agents.bots import BotJudge, bot_judge
from ingest.attributes.bot_rules import BotRules, BotRuleSet
from ingest.imports.access_log import REDIRECTS, AccessLog
from ingest.imports.log_under_rules import LogUnderRules, TakenByRule, read_under_rules
from server.attributes import bot_rules_of, referrers_of
from server.cli.main import FAILED
from server.cli.options import status_option, statuses_of, with_settings
from server.cli.output import ReportingGroup, Result, number_of
from server.settings.table import Settings

STDIN = Path("-")
UNUSED_SHOWN = 5
AGENT_SHOWN = 150  # characters of a line


@click.group("bots", cls=ReportingGroup)
def bots_command() -> None:
    """See which agents count as bots', and try rules for that.

    \b
    Examples:
      clickcurve bots try access.log
      clickcurve bots try --config clickcurve.toml access.log access.log.1.gz
    """


@bots_command.command("try")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, allow_dash=True)
)
@click.option("--top", default=20, show_default=True, type=click.IntRange(0), help="How many rules to list.")
@click.option("--agents", default=10, show_default=True, type=click.IntRange(0), help="How many agents of each side.")
@status_option
@with_settings("config", "bots_refs", "bots_networks", "bots_agents", "bots_people", "bots_files")
def try_bot_rules(settings: Settings, files: tuple[Path, ...], top: int, agents: int, statuses: str | None) -> Result:
    """Read access logs and print whose hits rules and exceptions would change, and which agents count most.

    Nothing is counted and no server is asked. A rule takes hits of people whose agent is not known as a bot's: one of
    referrers first, then of networks, then of agents. An exception (--bots-people) gives back hits of bots, and no rule
    takes these. The agents are those of people and of bots after that. FILE may be compressed by gzip, zstd, bzip2
    or xz; - is standard input.

    \b
    Examples:
      clickcurve bots try access.log
      clickcurve bots try --bots-refs spam.example access.log
      clickcurve bots try --bots-networks 192.0.2.0/24 --bots-agents SafeLinks --bots-people OurApp access.log
      clickcurve bots try --bots-files spammers.txt access.log
    """
    rules = bot_rules_of(settings)
    judge = bot_judge()
    log = AccessLog(judge, REDIRECTS if statuses is None else statuses_of(statuses))
    found = LogUnderRules()
    judging = BotRules(rules, referrers_of(settings))
    for file in files:
        read_under_rules(sys.stdin.buffer if file == STDIN else file, log, judging, found)  # type: ignore[arg-type]
    summary = found.summary
    failed = summary.damage is not None or (summary.bad and not summary.people_hits + summary.bot_hits)
    lines = chain(_lines_of(found, rules, top), _agent_lines(found, judge, agents))
    return Result(lines, [_object_of(found, rules, judge, agents)], FAILED if failed else 0)


def _by_hits(found: LogUnderRules) -> list[TakenByRule]:
    return sorted([*found.taken.values(), *found.given_back.values()], key=lambda taken: (-taken.hits, taken.rule))


def _unused(found: LogUnderRules, rules: BotRuleSet) -> list[str]:
    """Lists the rules that change no hit."""
    return [name for name in rules.names() if name not in found.taken and name not in found.given_back]


def _most(agents: Counter[str], many: int) -> list[tuple[str, int]]:
    return sorted(agents.items(), key=lambda agent: (-agent[1], agent[0]))[:many]


def _lines_of(found: LogUnderRules, rules: BotRuleSet, top: int) -> Iterator[str]:
    summary = found.summary
    people, bots = summary.people_hits, summary.bot_hits
    read, hits = number_of(summary.lines, "line"), number_of(people, "hit")
    yield f"{read}: {hits} of people, {bots:,} of bots by their agents, {summary.bad:,} bad"
    if summary.damage is not None:
        yield f"read as far as it goes: {summary.damage}"
    if len(rules) > len(rules.people):
        yield f"the rules would take {found.hits:,} of the hits of people{_share(found.hits, people)}"
    if rules.people:
        given_back = found.hits_given_back
        yield f"the exceptions would give back {given_back:,} of the hits of bots{_share(given_back, bots)}"
    changing = _by_hits(found)
    listed = changing[:top]
    if listed:
        yield ""
        yield f"{'hits':>10}{'links':>9}  {'first':17}  {'last':17}  rule ({len(listed):,} of {len(changing):,})"
    for taken in listed:
        first, last = (datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%MZ") for t in (taken.first, taken.last))
        yield f"{taken.hits:>10,}{len(taken.links):>9,}  {first}  {last}  {taken.rule}"
    if unused := _unused(found, rules):
        more = ", ..." if len(unused) > UNUSED_SHOWN else ""
        yield f"without a hit: {len(unused):,} of {len(rules):,} rules: {', '.join(unused[:UNUSED_SHOWN])}{more}"


def _share(hits: int, of: int) -> str:
    return f" ({hits / of:.1%})" if of else ""


def _agent_lines(found: LogUnderRules, judge: BotJudge, many: int) -> Iterator[str]:
    for side, agents in (("people", found.people_agents), ("bots", found.bot_agents)):
        listed = _most(agents, many)
        if listed:
            yield ""
            yield f"{'hits':>10}  agent of {side} ({len(listed):,} of {len(agents):,})"
        for agent, hits in listed:
            bot = judge.bot(agent) if side == "bots" else None
            named = "" if side == "people" else "by a rule: " if bot is None else f"{bot.name}, {bot.kind}: "
            yield f"{hits:>10,}  {named}{agent[:AGENT_SHOWN] or '(none)'}"


def _object_of(found: LogUnderRules, rules: BotRuleSet, judge: BotJudge, many: int) -> dict[str, object]:
    summary = found.summary
    return {
        "lines": summary.lines,
        "bad": summary.bad,
        "people": summary.people_hits,
        "bots": summary.bot_hits,
        "taken": found.hits,
        "given_back": found.hits_given_back,
        "damage": summary.damage,
        "rules": [
            {
                "rule": taken.rule,
                "hits": taken.hits,
                "links": len(taken.links),
                "first": taken.first,
                "last": taken.last,
            }
            for taken in _by_hits(found)
        ],
        "unused": len(_unused(found, rules)),
        "agents_of_people": [{"agent": agent, "hits": hits} for agent, hits in _most(found.people_agents, many)],
        "agents_of_bots": [
            {"agent": agent, "hits": hits, "name": bot and bot.name, "kind": bot and bot.kind}
            for agent, hits in _most(found.bot_agents, many)
            for bot in [judge.bot(agent)]
        ],
    }
