"""`clickcurve completion bash|zsh|fish`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


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
