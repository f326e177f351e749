"""Reads browser, operating system and kind of device from a user agent. The agent itself is never kept.

The library `ua-parser` knows some hundred browsers and fifty systems; what is kept are the families that people know,
so that a link's list of browsers fits a screen. All others are `other`; an agent that says nothing is "".
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

OTHER = "other"
AGENT_CHARACTERS = 1_024  # an agent is read by its first characters only: real ones are shorter

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
    ("QQ Browser", "QQ Browser"),
    ("Baidu", "Baidu"),
    ("Ecosia", "Ecosia"),
    ("Whale", "Whale"),
    ("Huawei Browser", "Huawei Browser"),
    ("MiuiBrowser", "MIUI Browser"),
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

# Apps that open a link in a browser of their own, which is their system's by its name.
_APPS: Final = (
    ("Messenger", r"\bFBAN/Messenger|\bFB_IAB/Orca|MetaIAB Messenger"),
    ("Instagram", r"\bInstagram\b"),
    ("Threads", r"\bBarcelona \d"),
    ("Facebook", r"\bFBA[NV]/|\bFB_IAB/|MetaIAB Facebook"),
    ("TikTok", r"\bmusical_ly|\btrill_|BytedanceWebview|\bTikTok\b"),
    ("Snapchat", r"\bSnapchat/"),
    ("X", r"\bTwitter for |\bTwitterAndroid\b"),
    ("LinkedIn", r"\bLinkedInApp\b"),
    ("Pinterest", r"\bPinterest/"),
    ("Reddit", r"\bReddit/"),
    ("LINE", r"\bLine/\d"),
    ("WeChat", r"\bMicroMessenger/"),
    ("KakaoTalk", r"\bKAKAOTALK\b"),
    ("WhatsApp", r"\bWhatsApp/"),
    ("Telegram", r"\bTelegram-"),
    ("Viber", r"\bViber/"),
    ("Slack", r"\bSlack/|\bSlack_SSB/"),
    ("Discord", r"\bdiscord/"),
    ("Teams", r"\bTeams/"),
    ("Google app", r"\bGSA/"),
    ("Weibo", r"\bWeibo\b"),
    ("QQ", r"\bQQ/"),
    ("Baidu", r"\bbaiduboxapp/"),
    ("Naver", r"\bNAVER\("),
    ("Zalo", r"\bZalo\b"),
    ("VK", r"\bVKAndroidApp|\bVK/"),
)
_APP = re.compile("|".join(f"({pattern})" for _, pattern in _APPS))

# A television says so, in a word that ends in "tv" (phones end in "dtv" and begin with "letv") or by its maker's name
# for one; Palm's phones run a webOS, too. A tablet is an iPad, says so, or is an Android that is not "Mobile". Windows
# says "Tablet PC" on any computer with a pen.
_TV = re.compile(
    r"(?<!le)(?<!d)tv\b|\btv|tv_|_tv|tvos|\(dtv|sonydtv|smart-?tv|googletv|appletv|bravia|\bviera|\broku|crkey"
    r"|chromecast|\baft[a-z]{1,4}\d*\b|web[o0]s(?!/\d.* pre/|.*p160u)|netcast|ce-html|hybridcast|nexus player"
    r"|\bmi ?box|\bstb\b|inettvbrowser|vizio"
)
_TABLET = re.compile(r"ipad|tablet(?! pc)|kindle|silk/(?!.*mobile)|playbook|^(?!.*mobi).*android")
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
        family = parsed.user_agent.family if parsed.user_agent else ""
        system = parsed.os.family if parsed.os else ""
        app = _APP.search(text)
        browser = _family(family, _BROWSERS) if app is None else _APPS[(app.lastindex or 1) - 1][0]
        return Agent(browser, _family(system, _SYSTEMS), device_of(text))


def _family(name: str, families: tuple[tuple[str, str], ...]) -> str:
    return next((family for start, family in families if name.startswith(start)), OTHER)


def device_of(agent: str) -> str:
    """Returns the kind of device that an agent names: phone, tablet, desktop, tv or other."""
    text = agent.lower()
    for pattern, device in ((_TV, TV), (_TABLET, TABLET), (_PHONE, PHONE), (_DESKTOP, DESKTOP)):
        if pattern.search(text):
            return device
    return OTHER
