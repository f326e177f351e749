"""The host that a visitor came from: what is kept of a referrer, be it a URL, a host or an app's name.

Paths and queries of a referrer may hold names and secrets, so only the host is kept, in lower case, without `www.` and
port. Hosts that lead to one site (`l.facebook.com`, `t.co`, apps) count as that site.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ingest.attributes.text import cut, text_of

REF_BYTES = 2_048
REF_RULE = f"a URL or a host, at most {REF_BYTES:,} bytes"
HOST_CHARACTERS = 256  # of any host: more than is kept, and few enough for the field `ref` of another hit

# Redirectors and mobile addresses that the sites themselves put before their links, and the ids of their Android apps.
ALIASES: Final[dict[str, str]] = {
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

_HOST = re.compile(r"[\w.-]+|\[[0-9a-f:.]+\]")  # letters of any script: internationalized names come in both forms
# What nearly all browsers send: a third of the time of the rules below, which give the same for it.
_PLAIN_URL = re.compile(r"https?://([a-z0-9.-]+)(?:[/?#]|\Z)")


def host_of(referrer: str) -> str:
    """Returns the host that a referrer names, or the id of an app; "" if it names none."""
    if plain := _PLAIN_URL.match(referrer):
        return plain[1].removeprefix("www.").rstrip(".")[:HOST_CHARACTERS]
    text = referrer.strip()
    if not text or text == "-":
        return ""
    scheme, slashes, rest = text.partition("://")
    authority = rest if slashes else scheme
    for mark in "/?#":
        authority = authority.partition(mark)[0]
    host = authority.rpartition("@")[2].lower()
    if host.startswith("["):
        host = host.partition("]")[0] + "]"
    else:
        name, colon, port = host.rpartition(":")
        host = name if colon and (port.isdigit() or not port) else host
    host = host.removeprefix("www.").rstrip(".")
    return host[:HOST_CHARACTERS] if _HOST.fullmatch(host) else ""


class ReferrerReader:
    """Returns the site of a referrer, as the settings want it kept.

    own_hosts: hosts whose visits count as no referrer, in any spelling. with_aliases: hosts of one site are kept as
    that site; False: each host is kept as it is.
    """

    def __init__(self, own_hosts: Iterable[str] = (), with_aliases: bool = True) -> None:
        self._aliases = ALIASES if with_aliases else {}
        own = filter(None, map(host_of, own_hosts))
        self._own_sites = frozenset(self._aliases.get(host, host) for host in own)

    def site(self, referrer: str) -> str:
        """Returns the site that a referrer names; "" if it names none, or an own host."""
        host = host_of(referrer)
        site = self._aliases.get(host, host)
        return "" if site in self._own_sites else cut(site)

    def site_of_field(self, value: object) -> str:
        """Returns the site that the field `ref` of a hit names; raises HitRejected if the value is not valid."""
        return self.site(text_of(value, "ref", REF_RULE, REF_BYTES))

    def kept_value(self, dimension: str, value: str) -> str:
        """Returns what is kept of a value that a question names: a referrer's site, and any other value as it is."""
        return self._aliases.get(value, value) if dimension == "ref" else value
