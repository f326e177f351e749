"""Rules that call counted hits bots as lines of an export, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clickcurve.buckets.breakdowns.erased import ERASED
from clickcurve.buckets.ladder import END_OF_TIME
from clickcurve.keys import ALL_LINKS, group_key, link_key
from ingest.imports.rule_lines import FIELD, RuleLine
from server.corrections.rules import DisavowBook, DisavowRule
from storage.contract import Store


def exported_rules(store: Store) -> Iterator[dict[str, Any]]:
    """Yields the lines of an export for the rules of a store, oldest first; none that is being undone."""
    for noted in DisavowBook(store).all():
        if not noted.undo and not noted.rule.value.startswith(ERASED):  # an erased value is in no line
            yield {FIELD: msgspec.to_builtins(line_of(noted.rule))}


def line_of(rule: DisavowRule) -> RuleLine:
    """Returns a rule as a line of an export has it."""
    is_bounded = (rule.since, rule.until) != (0, END_OF_TIME)
    span = (rule.since, rule.until) if is_bounded else (None, None)
    return msgspec.convert(
        {"kind": rule.kind, "dimension": rule.dimension, "value": rule.value, "key": rule.name}
        | dict(zip(("from", "to"), span, strict=True)),
        RuleLine,
    )


def rule_of(line: RuleLine, at: int) -> DisavowRule:
    """Returns the rule that a line holds. at: when it is noted, epoch seconds."""
    stored: str = ALL_LINKS
    prefix: str | None = line.key or ""
    if line.kind in ("link", "group"):
        stored, prefix = (link_key if line.kind == "link" else group_key)(line.key or ""), None
    since, until = (0, END_OF_TIME) if line.start is None or line.end is None else (line.start, line.end)
    return DisavowRule(stored, line.dimension, line.value, since, until, at, prefix)
