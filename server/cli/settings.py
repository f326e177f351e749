"""`clickcurve settings`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from server.cli.options import with_settings
from server.cli.output import Result, reports
from server.settings.table import TABLE, Settings


@reports("settings")
@with_settings(*(setting.name for setting in TABLE))
@click.option("--limits", is_flag=True, help="List the fixed limits instead, and what happens when one is reached.")
def settings_command(settings: Settings, limits: bool) -> Result:
    """List all settings, their values and where each value comes from.

    A flag beats a variable, a variable beats the file of --config, the file beats the default. The flags of `serve` may
    be given here, to see their effect. In the file a setting has its plain name, as below. The limiter's rules, which
    can only be in the file, come last; a wrong one is refused as by `serve`.

    \b
    Examples:
      clickcurve settings
      CLICKCURVE_PORT=9000 clickcurve settings --config clickcurve.toml
      clickcurve settings --limits
    """
    if limits:
        return _limits_listed()
    if settings.rules:
        from server.limiter import limiter

        limiter.check_rules(settings.rules, settings)
    rows = [*settings.listing(), *_rule_rows(settings)]
    return Result(_setting_lines(rows), [{name: {"value": value, "origin": origin} for name, value, origin in rows}])


def _setting_lines(rows: list[tuple[str, str, str]]) -> Iterable[str]:
    wide = max(len(name) for name, _, _ in rows), max(len(value) for _, value, _ in rows)
    return (f"{name:<{wide[0]}}  {value:<{wide[1]}}  {origin}" for name, value, origin in rows)


def _rule_rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Returns the limiter's rules as further rows."""
    return [
        (f"limits.{rule.name}", f"{', '.join(map(str, rule.rates))} {rule.strategy}", f"file {settings.config}")
        for rule in settings.rules
    ]


def _limits_listed() -> Result:
    from server.app.limits import LIMITS  # it reads the numbers from all parts, which are slow to import

    return Result(
        (f"{name:<14} {one.value:>13,} {one.unit}: over it, {one.over}" for name, one in LIMITS.items()),
        [{name: {"value": one.value, "unit": one.unit, "over": one.over} for name, one in LIMITS.items()}],
    )
