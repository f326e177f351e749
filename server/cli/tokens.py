"""`clickcurve token create|list|revoke`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import click

from server import clock, data_folder
from server.cli.main import Failed
from server.cli.options import with_settings
from server.cli.output import ReportingGroup, Result
from server.http.tokens import Scope, Token, add_token, load_tokens, remove_token
from server.settings.table import Settings


@click.group("token", cls=ReportingGroup)
def token_command() -> None:
    """Make, list and revoke the tokens that a server asks for.

    As soon as there is a token, every request needs `Authorization: Bearer TOKEN`, except /healthz, /readyz and /docs.
    A running server notices changes within a second. A token is shown once, when it is made: only its hash is kept.

    \b
    Scopes:
      write   send hits and imports
      read    totals, curves, lists and /metrics
      admin   both, and erase links

    \b
    Examples:
      clickcurve token create shortener --scope write
      clickcurve token list
      clickcurve token revoke 1f2e3d4c
    """


@token_command.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it allows; may be given several times.",
)
@with_settings("data", "config")
def create_token(settings: Settings, name: str, scopes: tuple[str, ...]) -> Result:
    """Make a token and print it, once. NAME describes its user.

    \b
    Examples:
      clickcurve token create shortener --scope write
      clickcurve token create dashboard --scope read --data /var/lib/clickcurve
    """
    data_folder.prepare(settings.data)
    wanted = tuple(dict.fromkeys(Scope(scope) for scope in scopes))
    token = add_token(data_folder.tokens_file(settings.data), name, wanted, int(clock.now()))
    return Result([token], [{"id": token.split("_")[1], "token": token, "name": name, "scopes": wanted}])


@token_command.command("list")
@with_settings("data", "config")
def list_tokens(settings: Settings) -> Result:
    """List tokens: id, scopes, when made, name."""
    tokens = load_tokens(data_folder.tokens_file(settings.data))
    return Result(
        map(_token_text, tokens),
        [{name: value for name, value in asdict(token).items() if name != "sha256"} for token in tokens],
    )


def _token_text(token: Token) -> str:
    made = datetime.fromtimestamp(token.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{token.id}  {','.join(token.scopes):<16}  {made}  {token.name}"


@token_command.command("revoke")
@click.argument("token_id", metavar="ID")
@with_settings("data", "config")
def revoke_token(settings: Settings, token_id: str) -> Result:
    """Revoke the token with this id (see `token list`)."""
    if not remove_token(data_folder.tokens_file(settings.data), token_id):
        raise Failed(f"there is no token {token_id}; `clickcurve token list` shows all tokens")
    return Result([f"revoked {token_id}"], [{"revoked": token_id}])
