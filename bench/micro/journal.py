"""How many groups a second the journal takes, and how long one takes: `python -m bench.micro.journal [--folder DIR]`.

Rows: sync by one synced write (the default), by a write and an fdatasync (what a kernel without synced writes gets),
and off; groups of 1 and of 32 payloads of 40 bytes. The last line is recovery: opening, and reading everything again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Literal

from ingest.journal.disk import Disk
from ingest.journal.journal import Journal

PAYLOAD = b"k" * 40
RECOVERED_BYTES = 30_000_000


class WriteThenSync(Disk):
    """As on a kernel without synced writes."""

    def __init__(self) -> None:
        super().__init__()
        self._write_and_sync = 0


def measure_append(folder: Path, disk: Disk, payloads: int, sync: Literal["always", "off"], seconds: float) -> str:
    """Append groups for some seconds; the line to print."""
    group, took_s = [PAYLOAD] * payloads, []
    journal = Journal.open(folder, disk, sync=sync)
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        journal.append(group, 1_700_000_000_000_000)
        took_s.append(time.perf_counter() - began)
    journal.close()
    took_s.sort()
    p50, p99 = (took_s[int(len(took_s) * share)] * 1e6 for share in (0.5, 0.99))
    return f"{payloads:>8}  {len(took_s) / seconds:>10,.0f}  {p50:>8,.0f}  {p99:>8,.0f}"


def measure_recovery(folder: Path) -> str:
    """Fill a journal with groups of 32, then open it and read it."""
    journal = Journal.open(folder, sync="off")
    while journal.bytes_held < RECOVERED_BYTES:
        journal.append([PAYLOAD] * 32, 1_700_000_000_000_000)
    journal.close()
    began = time.perf_counter()
    journal = Journal.open(folder)
    opened = time.perf_counter()
    frames = sum(1 for _ in journal.frames())
    read = time.perf_counter()
    held = journal.bytes_held / 1e6
    journal.close()
    took = f"opened in {opened - began:.2f} s, read in {read - opened:.2f} s"
    return f"recovery of {held:.0f} MB, {frames:,} payloads: {took}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(), help="where to measure; a folder in it comes and goes")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row (default 0.5)")
    given = parser.parse_args()
    rows: list[tuple[str, Disk, Literal["always", "off"]]] = [
        ("synced write", Disk(), "always"),
        ("write, fdatasync", WriteThenSync(), "always"),
        ("off", Disk(), "off"),
    ]
    print(f"{'sync':<18}payloads    groups/s    p50 us    p99 us")
    with tempfile.TemporaryDirectory(dir=given.folder, prefix=".bench-journal-") as made:
        for number, (name, disk, sync) in enumerate(rows):
            for payloads in (1, 32):
                folder = Path(made) / f"{number}-{payloads}"
                print(f"{name:<18}{measure_append(folder, disk, payloads, sync, given.seconds)}", flush=True)
        print(measure_recovery(Path(made) / "recovery"))


if __name__ == "__main__":
    main()
