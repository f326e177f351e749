"""The command `clickcurve`, also as `python -m clickcurve`: finds the program's folders and runs it.

The program imports its own folders by their short names (`ingest`, `storage`, `query`, `retention`, `server`). In a
checkout they stand beside this package; a wheel packs them inside it, below `program`, so that an environment gets one
name, `clickcurve`. Either way they go to the front of this process's path: modules of the same names that an
application has in its working directory or on PYTHONPATH are not found by us, and ours are found by nobody else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def main() -> None:
    """Runs one command to its end and exits with its code."""
    packed = _HERE / "program"
    sys.path.insert(0, str(packed if packed.is_dir() else _HERE.parent))
    import_module("server.cli.main").main(prog_name="clickcurve")


if __name__ == "__main__":
    main()
