"""Reads browser, operating system and kind of device from a user agent. The agent itself is never kept.

The library `ua-parser` knows some hundred browsers and fifty systems; what is kept are the families that people know,
so that a link's list of browsers fits a screen. All others are `other`; an agent that says nothing is "".
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

OTHER = "other"
AGENT_CHARACTERS = 1_024  # as for bots: an agent is read by its first characters only

PHONE, TABLET, DESKTOP, TV = "phone", "tablet", "desktop", "tv"

# The beginnings of the library's families, longest first where one begins another.
_BROWSERS: Final = (
    ("Mobile Safari", "Safari"),
    ("Samsung Internet", "Samsung Internet"),
    ("Chrome", "Chrome"),
    ("Chromium", "Chrome"),
    ("Firefox", "Firefox"),
    ("Iceweasel", "Firefox"),
    ("Edge", "Edge"),
    ("Safari", "Safari"),
    ("Opera", "Opera"),
    ("IE", "Internet Explorer"),
    ("UC Browser", "UC Browser"),
    ("Brave", "Brave"),
    ("Vivaldi", "Vivaldi"),
    ("DuckDuckGo", "DuckDuckGo"),
    ("Yandex Browser", "Yandex"),
    ("Android", "Android browser"),
    ("Amazon Silk", "Silk"),
    ("Instagram", "Instagram"),
    ("Facebook", "Facebook"),
    ("TikTok", "TikTok"),
)
_SYSTEMS: Final = (
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("iOS", "iOS"),
    ("Android", "Android"),
    ("Chrome OS", "ChromeOS"),
    ("Chromecast", "Android"),
    ("Fedora", "Linux"),
    ("Ubuntu", "Linux"),
    ("Debian", "Linux"),
    ("CentOS", "Linux"),
    ("Red Hat", "Linux"),
    ("SUSE", "Linux"),
    ("Gentoo", "Linux"),
    ("Arch Linux", "Linux"),
    ("Linux", "Linux"),
    ("HarmonyOS", "HarmonyOS"),
    ("KaiOS", "KaiOS"),
    ("Tizen", "Tizen"),
)

# A television says so; a tablet is an iPad, says so, or is an Android that is not "Mobile".
_TV = re.compile(
    r"smart-?tv|appletv|apple tv|googletv|hbbtv|\btv safari|bravia|\broku|crkey|\baft[a-z]+\b|webos|netcast"
)
_TABLET = re.compile(r"ipad|tablet|kindle|silk/(?!.*mobile)|playbook|android(?!.*mobi)")
_PHONE = re.compile(r"mobi|iphone|ipod|android|windows phone|blackberry|opera mini|symbian")
_DESKTOP = re.compile(r"windows|macintosh|mac os x|linux|cros|x11|freebsd|openbsd|netbsd")


class Agent(NamedTuple):
    """What is kept of a user agent."""

    browser: str
    os: str
    device: str


NO_AGENT = Agent("", "", "")


class AgentReader:
    """Reads agents with the library's patterns for browsers and systems."""

    def __init__(self) -> None:
        # 2 MB before the patterns are read: a server that reads no agents is spared both.
        from ua_parser import Domain, Parser
        from ua_parser.loaders import load_builtins
        from ua_parser.regex import Resolver

        browsers, systems, _ = load_builtins()
        self._parse = Parser(Resolver((browsers, systems, [])))
        self._wanted = Domain.USER_AGENT | Domain.OS

    def read(self, agent: str) -> Agent:
        """Returns what this user agent says."""
        text = agent[:AGENT_CHARACTERS].strip()
        if not text or text == "-":
            return NO_AGENT
        parsed = self._parse(text, self._wanted)
        browser = parsed.user_agent.family if parsed.user_agent else ""
        system = parsed.os.family if parsed.os else ""
        return Agent(_family(browser, _BROWSERS), _family(system, _SYSTEMS), device_of(text))


def _family(name: str, families: tuple[tuple[str, str], ...]) -> str:
    return next((family for start, family in families if name.startswith(start)), OTHER)


def device_of(agent: str) -> str:
    """Returns the kind of device that an agent names: phone, tablet, desktop, tv or other."""
    text = agent.lower()
    for pattern, device in ((_TV, TV), (_TABLET, TABLET), (_PHONE, PHONE), (_DESKTOP, DESKTOP)):
        if pattern.search(text):
            return device
    return OTHER
