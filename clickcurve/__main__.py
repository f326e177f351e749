"""The command `clickcurve`, also as `python -m clickcurve`: finds the program's folders and runs it.

The program imports its own folders by their short names (`ingest`, `storage`, `query`, ...). In a
checkout they stand beside this package; a wheel packs them inside it, below `program`, so that an environment gets one
name, `clickcurve`. Either way they go to the front of this process's path: modules of the same names that an
application has in its working directory or on PYTHONPATH are not found by us, and ours are found by nobody else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from clickcurve.visible import visible

_HERE = Path(__file__).resolve().parent
_FOLDERS = ("ingest", "storage", "query", "retention", "dashboard", "server")


def main() -> None:
    """Runs one command to its end and exits with its code."""
    packed = _HERE / "program"
    program = packed if packed.is_dir() else _HERE.parent
    _refuse_strangers(program)
    sys.path.insert(0, str(program))
    import_module("server.cli.main").main(prog_name="clickcurve")


def _refuse_strangers(program: Path) -> None:
    """Ends the process, with a sentence, if something else has been imported under the name of one of our folders.

    A `.pth` file or a `sitecustomize` can do so before the first line of ours runs.
    """
    for name in _FOLDERS:
        module = sys.modules.get(name)
        if module is not None and program / name not in map(Path, getattr(module, "__path__", ())):
            where = visible(getattr(module, "__file__", None) or "without a file")
            print(
                f"Error: a module named {name} ({where}) was imported before the program began, by a .pth file or a "
                "sitecustomize: install clickcurve into an environment of its own, as pipx does",
                file=sys.stderr,
            )
            raise SystemExit(2)


if __name__ == "__main__":
    main()
