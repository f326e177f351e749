"""`clickcurve manual`: a manual page that is made from the help of every command, so that the two never differ."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence

import click

from server.cli.main import EXIT_CODES
from server.settings.table import TABLE, Setting
from server.version import program_version

BLOCK = "\b"  # alone in a line: the rest of the paragraph keeps its lines


@click.command("manual")
@click.pass_context
def manual_command(context: click.Context) -> None:
    """Print the manual page: all commands, settings and exit codes, as roff.

    \b
    Examples:
      clickcurve manual | man -l -
      clickcurve manual > ~/.local/share/man/man1/clickcurve.1
    """
    root = context.find_root()
    click.echo(manual_page(root.command, program_version(), TABLE, EXIT_CODES))


def manual_page(
    program: click.Command, version: str, settings: Sequence[Setting], exit_codes: Mapping[int, str]
) -> str:
    """Returns the page as roff for the macros `man`, in ASCII. Equal arguments give equal bytes."""
    context = click.Context(program, info_name="clickcurve")
    return "\n".join(
        [
            f'.TH CLICKCURVE 1 "" "clickcurve {version}" "User Commands"',
            ".nh",  # names are not hyphenated
            ".ad l",
            ".SH NAME",
            _roff("clickcurve - count the hits of short links and draw their curves"),
            ".SH SYNOPSIS",
            _usage(program, context),
            ".SH DESCRIPTION",
            *_help_text(program),
            ".SH COMMANDS",
            *(line for command, below in _below(program, context) for line in _section(command, below)),
            ".SH SETTINGS",
            *(line for setting in settings for line in _entry(_names(setting), _explained(setting))),
            ".SH EXIT STATUS",
            *(line for code, meaning in exit_codes.items() for line in _entry(f"`{code}`", meaning)),
        ]
    )


def _below(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yields each command of a group with its context; after a group its own commands."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None, "a group knows the commands that it lists"
            below = click.Context(subcommand, info_name=name, parent=context)
            yield subcommand, below
            yield from _below(subcommand, below)


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    yield ".SS " + _roff(context.command_path.removeprefix("clickcurve "))
    yield _usage(command, context)
    yield from _help_text(command)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and parameter.name != "help":
            yield from _entry(f"`{record[0]}`", record[1])


def _usage(command: click.Command, context: click.Context) -> str:
    return _roff(f"`{context.command_path}` " + " ".join(command.collect_usage_pieces(context)))


def _names(setting: Setting) -> str:
    return f"`{setting.name}`, `{setting.flag}`, `{setting.variable}`"


def _explained(setting: Setting) -> str:
    return f"{setting.help} Default: {setting.default}." if setting.default else setting.help


def _help_text(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        first, *rest = paragraph.split("\n")
        yield ".PP"
        if first == BLOCK:
            yield from (".nf", *map(_roff, rest), ".fi")
        else:
            yield _roff(" ".join((first, *rest)))


def _entry(term: str, text: str) -> tuple[str, str, str]:
    return ".TP", _roff(term), _roff(" ".join(text.split()))


def _roff(text: str) -> str:
    """Writes one line of text as roff that prints it as it is, with `words` in backticks bold."""
    plain = re.split(r"`([^`]+)`", text)
    line = "".join(f"\\fB{_escaped(part)}\\fR" if bold % 2 else _escaped(part) for bold, part in enumerate(plain))
    return "\\&" + line if line.startswith((".", "'")) else line


# What roff would take for a command or print as another character.
_SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(sign, sign if sign.isascii() else f"\\[u{ord(sign):04X}]") for sign in text)
