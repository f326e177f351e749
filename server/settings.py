"""The settings: one table, read once, frozen. Parts get values, and only this file knows where settings come from.

A setting has one name. As a flag it is `--journal-mib`, in the environment `CLICKCURVE_JOURNAL_MIB`, in the TOML file
`journal_mib`. A flag beats the environment, which beats the file, which beats the default. An unknown name and
a value that breaks its rule are refused before anything is opened, in one sentence.

In the file the settings `breakdown_...` stand in a table `[breakdown]`, without these letters. The file may hold the
limiter's rules as well, in tables `[limits.EVENT]` or `[[limits.EVENT]]`, and alerts, in tables `[[alerts]]`; they are
no settings of the table, and can be given in no other way.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.errors import RuleInvalid, SettingInvalid
from clickcurve.buckets.ladder import LADDERS, Ladder
from clickcurve.limiter.http.address import HEADERS
from clickcurve.limiter.http.headers import DIALECTS
from clickcurve.limiter.rule import Rule, parse_rules
from ingest.buffer import BUFFER_BYTES
from ingest.journal.journal import MAX_BYTES
from server.alerts.alert import Alert, parse_alerts
from server.http.callers import ADDRESS_CONNECTIONS, SLOWEST_BYTES_S
from server.http.request_head import HEAD_S
from server.setting_values import (
    Broken,
    anything,
    caps,
    country_data,
    dimensions,
    file_path,
    host_names,
    mail_addresses,
    maybe_file_path,
    maybe_ladder,
    memcached_servers,
    networks,
    not_empty,
    on_or_off,
    one_of,
    redis_url,
    server_url,
    smtp_server,
    statsd_address,
    store_uri,
    web_origins,
    whole_number,
)

PREFIX = "CLICKCURVE_"
MAX_WORKERS = 64
BREAKDOWN_TABLE = "breakdown"
DIMENSIONS_DIVIDED = "ref,country,device,source"
JOURNAL_MIB = MAX_BYTES // 1024 // 1024
BUFFER_MIB = BUFFER_BYTES // 1024 // 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `side` names its user: the server, or the client (commands that talk to a server)."""

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


TABLE: tuple[Setting, ...] = (
    Setting(
        "data",
        "./clickcurve-data",
        file_path,
        "Folder of the journal, the tokens and, by default, the database.",
        "DIR",
    ),
    Setting(
        "host",
        "127.0.0.1",
        not_empty,
        "Address to listen on. Other than loopback needs tokens, or --insecure.",
        "ADDRESS",
    ),
    Setting("port", "8080", whole_number(0, 65_535), "Port to listen on; 0 takes a free one and says which.", "PORT"),
    Setting(
        "store",
        "",
        store_uri,
        "Where rows live: sqlite:///file, cassandra://host,host:9042/keyspace, or memory:// to keep nothing. "
        "Without one, clickcurve.db in the data folder.",
        "URI",
    ),
    Setting("config", "", maybe_file_path, "TOML file with settings under these names.", "FILE"),
    Setting("workers", "1", whole_number(1, MAX_WORKERS), "Worker processes on one port; each is an owner.", "N"),
    Setting(
        "insecure",
        "off",
        on_or_off,
        "Listen beyond loopback though there are no tokens: anybody may write and read.",
        "",
    ),
    Setting("flush_s", "15", whole_number(1, 3_600), "Seconds from one flush to the next.", "SECONDS"),
    Setting(
        "sync",
        "on",
        on_or_off,
        "Sync the journal before an answer. Off: faster, but a crash of the machine loses what was accepted "
        "in the seconds before it; a crash of the program loses nothing.",
        "on|off",
    ),
    Setting("journal_mib", str(JOURNAL_MIB), whole_number(4, 1_048_576), "Most that one journal may hold.", "MIB"),
    Setting(
        "buffer_mib",
        str(BUFFER_MIB),
        whole_number(8, 1_048_576),
        "Memory of each worker for hits that are not in the store yet, with what their flush takes.",
        "MIB",
    ),
    Setting(
        "ladder",
        "",
        maybe_ladder,
        f"Which buckets a new store keeps, {' or '.join(LADDERS)}, or tiers, finest first: width in seconds (or week, "
        f"month), then days kept. Without one {next(iter(LADDERS))}; a store that is there keeps its own.",
        "LADDER",
    ),
    Setting("limits_redis", "", redis_url, "Redis of the rules that name it: redis://host:6379/0.", "URL", secret=True),
    Setting("limits_memcached", "", memcached_servers, "memcached servers of the rules that name it.", "HOST:PORT,..."),
    Setting(
        "limits_timeout_ms",
        "100",
        whole_number(1, 60_000),
        "Milliseconds that a limiter's backend has to answer.",
        "MS",
    ),
    Setting(
        "limits_headers", "x", one_of(DIALECTS), "What answers say of limits: " + ", ".join(DIALECTS) + ".", "NAME"
    ),
    Setting(
        "trusted_proxies", "", networks, "Networks of your own proxies: only they may name the client.", "NETWORKS"
    ),
    Setting("proxy_header", HEADERS[0], one_of(HEADERS), "The header in which your proxies name the client.", "NAME"),
    Setting("ipv6_prefix", "64", whole_number(1, 128), "IPv6 addresses count by networks of so many bits.", "BITS"),
    Setting(
        "allowed_hosts",
        "",
        host_names,
        "Names beside this machine's own under which it may be called while there are no tokens.",
        "NAMES",
    ),
    Setting("cors_origins", "", web_origins, "Web sites whose pages may call it from a browser; * is all.", "ORIGINS"),
    Setting("head_s", str(HEAD_S), whole_number(1, 3_600), "Seconds for the head of a request to come.", "SECONDS"),
    Setting(
        "slowest_bytes_s",
        str(SLOWEST_BYTES_S),
        whole_number(0, 1_000_000),
        "Bytes a second, over a minute, that a body has to come at and an answer to be taken at; 0: one byte will do.",
        "BYTES",
    ),
    Setting(
        "address_connections",
        str(ADDRESS_CONNECTIONS),
        whole_number(0, 1_000_000),
        "Connections of one address to a worker, but of this machine and trusted proxies; 0: any number.",
        "N",
    ),
    Setting(
        "breakdown_dimensions",
        DIMENSIONS_DIVIDED,
        dimensions,
        "By what hits are divided: names such as ref,country,device,source; off: by nothing.",
        "NAMES",
    ),
    Setting(
        "breakdown_caps",
        ",".join(map(str, BREAKDOWN.caps)),
        caps,
        "Values that are kept in an hour, a day, a week and a month of a link's breakdown.",
        "N,N,N,N",
    ),
    Setting("breakdown_own_hosts", "", host_names, "Hosts of your own: visits from there have no referrer.", "NAMES"),
    Setting(
        "breakdown_country_data",
        "builtin",
        country_data,
        "Where the country of an address is looked up: builtin, off, or a file in MaxMind's format.",
        "FILE",
    ),
    Setting("breakdown_visitors", "on", on_or_off, "Count the visitors of a day.", "on|off"),
    Setting(
        "smtp",
        "",
        smtp_server,
        "The mail server of alerts and reports: smtp://clickcurve@host:587 or smtps://host:465.",
        "URL",
    ),
    Setting("smtp_password", "", anything, "The password of its user.", "PASSWORD", secret=True),
    Setting("statsd", "", statsd_address, "UDP address for StatsD, at most once: 127.0.0.1:8125.", "HOST:PORT"),
    Setting("mail_from", "clickcurve@localhost", not_empty, "What mails have in From.", "ADDRESS"),
    Setting("weekly_report", "", mail_addresses, "Where a report goes each Monday, 06:00 UTC.", "ADDRESSES"),
    Setting("url", "http://127.0.0.1:8080", server_url, "The server to ask.", "URL", side="client"),
    Setting("token", "", anything, "The token to send to it.", "TOKEN", side="client", secret=True),
)
_BY_NAME = {setting.name: setting for setting in TABLE}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, parsed. `origins` says per name where the value came from; `rules` are the limiter's."""

    data: Path
    host: str
    port: int
    store: str
    config: Path | None
    workers: int
    insecure: bool
    flush_s: int
    sync: bool
    journal_mib: int
    buffer_mib: int
    ladder: Ladder | None
    limits_redis: str
    limits_memcached: str
    limits_timeout_ms: int
    limits_headers: str
    trusted_proxies: str
    proxy_header: str
    ipv6_prefix: int
    allowed_hosts: tuple[str, ...]
    cors_origins: tuple[str, ...]
    head_s: int
    slowest_bytes_s: int
    address_connections: int
    breakdown_dimensions: tuple[str, ...]
    breakdown_caps: tuple[int, ...]
    breakdown_own_hosts: tuple[str, ...]
    breakdown_country_data: str
    breakdown_visitors: bool
    statsd: tuple[str, int] | None
    smtp: str
    smtp_password: str
    mail_from: str
    weekly_report: tuple[str, ...]
    url: str
    token: str
    origins: Mapping[str, str]
    rules: tuple[Rule, ...] = ()
    alerts: tuple[Alert, ...] = ()
    # Reads everything once more, since the file may have changed.
    again: Callable[[], Settings] = field(default=lambda: read_settings({}, {}), repr=False, compare=False)

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


def read_settings(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> Settings:
    """Reads settings from flags (None = not given), the environment and the file that either names.

    Raises SettingInvalid or RuleInvalid, one sentence, for an unknown name or a value that breaks its rule.
    """
    given: dict[str, tuple[str, str]] = {setting.name: (setting.default, "default") for setting in TABLE}
    from_environ = _from_environ(environ)
    from_flags = {
        name: (text, "flag " + _known_setting(name, "flag").flag) for name, text in flags.items() if text is not None
    }
    config, _ = {**given, **from_environ, **from_flags}["config"]
    rules: tuple[Rule, ...] = ()
    alerts: tuple[Alert, ...] = ()
    if config:
        from_file, rules, alerts = _from_file(Path(config).expanduser())
        given.update(from_file)
    given.update(from_environ)
    given.update(from_flags)
    values = {name: _parse_value(_BY_NAME[name], text, origin) for name, (text, origin) in given.items()}
    values["store"] = values["store"] or f"sqlite:///{values['data']}/clickcurve.db"
    origins = {name: origin for name, (_, origin) in given.items()}
    return Settings(**values, origins=origins, rules=rules, alerts=alerts, again=lambda: read_settings(flags, environ))


def _from_environ(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for variable, text in sorted(environ.items()):
        if variable.startswith(PREFIX):
            setting = _known_setting(variable.removeprefix(PREFIX).lower(), f"variable {variable}")
            if variable != setting.variable:
                raise SettingInvalid(f"the variable {variable} must be written {setting.variable}", field=setting.name)
            found[setting.name] = (text, f"environment {variable}")
    return found


def _from_file(path: Path) -> tuple[dict[str, tuple[str, str]], tuple[Rule, ...], tuple[Alert, ...]]:
    """Reads the file's settings, its rules and its alerts."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = f"the settings file {path} cannot be read: {error.strerror}"
        raise SettingInvalid(reason, field="config", value=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingInvalid(
            f"the settings file {path} is not TOML: {error}", field="config", value=str(path)
        ) from error
    rules = _parse_rule_tables(document.pop("limits", {}), path)
    try:
        alerts = parse_alerts(document.pop("alerts", []))
    except SettingInvalid as error:
        raise SettingInvalid(f"{error} (file {path})", field="alerts") from None
    document |= _breakdown_settings(document.pop(BREAKDOWN_TABLE, {}), path)
    found = {}
    for name, value in document.items():
        setting = _known_setting(name, f"name in {path}")
        if name == "config":
            raise SettingInvalid(f"{path} names a further settings file; give it by --config instead", field="config")
        found[setting.name] = (_as_text(name, value, path), f"file {path}")
    return found, rules, alerts


def _breakdown_settings(table: object, path: Path) -> dict[str, object]:
    """Returns the settings of the file's table of breakdowns by their names as settings."""
    if not isinstance(table, dict):
        raise SettingInvalid(f"{BREAKDOWN_TABLE} in {path} must be a table: [{BREAKDOWN_TABLE}]", field=BREAKDOWN_TABLE)
    return {f"{BREAKDOWN_TABLE}_{name}": value for name, value in table.items()}


def _as_text(name: str, value: object, path: Path) -> str:
    """Returns a value of the file as a flag would have it; lists have commas between their parts."""
    if isinstance(value, list) and (all(isinstance(part, str) for part in value) or _are_numbers(value)):
        return ",".join(map(str, value))
    if not isinstance(value, str | int | bool):
        what = f"{name} in {path} is a {type(value).__name__}"
        rule = "it must be a text, a number, true or false, or a list of texts or numbers"
        raise SettingInvalid(f"{what}: {rule}", field=name)
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _are_numbers(value: list[object]) -> bool:
    return len(value) > 1 and all(type(part) is int for part in value)


def _parse_rule_tables(tables: object, path: Path) -> tuple[Rule, ...]:
    try:
        if not isinstance(tables, dict):
            raise RuleInvalid("limits must be tables such as [limits.login]", field="limits", value=tables)
        return parse_rules(tables)
    except RuleInvalid as error:
        detail = f"{error.detail} (file {path})"
        raise RuleInvalid(detail, field=error.field, value=error.value, rule=error.rule) from None


def _known_setting(name: str, what: str) -> Setting:
    setting = _BY_NAME.get(name)
    if setting is None:
        close = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"did you mean {close[0]}?" if close else "`clickcurve settings` lists all settings"
        raise SettingInvalid(f"{name} is not a setting ({what}); {hint}", field=name)
    return setting


def _parse_value(setting: Setting, text: str, origin: str) -> Any:
    try:
        return setting.parse(text)
    except Broken as broken:
        shown = "a value that is not shown" if setting.secret else repr(text)
        message = f"{setting.name} ({origin}) is {shown}: it {broken}"
        raise SettingInvalid(message, field=setting.name, value=text, rule=str(broken)) from None
