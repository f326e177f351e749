"""`clickcurve settings`."""

from __future__ import annotations

import json

import click

from server.cli.options import with_settings
from server.settings import TABLE, Settings


@click.command("settings")
@with_settings(*(setting.name for setting in TABLE))
@click.option("--limits", is_flag=True, help="List the limits instead, and what happens at each.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def settings_command(settings: Settings, limits: bool, as_json: bool) -> None:
    """List all settings, their values and where each value comes from.

    A flag beats a variable, a variable beats the file of --config, the file beats the default. Flags given here show
    what the same flags would do to `serve`. In the file a setting has its plain name, as below. The rules of the
    limiter, which only the file can hold, come last; a wrong one is refused as `serve` would refuse it.

    \b
    Examples:
      clickcurve settings
      CLICKCURVE_PORT=9000 clickcurve settings --config clickcurve.toml
      clickcurve settings --limits
    """
    if limits:
        _print_limits(as_json)
        return
    if settings.rules:
        from server.limiter import limiter

        limiter.check_rules(settings.rules, settings)
    rows = [*settings.listing(), *_rule_rows(settings)]
    if as_json:
        click.echo(json.dumps({name: {"value": value, "origin": origin} for name, value, origin in rows}, indent=1))
        return
    wide = max(len(name) for name, _, _ in rows), max(len(value) for _, value, _ in rows)
    for name, value, origin in rows:
        click.echo(f"{name:<{wide[0]}}  {value:<{wide[1]}}  {origin}")


def _rule_rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Returns the limiter's rules as further rows."""
    return [
        (f"limits.{rule.name}", f"{', '.join(map(str, rule.rates))} {rule.strategy}", f"file {settings.config}")
        for rule in settings.rules
    ]


def _print_limits(as_json: bool) -> None:
    from server.limits import LIMITS  # it reads the numbers from all parts, which are slow to import

    if as_json:
        shown = {name: {"value": one.value, "unit": one.unit, "over": one.over} for name, one in LIMITS.items()}
        click.echo(json.dumps(shown, indent=1))
        return
    for name, one in LIMITS.items():
        click.echo(f"{name:<14} {one.value:>13,} {one.unit}: over it, {one.over}")
