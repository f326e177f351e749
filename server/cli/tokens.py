"""`clickcurve token create|list|revoke`, and `clickcurve audit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import click
import msgspec

from clickcurve.access import group_rule
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.times import parse_length, parse_time
from server import data_folder
from server.cli.main import USAGE, Failed
from server.cli.options import with_settings
from server.cli.output import ReportingGroup, Result, note, reports
from server.cli.store.inspect import opened
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from server.tokens.audit import PROMPT, AuditEntry, AuditLog
from server.tokens.known_tokens import write_tokens_copy
from server.tokens.token import Scope, Token, TokenRequest, load_tokens
from server.tokens.token_book import TokenBook
from server.tokens.token_routes import listed

_LIFE_UNITS_S = {"h": HOUR_S, "d": DAY_S, "w": 7 * DAY_S}


@contextmanager
def _token_book(settings: Settings, may_be_new: bool = False) -> Iterator[tuple[TokenBook, AuditLog]]:
    """Opens the tokens of the settings' store, which servers may use meanwhile, and its audit log."""
    database = settings.data / "clickcurve.db"
    if may_be_new and settings.store == f"sqlite:///{database}":
        data_folder.prepare(settings.data)
        if not database.exists():
            note(f"{settings.data} is a new data folder: the token is for the server that you start with it")
    instead = "set admin_token there, and make tokens by POST /v1/tokens"
    with opened(settings.store, settings.ladder, may_be_new=may_be_new, instead=instead) as store:
        book = TokenBook(store)
        book.take_over(load_tokens(data_folder.tokens_file(settings.data)))
        yield book, AuditLog(store, open_clock(settings).now)
        if settings.data.is_dir():  # a server that starts there knows them even while the store does not answer
            write_tokens_copy(settings.data, book.all())


@click.group("token", cls=ReportingGroup)
def token_command() -> None:
    """Make, list and revoke the tokens that a server asks for.

    As soon as there is a token, every request needs `Authorization: Bearer TOKEN`, except /healthz, /readyz and /docs.
    All servers of the store notice changes within five seconds. A token is shown once, when it is made: only its hash
    is kept, in the server's database. Run the command where that is, or name its folder by --data.

    \b
    Scopes:
      write   send hits and imports
      read    totals, curves, lists and /metrics
      admin   both, erase links, and make tokens

    \b
    Examples:
      clickcurve token create shortener --scope write
      clickcurve token create --prefix acme/ --group acme --expires 90d
      clickcurve token list
      clickcurve token revoke 1f2e3d4c
    """


@token_command.command("create")
@click.argument("name", required=False)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it allows; may be given several times.  [default with --prefix: write and read]",
)
@click.option("--prefix", help="It may touch keys that begin so, and nothing else.")
@click.option("--group", help="The group that counts its hits.  [default: the prefix without its separator]")
@click.option("--expires", metavar="TIME", help="When it ends: a time, or a length such as 90d, 12h or 8w.")
@with_settings("data", "store", "config")
def create_token(
    settings: Settings,
    name: str | None,
    scopes: tuple[str, ...],
    prefix: str | None,
    group: str | None,
    expires: str | None,
) -> Result:
    """Make a token and print it, once. NAME describes its user; the default is the prefix.

    \b
    Examples:
      clickcurve token create shortener --scope write
      clickcurve token create dashboard --scope read --data /var/lib/clickcurve
      clickcurve token create --prefix acme/ --group acme --expires 90d
    """
    if name is None and prefix is None:
        raise Failed("the token needs a NAME, or --prefix", USAGE)
    if not scopes and prefix is None:
        raise Failed("the token needs a --scope: write, read or admin", USAGE)
    trusted = open_clock(settings)
    now = int(trusted.now())
    wanted = tuple(map(Scope, scopes)) or (Scope.write, Scope.read)
    asked = TokenRequest(name or prefix or "", wanted, prefix, group, _end_of(expires, now)).checked(now)
    with _token_book(settings, may_be_new=True) as (book, audit):
        audit.note(PROMPT, "token made", asked.name if prefix is None else f"{asked.name} {prefix}")
        token, secret = book.add(asked, now, int(trusted.careful()))
    if token.prefix is not None:
        rule = group_rule(token.prefix, token.group or "")
        note(f"its hits count in the group {token.group!r}, and may name {rule}: docs/customers.md says more")
    return Result([secret], [{"token": secret, **listed(token, None)}])


def _end_of(expires: str | None, now: int) -> int | None:
    """Returns when a token ends, in epoch seconds; raises ParameterInvalid."""
    if expires is None:
        return None
    length = parse_length(expires, _LIFE_UNITS_S)
    if length is not None:
        return now + length[0] * length[1]
    try:
        return parse_time("expires", expires).utc_s
    except ParameterInvalid as error:
        rule = "a time such as 2027-01-01, or a length such as 90d"
        raise ParameterInvalid(error.detail, field="expires", value=expires, rule=rule) from None


@token_command.command("list")
@with_settings("data", "store", "config")
def list_tokens(settings: Settings) -> Result:
    """List tokens: id, scopes, when made, when it ends, when last used, name, prefix and group.

    \b
    Examples:
      clickcurve token list
    """
    with _token_book(settings) as (book, _):
        tokens, used = book.all(), book.last_used()
    return Result(
        (_token_text(token, used.get(token.id)) for token in tokens),
        [listed(token, used.get(token.id)) for token in tokens],
    )


def _token_text(token: Token, used: str | None) -> str:
    made = datetime.fromtimestamp(token.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    ends = "" if token.expires_at is None else f"  until {datetime.fromtimestamp(token.expires_at, UTC):%Y-%m-%d %H:%M}"
    last = "never used" if used is None else f"used {used[:4]}-{used[4:6]}-{used[6:]}"
    reach = "" if token.prefix is None else f"  prefix {token.prefix}  group {token.group}"
    return f"{token.id}  {','.join(token.scopes):<16}  {made}{ends}  {last}  {token.name}{reach}"


@token_command.command("revoke")
@click.argument("token_id", metavar="ID")
@with_settings("data", "store", "config")
def revoke_token(settings: Settings, token_id: str) -> Result:
    """Revoke the token with this id (see `token list`).

    \b
    Examples:
      clickcurve token revoke 1f2e3d4c
    """
    with _token_book(settings) as (book, audit):
        if all(token.id != token_id for token in book.all()):
            raise Failed(f"there is no token {token_id}; `clickcurve token list` shows all tokens")
        audit.note(PROMPT, "token revoked", token_id)
        book.remove(token_id)
    return Result([f"revoked {token_id}"], [{"revoked": token_id}])


@reports("audit")
@with_settings("data", "store", "config")
def audit_command(settings: Settings) -> Result:
    """List what was administered in the last 400 days, and by which token.

    These are tokens and shares that were made and revoked, links and groups that were deleted, databases that were
    restored, and limits that were changed. Each line has the time (UTC), the id of the token, what was done, and to
    what. `command` stands for a token where a command of this program did it, and `settings` where the file did.

    \b
    Examples:
      clickcurve audit
      clickcurve audit --json --data /var/lib/clickcurve
    """
    with opened(settings.store, instead="ask GET /v1/audit") as store:
        entries = list(AuditLog(store, open_clock(settings).now).entries())
    return Result(map(_entry_text, entries), [msgspec.to_builtins(entry) for entry in entries])


def _entry_text(entry: AuditEntry) -> str:
    at = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{at}  {entry.token:<11}  {entry.what:<14}  {entry.subject}"
