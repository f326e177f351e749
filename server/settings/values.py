"""Values of settings as text: each function returns what a text means, or raises Broken with the rule."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, CAP_MOST
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.errors import ClickcurveError, LadderInvalid, ParameterInvalid, SettingInvalid
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.measures import EVENT_RULE, EVENTS, is_event_name
from clickcurve.keys import KEY_BYTES
from clickcurve.limiter.http.address import addresses
from ingest.attributes.bot_rules import BotRuleInvalid, agent_rule, network_rule, ref_rule
from ingest.attributes.dimensions import dimensions_of
from ingest.attributes.referrer import host_of
from query.zones import zone
from storage.cassandra import uri

# Other products whose events are taken (`server.compat.foreign.doors`), and lines of logs (`server.compat.log_lines`).
PATTERNS = 100
DOORS = "matomo", "umami", "plausible", "goatcounter", "posthog", "segment", "dub", "logs"
ON_DISK, IN_CLUSTER = JOURNALS = "disk", "cluster"
LEAST_TOKEN = 16  # characters of a token that people choose
CAPS = len(BREAKDOWN.caps)
CAPS_RULE = f"must be {CAPS} whole numbers from 1 to {CAP_MOST:,}: values a bucket keeps by hour, day, week and month"

KEEP_LEAST, KEEP_MOST = BREAKDOWN.ladder.tiers[0].kept_days or 0, 36_500
KEEP_RULE = (
    f"must be dimensions with a number of days from {KEEP_LEAST} to {KEEP_MOST:,}, such as ref=400d, with commas"
    " between several"
)


class Broken(ValueError):
    """The rule that a value breaks, as the end of a sentence: "must be ..."."""


def not_empty(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise Broken("must not be empty")
    return text


def anything(text: str) -> str:
    return text


def admin_token(text: str) -> str:
    if text and (len(text) < LEAST_TOKEN or not text.isascii() or not text.isprintable() or " " in text):
        raise Broken(f"must be at least {LEAST_TOKEN} visible ASCII characters")
    return text


def file_path(text: str) -> Path:
    return Path(not_empty(text)).expanduser()


def maybe_file_path(text: str) -> Path | None:
    return file_path(text) if text else None


def maybe_ladder(text: str) -> Ladder | None:
    try:
        return Ladder.parse(text) if text.strip() else None
    except LadderInvalid as error:
        raise Broken(f"must be a ladder: {error.detail}") from None


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        rule = f"must be a whole number from {least} to {most}"
        try:
            number = int(text) if text.strip().lstrip("-").isascii() and "_" not in text else least - 1
        except ValueError:
            raise Broken(rule) from None
        if not least <= number <= most:
            raise Broken(rule)
        return number

    return parse


def zero_or_from(least: int, most: int) -> Callable[[str], int]:
    """Reads 0, which switches something off, or a whole number of the range."""
    in_range = whole_number(least, most)

    def parse(text: str) -> int:
        try:
            return 0 if text.strip() == "0" else in_range(text)
        except Broken:
            raise Broken(f"must be 0, or a whole number from {least} to {most}") from None

    return parse


_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def on_or_off(text: str) -> bool:
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise Broken("must be on or off") from None


def store_uri(text: str) -> str:
    if text and not text.startswith(("sqlite:///", "cassandra://", "memory://")):
        raise Broken("must begin with sqlite:///, cassandra:// or memory://")
    if text.startswith("cassandra://"):
        uri.parse(text)  # its own sentence, which shows no password
    return text


def redis_url(text: str) -> str:
    schemes = ("redis://", "rediss://", "unix://", "redis+sentinel://", "redis+cluster://", "rediss+cluster://")
    if text and not text.startswith(schemes):
        raise Broken(f"must begin with {', '.join(schemes[:-1])} or {schemes[-1]}")
    return text


def memcached_servers(text: str) -> str:
    """Checks `host:port,host:port`; an IPv6 address stands in brackets."""
    for part in text.split(",") if text else ():
        _host_and_port(part, "must be host:port, with commas between several")
    return text


def _host_and_port(text: str, rule: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise Broken(rule)
    return host, int(port)


def networks(text: str) -> str:
    try:
        addresses(text)
    except ClickcurveError as error:
        raise Broken(f"must be {error.rule}: {error.detail}") from None
    return text


def one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise Broken("must be one of " + ", ".join(choices))
        return text

    return parse


def server_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise Broken("must begin with http:// or https://")
    if parts_of_url(text) is None:
        raise Broken("must name a host, and perhaps a port, as http://127.0.0.1:8080 does")
    return text.rstrip("/")


def parts_of_url(text: str) -> SplitResult | None:
    """Returns the parts of a URL; None if it names no host, or a port that is none."""
    try:
        parts = urlsplit(text)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:  # half of an address in brackets, a port that is no number
        return None


def maybe_address(text: str) -> tuple[str, int] | None:
    """Reads `host:port`; an IPv6 address stands in brackets."""
    if not text:
        return None
    host, port = _host_and_port(text, "must be host:port, such as 127.0.0.1:8125")
    return host.removeprefix("[").removesuffix("]"), port


_MAIL = re.compile(r"[^\s@,;<>\x00-\x1f]+@[^\s@,;<>\x00-\x1f]+")


def _parts(text: str) -> tuple[str, ...]:
    """Returns what stands between commas; nothing of a text without any."""
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def mail_addresses(text: str) -> tuple[str, ...]:
    """Reads mail addresses with commas between them."""
    parts = _parts(text)
    if not all(map(_MAIL.fullmatch, parts)) or not text.isprintable():
        raise Broken("must be mail addresses such as ann@example.org, with commas between several")
    return parts


def smtp_server(text: str) -> str:
    """Checks `smtp://clickcurve@host:587` or `smtps://host`; a password in it would be shown."""
    parts = parts_of_url(text)
    if text and (parts is None or parts.scheme not in ("smtp", "smtps") or parts.password):
        raise Broken("must be smtp://clickcurve@host:587 or smtps://host, and the password in smtp_password")
    return text


_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\]")
_ORIGIN = re.compile(r"https?://([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


def host_names(text: str) -> tuple[str, ...]:
    """Reads names and addresses as `Host` has them, without a port."""
    return _listed(text, _HOST, "must be names such as clicks.example.org, without a port, with commas between several")


def web_origins(text: str) -> tuple[str, ...]:
    """Reads origins as browsers send them, or `*`."""
    if text.strip() == "*":
        return ("*",)
    return _listed(text, _ORIGIN, "must be * or origins such as https://www.example.org, with commas between several")


def _listed(text: str, shape: re.Pattern[str], rule: str) -> tuple[str, ...]:
    parts = _parts(text.lower())
    if not all(map(shape.fullmatch, parts)):
        raise Broken(rule)
    return parts


def dimensions(text: str) -> tuple[str, ...]:
    """Reads names of dimensions with commas between them; none, or `off`, is none."""
    if text.strip().lower() in ("", "off"):
        return ()
    try:
        return dimensions_of([part.strip() for part in text.split(",")])
    except SettingInvalid as error:
        rule = f": {error.rule}" if error.rule else ""
        raise Broken(f"must be known names, each once ({error.detail}){rule}") from None


def events(text: str) -> tuple[str, ...]:
    """Reads names of events with commas between them."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if len(names) > EVENTS or len(set(names)) < len(names) or not all(map(is_event_name, names)):
        raise Broken(f"must be at most {EVENTS} names, each once, and each {EVENT_RULE}")
    return tuple(names)


def caps(text: str) -> tuple[int, ...]:
    """Reads how many values a bucket of each tier of breakdowns keeps."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != CAPS or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        raise Broken(CAPS_RULE)
    numbers = tuple(map(int, parts))
    if not 1 <= min(numbers) <= max(numbers) <= CAP_MOST:
        raise Broken(CAPS_RULE)
    return numbers


def kept_times(text: str) -> tuple[KeptTime, ...]:
    """Reads for how many days dimensions keep their values, with commas between them."""
    times = []
    for part in _parts(text):
        name, _, days = (piece.strip() for piece in part.partition("="))
        number = days.removesuffix("d")
        if not (number.isascii() and number.isdigit() and KEEP_LEAST <= int(number[:6]) <= KEEP_MOST):
            raise Broken(KEEP_RULE)
        times.append(KeptTime(name, int(number)))
    names = tuple(time.dimension for time in times)
    if dimensions(",".join(names)) != names:
        raise Broken(KEEP_RULE)
    return tuple(times)


def _bot_rules(parse: Callable[[str], object]) -> Callable[[str], tuple[str, ...]]:
    """Returns what reads rules for bots of one kind, with commas between them."""

    def texts_of(text: str) -> tuple[str, ...]:
        parts = _parts(text)
        try:
            for part in parts:
                parse(part)
        except BotRuleInvalid as error:
            raise Broken(str(error)) from None
        return parts

    return texts_of


bot_refs, bot_networks, bot_agents = map(_bot_rules, (ref_rule, network_rule, agent_rule))


def bot_files(text: str) -> tuple[Path, ...]:
    """Reads names of files with commas between them."""
    paths = tuple(map(file_path, _parts(text)))
    if not all(path.is_file() for path in paths):
        raise Broken("must name files that are there, with commas between several")
    return paths


def doors(text: str) -> tuple[str, ...]:
    """Reads names of other products, with commas between them."""
    parts = () if text.strip() == "none" else _parts(text)
    if unknown := [part for part in parts if part not in DOORS]:
        raise Broken(f"{unknown[0]!r} is no door; known: {', '.join(DOORS)}, or none")
    return parts


def key_patterns(text: str) -> tuple[str, ...]:
    """Reads patterns of keys with commas between them."""
    parts = _parts(text)
    if len(parts) > PATTERNS or not all(0 < len(part) <= KEY_BYTES for part in parts):
        raise Broken(f"must be at most {PATTERNS} patterns of keys such as go/*, with commas between several")
    return parts


def own_hosts(text: str) -> tuple[str, ...]:
    """Reads hosts in any spelling that a referrer may have, with commas between them."""
    parts = _parts(text)
    if not all(host_of(part) and "/" not in part for part in parts):
        raise Broken("must be names such as clicks.example.org, with commas between several")
    return parts


def ref_aliases(text: str) -> bool | Path:
    """Reads whether hosts of one site are kept as that site; a file names further sites."""
    if text.strip().lower() in _WORDS:
        return on_or_off(text)
    path = file_path(text)
    if not path.is_file():
        raise Broken("must be on, off, or a file of lines such as `site.example: m.site.example, sit.example`")
    return path


def time_zone(text: str) -> str:
    try:
        return zone(text).name
    except ParameterInvalid as error:
        raise Broken(f"must be {error.rule}") from None


def country_data(text: str) -> str:
    if text not in ("builtin", "off") and not file_path(text).is_file():
        raise Broken("must be builtin, off, or a file in MaxMind's format that is there")
    return text


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach the host. A name other than localhost may point anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
