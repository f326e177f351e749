"""`clickcurve bots`: rules by which hits count as bots'."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from ingest.attributes.bot_rules import BotRules, BotRuleSet
from ingest.attributes.referrer import ReferrerReader
from ingest.imports.access_log import REDIRECTS, AccessLog
from ingest.imports.log_under_rules import LogUnderRules, TakenByRule, read_under_rules
from ingest.reading.bots import bot_judge
from server.attributes import bot_rules_of
from server.cli.main import FAILED, USAGE, Failed
from server.cli.options import status_option, statuses_of, with_settings
from server.cli.output import ReportingGroup, Result
from server.settings.table import Settings

STDIN = Path("-")
UNUSED_SHOWN = 5


@click.group("bots", cls=ReportingGroup)
def bots_command() -> None:
    """Try rules for bots.

    \b
    Examples:
      clickcurve bots try --bots-refs spam.example access.log
      clickcurve bots try --config clickcurve.toml access.log access.log.1.gz
    """


@bots_command.command("try")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, allow_dash=True)
)
@click.option("--top", default=20, show_default=True, type=click.IntRange(0), help="How many rules to list.")
@status_option
@with_settings("config", "bots_refs", "bots_networks", "bots_agents", "bots_files")
def try_bot_rules(settings: Settings, files: tuple[Path, ...], top: int, statuses: str | None) -> Result:
    """Read access logs and print which hits of people the rules would count as bots'.

    Nothing is counted and no server is asked. Hits whose agent is known as a bot's are bots without any rule, so no
    rule takes them. Each hit is taken by one rule: of referrers first, then of networks, then of agents. FILE may be
    compressed by gzip or zstd; - is standard input.

    \b
    Examples:
      clickcurve bots try --bots-refs spam.example access.log
      clickcurve bots try --bots-networks 192.0.2.0/24 --bots-agents SafeLinks,Barracuda access.log
      clickcurve bots try --bots-files spammers.txt access.log
    """
    rules = bot_rules_of(settings)
    if not rules:
        raise Failed("there are no rules for bots: name some, such as --bots-refs spam.example, or a --config", USAGE)
    log = AccessLog(bot_judge(), REDIRECTS if statuses is None else statuses_of(statuses))
    found = LogUnderRules()
    judging = BotRules(rules, ReferrerReader(settings.breakdown_own_hosts, settings.breakdown_ref_aliases))
    for file in files:
        read_under_rules(sys.stdin.buffer if file == STDIN else file, log, judging, found)  # type: ignore[arg-type]
    summary = found.summary
    failed = summary.damage is not None or (summary.bad and not summary.people_hits + summary.bot_hits)
    return Result(_lines_of(found, rules, top), [_object_of(found, rules)], FAILED if failed else 0)


def _by_hits(found: LogUnderRules) -> list[TakenByRule]:
    return sorted(found.taken.values(), key=lambda taken: (-taken.hits, taken.rule))


def _unused(found: LogUnderRules, rules: BotRuleSet) -> list[str]:
    """Lists the rules that take no hit."""
    return [name for name in rules.names() if name not in found.taken]


def _lines_of(found: LogUnderRules, rules: BotRuleSet, top: int) -> Iterator[str]:
    summary = found.summary
    people, bots = summary.people_hits, summary.bot_hits
    yield f"{summary.lines:,} lines: {people:,} hits of people, {bots:,} of bots by their agents, {summary.bad:,} bad"
    if summary.damage is not None:
        yield f"read as far as it goes: {summary.damage}"
    share = f" ({found.hits / people:.1%})" if people else ""
    yield f"the rules would take {found.hits:,} of the hits of people{share}"
    listed = _by_hits(found)[:top]
    if listed:
        yield ""
        yield f"{'hits':>10}{'links':>9}  {'first':17}  {'last':17}  rule ({len(listed):,} of {len(found.taken):,})"
    for taken in listed:
        first, last = (datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%MZ") for t in (taken.first, taken.last))
        yield f"{taken.hits:>10,}{len(taken.links):>9,}  {first}  {last}  {taken.rule}"
    if unused := _unused(found, rules):
        more = ", ..." if len(unused) > UNUSED_SHOWN else ""
        yield f"without a hit: {len(unused):,} of {len(rules):,} rules: {', '.join(unused[:UNUSED_SHOWN])}{more}"


def _object_of(found: LogUnderRules, rules: BotRuleSet) -> dict[str, object]:
    summary = found.summary
    return {
        "lines": summary.lines,
        "bad": summary.bad,
        "people": summary.people_hits,
        "bots": summary.bot_hits,
        "taken": found.hits,
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
    }
