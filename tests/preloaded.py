"""Small libraries in C that are preloaded into programs, to change what these ask of the system."""

from __future__ import annotations

import atexit
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp


@cache
def library(name: str, source: str) -> Path:
    """Compiles a library, once for each process that asks for it; returns its file. A test needs("compiler")."""
    where = Path(mkdtemp(prefix=f"{name}-"))
    atexit.register(shutil.rmtree, where, ignore_errors=True)
    written, built = where / f"{name}.c", where / f"{name}.so"
    written.write_text(source)
    compiler = shutil.which("cc")
    assert compiler is not None, "a C compiler is missing (Debian: gcc, libc6-dev)"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", built, written, "-ldl"], check=True)
    return built
