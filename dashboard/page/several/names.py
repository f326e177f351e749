"""Which links and groups an address names that are to be drawn together."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote_to_bytes

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import KEY_BYTES, Subject, group_subject, link_subject, require_group, require_key
from clickcurve.visible import visible
from dashboard.page.view import PageView, view_of
from dashboard.pictures.lines_picture import MOST_LINES

# Of all names together: each address of the page has all of them.
MOST_CHARACTERS = 2 * KEY_BYTES
_KEY, _GROUP = "key", "group"
_FIELDS = {_KEY.encode(): _KEY, _GROUP.encode(): _GROUP}
_NAMED = f"1 to {MOST_LINES} links and groups, such as key=a&key=b&group=c"


def several_view(query: bytes, home_tz: str = "") -> PageView:
    """Reads a raw query string that names links and groups, and else what `view_of` reads.

    One that is named again counts once, and an empty name, as forms send it, not at all. Raises ParameterInvalid as
    `view_of`, for a name that breaks its rule, for none, and for more than MOST_LINES.
    """
    named: dict[tuple[str, str], None] = {}
    rest = []
    for part in query.split(b"&"):
        field, _, raw = part.partition(b"=")
        if field not in _FIELDS:
            rest.append(part)
        elif raw:
            named[_FIELDS[field], _name(_FIELDS[field], raw)] = None
            _check(list(named))
    if not named:
        raise ParameterInvalid("no link and no group is named", field=_KEY, value="", rule=_NAMED)
    keys, groups = (tuple(name for field, name in named if field == of) for of in (_KEY, _GROUP))
    return replace(view_of(b"&".join(rest), home_tz), keys=keys, groups=groups)


def subjects_of(view: PageView) -> list[Subject]:
    """Returns the links that a view draws together, then the groups."""
    return [*map(link_subject, view.keys), *map(group_subject, view.groups)]


def _check(named: list[tuple[str, str]]) -> None:
    """Raises ParameterInvalid if the last name is one too many, or makes the names too long."""
    field, name = named[-1]
    if len(named) > MOST_LINES:
        many = f"{visible(name)!r} is one too many: {MOST_LINES} links and groups are named before it"
        raise ParameterInvalid(many, field=field, value=name, rule=_NAMED)
    if (characters := sum(len(each) for _, each in named)) > MOST_CHARACTERS:
        long, rule = f"the names have {characters:,} characters", f"at most {MOST_CHARACTERS:,} characters together"
        raise ParameterInvalid(long, field=field, value=name, rule=rule)


def _name(field: str, raw: bytes) -> str:
    """Decodes a name once, as a form encodes it."""
    try:
        name = unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        detail = f"the {field} is not percent-encoded UTF-8"
        raise ParameterInvalid(detail, field=field, value=raw, rule="UTF-8") from None
    return (require_key if field == _KEY else require_group)(name, ParameterInvalid)
