"""`clickcurve version`."""

from __future__ import annotations

import click

from server.version import program_version


@click.command("version")
def version_command() -> None:
    """Print the version, as --version does.

    \b
    Examples:
      clickcurve version
    """
    click.echo(f"clickcurve, version {program_version()}")
