"""The settings: each is one field of `Settings`, with its row of the table.

A setting has one name. As a flag it is `--journal-mib`, in the environment `CLICKCURVE_JOURNAL_MIB`, in the TOML file
`journal_mib`. Parts of the program get values; `reading` alone knows where a value comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.few_hits import LEAST
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.ladder import LADDERS, Ladder
from clickcurve.buckets.measures import EVENTS
from clickcurve.hosts import CHOICES
from clickcurve.limiter.http.address import HEADERS
from clickcurve.limiter.http.headers import DIALECTS
from clickcurve.limiter.rule import Rule
from ingest.attributes.dimensions import DIMENSION_RULE
from ingest.buffer import BUFFER_BYTES
from ingest.journal.disk_journal import MAX_BYTES, STALL_S
from query.zones import zone
from server.settings import values
from server.settings.alerts import Alert
from server.settings.events import NO_UNIT, Unit
from server.settings.reports import Report
from server.settings.sites import Site
from server.settings.values import KEEP_LEAST

PREFIX = "CLICKCURVE_"
MAX_WORKERS = 64
JOURNAL_MIB = MAX_BYTES // 1024 // 1024
BUFFER_MIB = BUFFER_BYTES // 1024 // 1024
HEAD_S = 30
SLOWEST_BYTES_S = 256  # a phone on 2G is ten times as fast
ADDRESS_CONNECTIONS = 1_000
KEY_CASES, TRAILING_SLASHES = ("kept", "lower"), ("kept", "dropped")
RELOADED = "bots_"  # SIGHUP replaces the settings whose names begin so


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `side` names its user: the server, or the client (commands that ask a server)."""

    name: str
    default: str
    parse: Callable[[str], Any]
    help: str
    shown: str  # what the help calls its value; empty for a flag without a value
    side: str = "server"
    secret: bool = False

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def is_bare(self) -> bool:
        """Whether it is a flag without a value."""
        return not self.shown


def _row(default: str, parse: Callable[[str], Any], about: str, shown: str, **more: Any) -> Any:
    """Returns a field of `Settings` with its row of the table; parameters as of `Setting`, whose help is `about`."""
    return field(metadata={"default": default, "parse": parse, "help": about, "shown": shown, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, parsed; the fields with metadata are the table, in its order.

    origins: where each value came from, by name. rules: the limiter's. event_units: how values of events are shown, by
    event. matomo_sites: by the number of the site. again: reads everything once more, since the file may have changed.
    """

    data: Path = _row(
        "./clickcurve-data",
        values.file_path,
        "Folder for the journal, the tokens and, by default, the database.",
        "DIR",
    )
    host: str = _row(
        "127.0.0.1",
        values.not_empty,
        "Address to listen on. An address that other machines reach needs tokens, or --insecure.",
        "ADDRESS",
    )
    port: int = _row(
        "8080", values.whole_number(0, 65_535), "Port to listen on; 0 takes a free port and logs it.", "PORT"
    )
    store: str = _row(
        "",
        values.store_uri,
        "Where rows are kept: sqlite:///FILE, cassandra://host,host:9042/keyspace, or memory:// for nothing on "
        "disk. Default: clickcurve.db in the data folder.",
        "URI",
    )
    journal: str = _row(
        values.ON_DISK,
        values.one_of(values.JOURNALS),
        "Where hits are kept until they are in the rows: disk, in the data folder; or cluster, with cassandra:// "
        "only, on no disk of this machine.",
        "PLACE",
    )
    config: Path | None = _row("", values.maybe_file_path, "TOML file with settings, by their names.", "FILE")
    workers: int = _row(
        "1", values.whole_number(1, MAX_WORKERS), "Worker processes on one port; each has its own journal.", "N"
    )
    insecure: bool = _row(
        "off",
        values.on_or_off,
        "Listen where other machines can connect, without tokens: anybody can write and read.",
        "",
    )
    admin_token: str = _row(
        "",
        values.admin_token,
        "A token of scope admin, to make others with. Best set by its variable, on the first day.",
        "TOKEN",
        secret=True,
    )
    tokens_file: Path | None = _row(
        "",
        values.maybe_file_path,
        "JSON file with further tokens, such as a mounted secret. It is read again when it changes.",
        "FILE",
    )
    flush_s: int = _row("15", values.whole_number(1, 3_600), "Seconds between flushes.", "SECONDS")
    drain_s: int = _row(
        "0",
        values.whole_number(0, 300),
        "Seconds to serve on after SIGTERM, while /readyz answers 503 so that balancers send no more. SIGINT stops at "
        "once.",
        "SECONDS",
    )
    clock_settle_s: int = _row(
        "600",
        values.whole_number(0, 86_400),
        "Seconds that the system's clock must have held a new time before hits are stamped by it; 0 follows at once.",
        "SECONDS",
    )
    sync: bool = _row(
        "on",
        values.on_or_off,
        "Sync the journal to the disk before each answer. off is faster, but a crash of the machine loses the hits "
        "of the last seconds. A crash of the program alone loses nothing.",
        "on|off",
    )
    journal_mib: int = _row(
        str(JOURNAL_MIB),
        values.whole_number(4, 1_048_576),
        "Largest size of one journal, in MiB. When it is full, hits are answered 503.",
        "MIB",
    )
    journal_stall_s: int = _row(
        str(int(STALL_S)),
        values.whole_number(1, 300),
        "Seconds that a write of the journal on a disk may take. While one takes longer, hits are answered 503 and "
        "/readyz too.",
        "SECONDS",
    )
    buffer_mib: int = _row(
        str(BUFFER_MIB),
        values.whole_number(8, 1_048_576),
        "Memory of each worker for hits that are not in the store yet, and for their flush, in MiB. When it is "
        "full, hits are answered 429.",
        "MIB",
    )
    ladder: Ladder | None = _row(
        "",
        values.maybe_ladder,
        f"Bucket widths of a new store: {' or '.join(LADDERS)}, or a list of tiers. An existing store keeps its "
        f"own. Default: {next(iter(LADDERS))}.",
        "LADDER",
    )
    limits_redis: str = _row(
        "", values.redis_url, "Redis for the limiter's rules that use it: redis://host:6379/0.", "URL", secret=True
    )
    limits_memcached: str = _row(
        "", values.memcached_servers, "memcached servers for the limiter's rules that use them.", "HOST:PORT,..."
    )
    limits_timeout_ms: int = _row(
        "100", values.whole_number(1, 60_000), "Milliseconds to wait for Redis or memcached.", "MS"
    )
    limits_headers: str = _row(
        "x", values.one_of(DIALECTS), f"Style of the rate limit headers: {', '.join(DIALECTS)}.", "NAME"
    )
    trusted_proxies: str = _row(
        "",
        values.networks,
        "Networks of your own proxies. Only their requests may name another client address.",
        "NETWORKS",
    )
    proxy_header: str = _row(
        HEADERS[0],
        values.one_of(HEADERS),
        f"Header in which your proxies name the client: {' or '.join(HEADERS)}.",
        "NAME",
    )
    ipv6_prefix: int = _row(
        "64",
        values.whole_number(1, 128),
        "The limiter counts all IPv6 addresses with the same first N bits as one client.",
        "N",
    )
    allowed_hosts: tuple[str, ...] = _row(
        "",
        values.host_names,
        "Host names that requests may use while there are no tokens. localhost is always allowed.",
        "NAMES",
    )
    cors_origins: tuple[str, ...] = _row(
        "", values.web_origins, "Web sites whose pages may call the server from a browser; * for all.", "ORIGINS"
    )
    head_s: int = _row(
        str(HEAD_S), values.whole_number(1, 3_600), "Seconds a client may take to send a request's head.", "SECONDS"
    )
    slowest_bytes_s: int = _row(
        str(SLOWEST_BYTES_S),
        values.whole_number(0, 1_000_000),
        "Slowest client, in bytes a second over one minute, both for sending a body and for reading an answer. "
        "0: one byte a minute is enough.",
        "BYTES",
    )
    address_connections: int = _row(
        str(ADDRESS_CONNECTIONS),
        values.whole_number(0, 1_000_000),
        "Connections that one address may have open to a worker; 0 for any number. This machine and "
        "trusted_proxies are not counted.",
        "N",
    )
    hosts: str = _row(
        CHOICES[0],
        values.one_of(CHOICES),
        "What the key of an address says of its host, in access logs, events, bitlinks and takeovers: ignored, or "
        "in_key, which puts it before the path.",
        "NAME",
    )
    key_case: str = _row(
        KEY_CASES[0],
        values.one_of(KEY_CASES),
        "Whether keys that differ by case alone are links of their own: kept, or lower, which counts them as one.",
        "NAME",
    )
    trailing_slash: str = _row(
        TRAILING_SLASHES[0],
        values.one_of(TRAILING_SLASHES),
        "Whether a slash at the end of a key makes another link: kept, or dropped, which counts them as one.",
        "NAME",
    )
    group_by_host: bool = _row(
        "off",
        values.on_or_off,
        "With hosts = in_key: also count each hit in the group of its host.",
        "on|off",
    )
    breakdown_dimensions: tuple[str, ...] = _row(
        "ref,country,device,source,channel",
        values.dimensions,
        f"Dimensions to break hits down by; off for none. One or more of: {DIMENSION_RULE}. "
        "By default a store that was made without channel stays without it.",
        "NAMES",
    )
    breakdown_caps: tuple[int, ...] = _row(
        ",".join(map(str, BREAKDOWN.caps)),
        values.caps,
        "How many values of a dimension are kept for each link: in an hour, a day, a week and a month.",
        "N,N,N,N",
    )
    breakdown_keep: tuple[KeptTime, ...] = _row(
        "",
        values.kept_times,
        f"Dimensions whose values are kept for a time only: ref=400d,country=90d. From {KEEP_LEAST} days on.",
        "NAME=DAYS,...",
    )
    breakdown_own_hosts: tuple[str, ...] = _row(
        "", values.own_hosts, "Your own hosts: a visit from one of them has no referrer.", "NAMES"
    )
    breakdown_ref_aliases: bool | Path = _row(
        "on",
        values.ref_aliases,
        "Keep hosts of one site as that site: t.co and twitter.com as x.com. off keeps each host; a file adds sites "
        "of yours.",
        "on|off|FILE",
    )
    breakdown_country_data: str = _row(
        "builtin",
        values.country_data,
        "Where to look up the country of an address: builtin, off, or a file in MaxMind's format.",
        "FILE",
    )
    breakdown_visitors: bool = _row("on", values.on_or_off, "Count the visitors of each day.", "on|off")
    timezone: str = _row(
        "UTC",
        values.time_zone,
        "Time zone of days, weeks and months where a question names none: on the page, in pictures, reports, mails of "
        "alerts, and commands.",
        "ZONE",
    )
    page_least: int = _row(
        "0",
        values.zero_or_from(LEAST, 1_000_000),
        "The page, shares, alerts and reports name no value with fewer hits in an hour or day; 0 names all.",
        "N",
    )
    events_names: tuple[str, ...] = _row(
        "",
        values.events,
        f"What comes of clicks and is counted beside them, such as lead,sale: at most {EVENTS} names.",
        "NAMES",
    )
    bots_refs: tuple[str, ...] = _row(
        "", values.bot_refs, "Hits with a referrer on one of these hosts, or below it, count as bots'.", "HOSTS"
    )
    bots_networks: tuple[str, ...] = _row(
        "", values.bot_networks, "Hits from addresses in one of these networks count as bots'.", "NETWORKS"
    )
    bots_agents: tuple[str, ...] = _row(
        "", values.bot_agents, "Hits whose user agent contains one of these, in any case, count as bots'.", "WORDS"
    )
    bots_people: tuple[str, ...] = _row(
        "", values.bot_agents, "Hits whose user agent contains one of these, in any case, count as people's.", "WORDS"
    )
    bots_files: tuple[Path, ...] = _row(
        "",
        values.bot_files,
        "Files with further rules for bots, one a line: ref:HOST, network:NETWORK, agent:WORDS or people:WORDS.",
        "FILES",
    )
    smtp: str = _row(
        "",
        values.smtp_server,
        "Mail server for alerts and reports: smtp://clickcurve@host:587 or smtps://host:465.",
        "URL",
    )
    smtp_password: str = _row("", values.anything, "Password of the mail server's user.", "PASSWORD", secret=True)
    doors: tuple[str, ...] = _row(
        ",".join(values.DOORS),
        values.doors,
        "Products whose events are taken at the paths that their senders know, and logs by HTTP; none for none.",
        "NAMES",
    )
    doors_keys: tuple[str, ...] = _row(
        "",
        values.key_patterns,
        "Keys that count at the doors of other products, with * and ?, for a proxy tells of pages too. Without any, "
        "all do.",
        "PATTERNS",
    )
    dub_secret: str = _row("", values.anything, "Secret of the webhook of Dub, which signs it.", "SECRET", secret=True)
    statsd: tuple[str, int] | None = _row(
        "",
        values.maybe_address,
        "UDP address for StatsD packets, such as 127.0.0.1:8125. A lost packet is not counted.",
        "HOST:PORT",
    )
    syslog: tuple[str, int] | None = _row(
        "",
        values.maybe_address,
        "UDP and TCP address for lines of access logs by syslog, such as 127.0.0.1:5140. What is lost is not counted.",
        "HOST:PORT",
    )
    mail_from: str = _row("clickcurve@localhost", values.not_empty, "Sender address (From) of mails.", "ADDRESS")
    weekly_report: tuple[str, ...] = _row(
        "", values.mail_addresses, "Addresses that get a report by mail each Monday, 06:00 in timezone.", "ADDRESSES"
    )
    url: str = _row("http://127.0.0.1:8080", values.server_url, "Address of the server.", "URL", side="client")
    token: str = _row("", values.anything, "Token to send to the server.", "TOKEN", side="client", secret=True)
    origins: Mapping[str, str]
    rules: tuple[Rule, ...] = ()
    alerts: tuple[Alert, ...] = ()
    event_units: Mapping[str, Unit] = field(default_factory=dict)
    matomo_sites: Mapping[str, Site] = field(default_factory=dict)
    reports: tuple[Report, ...] = ()
    again: Callable[[], Settings] = field(repr=False, compare=False)

    @property
    def home_tz(self) -> str:
        """The time zone where a question names none; empty for UTC."""
        return "" if zone(self.timezone).is_utc else self.timezone

    def unit(self, event: str) -> Unit:
        """Returns how the values of an event are shown."""
        return self.event_units.get(event, NO_UNIT)

    @property
    def bounded(self) -> BoundedLadder:
        """The ladder of breakdowns, how many values each tier keeps, and for how long."""
        return BoundedLadder(BREAKDOWN.ladder, self.breakdown_caps, self.breakdown_keep)

    @property
    def closed(self) -> bool:
        """Whether requests need a token even if none is known yet."""
        return not (values.is_loopback(self.host) or self.insecure)

    def listing(self) -> list[tuple[str, str, str]]:
        """Lists (name, value as text, origin) of every setting, in the table's order. Secrets are masked."""
        rows = []
        for setting in TABLE:
            value = getattr(self, setting.name)
            if setting.secret and value:
                value = "********"
            elif isinstance(value, bool):
                value = "on" if value else "off"
            elif isinstance(value, tuple):
                value = ", ".join(map(str, value))
            rows.append((setting.name, "" if value is None else str(value), self.origins[setting.name]))
        return rows


TABLE = tuple(Setting(each.name, **each.metadata) for each in fields(Settings) if each.metadata)
