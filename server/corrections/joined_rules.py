"""Rules by which hits are called bots, as links that are joined take them along: `%6Caunch` becomes part of `launch`.

A rule of a link is noted for the other one as settled, before the rows are joined, and dropped where it was after that:
so what is called in a row is always of a rule, however the command ends. It calls nothing anew. Sent again, or undone,
it is a rule of the whole link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from clickcurve.keys import link_key, link_of
from server.corrections.rules import DisavowBook, NotedRule
from storage.contract import Store
from storage.tools.join_spellings import Spelling, spellings

IN_CLUSTER = (
    "rules call hits of it bots, and a cluster cannot change its rows and what is called of them in one step: undo"
    " these rules, join it, and make them again"
)
UNDER_WAY = "a rule by which hits are called bots is under way: it settles while a server runs"
UNKNOWN = "hits of it are called bots, and no rule says so"


class JoinedRules:
    """The rules of a store, for links that are joined. Methods may block, and raise StoreUnavailable."""

    def __init__(self, book: DisavowBook, shared: bool) -> None:
        self._book, self._shared = book, shared
        self._rules = book.all()

    def why_not(self, each: Spelling) -> str:
        """Returns why a link is not joined, because of rules; empty: it may be."""
        source, link = link_key(each.key), link_key(each.joined)
        if any((noted.undo or not noted.settled) and _is_of(noted, source, link) for noted in self._rules):
            return UNDER_WAY
        if self._shared and (each.of_rules or self._own(source)):
            return IN_CLUSTER
        if not each.is_called:
            return ""
        of_source = [noted.rule for noted in self._rules if noted.rule.is_of(source)]
        for rule in of_source:
            if rule.prefix is not None and not rule.is_of(link):
                return (
                    f"hits of it are called bots by a rule of keys that begin with {rule.prefix!r}, which the other key"
                    " does not: undo this rule, join it, and make it again"
                )
        return "" if of_source else UNKNOWN

    def note(self, found: Iterable[Spelling]) -> None:
        """Notes the rules of links for those that they are to be joined with."""
        for each in found:
            for noted in self._own(link_key(each.key)):
                self._book.note_settled(noted, link_key(each.joined))

    def _own(self, stored: str) -> list[NotedRule]:
        return [noted for noted in self._rules if noted.rule.prefix is None and noted.rule.stored == stored]

    def drop_taken(self, store: Store, form_of: Callable[[str], str]) -> None:
        """Drops the rules of links that count nothing more and are noted for the links of their other forms."""
        rules = [noted.rule for noted in self._book.all()]
        ids = {rule.id for rule in rules}
        twice = [
            (key, rule)
            for rule in rules
            if rule.prefix is None
            and (key := link_of(rule.stored)) is not None
            and (form := form_of(key)) != key
            and replace(rule, stored=link_key(form)).id in ids
        ]
        if twice:
            counting = {each.key for each in spellings(store, form_of, [key for key, _ in twice])}
            self._book.drop([rule for key, rule in twice if key not in counting])


def _is_of(noted: NotedRule, *stored: str) -> bool:
    return any(map(noted.rule.is_of, stored))
