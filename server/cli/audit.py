"""`clickcurve audit`."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from server import clock
from server.cli.options import with_settings
from server.cli.output import Result, reports
from server.cli.store.inspect import opened
from server.settings.table import Settings
from server.tokens.audit import AuditEntry, AuditLog


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
        entries = list(AuditLog(store, clock.now).entries())
    return Result(map(_entry_text, entries), [msgspec.to_builtins(entry) for entry in entries])


def _entry_text(entry: AuditEntry) -> str:
    at = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{at}  {entry.token:<11}  {entry.what:<14}  {entry.subject}"
