"""What a hit says of its visitor by name, and of the groups that its link is in: checked here, and not counted yet.

What names a visitor is never repeated: errors are answered and logged.
"""

from __future__ import annotations

import re

from clickcurve.buckets.errors import HitRejected
from clickcurve.problem import shown
from ingest.words.text import text_of

VISITOR_RULE = "1 to 128 visible ASCII characters"
GROUPS = 4
GROUP_BYTES = 64
GROUPS_RULE = f"a list of at most {GROUPS} names of 1 to {GROUP_BYTES} bytes"
VISITOR_PATTERN = r"^[!-~]{1,128}\Z"
# Names that certainly are good; others may be, and are looked at one by one.
GROUP_PATTERN = r"^([ -~]{1,64}|[^\x00-\x1f\x7f-\x9f]{1,16})\Z"
_VISITOR = re.compile(VISITOR_PATTERN)


def require_visitor(value: object) -> None:
    """Raises HitRejected unless the field `visitor` of a hit is one."""
    if not isinstance(value, str) or not _VISITOR.search(value):
        raise HitRejected("visitor is no such text", field="visitor", value=None, rule=VISITOR_RULE)


def require_groups(value: object) -> None:
    """Raises HitRejected unless the field `groups` of a hit is such a list."""
    if not isinstance(value, list) or len(value) > GROUPS:
        raise HitRejected("groups is not such a list", field="groups", value=shown(value), rule=GROUPS_RULE)
    for name in value:
        if not text_of(name, "groups", GROUPS_RULE, GROUP_BYTES):
            raise HitRejected("a group's name is empty", field="groups", value="", rule=GROUPS_RULE)
