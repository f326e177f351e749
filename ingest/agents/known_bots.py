"""The patterns by which agents of bots are known, each with its bots' kind and name.

Three sources, in this order, for the first that knows an agent names it:

- NAMED: bots that look like browsers, or are in no list, kept here;
- the libraries `crawler-user-agents` and `crawlerdetect`, both under the MIT licence, as they are but for LEFT_OUT;
- WORDS: signs of any program, such as an address.

Case is ignored in all. `make lock` renews the libraries; the tests of people and of bots in
`tests/ingest/agents/` then say what changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

AI_CRAWLER, AI_ASSISTANT, SEARCH, PREVIEW = "ai_crawler", "ai_assistant", "search", "preview"
MONITOR, SCANNER, FEED, LIBRARY, OTHER_BOT = "monitor", "scanner", "feed", "library", "other_bot"
RULE = "rule"  # taken by a rule of the operator, whatever its agent


class KnownBot(NamedTuple):
    """A pattern of re2, and the kind and name of the bots that it finds. No name: it is read from the agent."""

    pattern: str
    kind: str
    name: str = ""


# Bots by kind: a name, and a pattern; a name may have several.
NAMED: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    PREVIEW: (
        # What Office asks before it hands a link to the browser, so that a click would be two.
        ("Microsoft Office", r"\bms-office\b|microsoft office existence|microsoft office/\d"),
        ("Microsoft Office", r"microsoft office (?:\w+ )*(?:discovery|20\d\d)"),
        ("Microsoft Office", r"microsoft (?:data access|url control)"),
        ("Microsoft Office", r"microsoft-webdav|macoutlook/|\) (?:word|excel|powerpoint)/\d"),
        ("Bluesky Cardyb", r"bluesky cardyb"),
        ("Zulip", r"zulip(?:urlpreview|server)"),
        ("WhatsApp", r"^whatsapp/[\d.]+(?:[ /][a-z])?$"),
        ("Viber", r"viberurldownloader|^viber$"),
        ("Google Messages", r"googlemessages/"),
        ("Misskey", r"\b(?:misskey|calckey|firefish|sharkey|iceshrimp|foundkey|cherrypick)/"),
        ("Pleroma", r"\b(?:pleroma|akkoma)\b"),
        ("Fediverse", r"\b(?:pixelfed|peertube|gotosocial|bookwyrm|writefreely|hometown|activitypub)\b"),
        ("Nextcloud", r"nextcloud server"),
        ("Rocket.Chat", r"^rocket\.?chat"),
    ),
    MONITOR: (
        ("Elastic Load Balancing", r"elb-healthchecker"),
        ("Route 53", r"amazon-route53-health-check"),
        ("Google Cloud probe", r"googlehc/|googlestackdrivermonitoring"),
        ("Kubernetes probe", r"kube-probe/"),
        ("Azure Traffic Manager", r"azure traffic manager"),
        ("Cloudflare", r"cloudflare-(?:healthchecks|traffic-manager)|cloudflareobservatory"),
        ("WebPageTest", r"\bptst[ /]\d|\bptst/speedcurve"),
        ("Neustar", r"neustar wpm"),
        ("Catchpoint", r"\bcatchpoint\b"),
        ("Google PageSpeed", r"google page speed|chrome-lighthouse"),
        ("Dynatrace", r"ruxitsynthetic|dynatracesynthetic"),
        ("DebugBear", r"\bdebugbear\b"),
        ("DareBoost", r"\bdareboost\b"),
        ("Prometheus", r"^prometheus/|blackbox.exporter"),
    ),
    SCANNER: (
        ("Kaspersky", r"kaspersky lab"),
        ("injection", r"\$\{jndi:|\bload_file\(|pg_sleep\(|union (?:all )?select|\boast\.\w+"),
        ("injection", r"burpcollaborator|<script"),
    ),
    LIBRARY: (
        ("ApacheBench", r"apachebench/"),
        ("Guzzle", r"guzzlehttp"),
        ("Java", r"^java(?:/|\d)"),
        ("libwww-perl", r"\blibwww-perl|^lwp[:-]"),
        ("gRPC", r"^grpc-"),
        ("WinHTTP", r"winhttp"),
        ("load test", r"\bk6/|\bwrk/|\bhey/|\bvegeta|\bjmeter|\bgatling|\blocust\b"),
        ("load test", r"\bsiege/|\bbombardier|\bfortio"),
    ),
    AI_ASSISTANT: (("Manus", r"manus-user"),),
    OTHER_BOT: (
        ("Google", r"googleother|google (?:favicon|search console|keyword suggestion|web preview)"),
        ("Google", r"google-(?:amphtml|adwords|ads|businesslink)"),
        ("Google", r"duplexweb-google|google-read-aloud|googleweblight"),
        ("pageburst", r"\bpageburst\b"),
    ),
}
# What programs of any maker write into their agents, by kind; the name is read from the agent.
WORDS: Final[tuple[tuple[str, str], ...]] = (
    (PREVIEW, r"(?:^|[^r])preview|unfurl|onebox|oembed|opengraph|og[- ]?scrap"),
    (MONITOR, r"monitor(?:ing|ed)?\b|uptime|pinger\b|health[- _]?check|\bprobe\b|synthetic\b|speed ?test|sitespeed"),
    (SCANNER, r"(?:^|[^m])scan(?:s|ner|ning)?\b|vulnerab|(?:^|[^-\w])security\b|phish|pentest|virus ?total|antivirus"),
    (SCANNER, r"nuclei\b|nikto|sqlmap|\bnmap\b|masscan|zgrab"),
    (FEED, r"(?:^|[^0-9a-f])feed|\brss\b|podcatcher|\bpodcasts?\b|\d (?:subscribers?|readers?)\b"),
    (
        LIBRARY,
        r"http[- _]?client|http[- ]?lib|^(?:curl|wget|python|ruby|perl|php|java|node|go|rust|dart|lua)\b|\blibcurl"
        r"|python-|node-fetch|node\.js|go-http|okhttp|\baxios/|\bundici|guzzle|aiohttp|\bhttpx/|requests?/\d|\bphp/\d"
        r"|headless|phantomjs|selenium|puppeteer|playwright|webdriver|cypress/|\bnightmare\b|html parser",
    ),
    # `bot` ends a word or stands before what is no letter; a letter before it is part of a name, as in FooBot.
    (OTHER_BOT, r"bots?\b|bot[_\d]|robot|crawl|spider|spyder|scrap(?:e|es|er|y|ing)\b|slurp|harvest|archiv"),
    (OTHER_BOT, r"index(?:er|ing)\b|fetch(?:er|or|ing)?\b|check(?:er|ing)?\b|valid(?:ator|ation)\b"),
    (OTHER_BOT, r"extract(?:or|ion)\b"),
    (OTHER_BOT, r"analy[sz](?:er|ers|ing)\b|inspect(?:or|ion)|screenshot|thumbnail|classifier\b|download(?:er|ing)\b"),
    (OTHER_BOT, r"link ?(?:check|test|tester|resolver)|urltest|\bips-agent"),
    # An address of a page or of mail. Numbers behind the sign are a version: `Ecosia android@101.0`.
    (OTHER_BOT, r"https?:|\bwww\.|\bmailto:|[\w.+-]@[a-z0-9-]+\.[a-z]|[a-z0-9] at [a-z-]+ dot [a-z]"),
)
# Patterns of the libraries that people carry, or that are too wide; what they mean is in NAMED and WORDS. A pattern
# that leaves its library fails a test.
LEFT_OUT: Final = frozenset(
    (
        r"AP3A\.240617\.008",  # the build of each phone of two makers with Android 15
        "MetaIAB Facebook",  # Facebook's browser for links
        "Sonic",  # a word of Slack's desktop and of makers of televisions
        r"Slack\/",
        "Sogou",  # the browser; the spider has `spider` in its name
        "Viber",
        "WhatsApp",  # also the application's own agent, which names a device
        "AndroidDownloadManager",
        "Butterfly",
        r"008\/",  # in numbers of versions
        r"PodcastAddict\/",
        # programs for people, whose links' cards are fetched under other names
        r"Notion\/",
        "mattermost",
        "NextCloud",
        r"Polymail\/",
        r"Code\/1\.",
        "Seznam",  # the browser; the bots are SeznamBot and SeznamHomepageCrawler
        r"Ant\.com",  # a toolbar
        "LibVLC",
        "LibWeb",  # the engine of a browser
        # what toolbars and add-ons write into the agents of browsers, and words that people write there
        "StumbleUpon",
        "PeoplePal",
        "QQDownload",
        "Webster",
        "lycos",
        "Screaming",
        "updated",
        "Microsoft Outlook",  # a mail's page, opened
        "Fluid",  # also a maker's name for a phone
        "Outlook-iOS",
        r"^Mail\/",
        r"Reeder\/",
        "speedy",
        "NetworkingExtension",  # Apple's web views in extensions
        "libwww",  # in Lynx and Mosaic
        "Microsoft Office",  # Office on a Mac or a tablet
        r"Excel\/",
        r"Word\/",
        r"PowerPoint\/",
    )
)
_KIND_OF_TAG: Final = {
    "ai-crawler": AI_CRAWLER,
    "search-engine": SEARCH,
    "social-preview": PREVIEW,
    "monitoring": MONITOR,
    "scanner": SCANNER,
    "feed-reader": FEED,
    "http-library": LIBRARY,
    "browser-automation": LIBRARY,
}
# What fetches a page because a person asked for an answer just now, by names that the library calls crawlers.
_OF_ASSISTANTS = re.compile(
    r"-?User\b|Assist|NotebookLM|Deep-Research|Mariner|Gemini-CLI|Google-Agent|BuyForMe|AgentCore|TwinAgent|externalfetcher"
)
_WORD_KINDS: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in WORDS)

# What a name leaves out of a pattern: anchors and groups, classes of letters but for one, escapes.
_GAP = re.compile(r"\[\\s\\S\]\*")
_LETTERS = re.compile(r"\[(\w)\w*\]")
_EDGE = re.compile(r"\(\^\| \)|\(\[\^-\]\|\$\)|[\^$]")
_CHOICE = re.compile(r"\((\w+)(?:\|\w+)*\)")
# A pattern without alternatives, repetition and the like, which most are.
_PLAIN = re.compile(r"(?:[\w /!,:&@%~<>=';-]|\\[^\w])+")
_READABLE = re.compile(r"[A-Za-z0-9][\w .,:/+&!'-]*")


def name_of(pattern: str) -> str:
    """Returns the name that a pattern of a library stands for: `Googlebot` for `Googlebot\\/`; "" for none to read."""
    text = _CHOICE.sub(r"\1", _EDGE.sub("", _LETTERS.sub(r"\1", _GAP.sub(" ", pattern))))
    text = text.replace("\\", "").partition("|")[0].strip(" /()")
    return text if _READABLE.fullmatch(text) else ""


def words_of(pattern: str) -> bytes:
    """Returns a pattern of a library as text in lower case; b"" if it is more than words."""
    return pattern.replace("\\", "").lower().encode() if _PLAIN.fullmatch(pattern) else b""


def has_words(words: bytes, text: bytes) -> bool:
    """Returns whether a text holds these words, and no letter beside makes them longer: `sonic` not in `panasonic`."""
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        is_begun = start > 0 and words[:1].isalpha() and text[start - 1 : start].isalpha()
        if not (is_begun or (words[-1:].isalpha() and text[end : end + 1].isalpha())):
            return True
        start = text.find(words, start + 1)
    return False


def named_bots() -> list[KnownBot]:
    """Lists the bots of NAMED."""
    return [KnownBot(pattern, kind, name) for kind, bots in NAMED.items() for name, pattern in bots]


def bots_by_words() -> list[KnownBot]:
    """Lists what WORDS says."""
    return [KnownBot(pattern, kind) for kind, pattern in WORDS]


def listed_bots() -> list[KnownBot]:
    """Lists the bots of the libraries; their patterns are meant as whole words."""
    # 40 ms and 3 MB, which only what judges agents is to pay.
    from crawlerdetect.providers.crawlers import data as detected
    from crawleruseragents import CRAWLER_USER_AGENTS_DATA

    tags_of = {entry["pattern"]: entry["tags"] for entry in CRAWLER_USER_AGENTS_DATA}
    patterns = [*tags_of, *(pattern for pattern in detected if pattern not in tags_of)]
    return [
        KnownBot(pattern, _kind_of(name_of(pattern), tags_of.get(pattern, ())), name_of(pattern))
        for pattern in patterns
        # re2 has no look ahead, and the widest pattern is what WORDS says with more care.
        if pattern not in LEFT_OUT and "(?!" not in pattern and "bot|crawl" not in pattern
    ]


def _kind_of(name: str, tags: Sequence[str]) -> str:
    """Returns the kind of a library's bot by its tags, else by what its name says."""
    if _OF_ASSISTANTS.search(name):
        return AI_ASSISTANT
    kind = next((_KIND_OF_TAG[tag] for tag in tags if tag in _KIND_OF_TAG), None)
    return kind or next((kind for kind, words in _WORD_KINDS if words.search(name)), OTHER_BOT)
