"""Reads the settings: a flag beats the environment, which beats the file, which beats the default.

An unknown name and a value that breaks its rule are refused before anything is opened, in one sentence.

In the file the settings `breakdown_...`, `bots_...` and `events_...` are in tables `[breakdown]`, `[bots]`, `[events]`,
without this prefix; `breakdown_keep` is a table `[breakdown.keep]`, and `[events.NAME]` says how values are shown.
The file may also hold the limiter's rules, in tables `[limits.EVENT]` or `[[limits.EVENT]]`, alerts, in tables
`[[alerts]]`, reports, in tables `[[reports]]`, and sites of Matomo's senders, in tables `[matomo.SITE]`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clickcurve.buckets.errors import RuleInvalid, SettingInvalid
from clickcurve.limiter.rule import Rule, parse_rules
from server.settings.alerts import parse_alerts, require_events
from server.settings.events import Unit, parse_units, require_named
from server.settings.reports import parse_reports
from server.settings.sites import MATOMO, Site, parse_sites, require_hosts_ignored
from server.settings.table import PREFIX, TABLE, Setting, Settings
from server.settings.values import IN_CLUSTER, Broken

TABLES = ("breakdown", "bots", "page", "events")  # of settings whose names begin so
KEPT_TIMES = "breakdown_keep"  # may be a table
_BY_NAME = {setting.name: setting for setting in TABLE}


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
    tables: dict[str, Any] = {}
    if config:
        from_file, tables = _from_file(Path(config).expanduser())
        given.update(from_file)
    given.update(from_environ)
    given.update(from_flags)
    values = {name: _parse_value(_BY_NAME[name], text, origin) for name, (text, origin) in given.items()}
    values["store"] = values["store"] or f"sqlite:///{values['data']}/clickcurve.db"
    origins = {name: origin for name, (_, origin) in given.items()}
    if values["journal"] == IN_CLUSTER and not values["store"].startswith("cassandra://"):
        rule = "needs a store cassandra://"
        reason = f"journal ({origins['journal']}) is 'cluster': it {rule}, and store is {values['store']!r}"
        raise SettingInvalid(reason, field="journal", value=IN_CLUSTER, rule=rule)
    require_named(tables.get("event_units", {}), values["events_names"])
    require_events(tables.get("alerts", ()), values["events_names"])
    require_hosts_ignored(tables.get("matomo_sites", {}), values["hosts"])
    return Settings(**values, **tables, origins=origins, again=lambda: read_settings(flags, environ))


def _from_environ(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    given = {}
    for variable, text in sorted(environ.items()):
        if variable.startswith(PREFIX):
            setting = _known_setting(variable.removeprefix(PREFIX).lower(), f"variable {variable}")
            if variable != setting.variable:
                raise SettingInvalid(f"the variable {variable} must be written {setting.variable}", field=setting.name)
            given[setting.name] = (text, f"environment {variable}")
    return given


def _from_file(
    path: Path,
) -> tuple[dict[str, tuple[str, str]], dict[str, Any]]:
    """Reads the file's settings, and by their names the tables: rules, alerts, reports, units of events and sites."""
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
    name = "alerts"
    try:
        alerts = parse_alerts(document.pop(name, []))
        name = "reports"
        reports = parse_reports(document.pop(name, []))
    except SettingInvalid as error:
        raise SettingInvalid(f"{error} (file {path})", field=name) from None
    units, sites = _units_in(document.get("events"), path), _sites_of(document.pop(MATOMO, {}), path)
    for prefix in TABLES:
        document |= _settings_in_table(prefix, document.pop(prefix, {}), path)
    if isinstance(kept := document.get(KEPT_TIMES), dict):
        document[KEPT_TIMES] = _as_assignments(kept)
    given = {}
    for name, value in document.items():
        setting = _known_setting(name, f"name in {path}")
        if name == "config":
            raise SettingInvalid(f"{path} names another settings file: only --config can name one", field="config")
        given[setting.name] = (_as_text(name, value, path), f"file {path}")
    return given, {"rules": rules, "alerts": alerts, "reports": reports, "event_units": units, "matomo_sites": sites}


def _units_in(events: object, path: Path) -> dict[str, Unit]:
    """Takes the tables `[events.NAME]` out of a table, and returns what they say."""
    if not isinstance(events, dict):
        return {}
    tables = {name: events.pop(name) for name, table in [*events.items()] if isinstance(table, dict)}
    try:
        return parse_units(tables)
    except SettingInvalid as error:
        raise SettingInvalid(f"{error} (file {path})", field=error.field) from None


def _sites_of(tables: object, path: Path) -> dict[str, Site]:
    try:
        return parse_sites(tables)
    except SettingInvalid as error:
        detail = f"{error.detail} (file {path})"
        raise SettingInvalid(detail, field=error.field, value=error.value, rule=error.rule) from None


def _settings_in_table(prefix: str, table: object, path: Path) -> dict[str, object]:
    """Returns the settings in a table of the file by their names as settings."""
    if not isinstance(table, dict):
        raise SettingInvalid(f"{prefix} in {path} must be a table: [{prefix}]", field=prefix)
    return {f"{prefix}_{name}": value for name, value in table.items()}


def _as_assignments(table: Mapping[str, object], before: str = "") -> list[object]:
    """Returns a table as texts such as `ref=400d`.

    TOML makes a table of a name with a dot in it: `tag.shop = "30d"`.
    """
    texts: list[object] = []
    for name, value in table.items():
        if isinstance(value, dict):
            texts += _as_assignments(value, f"{before}{name}.")
        else:
            texts.append(f"{before}{name}={value}")
    return texts


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
