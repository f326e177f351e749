"""The settings: one table, read once, frozen. Parts are handed values; nobody else looks where settings come from.

A setting has one name. As a flag it is `--journal-mib`, in the environment `CLICKCURVE_JOURNAL_MIB`, in the TOML file
`journal_mib`. A flag beats the environment, which beats the file, which beats the default. A name that nobody knows and
a value that breaks its rule are refused before anything is opened, in one sentence.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buckets.errors import SettingInvalid
from server import limits
from storage import cassandra_uri

PREFIX = "CLICKCURVE_"
LADDER = "60:1,300:1,3600:31,week:366,month"


class Broken(ValueError):
    """The rule that a value breaks, as the end of a sentence: "must be ..."."""


def _text(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise Broken("must not be empty")
    return text


def _maybe(text: str) -> str:
    return text


def _path(text: str) -> Path:
    return Path(_text(text)).expanduser()


def _maybe_path(text: str) -> Path | None:
    return _path(text) if text else None


def _whole(least: int, most: int) -> Callable[[str], int]:
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


def _switch(text: str) -> bool:
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise Broken("must be on or off") from None


def _store(text: str) -> str:
    if text and not text.startswith(("sqlite:///", "cassandra://", "memory://")):
        raise Broken("must begin with sqlite:///, cassandra:// or memory://")
    if text.startswith("cassandra://"):
        cassandra_uri.parse(text)  # its own sentence, which shows no password
    return text


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise Broken("must begin with http:// or https://")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `side` is who uses it: the server, or the commands that talk to one."""

    name: str
    default: str
    parse: Callable[[str], Any]
    help: str
    shown: str  # what the help calls its value; nothing for a switch that is off unless named
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
        """Is it a flag without a value?"""
        return not self.shown


TABLE: tuple[Setting, ...] = (
    Setting(
        "data", "./clickcurve-data", _path, "Folder of the journal, the tokens and, by default, the database.", "DIR"
    ),
    Setting(
        "host", "127.0.0.1", _text, "Address to listen on. Other than loopback needs tokens, or --insecure.", "ADDRESS"
    ),
    Setting("port", "8080", _whole(0, 65_535), "Port to listen on; 0 takes a free one and says which.", "PORT"),
    Setting(
        "store",
        "",
        _store,
        "Where rows live: sqlite:///file, cassandra://host,host:9042/keyspace, or memory:// to keep nothing. "
        "Without one, clickcurve.db in the data folder.",
        "URI",
    ),
    Setting("config", "", _maybe_path, "TOML file with settings under these names.", "FILE"),
    Setting("workers", "1", _whole(1, limits.WORKERS.value), "Worker processes on one port; each is an owner.", "N"),
    Setting(
        "insecure", "off", _switch, "Listen beyond loopback though there are no tokens: anybody may write and read.", ""
    ),
    Setting("flush_s", "15", _whole(1, 3_600), "Seconds from one flush to the next.", "SECONDS"),
    Setting(
        "sync",
        "on",
        _switch,
        "Sync the journal before an answer. Off: faster, but a crash of the machine loses what was accepted "
        "in the seconds before it; a crash of the program loses nothing.",
        "on|off",
    ),
    Setting(
        "journal_mib", str(limits.JOURNAL_MIB.value), _whole(4, 1_048_576), "Most that one journal may hold.", "MIB"
    ),
    Setting(
        "ladder", LADDER, _text, "Tiers, finest first: width in seconds (or week, month), then days kept.", "TIERS"
    ),
    Setting("url", "http://127.0.0.1:8080", _url, "The server to ask.", "URL", side="client"),
    Setting("token", "", _maybe, "The token to show it.", "TOKEN", side="client", secret=True),
)
_BY_NAME = {setting.name: setting for setting in TABLE}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, parsed. `origins` says per name where the value came from."""

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
    url: str
    token: str
    origins: Mapping[str, str]

    def listing(self) -> list[tuple[str, str, str]]:
        """(name, value as text, origin) of every setting, in the table's order; secrets are masked."""
        rows = []
        for setting in TABLE:
            value = getattr(self, setting.name)
            if setting.secret and value:
                value = "********"
            elif isinstance(value, bool):
                value = "on" if value else "off"
            rows.append((setting.name, "" if value is None else str(value), self.origins[setting.name]))
        return rows


def read(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> Settings:
    """Settings from flags (None = not given), the environment and the file that either names.

    Raises SettingInvalid, one sentence, for an unknown name or a value that breaks its rule.
    """
    given: dict[str, tuple[str, str]] = {setting.name: (setting.default, "default") for setting in TABLE}
    from_environ = _from_environ(environ)
    from_flags = {name: (text, "flag " + _known(name, "flag").flag) for name, text in flags.items() if text is not None}
    config, _ = {**given, **from_environ, **from_flags}["config"]
    if config:
        given.update(_from_file(Path(config).expanduser()))
    given.update(from_environ)
    given.update(from_flags)
    values = {name: _parse(_BY_NAME[name], text, origin) for name, (text, origin) in given.items()}
    values["store"] = values["store"] or f"sqlite:///{values['data']}/clickcurve.db"
    return Settings(**values, origins={name: origin for name, (_, origin) in given.items()})


def _from_environ(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for variable, text in sorted(environ.items()):
        if variable.startswith(PREFIX):
            setting = _known(variable.removeprefix(PREFIX).lower(), f"variable {variable}")
            if variable != setting.variable:
                raise SettingInvalid(f"the variable {variable} must be written {setting.variable}", field=setting.name)
            found[setting.name] = (text, f"environment {variable}")
    return found


def _from_file(path: Path) -> dict[str, tuple[str, str]]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = f"the settings file {path} cannot be read: {error.strerror}"
        raise SettingInvalid(reason, field="config", value=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingInvalid(
            f"the settings file {path} is not TOML: {error}", field="config", value=str(path)
        ) from error
    found = {}
    for name, value in document.items():
        setting = _known(name, f"name in {path}")
        if name == "config":
            raise SettingInvalid(f"{path} names a further settings file; give it by --config instead", field="config")
        if not isinstance(value, str | int | bool):
            shown = type(value).__name__
            raise SettingInvalid(
                f"{name} in {path} is a {shown}: it must be a text, a number or true or false", field=name
            )
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        found[setting.name] = (text, f"file {path}")
    return found


def _known(name: str, what: str) -> Setting:
    setting = _BY_NAME.get(name)
    if setting is None:
        close = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"did you mean {close[0]}?" if close else "`clickcurve settings` lists all settings"
        raise SettingInvalid(f"{name} is not a setting ({what}); {hint}", field=name)
    return setting


def _parse(setting: Setting, text: str, origin: str) -> Any:
    try:
        return setting.parse(text)
    except Broken as broken:
        shown = "a value that is not shown" if setting.secret else repr(text)
        message = f"{setting.name} ({origin}) is {shown}: it {broken}"
        raise SettingInvalid(message, field=setting.name, value=text, rule=str(broken)) from None
