"""`clickcurve version | completion bash|zsh|fish`: what needs no library of the program."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from server.cli.output import Result, reports
from server.version import build_note, program_build, program_version

SHELLS = ("bash", "zsh", "fish")


@reports("version")
def version_command() -> Result:
    """Print the version, as --version does.

    \b
    Examples:
      clickcurve version
    """
    version = program_version()
    return Result([f"clickcurve, version {version}{build_note()}"], [{"version": version, "build": program_build()}])


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a script with which the shell completes commands and flags.

    \b
    Examples:
      clickcurve completion bash > ~/.local/share/bash-completion/completions/clickcurve
      clickcurve completion zsh > "${fpath[1]}/_clickcurve"
      clickcurve completion fish > ~/.config/fish/completions/clickcurve.fish
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows each shell of SHELLS"
    click.echo(script(context.find_root().command, {}, "clickcurve", "_CLICKCURVE_COMPLETE").source())
