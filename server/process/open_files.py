"""How many files the process may have open, and so how many connections a worker takes.

Without a file to spare a server can accept nothing, and its kernel resets new connections in silence. So the bound on
connections stays below the limit, and those beyond it get a 503 that says when to come again.
"""

from __future__ import annotations

import resource

from server.http.connection import CONNECTIONS
from server.logs import log

OTHER_FILES = 256  # of a worker: journal, database, cluster, the limiter's backends
WANTED = CONNECTIONS + OTHER_FILES


def raise_limit() -> None:
    """Raises the soft limit of open files as far as wanted and allowed; warns where it stays too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < WANTED:
        reachable = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
        except (OSError, ValueError) as error:  # a sandbox may forbid it
            log.warning("open files not raised", extra={"limit": soft, "reason": str(error)})
    if (fitting := fitting_connections()) < CONNECTIONS:
        then = f"a worker takes {fitting} connections and answers further ones 503"
        more = "LimitNOFILE of a systemd unit, or ulimit -n"
        log.warning("few open files", extra={"limit": _most_files(), "wanted": WANTED, "then": then, "raised_by": more})


def fitting_connections() -> int:
    """Returns how many connections a worker may take at once under the limit of open files."""
    limit = _most_files()
    return min(CONNECTIONS, max(limit - OTHER_FILES, limit // 2))


def _most_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED if soft == resource.RLIM_INFINITY else soft
