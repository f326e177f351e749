"""The command `clickcurve`: its subcommands, each loaded when it is run, and the exit codes."""

from __future__ import annotations

import difflib
import json
from importlib import import_module
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from clickcurve.buckets.errors import (
    ClickcurveError,
    JournalHeld,
    LadderInvalid,
    ParameterInvalid,
    RuleInvalid,
    SettingInvalid,
    StoreMismatch,
    StoreUnavailable,
)
from clickcurve.problem import error_body
from server.cli.output import asks_for_json, give_up_output, keep_json_flag, show_error, wants_json
from server.version import build_note

FAILED, USAGE, UNREACHABLE, HELD, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 4, 130, 141
EXIT_CODES = {
    0: "done",
    FAILED: "it failed or found something wrong: a refused hit, a row that breaks its law, an error of the server",
    USAGE: "invalid command, flag, value or setting",
    UNREACHABLE: "no answer from the server or the store",
    HELD: "the data folder is held by another process",
    INTERRUPTED: "interrupted by Ctrl-C",
    PIPE_CLOSED: "the program that read the output ended before all was printed, as `| head` does",
}
_TITLES = {
    FAILED: "failed",
    USAGE: "invalid command or setting",
    UNREACHABLE: "no answer",
    HELD: "data folder held",
    INTERRUPTED: "interrupted",
}

# name -> (module under server.cli, one line). The order is that of the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("serve", "Run the server."),
    "demo": ("serve", "Run a server with a year of made-up traffic."),
    "send": ("client.send", "Send hits to a server."),
    "total": ("client.read", "Print a link's hits: its summary, or the total of a range."),
    "curve": ("client.read", "Draw a link's hits over time."),
    "top": ("client.read", "List the links with the most hits."),
    "delete": ("client.delete", "Delete a link and its history."),
    "watch": ("client.watch", "Show the links with the most hits, live."),
    "by": ("client.breakdown", "Break a link's hits down by referrer, country, device, ..."),
    "visitors": ("client.breakdown", "Print a link's visitors by day."),
    "why": ("client.breakdown", "Explain why a link's hits changed."),
    "disavow": ("client.disavow", "Call counted hits bots by a rule, list rules, undo one."),
    "erase-word": ("client.erase_word", "Forget a value of a dimension, such as a referrer."),
    "note": ("client.notes", "Note beside hits what happened at a moment."),
    "notes": ("client.notes", "List or delete what is noted beside hits."),
    "events": ("client.events", "Print what came of clicks; list a store's events, delete one."),
    "groups": ("client.read", "List the groups with the most hits."),
    "mcp": ("client.assistant", "Let an assistant ask a server (Model Context Protocol)."),
    "import": ("client.imports", "Count an access log, or take over another product's history."),
    "export": ("store.inspect", "Write every link's history as NDJSON."),
    "fold": ("store.upkeep", "Fold the rows that are due, or show what that would do."),
    "verify": ("store.inspect", "Check that every row keeps its totals."),
    "repair": ("store.upkeep", "List damaged rows and quarantined hits, or drop such a row."),
    "join-spellings": ("store.spellings", "Join links that were counted under escaped keys."),
    "dump": ("store.inspect", "Show one link's rows, bucket by bucket."),
    "backup": ("store.backup", "Copy the database while the server runs."),
    "restore": ("store.backup", "Replace the database by a backup."),
    "copy": ("store.copy", "Move everything into another store."),
    "schema": ("store.schema", "Make, show and check the tables of a Cassandra keyspace."),
    "owners": ("store.owners", "List the store's owners; retire that of a lost machine."),
    "limits": ("limits", "Try a rule of the rate limiter on a trace."),
    "bots": ("bots", "Try rules for bots on an access log."),
    "clock": ("clock", "Say that the clock of the server's machine is right."),
    "alerts": ("alerts", "Test alerts' messages, and say when they would have fired."),
    "share": ("shares", "Make, list, revoke addresses that show one link to anybody."),
    "token": ("tokens", "Make, list and revoke tokens."),
    "audit": ("tokens", "List what was administered, and by which token."),
    "settings": ("settings", "List all settings and where each comes from."),
    "completion": ("about", "Print a script that completes commands in bash, zsh or fish."),
    "manual": ("manual", "Print the manual page."),
    "version": ("about", "Print the version."),
}


class Program(click.Group):
    """Imports a command's module on first use, so that none waits for the others' libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"server.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Names the command that was probably meant, where there is none of the name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes the names of commands without importing them all, which takes a second."""
        names = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = asks_for_json(args)
        try:
            context = super().make_context(info_name, list(args), parent, **extra)
        except click.ClickException as error:
            raise ErrorShown(error, as_json) from error
        keep_json_flag(context, as_json)
        return context

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ClickcurveError as error:
            problem = json.loads(error_body(error))
            del problem["status"]  # of an HTTP answer, which this is not
            raise ErrorShown(Failed(error.detail, exit_code(error), problem), wants_json()) from error
        except click.ClickException as error:
            raise ErrorShown(error, wants_json()) from error
        except KeyboardInterrupt:
            raise ErrorShown(Failed("interrupted", INTERRUPTED), wants_json()) from None
        except BrokenPipeError:
            give_up_output()
            raise SystemExit(PIPE_CLOSED) from None


class Failed(click.ClickException):
    """Ends the program with a sentence, an exit code, and perhaps the problem document of a server."""

    def __init__(self, sentence: str, code: int = FAILED, problem: dict[str, object] | None = None) -> None:
        super().__init__(sentence)
        self.exit_code: int = code  # type: ignore[misc]
        self.problem = problem or {}


class ErrorShown(click.ClickException):
    """An error that ends the program, as this program shows errors: the library calls `show` and exits."""

    def __init__(self, error: click.ClickException, as_json: bool) -> None:
        super().__init__(error.format_message())
        self.exit_code: int = error.exit_code  # type: ignore[misc]
        self._error = error
        self._as_json = as_json

    def show(self, file: IO[Any] | None = None) -> None:
        given = getattr(self._error, "problem", {})
        title = _TITLES.get(self.exit_code, "failed")
        problem = {"title": title, "detail": self.message, **given, "exit_code": self.exit_code}
        show_error(self._error, problem, self._as_json)


def exit_code(error: ClickcurveError) -> int:
    if isinstance(error, ParameterInvalid | SettingInvalid | RuleInvalid | LadderInvalid | StoreMismatch):
        return USAGE
    if isinstance(error, StoreUnavailable):
        return UNREACHABLE
    return HELD if isinstance(error, JournalHeld) else FAILED


_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code}  {meaning}" for code, meaning in EXIT_CODES.items())


@click.group(
    cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=_EPILOG
)
@click.version_option(
    package_name="clickcurve", prog_name="clickcurve", message=f"%(prog)s, version %(version)s{build_note()}"
)
def main() -> None:
    """Clickcurve counts the hits of short links and draws their curves.

    \b
    A first minute:
      clickcurve serve                        # in one terminal
      clickcurve send launch                  # in another: one hit of the link "launch"
      clickcurve total launch
      clickcurve curve launch --last 60m

    Every setting can be a flag, a variable (--flush-s is CLICKCURVE_FLUSH_S) or a line in the file of --config;
    `clickcurve settings` shows each value and where it comes from. With --json a command prints JSON for programs.
    """
