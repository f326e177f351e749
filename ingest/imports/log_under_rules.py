"""What rules for bots would take from an access log: hits that count as people's without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ingest.attributes.bot_rules import BotRules
from ingest.imports.access_log import OF_LINES, AccessLog
from ingest.imports.importer import ImportSummary, Openable
from ingest.imports.source import Stream, open_reader

LINKS_SHOWN = 100_000  # so many links of a rule are told apart


@dataclass(slots=True)
class TakenByRule:
    """The hits of people that one rule takes. first, last: minutes."""

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
    """What some logs hold, and what rules take of it."""

    summary: ImportSummary = field(default_factory=ImportSummary)
    taken: dict[str, TakenByRule] = field(default_factory=dict)

    @property
    def hits(self) -> int:
        """So many hits of people are taken, by all rules together; each hit by one rule."""
        return sum(rule.hits for rule in self.taken.values())


def read_under_rules(source: Openable, log: AccessLog, rules: BotRules, found: LogUnderRules) -> None:
    """Adds what is in a log, which may be packed; blocks. Raises SourceUnreadable."""
    log.use(OF_LINES)
    reader = open_reader(source)
    try:
        stream = Stream(reader)
        while (lines := stream.next_lines() or stream.last_line()) is not None:
            sums = log.read(lines.data)
            found.summary.add(sums)
            found.summary.lines += lines.too_long
            found.summary.bad += lines.too_long
            for (key, minute, bot, ip, ref, ua, _), hits in sums.hits.items():
                rule = "" if bot else rules.rule(ip, ref, ua)
                if rule:
                    found.taken.setdefault(rule, TakenByRule(rule)).add(key, minute, hits)
        if reader.damage is not None:
            name = str(source) if isinstance(source, Path) else "standard input"
            found.summary.damage = f"{name}: {reader.damage}"
    finally:
        reader.close()
