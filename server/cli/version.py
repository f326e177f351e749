"""`clickcurve version`."""

from __future__ import annotations

from server.cli.output import Result, reports
from server.version import program_version


@reports("version")
def version_command() -> Result:
    """Print the version, as --version does.

    \b
    Examples:
      clickcurve version
    """
    version = program_version()
    return Result([f"clickcurve, version {version}"], [{"version": version}])
