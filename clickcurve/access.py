"""What the token of the request under way may touch: everything, or the keys that begin with a prefix, and a group.

The reading of any stored row asks here first, so a route cannot forget it. The row of all links together is, for such a
token, that of its group: this counts every hit that the token writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.measures import measured
from clickcurve.keys import ALL_LINKS, group_key, group_of, link_of

PREFIX_BYTES = 256
PREFIX_RULE = f"1 to {PREFIX_BYTES} bytes of UTF-8"
_SEPARATORS = "/:."

Charge: TypeAlias = Callable[[int], Awaitable[None]]


class OutsidePrefix(ClickcurveError, status=403, title="outside the token's prefix"):
    """A token with a prefix asks for something else. The answer is the same whether that exists or not."""


@dataclass(frozen=True)
class Access:
    """What a token may touch. prefix: of its keys, empty for all. group: the name of the group that counts its hits.

    token: its id, None where no tokens are used.
    charge: takes how many hits a request is about to count, and raises if a limit refuses them; None: none counts hits.
    """

    prefix: str = ""
    group: str = ""
    token: str | None = None
    charge: Charge | None = field(default=None, compare=False)

    @cached_property
    def group_row(self) -> str:
        """The stored key of the group that counts its hits; empty without a prefix."""
        return group_key(self.group) if self.prefix else ""

    @property
    def reach(self) -> tuple[str, str]:
        """What two tokens have in common that see the same: for keys of caches."""
        return self.prefix, self.group

    @property
    def key_rule(self) -> str:
        """What its keys are, for refusals."""
        return f"keys that begin with {self.prefix!r}"

    @property
    def group_rule(self) -> str:
        """What the groups are that its hits may name, for refusals."""
        return group_rule(self.prefix, self.group)

    def may_name(self, group: str) -> bool:
        """Returns whether its hits may count in a group: its own, and those that are named as parts of its own.

        Whether another token has the group plays no part: it may have been revoked, or not be made yet.
        """
        if not self.prefix or group == self.group or group.startswith(self.prefix):
            return True
        return group.startswith(tuple(self.group + separator for separator in _SEPARATORS))

    def covers(self, key: str) -> bool:
        """Returns whether a link is one of its own."""
        return key.startswith(self.prefix)

    def row(self, stored: str) -> str:
        """Returns the stored key of the row to read where this one is asked for; raises OutsidePrefix."""
        if not self.prefix:
            return stored
        measure, clicks = measured(stored)
        return measure.row(self._row(clicks))

    def _row(self, stored: str) -> str:
        if stored in (ALL_LINKS, self.group_row):
            return self.group_row
        link = link_of(stored)
        if link is not None and link.startswith(self.prefix):
            return stored
        group = group_of(stored)
        if group is not None:
            rule = f"the group {self.group!r}"
            raise OutsidePrefix(f"the token may ask for {rule} alone", field="group", value=group, rule=rule)
        if link is None:
            raise self.refusal("this")
        raise self._other_key(link)

    def own_key(self, key: str) -> str:
        """Returns the key of a link if it is one of its own; raises OutsidePrefix."""
        if not self.covers(key):
            raise self._other_key(key)
        return key

    def _other_key(self, key: str) -> OutsidePrefix:
        detail = f"the token may touch {self.key_rule} alone"
        return OutsidePrefix(detail, field="key", value=key, rule=self.key_rule)

    def refusal(self, what: str) -> OutsidePrefix:
        """Returns the error for what belongs to no prefix."""
        return OutsidePrefix(f"{what} is not for a token with a prefix", field="token", rule="a token without a prefix")


ALL_ACCESS = Access()
# Of the request under way; what no request asked for may touch everything. Between the token check and the reading of
# rows lie routes, doors, pages and pictures, none of which has any use for it.
_ACCESS: ContextVar[Access] = ContextVar("access", default=ALL_ACCESS)


def access() -> Access:
    """Returns what the request under way may touch."""
    return _ACCESS.get()


def begin_access(allowed: Access) -> None:
    """Makes the rest of this task, and the tasks that it starts, touch what is allowed and nothing else.

    Call it for every request, also with ALL_ACCESS: a pipelined request begins with what the one before had.
    """
    _ACCESS.set(allowed)


def group_rule(prefix: str, group: str) -> str:
    """Says which groups hits may name whose token has this prefix and this group."""
    begins = dict.fromkeys([prefix, *(group + separator for separator in _SEPARATORS)])
    return "groups that begin with " + " or ".join(map(repr, begins))


def group_of_prefix(prefix: str) -> str:
    """Returns the group that counts the hits of a prefix where none is named: the prefix without its separator."""
    return prefix[:-1] if prefix.endswith(tuple(_SEPARATORS)) else prefix
