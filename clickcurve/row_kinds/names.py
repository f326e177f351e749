"""What rows are called: in reports of operators, and in answers about one link."""

from __future__ import annotations

from clickcurve.buckets.measures import measured
from clickcurve.keys import ALL_LINKS, corrected_key, group_of, link_of
from clickcurve.row_kinds.table import kind_of


def row_name(key: str, owner: int | None = None) -> str:
    """Returns the name of a row in reports; None: of all owners."""
    kind = kind_of(key)
    measure, key = measured(corrected_key(key))
    link, group = link_of(key), group_of(key)
    name = "all links" if key == ALL_LINKS else f"row {key!r}"
    if link is not None:
        name = f"link {link!r}"
    elif group is not None:
        name = f"group {group!r}"
    if measure.event:
        name = f"{str(measure).removeprefix('the ')} of {name}"
    return kind.before + (name if owner is None else f"{name}, owner {owner}")


def what_it_is(key: str) -> tuple[str, str | None]:
    """Returns what a row is of what an answer is about, and the name of that, if any."""
    noun = kind_of(key).noun
    measure, key = measured(corrected_key(key))
    if measure.event:
        noun = f"{noun} of {measure}"
    if key == ALL_LINKS:
        return f"the {noun} of all links", None
    group = group_of(key)
    return (f"this link's {noun}", link_of(key)) if group is None else (f"this group's {noun}", group)
