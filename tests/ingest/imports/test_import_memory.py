"""The memory of `clickcurve import`, whatever a file says: packed files of some kilobytes that hold gigabytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard

from testing.server import ROOT

MIB = 1 << 20
PEAK_MIB = 256
MEASURED = f"""
import atexit, pathlib, runpy, sys
sys.path.insert(0, {str(ROOT)!r})
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: print("peak", *[line for line in status.read_text().splitlines() if "VmHWM" in line]))
runpy.run_module("clickcurve", run_name="__main__")
"""
LOG = b'192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 301 0 "-" "-"\n'
HISTORY = b'{"key": "a", "total": 1}\n'
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 6),
    "zstd": zstandard.compress,
    "bzip2": lambda data: bz2.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
}


def packed(begin: bytes, unit: bytes, mib: int, coding: str = "gzip", end: bytes = b"") -> bytes:
    """Packs so many MiB of a unit, between a beginning and an end, as members that follow one another."""
    pack, member_mib = PACK[coding], min(mib, 16)
    return pack(begin) + pack(unit * (member_mib * MIB // len(unit))) * (mib // member_mib) + pack(end)


def one_frame(begin: bytes, mib: int, window_log: int) -> bytes:
    """Packs so many MiB of one line as one frame of zstd with a large window, as `zstd --long` does."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
    target = io.BytesIO()
    with zstandard.ZstdCompressor(compression_params=parameters).stream_writer(target, closefd=False) as writer:
        writer.write(begin)
        for _ in range(mib):
            writer.write(b"a" * MIB)
    return target.getvalue()


def zipped(**parts: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in parts.items():
            archive.writestr(f"{name}.jsonl", data)
    return target.getvalue()


def joined(lines: Iterable[bytes]) -> bytes:
    return gzip.compress(b"".join(lines), 1)


PATHS, HOURS = b'{"id":1,"path":"/a"}\n', b'{"hour":"2026-01-01T00:00:00Z","path_id":1,"count":1}\n'
# Name -> product, what makes the files, exit status.
BOMBS: dict[str, tuple[str | None, Callable[[], list[bytes]], int]] = {
    **{
        f"a log of one line, {coding}": (None, lambda coding=coding: [packed(LOG, b"a", 1024, coding)], 0)  # type: ignore[misc]
        for coding in PACK
    },
    "a log of newlines": (None, lambda: [packed(LOG, b"\n", 8, "zstd")], 0),
    "a log of lines of 4 MiB": (None, lambda: [packed(LOG, b"a" * (4 * MIB - 1) + b"\n", 64)], 0),
    "a log in a large window": (None, lambda: [one_frame(LOG, 512, 27)], 0),
    "a log of other keys": (None, lambda: [joined(LOG.replace(b"/a", b"/%x" % n) for n in range(100_000))], 0),
    "a history of one line": (None, lambda: [packed(HISTORY + b'{"key":"', b"a", 1024, "zstd")], 0),
    "a history of long lines": (
        None,
        lambda: [joined([HISTORY, *[b'{"key":"a","x":[' + b"{}," * (5 * MIB - 9) + b"0]}\n"] * 2])],
        1,
    ),
    "a history of long keys": (
        None,
        lambda: [joined(b'{"key":"%x%s","total":1}\n' % (n, b"a" * 990) for n in range(60_000))],
        0,
    ),
    "a header of commas": ("yourls", lambda: [packed(b"keyword,clicks", b",", 512)], 1),
    "a row of commas": ("yourls", lambda: [packed(b"keyword,clicks\na,1", b",", 512)], 1),
    "a cell": ("yourls", lambda: [packed(b"keyword,clicks\n", b"a", 512)], 1),
    "an open quote": ("yourls", lambda: [packed(b"keyword,clicks\n", b'"\n",', 512)], 1),
    "blank lines": ("goatcounter", lambda: [packed(b"2Path,Date\n", b"\n", 4)], 0),
    "many visits, and a bad file": (
        "yourls",
        lambda: [packed(b"click_time,shorturl\n", b"2026-01-01 00:00:00,a\n", 8), b"x"],
        1,
    ),
    "several files, and a bad one": (
        "yourls",
        lambda: [packed(b"keyword,clicks\n", b"a,1\n", 1, "xz")] * 4 + [b"x"],
        1,
    ),
    "a text of JSON": ("kutt", lambda: [packed(b'[{"address":"', b"b", 512)], 1),
    "blanks before JSON": ("shlink", lambda: [packed(b"{", b" ", 512)], 1),
    "empty entries": ("kutt", lambda: [packed(b'{"data":[{}', b", {}", 2, end=b"]}")], 1),
    "an entry of entries": ("shlink", lambda: [packed(b'{"visits":{"data":[[[]', b",[]", 64)], 1),
    "a document of entries": ("bitly", lambda: [packed(b'{"link_clicks":[{}', b",{}", 64)], 1),
    "depth": ("yourls", lambda: [packed(b"", b'{"links":', 64)], 1),
    "a part of blanks": ("goatcounter", lambda: [zipped(paths=b" " * (360 * MIB), hit_stats=HOURS)], 1),
    "a part of one line": (
        "goatcounter",
        lambda: [zipped(paths=PATHS, hit_stats=b'{"hour":"' + b"a" * (360 * MIB))],
        1,
    ),
    "other parts": ("goatcounter", lambda: [zipped(paths=PATHS, hit_stats=HOURS, other=bytes(360 * MIB))], 0),
}


# One of each kind in `make test`.
QUICK = (
    "a log of one line, zstd",
    "a log in a large window",
    "a history of long lines",
    "an open quote",
    "a text of JSON",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in BOMBS]
)
def test_an_import_takes_little_memory_whatever_a_file_says(tmp_path: Path, name: str) -> None:
    product, make, status = BOMBS[name]
    files = make()
    paths = [tmp_path / f"file{n}" for n in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        assert len(data) < 4 * MIB, "small on disk"
        path.write_bytes(data)
    arguments = [
        "import",
        *(("--from", product) if product else ()),
        "--data",
        str(tmp_path / "data"),
        *map(str, paths),
    ]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    peak_mib = int(done.stdout.rpartition("VmHWM:")[2].split()[0]) // 1024
    assert peak_mib <= PEAK_MIB
