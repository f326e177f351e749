"""The channel of a person's hit: what kind of way led to the link, from its referrer, its campaign and its source.

The rules are those of Google Analytics' default channel groups and of Plausible's channels, in their order, as far as a
hit says what they look at. Beside them: `ai`, `qr`, and sites that tell their kind by the first part of their host. The
sites of each kind stand in two files: `own_sites.txt`, kept by hand, and `listed_sites.txt`, made from a public list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from ingest.attributes.referrer import ALIASES
from ingest.attributes.text import lines_in

DIRECT, REFERRAL = "direct", "referral"
SEARCH, SOCIAL, VIDEO, AI, EMAIL, SMS, QR = "search", "social", "video", "ai", "email", "sms", "qr"
PAID_SEARCH, PAID_SOCIAL, PAID_VIDEO, DISPLAY = "paid_search", "paid_social", "paid_video", "display"
PAID_OTHER, SHOPPING, AFFILIATE, AUDIO, PUSH = "paid_other", "shopping", "affiliate", "audio", "push"
CHANNELS: Final = (
    *(DIRECT, SEARCH, SOCIAL, VIDEO, AI, EMAIL, SMS, QR, PAID_SEARCH, PAID_SOCIAL, PAID_VIDEO, DISPLAY),
    *(PAID_OTHER, SHOPPING, AFFILIATE, AUDIO, PUSH, REFERRAL),
)
UNKNOWN_KIND: Final = ""

_FILES = ("listed_sites.txt", "own_sites.txt")  # the later one wins
_FILE_BYTES = 1 << 20
_BELOW, _ANYWHERE = "*.", ".*"
_COUNTRY = re.compile(r"(.+?)\.(?:(?:(?:com?|org|net|edu|it)\.)?[a-z]{2}|com)").fullmatch
# Servers of many owners: webmail, instances of Mastodon and PeerTube.
_KIND_BY_LABEL: Final = {
    **dict.fromkeys(("mail", "webmail", "email"), EMAIL),
    **dict.fromkeys(("social", "mastodon"), SOCIAL),
    **dict.fromkeys(("video", "videos", "tube", "peertube"), VIDEO),
    "search": SEARCH,
}
_PAID_BY_KIND: Final = {SEARCH: PAID_SEARCH, SOCIAL: PAID_SOCIAL, VIDEO: PAID_VIDEO}
_OF_ADS = re.compile(r"(.*?)[ _-]?ads?").fullmatch  # a source such as google_ads, fb-ad
_PAID = re.compile(r".*cp.*|ppc|retargeting|paid.*").fullmatch
_SHOPPING = re.compile(r".*(?:(?:[^a-df-z]|^)shop|shopping).*").fullmatch
_EMAIL = re.compile(r"e[-_ ]?mail|newsletter")
_PUSH = re.compile(r"push$|mobile|notification")
_NOTHING = frozenset(("(direct)", "direct", "(none)", "none", "(not set)", "null", "undefined"))
_KIND_BY_MEDIUM: Final = {
    **dict.fromkeys(("display", "banner", "expandable", "interstitial", "cpm"), DISPLAY),
    **dict.fromkeys(("social", "social-network", "social-media", "sm", "social network", "social media"), SOCIAL),
    **dict.fromkeys(("ai", "ai-assistant", "ai_assistant", "ai assistant"), AI),
    **dict.fromkeys(("affiliate", "affiliates"), AFFILIATE),
    **dict.fromkeys(("audio", "podcast"), AUDIO),
    **dict.fromkeys(("qr", "qrcode", "qr-code", "qr_code"), QR),
    "organic": SEARCH,
    "sms": SMS,
}


@cache
def _kinds() -> Mapping[str, str]:
    """Returns the kind of each site, and of each name of a source, as the files have them: 1 ms, once."""
    kinds: dict[str, str] = {}
    for name in _FILES:
        for _, line in lines_in(Path(__file__).with_name(name), _FILE_BYTES, name):
            kind, *sites = line.split()
            kinds |= dict.fromkeys([*sites, *(site.removeprefix(_BELOW) for site in sites)], kind)
    return kinds


def kind_of_site(site: str) -> str:
    """Returns the channel that a site stands for; UNKNOWN_KIND for most."""
    kinds = _kinds()
    for host in (site, ALIASES.get(site, site)):
        if kind := kinds.get(host) or _kind_above(host, kinds):
            return kind
    label, dot, _ = site.partition(".")
    return _KIND_BY_LABEL.get(label, UNKNOWN_KIND) if dot else UNKNOWN_KIND


def _kind_above(host: str, kinds: Mapping[str, str]) -> str:
    """Returns the kind of a site that stands for its hosts in all countries, or for all hosts below it."""
    if (national := _COUNTRY(host)) and (kind := kinds.get(national[1] + _ANYWHERE)):
        return kind
    while host:
        if kind := kinds.get(_BELOW + host):
            return kind
        host = host.partition(".")[2]
    return UNKNOWN_KIND


def kind_of_source(name: str) -> tuple[str, bool]:
    """Returns the kind of a campaign's source, in lower case, and whether its name tells that it is paid."""
    kinds = _kinds()
    if kind := kinds.get(name) or (kind_of_site(name.removeprefix("www.")) if "." in name else UNKNOWN_KIND):
        return kind, name == "adwords"
    if _EMAIL.search(name):
        return EMAIL, False
    if (ads := _OF_ADS(name)) and ads[1] in kinds:
        return kinds[ads[1]], True
    return UNKNOWN_KIND, False


def channel_of(site: str, source: str, utm: Mapping[str, str]) -> str:
    """Returns the channel of a hit. site: of its referrer; source: its field; utm: its campaign; each may be empty.

    What a campaign says beats the field `source`, and that the referrer, as far as each says something that is known.
    """
    names, medium = [_said(utm.get("source", "")), _said(source)], _said(utm.get("medium", ""))
    kinds = [kind_of_source(name) for name in names if name]
    by_medium = _kind_of_medium(medium)
    if QR in (by_medium, *(kind for kind, _ in kinds)):
        return QR
    named, is_paid = next((each for each in kinds if each[0]), (UNKNOWN_KIND, False))
    of_site, of_shop = kind_of_site(site), bool(_SHOPPING(_said(utm.get("campaign", ""))))
    if is_paid or _PAID(medium):
        kind = SHOPPING if of_shop else named or of_site
        return _PAID_BY_KIND.get(kind) or (DISPLAY if DISPLAY in (kind, by_medium) else PAID_OTHER)
    if by_medium == DISPLAY:
        return DISPLAY
    usual = REFERRAL if site or medium or any(names) else DIRECT
    return named or by_medium or (SHOPPING if of_shop else of_site) or usual


def _said(text: str) -> str:
    """Returns a text of a campaign in the one spelling; empty for what stands where nothing is said."""
    said = text.strip().lower()
    return "" if said in _NOTHING else said


def _kind_of_medium(medium: str) -> str:
    """Returns the channel that a medium names; UNKNOWN_KIND for `referral` too, which says less than a referrer."""
    if kind := _KIND_BY_MEDIUM.get(medium):
        return kind
    if "video" in medium:
        return VIDEO
    if _EMAIL.search(medium):
        return EMAIL
    return PUSH if _PUSH.search(medium) else UNKNOWN_KIND
