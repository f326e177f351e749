"""The host that a visitor came from: what is kept of a referrer, be it a URL, a host or an app's name.

Paths and queries of a referrer may hold names and secrets, so only the host is kept, in lower case, without `www.` and
port. Hosts that lead to one site (`l.facebook.com`, `t.co`, apps) count as that site.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from clickcurve.buckets.errors import SettingInvalid
from ingest.attributes.text import CUT, cut, lines_in, text_of

REF_BYTES = 2_048
REF_RULE = f"a URL or a host, at most {REF_BYTES:,} bytes"
HOST_CHARACTERS = 256  # of any host: more than is kept, and few enough for the field `ref` of another hit

# Redirectors and mobile addresses that the sites themselves put before their links, and the ids of their Android apps.
# Those of version 0.2.0: the lines that takeovers make of exports know no others, and a source is known by its lines.
FORMER_ALIASES: Final[dict[str, str]] = {
    alias: site
    for site, aliases in {
        "bing.com": ("cn.bing.com", "m.bing.com"),
        "discord.com": ("discordapp.com", "com.discord"),
        "duckduckgo.com": ("html.duckduckgo.com", "lite.duckduckgo.com", "com.duckduckgo.mobile.android"),
        "facebook.com": (
            "l.facebook.com",
            "lm.facebook.com",
            "m.facebook.com",
            "mobile.facebook.com",
            "touch.facebook.com",
            "web.facebook.com",
            "fb.me",
            "com.facebook.katana",
            "com.facebook.lite",
        ),
        "google.com": ("com.google.android.googlequicksearchbox", "com.google.android.gm"),
        "instagram.com": ("l.instagram.com", "com.instagram.android"),
        "linkedin.com": ("lnkd.in", "m.linkedin.com", "com.linkedin.android"),
        "messenger.com": ("l.messenger.com", "com.facebook.orca"),
        "pinterest.com": ("pin.it", "com.pinterest"),
        "reddit.com": ("old.reddit.com", "new.reddit.com", "m.reddit.com", "out.reddit.com", "com.reddit.frontpage"),
        "slack.com": ("com.slack", "app.slack.com"),
        "telegram.org": ("t.me", "web.telegram.org", "org.telegram.messenger"),
        "threads.net": ("l.threads.net", "l.threads.com", "threads.com", "com.instagram.barcelona"),
        "tiktok.com": ("m.tiktok.com", "vm.tiktok.com", "com.zhiliaoapp.musically"),
        "vk.com": ("m.vk.com", "away.vk.com", "com.vkontakte.android"),
        "whatsapp.com": ("l.wl.co", "wa.me", "web.whatsapp.com", "com.whatsapp"),
        "x.com": ("t.co", "twitter.com", "mobile.twitter.com", "com.twitter.android"),
        "youtube.com": ("m.youtube.com", "youtu.be", "com.google.android.youtube"),
    }.items()
    for alias in aliases
}
ALIASES: Final[dict[str, str]] = FORMER_ALIASES | {
    alias: site
    for site, aliases in {
        "bing.com": ("com.microsoft.bing",),
        "bsky.app": ("go.bsky.app", "xyz.blueskyweb.app"),
        "google.com": ("com.google.android.apps.searchlite",),
        "instagram.com": ("com.instagram.lite",),
        "linkedin.com": ("com.linkedin.android.lite",),
        "mail.google.com": ("com.google.android.gm",),  # mail, and no search
        "messenger.com": ("com.facebook.mlite",),
        "reddit.com": ("redd.it",),
        "telegram.org": ("org.telegram.messenger.web", "org.thunderdog.challegram"),
        "tiktok.com": ("com.zhiliaoapp.musically.go", "com.ss.android.ugc.trill"),
        "whatsapp.com": ("com.whatsapp.w4b",),
        "x.com": ("com.twitter.android.lite",),
    }.items()
    for alias in aliases
}
# Sites that have a host in each country: google.de, google.co.uk, google.com.br, pinterest.fr.
NATIONAL: Final = ("google", "pinterest")
_NATIONAL = re.compile(rf"({'|'.join(NATIONAL)})\.(?:com?\.)?[a-z]{{2}}").fullmatch
# What scripts write where there is no referrer.
_NOTHING = frozenset(("null", "undefined", "-"))
LABEL_CHARACTERS = 63  # of a name in Punycode, whose reading takes quadratic time
ALIASES_BYTES = 4 << 20  # of a file of one's own

_DOTS = re.compile("[\u3002\uff0e\uff61]")  # the other full stops that end a label of an internationalized name
_IGNORED = re.compile("[\xad\u200b\u2060\ufe00-\ufe0f\ufeff]")  # that no name has in Punycode
# Letters, digits and signs of any script, with dots between them; or an address in brackets.
_HOST = re.compile(r"(?:[\w.-]|[^\x00-\x7f\s])+|\[[0-9a-f:.]+\]")
_FORMER_HOST = re.compile(r"[\w.-]+|\[[0-9a-f:.]+\]")
# What nearly all browsers send: a third of the time of the rules below, which give the same for it.
_PLAIN_URL = re.compile(r"https?://([a-z0-9.-]+)(?:[/?#]|\Z)")


def host_of(referrer: str) -> str:
    """Returns the host that a referrer names, or the id of an app; "" if it names none.

    An internationalized name is in Unicode (UTS 46, roughly: NFKC, lower case), as which browsers show it.
    """
    if (plain := _PLAIN_URL.match(referrer)) and "xn--" not in plain[1]:
        host = plain[1].rstrip(".")
    else:
        host = _in_one_form(_authority_of(referrer.strip()).lower())
    host = _without_www(host)
    return "" if host in _NOTHING else host[:HOST_CHARACTERS]


def _authority_of(text: str) -> str:
    """Returns the host that stands in a URL, or before a path, without port and user."""
    if text == "-":
        return ""
    scheme, slashes, rest = text.partition("://")
    authority = rest if slashes else scheme
    for mark in "/?#":
        authority = authority.partition(mark)[0]
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdigit() or not port) else host


def _in_one_form(host: str) -> str:
    """Returns the one spelling of a host; "" if the text is none."""
    if "%" in host:
        host = _unescaped(host)
    if not host.isascii():
        host = unicodedata.normalize("NFKC", _IGNORED.sub("", _DOTS.sub(".", host)).lower())
    if "xn--" in host:
        host = ".".join(map(_label_in_unicode, host.split(".")))
    host = host.rstrip(".")
    return host if _HOST.fullmatch(host) and (host.isascii() or host.isprintable()) else ""


def _unescaped(text: str) -> str:
    """Returns a text with its escapes undone; "" if they are not UTF-8."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        return ""


def _label_in_unicode(label: str) -> str:
    """Returns a label in Unicode if it is in Punycode and its one spelling; any other as it is."""
    if not label.startswith("xn--") or len(label) > LABEL_CHARACTERS:
        return label
    try:
        text = label[4:].encode().decode("punycode")
        same = not text.isascii() and text.encode("punycode").decode() == label[4:]
    except (UnicodeError, OverflowError):
        return label
    return text if same and unicodedata.normalize("NFKC", text).lower() == text and _HOST.fullmatch(text) else label


def _without_www(host: str) -> str:
    """Returns a host without its `www.`, unless that leaves no name of a site: www.com is one."""
    short = host.removeprefix("www.")
    return short if "." in short else host


def former_site_of(referrer: str) -> str:
    """Returns the site of a referrer as version 0.2.0 named it, which the lines of takeovers go on to hold."""
    host = _authority_of(referrer.strip()).lower().removeprefix("www.").rstrip(".")
    host = host[:HOST_CHARACTERS] if _FORMER_HOST.fullmatch(host) else ""
    return cut(FORMER_ALIASES.get(host, host))


def read_aliases(path: Path) -> dict[str, str]:
    """Reads a file of aliases, on each line a site, a colon and its hosts; raises SettingInvalid."""
    field = "breakdown_ref_aliases"
    aliases: dict[str, str] = {}
    for number, named in lines_in(path, ALIASES_BYTES, field):
        site, colon, others = named.partition(":")
        hosts = list(map(host_of, re.split(r"[,\s]+", others.strip())))
        if not colon or not host_of(site) or not all(hosts):
            why = f"has no aliases in line {number}: write `site.example: m.site.example, sit.example`"
            raise SettingInvalid(f"{path} {why}", field=field, value=str(path))
        aliases |= dict.fromkeys(hosts, host_of(site))
    return aliases


class ReferrerReader:
    """Returns the site of a referrer, as the settings want it kept.

    own_hosts: hosts whose visits count as no referrer, in any spelling. with_aliases: hosts of one site are kept as
    that site; False: each host is kept as it is. more_aliases: of one's own, which win.
    """

    def __init__(
        self, own_hosts: Iterable[str] = (), with_aliases: bool = True, more_aliases: Mapping[str, str] | None = None
    ) -> None:
        self._own_hosts = [*filter(None, map(host_of, own_hosts))]
        self._with_aliases = with_aliases
        self.use_aliases(more_aliases or {})

    def use_aliases(self, more: Mapping[str, str]) -> None:
        """Keeps hosts by these aliases of one's own from now on."""
        self._aliases = {**ALIASES, **more} if self._with_aliases else {}
        self._own_sites = frozenset(map(self._site_of_host, self._own_hosts))

    def _site_of_host(self, host: str) -> str:
        site = self._aliases.get(host)
        if site is None and self._with_aliases and (national := _NATIONAL(host)):
            return f"{national[1]}.com"
        return host if site is None else site

    def site(self, referrer: str) -> str:
        """Returns the site that a referrer names; "" if it names none, or an own host."""
        site = self._site_of_host(host_of(referrer))
        return "" if site in self._own_sites else cut(site)

    def site_of_field(self, value: object) -> str:
        """Returns the site that the field `ref` of a hit names; raises HitRejected if the value is not valid."""
        return self.site(text_of(value, "ref", REF_RULE, REF_BYTES))

    def kept_value(self, dimension: str, value: str) -> str:
        """Returns what is kept of a value that a question names: a referrer's site, and any other value as it is."""
        if dimension != "ref" or value.endswith(CUT):
            return value
        return cut(self._site_of_host(host_of(value) or value))
