"""Rules by which counted hits are called bots, in the notes of the store: so every worker and node knows each of them.

A rule is noted, then carried out by one owner of the store (`runner.py`), and settled once every open owner has flushed
what it had accepted before. An owner that becomes open later, with hits from before, has it carried out again. Undoing
it is noted too. Any change is followed by another version.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid
from clickcurve.buckets.measures import clicks_row
from clickcurve.keys import ALL_LINKS, group_of, link_of
from server.logs import log
from storage.contract import OPEN, Store
from storage.erased_words import ErasureBook
from storage.note_versions import FollowedVersion, renew_version, version_of
from storage.notes import NoteSpace, take_new

# DISAVOW, then the id of a rule: which counted hits it calls bots. DISAVOW_AGAIN, then its id: another text each time
# that it is carried out again, which says when it was sent. DISAVOW_SETTLED, then its id: that text, of the time for
# which it is settled. DISAVOW_UNDO, then its id: it is to be undone. DISAVOW_FLUSHED, then its id and an owner: this
# has flushed since. DISAVOW_WALKED, then its id: which links it was carried out for. DISAVOW_VERSION is another one
# after each change of these.
DISAVOW, DISAVOW_SETTLED, DISAVOW_UNDO = "disavow:", "disavow-settled:", "disavow-undo:"
DISAVOW_FLUSHED, DISAVOW_WALKED, DISAVOW_VERSION = "disavow-flushed:", "disavow-walked:", "disavow-version"
DISAVOW_AGAIN = "disavow-again:"
# Corrections come with the rows of a copy; how far one was carried out is found anew.
_TAKEN = DISAVOW, DISAVOW_SETTLED, DISAVOW_AGAIN, DISAVOW_UNDO
DISAVOW_NOTES = NoteSpace(
    "rules", (*_TAKEN, DISAVOW_FLUSHED, DISAVOW_WALKED, DISAVOW_VERSION), take_new(*_TAKEN, version=DISAVOW_VERSION)
)

MAX_RULES = 1_000
CLOCKS_DIFFER_S = 3_600  # at most, those of the servers of one store


class RuleUnderWay(ClickcurveError, status=409, title="rule under way"):
    """A rule of this value is being undone."""


class DisavowRule(msgspec.Struct, frozen=True):
    """Hits of [since, until) of one value of a dimension, of the row of a stored key. at: when it was noted.

    prefix: it is a rule of each link whose key begins so, and `stored` is the row of all links; None: of one row.
    joined: it came with rows that were joined, and means their hits alone until it is sent again.
    """

    stored: str
    dimension: str
    value: str
    since: int
    until: int
    at: int
    prefix: str | None = None
    joined: bool = False

    @property
    def id(self) -> str:
        """The same for a rule that is sent again."""
        row = self.stored if self.prefix is None else (self.stored, self.prefix)
        meant = msgspec.json.encode((row, self.dimension, self.value, self.since, self.until))
        return blake2b(meant, digest_size=8).hexdigest()

    @property
    def target(self) -> tuple[str, str | None, str, str]:
        """What several ranges of one value share: they are undone together."""
        return self.stored, self.prefix, self.dimension, self.value

    def is_of(self, stored: str) -> bool:
        """Tells whether it calls hits of the row of a stored key, or of the events beside it."""
        stored = clicks_row(stored)
        if self.prefix is None:
            return stored == self.stored
        link = link_of(stored)
        return link is not None and link.startswith(self.prefix)

    @property
    def kind(self) -> str:
        """What it is of, in one word of answers."""
        if self.prefix is not None:
            return "prefix" if self.prefix else "all"
        return "link" if link_of(self.stored) is not None else "group"

    @property
    def name(self) -> str | None:
        """The link, the group, or the beginning of keys that it is of; None for all links."""
        if self.prefix is not None:
            return self.prefix or None
        group = group_of(self.stored)
        return link_of(self.stored) if group is None else group


class CorrectedRows:
    """The rows of counts that some rules change the answers of, with those of events beside them.

    all_links: hits of all links together may be called bots whatever the rules are: of links that were deleted since.
    """

    def __init__(self, rules: Iterable[DisavowRule] = (), all_links: bool = False) -> None:
        some = list(rules)
        self._rows = {rule.stored for rule in some}
        if all_links or any(rule.kind != "group" for rule in some):
            self._rows.add(ALL_LINKS)
        self._prefixes = tuple({rule.prefix for rule in some if rule.prefix is not None})

    def __contains__(self, stored: object) -> bool:
        if not (self._rows or self._prefixes):
            return False
        assert isinstance(stored, str)
        stored = clicks_row(stored)
        if stored in self._rows or not self._prefixes:
            return stored in self._rows
        link = link_of(stored)
        return link is not None and link.startswith(self._prefixes)


class Walked(msgspec.Struct, frozen=True):
    """How far a rule of many links was carried out, or undone: for all links up to `after`, in the store's own order.

    waiting: the owners that had not flushed when it began. links, moved, at_least, at_most: how many links it has met,
    and sums of what is answered of each. left_out: links that are damaged, or were deleted ahead of the clock.
    """

    undo: bool = False
    again: str | None = None  # of the rule when it began
    waiting: tuple[int, ...] = ()
    after: str | None = None
    ended: bool = False
    links: int = 0
    moved: int = 0
    at_least: int = 0
    at_most: int = 0
    left_out: int = 0


_read_rule = msgspec.json.Decoder(DisavowRule).decode
_read_walked = msgspec.json.Decoder(Walked).decode


class NotedRule(msgspec.Struct, frozen=True):
    """A rule with what is noted of it."""

    rule: DisavowRule
    settled: bool = False
    undo: bool = False
    flushed: frozenset[int] = frozenset()  # owners that have flushed since they know of it, while it is not settled
    walked: Walked | None = None
    again: str | None = None  # another text each time that it is carried out again

    @property
    def sent_at(self) -> int:
        """When it was sent last."""
        at, dash, _ = (self.again or "").partition("-")
        return int(at) if dash else self.rule.at

    def waiting(self, open_owners: Iterable[int]) -> list[int]:
        """Returns the open owners that may hold hits from before the rule was noted; none of a settled one."""
        return [] if self.settled else [owner for owner in open_owners if owner not in self.flushed]


_OF_RULE = DISAVOW, DISAVOW_SETTLED, DISAVOW_UNDO, DISAVOW_WALKED, DISAVOW_AGAIN


class DisavowBook:
    """Notes, lists and drops the rules of a store. May block, and raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def followed(self) -> FollowedVersion:
        """Returns what tells that the rules have changed."""
        return FollowedVersion(self._store, DISAVOW_VERSION)

    def version(self, *, at_first: bool = False) -> str | None:
        """Returns a text that is another one after each change; None: there was no rule yet. See `version_of`."""
        return version_of(self._store, DISAVOW_VERSION, at_first=at_first)

    def all(self) -> list[NotedRule]:
        """Returns the rules, oldest first."""
        again = self._store.notes(DISAVOW_AGAIN)  # first: what changes from here on is not taken for older
        rules, walked = self._store.notes(DISAVOW), self._store.notes(DISAVOW_WALKED)
        settled, undo = self._store.notes(DISAVOW_SETTLED), self._store.notes(DISAVOW_UNDO)
        flushed: dict[str, set[int]] = {}
        for name in self._store.notes(DISAVOW_FLUSHED):
            rule_id, _, owner = name.removeprefix(DISAVOW_FLUSHED).partition(":")
            flushed.setdefault(rule_id, set()).add(int(owner))
        found = []
        for name, value in rules.items():
            try:
                rule = _read_rule(value)
                of_rule = walked.get(DISAVOW_WALKED + rule.id)
                sent = again.get(DISAVOW_AGAIN + rule.id)
                is_settled = settled.get(DISAVOW_SETTLED + rule.id) == _settled_for(sent)
                noted = NotedRule(rule, is_settled, DISAVOW_UNDO + rule.id in undo)
                noted = replace(noted, flushed=frozenset(flushed.get(rule.id, ())), again=sent)
                found.append(replace(noted, walked=None if of_rule is None else _read_walked(of_rule)))
            except msgspec.DecodeError as error:
                log.error("rule unreadable", extra={"note": name, "reason": str(error), "then": "it is left out"})
        undone = {noted.rule.target for noted in found if noted.undo}  # all ranges, also where noting was cut short
        found = [replace(noted, undo=noted.rule.target in undone) for noted in found]
        return sorted(found, key=lambda noted: (noted.rule.at, noted.rule.id))

    def add(self, rule: DisavowRule) -> DisavowRule:
        """Notes a rule and returns it; one that is noted already is carried out again. Raises RuleUnderWay."""
        if ErasureBook(self._store).words(rule.at).is_erased(rule.stored, rule.dimension, rule.value):
            raise RuleUnderWay(
                "this value was erased", field=rule.dimension, rule="a value that is not to be forgotten"
            )
        known = self.all()
        for each in known:
            if each.rule.id == rule.id and not each.undo:  # it is to call the hits that came since
                self._unsettle(each, rule.at)
                return each.rule
            if each.undo and each.rule.target == rule.target:
                detail = "this value is being undone; send the rule again in some seconds"
                raise RuleUnderWay(detail, field=rule.dimension, value=rule.value, rule="one at a time")
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

    def open_owners(self) -> list[int]:
        """Returns the owners that may hold hits that are not flushed."""
        return [each.owner for each in self._store.owners() if each.state == OPEN]

    def settle(self, noted: NotedRule) -> None:
        """Notes that all hits that a rule means are called, as it was sent when it was read."""
        settled, sent = DISAVOW_SETTLED + noted.rule.id, _settled_for(noted.again)
        if self._store.note(settled, sent) != sent:  # of a time that it was sent before
            self._store.drop_notes([settled])
            self._store.note(settled, sent)
        if self._store.noted(DISAVOW_AGAIN + noted.rule.id) != noted.again:
            return  # it was sent again meanwhile: owners flush for that
        self._store.drop_notes([f"{_flushed(noted.rule)}{owner}" for owner in noted.flushed])
        self._change()

    def rename(self, is_erased: Callable[[str, str, str], bool], name: str) -> None:
        """Gives erased values of rules another name, by which they can be undone. is_erased: row, dimension, value."""
        for each in self.all():
            rule = each.rule
            if is_erased(rule.stored, rule.dimension, rule.value):
                renamed = replace(rule, value=name)
                self._store.note((DISAVOW_UNDO if each.undo else DISAVOW_SETTLED) + renamed.id, "")
                if each.walked is not None:
                    self.note_walked(renamed, each.walked)
                self._store.note(DISAVOW + renamed.id, msgspec.json.encode(renamed).decode())
                self.drop([rule])

    def note_settled(self, noted: NotedRule, stored: str) -> None:
        """Notes a settled rule for the row of another stored key, where what it has called is going to be."""
        rule = replace(noted.rule, stored=stored, joined=True)
        self._store.note(DISAVOW_SETTLED + rule.id, "")
        self._store.note(DISAVOW + rule.id, msgspec.json.encode(rule).decode())
        self._change()

    def note_walked(self, rule: DisavowRule, walked: Walked) -> None:
        """Notes how far a rule of many links has come. Killed in between, it begins again, which changes nothing."""
        self._store.drop_notes([DISAVOW_WALKED + rule.id])
        self._store.note(DISAVOW_WALKED + rule.id, msgspec.json.encode(walked).decode())

    def unsettle_since(self, since_us: int) -> None:
        """Unsettles rules for an owner that is open now and has held hits from this moment on.

        They did not wait for it: those that are not settled may be, just now, without it. A store that never had a rule
        is asked for two notes alone.
        """
        if self.version(at_first=True) is None:
            return
        for each in self.all():
            is_later = each.sent_at >= since_us / 1e6 - CLOCKS_DIFFER_S
            if is_later and not each.undo and not (each.rule.joined and each.again is None):
                self._unsettle(each, each.sent_at)
                log.info("rule carried out again", extra={"rule": each.rule.id, "reason": "an owner held hits before"})

    def _unsettle(self, noted: NotedRule, at: int) -> None:
        """Forgets that a rule is settled and who has flushed for it: all do once more. at: when it was sent."""
        again = DISAVOW_AGAIN + noted.rule.id
        self._store.drop_notes([again])
        self._store.note(again, f"{at}-{secrets.token_hex(4)}")  # it is not settled from here on
        flushed = (f"{_flushed(noted.rule)}{owner}" for owner in noted.flushed)
        self._store.drop_notes([DISAVOW_SETTLED + noted.rule.id, DISAVOW_WALKED + noted.rule.id, *flushed])
        self._change()

    def drop(self, rules: Iterable[DisavowRule]) -> None:
        """Forgets rules that were undone."""
        dropped = list(rules)
        names = [prefix + rule.id for rule in dropped for prefix in _OF_RULE]
        flushed = (name for rule in dropped for name in self._store.notes(_flushed(rule)))
        self._store.drop_notes([*names, *flushed])
        self._change()

    def _change(self) -> None:
        renew_version(self._store, DISAVOW_VERSION)


def _settled_for(again: str | None) -> str:
    """Returns what is noted of a rule that is settled: which time it was sent. Any other text is of a time before."""
    return again or ""


def _flushed(rule: DisavowRule) -> str:
    return f"{DISAVOW_FLUSHED}{rule.id}:"
