"""`make cassandra`: a throw-away Cassandra to try Clickcurve on. Ctrl-C ends it and removes its data."""

from __future__ import annotations

import signal
import sys
import tempfile
from itertools import count
from pathlib import Path

from testing.cassandra.jars import Missing, cache, version
from testing.cassandra.node import Node, NodeFailed
from testing.cassandra.prepare import prepare
from testing.cassandra.ring import is_free, place_one, running
from testing.server import run

FIRST_PORT = 9042
PROGRAM = ".venv/bin/clickcurve"


def main() -> int:
    """Run until Ctrl-C, SIGTERM or the node's own end; the exit status."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        if not cache().is_dir():
            say(f"Fetching Cassandra {version()} into {cache()}, once ...")
        prepare()
        with tempfile.TemporaryDirectory(prefix="clickcurve-cassandra-") as folder:
            say("Starting ...")
            port = next(port for port in count(FIRST_PORT) if is_free(port, "127.0.0.1"))
            with running([place_one(Path(folder), native_port=port)]) as ring:
                offer(ring.nodes[0])
                ring.nodes[0].until_it_ends()
    except KeyboardInterrupt:
        say("\nEnded; its data is gone.")
        return 0
    except (Missing, NodeFailed) as failed:
        say(str(failed))
    return 1


def offer(node: Node) -> None:
    """Put the tables into a keyspace and say how to use it."""
    store = f"cassandra://{node.address}:{node.port}/clickcurve"
    say("Making the tables ...")
    applied = run("schema", "apply", "--store", store, "--replication", "1")
    if applied.returncode != 0:
        raise NodeFailed(f"The tables could not be made:\n{applied.stdout}{applied.stderr}")
    say(f"Cassandra {version()} listens on {node.address}:{node.port}. Its data goes away when you press Ctrl-C here.")
    say(f"In another terminal:\n\n    {PROGRAM} serve --store {store}\n")


def say(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
