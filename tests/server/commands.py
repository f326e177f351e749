"""Runs commands in this process, as a person types them."""

from __future__ import annotations

from collections.abc import Mapping

from click.testing import CliRunner, Result

from server.cli.main import main

Env = Mapping[str, str]
NONE: Env = {}


def ask(*arguments: str, stdin: str | None = None, env: Env = NONE) -> Result:
    """Runs a command with these variables, and none that this process has for clients."""
    clean = {"CLICKCURVE_URL": None, "CLICKCURVE_TOKEN": None, "COLUMNS": "80"}
    return CliRunner().invoke(main, list(arguments), input=stdin, env={**clean, **env})


def said(*arguments: str, stdin: str | None = None, code: int = 0, env: Env = NONE) -> str:
    """Returns what a command printed, both streams, after ending with the code that is expected."""
    found = ask(*arguments, stdin=stdin, env=env)
    assert found.exit_code == code, (found.output, found.exception)
    return found.output
