"""Makes the words of a hit fit where they break a rule: a word may be lost then, never the hit.

What visitors and proxies send in an attribute is beyond the shortener's power: a campaign with a line break, a code of
Cloudflare's for no country, `unknown` in place of an address. Only a value of a wrong JSON type is the sender's own
fault; it stays as it is, and refuses the hit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Any, Final

from clickcurve.buckets.errors import HitRejected
from clickcurve.keys import GROUP_BYTES
from ingest.attributes.campaign import SOURCE_BYTES, SOURCE_RULE, UTM, UTM_BYTES, UTM_RULE
from ingest.attributes.country import address_of, country_of_field
from ingest.attributes.dimensions import TAG_BYTES
from ingest.attributes.language import LANG_BYTES, LANG_RULE
from ingest.attributes.profile import TAGS, TAGS_RULE, UTM_
from ingest.attributes.referrer import REF_BYTES, REF_RULE
from ingest.attributes.text import CONTROL_RULE, KEPT_RULE, cut, may_any_be_cut, may_be_cut, without_controls
from ingest.hit import GROUPS, GROUPS_RULE, VISITOR_RULE, Hit, JsonHit, is_visitor


def fit(raw: JsonHit, tags: Collection[str]) -> tuple[JsonHit, list[HitRejected]]:
    """Returns a hit whose words keep to their rules, and what was lost for that, as the receipt tells it.

    tags: the names that are counted. An empty text loses nothing.
    """
    # Not a copy: a narrowed shape of hits (`json_hit.narrowed`) cannot set the fields that it lacks.
    hit, lost = JsonHit(*_fields(raw)), list[HitRejected]()
    for name, longest, rule in _TEXTS:
        setattr(hit, name, _text(getattr(hit, name), name, longest, rule, lost))
    for name, read in _WHOLE:
        setattr(hit, name, _whole(getattr(hit, name), read, lost))
    if isinstance(hit.visitor, str) and not is_visitor(hit.visitor):
        if hit.visitor:  # it is never repeated
            lost.append(HitRejected("visitor is left out", field="visitor", value=None, rule=VISITOR_RULE))
        hit.visitor = None
    if isinstance(hit.utm, dict):
        given = hit.utm
        hit.utm = {n: _text(given[n], f"utm.{n}", UTM_BYTES, UTM_RULE, lost) for n in UTM if n in given}
    if isinstance(hit.tags, dict):
        hit.tags = _tags(hit.tags, tags, lost)
    if isinstance(hit.groups, list):
        hit.groups = _groups(hit.groups, lost)
    return hit, lost


def cut_words(hit: JsonHit, read: Hit, lost: Iterable[HitRejected] = ()) -> list[HitRejected]:
    """Returns the words of a hit that its profile does not hold whole, as the receipt tells them.

    read: the same hit, as it counts. lost: what is told of it already; a word is told once.
    """
    profile = None if read.bot or (hit.ref is None and hit.utm is None) else read.profile
    if profile is None or not may_any_be_cut(profile.values):
        return []
    known = {error.detail for error in lost}
    given: dict[str, tuple[str, object]] = {UTM_ + name: (f"utm.{name}", (hit.utm or {}).get(name)) for name in UTM}
    given["ref"] = "ref", hit.ref
    found = []
    for name, kept in zip(profile.dimensions, profile.values, strict=True):
        field, value = given.get(name, (name, kept))
        detail = f"{field} is cut"
        if may_be_cut(kept) and value != kept and detail not in known:
            found.append(HitRejected(detail, field=field, value=value, rule=KEPT_RULE))
    return found


_fields: Callable[[JsonHit], tuple[Any, ...]] = attrgetter(*JsonHit.__struct_fields__)
# Of these a part can be kept; of the next ones all or nothing.
_TEXTS: Final = (("ref", REF_BYTES, REF_RULE), ("lang", LANG_BYTES, LANG_RULE), ("source", SOURCE_BYTES, SOURCE_RULE))
_WHOLE: Final[tuple[tuple[str, Callable[[object], str]], ...]] = (("ip", address_of), ("country", country_of_field))


def _text(value: str | None, field: str, longest: int, rule: str, lost: list[HitRejected]) -> str | None:
    """Returns a text without control characters, cut to a length."""
    if not isinstance(value, str) or not value:
        return value
    text = without_controls(value)
    if text != value.strip():
        lost.append(HitRejected(f"{field} without its control characters", field=field, value=value, rule=CONTROL_RULE))
    kept = cut(text, longest)
    if kept != text:
        lost.append(HitRejected(f"{field} is cut", field=field, value=value, rule=rule))
    return kept or None


def _whole(value: str | None, read: Callable[[object], str], lost: list[HitRejected]) -> str | None:
    if not isinstance(value, str):
        return value
    try:
        read(value)
    except HitRejected as error:
        if value.strip():
            lost.append(error)
        return None
    return value


def _tags(given: dict[str, str | None], names: Collection[str], lost: list[HitRejected]) -> dict[str, str | None]:
    counted = [name for name in given if name in names]
    if len(given) > TAGS:
        lost.append(HitRejected(f"{len(given)} tags, of which others are left out", field="tags", rule=TAGS_RULE))
    return {n: _text(given[n], f"tags.{n}", TAG_BYTES, TAGS_RULE, lost) for n in counted[:TAGS]}


def _groups(given: list[str], lost: list[HitRejected]) -> list[str]:
    kept: list[str] = []
    for name in given:
        if not isinstance(name, str):
            kept.append(name)
            continue
        text = without_controls(name)
        if not 0 < len(text.encode()) <= GROUP_BYTES or len(kept) == GROUPS:
            if name:
                lost.append(HitRejected("a group is left out", field="groups", value=name, rule=GROUPS_RULE))
            continue
        if text != name:
            detail = "a group without its control characters"
            lost.append(HitRejected(detail, field="groups", value=name, rule=CONTROL_RULE))
        kept.append(text)
    return kept
