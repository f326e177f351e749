"""The program, whose hits wait for an overdue frame: a measurement ends with the first refusal."""

from __future__ import annotations

from ingest.journal import cluster_journal
from server.cli.main import main

if __name__ == "__main__":
    cluster_journal.OVERDUE_S = 60.0
    main(prog_name="clickcurve")
