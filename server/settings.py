"""The settings: one table, read once, frozen. Parts get values, and only this file knows where settings come from.

A setting has one name. As a flag it is `--journal-mib`, in the environment `CLICKCURVE_JOURNAL_MIB`, in the TOML file
`journal_mib`. A flag beats the environment, which beats the file, which beats the default. An unknown name and
a value that breaks its rule are refused before anything is opened, in one sentence.

The file may hold the limiter's rules as well, in tables `[limits.EVENT]` or `[[limits.EVENT]]`; they are no settings of
the table, and can be given in no other way.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickcurve.buckets.errors import ClickcurveError, RuleInvalid, SettingInvalid
from clickcurve.buckets.ladder import CLICKS
from clickcurve.limiter.http.address import HEADERS, addresses
from clickcurve.limiter.http.headers import DIALECTS
from clickcurve.limiter.rule import Rule, parse_rules
from ingest.journal.journal import MAX_BYTES
from storage.cassandra import uri

PREFIX = "CLICKCURVE_"
MAX_WORKERS = 64
JOURNAL_MIB = MAX_BYTES // 1024 // 1024
LADDER = str(CLICKS)


class Broken(ValueError):
    """The rule that a value breaks, as the end of a sentence: "must be ..."."""


def _not_empty(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise Broken("must not be empty")
    return text


def _maybe(text: str) -> str:
    return text


def _file_path(text: str) -> Path:
    return Path(_not_empty(text)).expanduser()


def _maybe_file_path(text: str) -> Path | None:
    return _file_path(text) if text else None


def _whole_number(least: int, most: int) -> Callable[[str], int]:
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


_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _on_or_off(text: str) -> bool:
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise Broken("must be on or off") from None


def _store(text: str) -> str:
    if text and not text.startswith(("sqlite:///", "cassandra://", "memory://")):
        raise Broken("must begin with sqlite:///, cassandra:// or memory://")
    if text.startswith("cassandra://"):
        uri.parse(text)  # its own sentence, which shows no password
    return text


def _redis_url(text: str) -> str:
    if text and not text.startswith(("redis://", "rediss://", "unix://", "redis+sentinel://")):
        raise Broken("must begin with redis://, rediss://, unix:// or redis+sentinel://")
    return text


def _memcached_servers(text: str) -> str:
    """Checks `host:port,host:port`; an IPv6 address stands in brackets."""
    for part in text.split(",") if text else ():
        host, _, port = part.strip().rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise Broken("must be host:port, with commas between several")
    return text


def _networks(text: str) -> str:
    try:
        addresses(text)
    except ClickcurveError as error:
        raise Broken(f"must be {error.rule}: {error.detail}") from None
    return text


def _choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise Broken("must be one of " + ", ".join(choices))
        return text

    return parse


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise Broken("must begin with http:// or https://")
    return text.rstrip("/")


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
        _file_path,
        "Folder of the journal, the tokens and, by default, the database.",
        "DIR",
    ),
    Setting(
        "host",
        "127.0.0.1",
        _not_empty,
        "Address to listen on. Other than loopback needs tokens, or --insecure.",
        "ADDRESS",
    ),
    Setting("port", "8080", _whole_number(0, 65_535), "Port to listen on; 0 takes a free one and says which.", "PORT"),
    Setting(
        "store",
        "",
        _store,
        "Where rows live: sqlite:///file, cassandra://host,host:9042/keyspace, or memory:// to keep nothing. "
        "Without one, clickcurve.db in the data folder.",
        "URI",
    ),
    Setting("config", "", _maybe_file_path, "TOML file with settings under these names.", "FILE"),
    Setting("workers", "1", _whole_number(1, MAX_WORKERS), "Worker processes on one port; each is an owner.", "N"),
    Setting(
        "insecure",
        "off",
        _on_or_off,
        "Listen beyond loopback though there are no tokens: anybody may write and read.",
        "",
    ),
    Setting("flush_s", "15", _whole_number(1, 3_600), "Seconds from one flush to the next.", "SECONDS"),
    Setting(
        "sync",
        "on",
        _on_or_off,
        "Sync the journal before an answer. Off: faster, but a crash of the machine loses what was accepted "
        "in the seconds before it; a crash of the program loses nothing.",
        "on|off",
    ),
    Setting("journal_mib", str(JOURNAL_MIB), _whole_number(4, 1_048_576), "Most that one journal may hold.", "MIB"),
    Setting(
        "ladder", LADDER, _not_empty, "Tiers, finest first: width in seconds (or week, month), then days kept.", "TIERS"
    ),
    Setting(
        "limits_redis", "", _redis_url, "Redis of the rules that name it: redis://host:6379/0.", "URL", secret=True
    ),
    Setting(
        "limits_memcached", "", _memcached_servers, "memcached servers of the rules that name it.", "HOST:PORT,..."
    ),
    Setting(
        "limits_timeout_ms",
        "100",
        _whole_number(1, 60_000),
        "Milliseconds that a limiter's backend has to answer.",
        "MS",
    ),
    Setting(
        "limits_headers", "x", _choice(DIALECTS), "What answers say of limits: " + ", ".join(DIALECTS) + ".", "NAME"
    ),
    Setting(
        "trusted_proxies", "", _networks, "Networks of your own proxies: only they may name the client.", "NETWORKS"
    ),
    Setting("proxy_header", HEADERS[0], _choice(HEADERS), "The header in which your proxies name the client.", "NAME"),
    Setting("ipv6_prefix", "64", _whole_number(1, 128), "IPv6 addresses count by networks of so many bits.", "BITS"),
    Setting("url", "http://127.0.0.1:8080", _url, "The server to ask.", "URL", side="client"),
    Setting("token", "", _maybe, "The token to send to it.", "TOKEN", side="client", secret=True),
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
    ladder: str
    limits_redis: str
    limits_memcached: str
    limits_timeout_ms: int
    limits_headers: str
    trusted_proxies: str
    proxy_header: str
    ipv6_prefix: int
    url: str
    token: str
    origins: Mapping[str, str]
    rules: tuple[Rule, ...] = ()
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
    if config:
        from_file, rules = _from_file(Path(config).expanduser())
        given.update(from_file)
    given.update(from_environ)
    given.update(from_flags)
    values = {name: _parse_value(_BY_NAME[name], text, origin) for name, (text, origin) in given.items()}
    values["store"] = values["store"] or f"sqlite:///{values['data']}/clickcurve.db"
    origins = {name: origin for name, (_, origin) in given.items()}
    return Settings(**values, origins=origins, rules=rules, again=lambda: read_settings(flags, environ))


def _from_environ(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for variable, text in sorted(environ.items()):
        if variable.startswith(PREFIX):
            setting = _known_setting(variable.removeprefix(PREFIX).lower(), f"variable {variable}")
            if variable != setting.variable:
                raise SettingInvalid(f"the variable {variable} must be written {setting.variable}", field=setting.name)
            found[setting.name] = (text, f"environment {variable}")
    return found


def _from_file(path: Path) -> tuple[dict[str, tuple[str, str]], tuple[Rule, ...]]:
    """Reads the file's settings and its rules."""
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
    found = {}
    for name, value in document.items():
        setting = _known_setting(name, f"name in {path}")
        if name == "config":
            raise SettingInvalid(f"{path} names a further settings file; give it by --config instead", field="config")
        if not isinstance(value, str | int | bool):
            shown = type(value).__name__
            raise SettingInvalid(
                f"{name} in {path} is a {shown}: it must be a text, a number or true or false", field=name
            )
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        found[setting.name] = (text, f"file {path}")
    return found, rules


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
