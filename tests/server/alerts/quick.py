"""The program with alerts that are judged each second, and said again after one."""

from __future__ import annotations

from server.alerts import watch, watching
from server.cli.main import main
from server.process import duty

if __name__ == "__main__":
    watching.ALERTS_S = 1
    duty.DUTIES_S = 0.5  # type: ignore[assignment]
    watch.PAUSES_S = (1,) * len(watch.PAUSES_S)  # type: ignore[assignment]
    main(prog_name="clickcurve")
