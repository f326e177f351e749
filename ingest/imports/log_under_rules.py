"""Whose hits those of an access log are under rules for bots: what rules take of people's, and exceptions of bots'."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ingest.attributes.bot_rules import PERSON, BotRules
from ingest.imports.access_log import OF_LINES, AccessLog
from ingest.imports.importer import ImportSummary, Openable
from ingest.imports.source import Stream, open_reader

LINKS_SHOWN = 100_000  # so many links of a rule are told apart
AGENTS_SHOWN = 100_000  # and so many agents of people, and of bots


@dataclass(slots=True)
class TakenByRule:
    """The hits that one rule makes those of bots, or one exception those of people. first, last: minutes."""

    rule: str
    hits: int = 0
    first: int = 0
    last: int = 0
    links: set[str] = field(default_factory=set)

    def add(self, key: str, minute: int, hits: int) -> None:
        self.first = min(self.first, minute) if self.hits else minute
        self.last = max(self.last, minute)
        self.hits += hits
        if len(self.links) < LINKS_SHOWN:
            self.links.add(key)


@dataclass(slots=True)
class LogUnderRules:
    """What some logs hold, and what rules and exceptions change: each hit by one of them.

    people_agents, bot_agents: the hits of agents as they are judged in the end; "" where there is none.
    """

    summary: ImportSummary = field(default_factory=ImportSummary)
    taken: dict[str, TakenByRule] = field(default_factory=dict)
    given_back: dict[str, TakenByRule] = field(default_factory=dict)
    people_agents: Counter[str] = field(default_factory=Counter)
    bot_agents: Counter[str] = field(default_factory=Counter)

    @property
    def hits(self) -> int:
        """So many hits of people are taken by rules."""
        return sum(rule.hits for rule in self.taken.values())

    @property
    def hits_given_back(self) -> int:
        """So many hits of bots are people's by exceptions."""
        return sum(rule.hits for rule in self.given_back.values())

    def note_agent(self, agent: str, is_bot: bool, hits: int) -> None:
        agents = self.bot_agents if is_bot else self.people_agents
        if agent in agents or len(agents) < AGENTS_SHOWN:
            agents[agent] += hits


def read_under_rules(source: Openable, log: AccessLog, rules: BotRules, found: LogUnderRules) -> None:
    """Adds what is in a log, which may be packed; blocks. Raises SourceUnreadable."""
    log.use(OF_LINES)
    reader = open_reader(source)
    try:
        stream = Stream(reader)
        log.begin()
        while (lines := stream.next_lines() or stream.last_line()) is not None:
            sums = log.read(lines.data)
            found.summary.add(sums)
            found.summary.lines += lines.too_long
            found.summary.bad += lines.too_long
            for (key, minute, is_bot, ip, ref, ua, _), hits in sums.hits.items():
                rule = rules.rule(ip, ref, ua)
                if rule is PERSON and is_bot:
                    name = rules.exception(ua)
                    found.given_back.setdefault(name, TakenByRule(name)).add(key, minute, hits)
                elif rule and rule is not PERSON and not is_bot:
                    found.taken.setdefault(rule, TakenByRule(rule)).add(key, minute, hits)
                found.note_agent(ua or "", rule is not PERSON and (is_bot or bool(rule)), hits)
        if reader.damage is not None:
            name = str(source) if isinstance(source, Path) else "standard input"
            found.summary.damage = f"{name}: {reader.damage}"
    finally:
        reader.close()
