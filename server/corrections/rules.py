"""Rules by which counted hits are called bots, in the notes of the store: so every worker and node knows each of them.

A rule is noted, then carried out by one owner of the store (`runner.py`), and settled once every open owner has flushed
what it had accepted before. Undoing it is noted too. Any change is followed by another version.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from hashlib import blake2b

import msgspec

from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid
from clickcurve.keys import ALL_LINKS, group_of, link_of
from server.logs import log
from storage.contract import (
    DISAVOW,
    DISAVOW_FLUSHED,
    DISAVOW_SETTLED,
    DISAVOW_UNDO,
    DISAVOW_VERSION,
    OPEN,
    Store,
)
from storage.erased_words import ErasureBook

MAX_RULES = 1_000


class RuleUnderWay(ClickcurveError):
    """A rule of this value is being undone."""

    status = 409
    title = "rule under way"


class DisavowRule(msgspec.Struct, frozen=True):
    """Hits of [since, until) of one value of a dimension, of the row of a stored key. at: when it was noted."""

    stored: str
    dimension: str
    value: str
    since: int
    until: int
    at: int

    @property
    def id(self) -> str:
        """The same for a rule that is sent again."""
        meant = msgspec.json.encode((self.stored, self.dimension, self.value, self.since, self.until))
        return blake2b(meant, digest_size=8).hexdigest()

    @property
    def target(self) -> tuple[str, str, str]:
        """What several ranges of one value share: they are undone together."""
        return self.stored, self.dimension, self.value

    def corrects(self) -> tuple[str, ...]:
        """Returns the stored keys of the rows of counts that it changes the answers of."""
        return (self.stored, ALL_LINKS) if link_of(self.stored) is not None else (self.stored,)

    @property
    def name(self) -> str | None:
        """The link or group that it is of; None for all links."""
        group = group_of(self.stored)
        return link_of(self.stored) if group is None else group


_read_rule = msgspec.json.Decoder(DisavowRule).decode


class NotedRule(msgspec.Struct, frozen=True):
    """A rule with what is noted of it."""

    rule: DisavowRule
    settled: bool = False
    undo: bool = False
    flushed: frozenset[int] = frozenset()  # owners that have flushed since they know of it, while it is not settled


class DisavowBook:
    """Notes, lists and drops the rules of a store. May block, and raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def version(self) -> str | None:
        """Returns a text that is another one after each change."""
        return self._store.noted(DISAVOW_VERSION)

    def all(self) -> list[NotedRule]:
        """Returns the rules, oldest first."""
        rules = self._store.notes(DISAVOW)
        settled, undo = self._store.notes(DISAVOW_SETTLED), self._store.notes(DISAVOW_UNDO)
        flushed: dict[str, set[int]] = {}
        for name in self._store.notes(DISAVOW_FLUSHED):
            rule_id, _, owner = name.removeprefix(DISAVOW_FLUSHED).partition(":")
            flushed.setdefault(rule_id, set()).add(int(owner))
        found = []
        for name, value in rules.items():
            try:
                rule = _read_rule(value)
            except msgspec.DecodeError as error:
                log.error("rule unreadable", extra={"note": name, "reason": str(error), "then": "it is left out"})
                continue
            owners = frozenset(flushed.get(rule.id, ()))
            found.append(NotedRule(rule, DISAVOW_SETTLED + rule.id in settled, DISAVOW_UNDO + rule.id in undo, owners))
        return sorted(found, key=lambda noted: (noted.rule.at, noted.rule.id))

    def add(self, stored: str, dimension: str, value: str, span: tuple[int, int], now: int) -> DisavowRule:
        """Notes a rule of now and returns it; one that is noted already is carried out again. Raises RuleUnderWay."""
        if ErasureBook(self._store).words(now).is_erased(stored, dimension, value):
            raise RuleUnderWay("this value was erased", field=dimension, rule="a value that is not to be forgotten")
        rule, known = DisavowRule(stored, dimension, value, *span, now), self.all()
        for each in known:
            if each.rule.id == rule.id and not each.undo:  # it is to call the hits that came since
                self._unsettle(each)
                return each.rule
            if each.undo and each.rule.target == rule.target:
                detail = "this value is being undone; send the rule again in some seconds"
                raise RuleUnderWay(detail, field=dimension, value=value, rule="one at a time")
        if len(known) >= MAX_RULES:
            detail = f"there are {len(known):,} rules already; undo some"
            raise ParameterInvalid(detail, field="rule", rule=f"at most {MAX_RULES:,}")
        self._store.note(DISAVOW + rule.id, msgspec.json.encode(rule).decode())
        self._change()
        return rule

    def undo(self, rule_id: str) -> DisavowRule | None:
        """Notes that a rule is to be undone, with all ranges of its value; returns it, None if unknown."""
        rules = self.all()
        rule = next((each.rule for each in rules if each.rule.id == rule_id), None)
        if rule is None:
            return None
        for each in rules:
            if each.rule.target == rule.target:
                self._store.note(DISAVOW_UNDO + each.rule.id, "")
        self._change()
        return rule

    def note_flushed(self, rules: Iterable[DisavowRule], owner: int) -> None:
        """Notes that an owner has flushed all that it had accepted before it knew of these rules."""
        for rule in rules:
            self._store.note(f"{_flushed(rule)}{owner}", "")

    def waiting(self, noted: NotedRule) -> list[int]:
        """Returns the open owners that may hold hits from before a rule was noted."""
        return [each.owner for each in self._store.owners() if each.state == OPEN and each.owner not in noted.flushed]

    def settle(self, noted: NotedRule) -> None:
        """Notes that all hits that a rule means are called."""
        self._store.note(DISAVOW_SETTLED + noted.rule.id, "")
        self._store.drop_notes([f"{_flushed(noted.rule)}{owner}" for owner in noted.flushed])
        self._change()

    def rename(self, is_erased: Callable[[str, str, str], bool], name: str) -> None:
        """Gives erased values of rules another name, by which they can be undone. is_erased: row, dimension, value."""
        for each in self.all():
            rule = each.rule
            if is_erased(rule.stored, rule.dimension, rule.value):
                renamed = msgspec.structs.replace(rule, value=name)
                self._store.note(DISAVOW_SETTLED + renamed.id, "")
                self._store.note(DISAVOW + renamed.id, msgspec.json.encode(renamed).decode())
                self.drop([rule])

    def _unsettle(self, noted: NotedRule) -> None:
        """Forgets that a rule is settled and who has flushed for it: all do once more."""
        flushed = (f"{_flushed(noted.rule)}{owner}" for owner in noted.flushed)
        self._store.drop_notes([DISAVOW_SETTLED + noted.rule.id, *flushed])
        self._change()

    def drop(self, rules: Iterable[DisavowRule]) -> None:
        """Forgets rules that were undone."""
        dropped = list(rules)
        names = [prefix + rule.id for rule in dropped for prefix in (DISAVOW, DISAVOW_SETTLED, DISAVOW_UNDO)]
        flushed = (name for rule in dropped for name in self._store.notes(_flushed(rule)))
        self._store.drop_notes([*names, *flushed])
        self._change()

    def _change(self) -> None:
        self._store.drop_notes([DISAVOW_VERSION])
        self._store.note(DISAVOW_VERSION, secrets.token_hex(8))


def _flushed(rule: DisavowRule) -> str:
    return f"{DISAVOW_FLUSHED}{rule.id}:"
