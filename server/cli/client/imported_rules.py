"""Rules of an export that call hits bots: sent to a server, or noted in a store, once its hits have been imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from clickcurve.buckets.errors import ClickcurveError
from ingest.imports.rule_lines import RuleLine
from server import clock
from server.cli.client.api import NamedServer, group_path, link_path
from server.cli.main import Failed
from server.cli.store.inspect import opened
from server.corrections.exported import line_of, rule_of
from server.corrections.rules import DisavowBook
from server.settings.table import Settings


def take_rules(settings: Settings, rules: Sequence[RuleLine], into_folder: bool) -> Iterator[str]:
    """Takes those rules that are not there yet; yields a sentence for each that is refused."""
    if not rules:
        return
    try:
        for rule, refusal in (_noted if into_folder else _sent)(settings, rules):
            if refusal:
                of = {"all": "all links"}.get(rule.kind, f"the {rule.kind} {rule.key!r}")
                yield f"the rule of {rule.dimension} {rule.value} of {of} is not taken: {refusal}"
    except Failed as error:
        yield f"{len(rules):,} rules are not taken: {error.message}"


def _sent(settings: Settings, rules: Sequence[RuleLine]) -> Iterator[tuple[RuleLine, str]]:
    with NamedServer(settings) as server:
        there = {msgspec.convert(each, RuleLine) for each in server.ask("/v1/disavow", {})["rules"]}
        for rule in rules:
            if rule in there:
                continue
            path = "/v1/disavow"
            if rule.kind in ("link", "group"):
                path = (link_path if rule.kind == "link" else group_path)(rule.key or "", "disavow")
            prefix = rule.key if rule.kind == "prefix" else None
            start, end = (None if at is None else str(at) for at in (rule.start, rule.end))
            try:
                server.call(path, {"prefix": prefix, "from": start, "to": end}, {rule.dimension: rule.value})
                yield rule, ""
            except Failed as error:
                yield rule, error.message


def _noted(settings: Settings, rules: Sequence[RuleLine]) -> Iterator[tuple[RuleLine, str]]:
    with opened(settings.store, settings.ladder) as store:
        book = DisavowBook(store)
        there = {line_of(each.rule) for each in book.all()}
        for rule in rules:
            if rule in there:
                continue
            try:
                book.add(rule_of(rule, int(clock.now())))
                yield rule, ""
            except ClickcurveError as error:
                yield rule, error.detail
