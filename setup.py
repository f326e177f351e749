"""Packs the program's folders inside the package `clickcurve`, so that a wheel adds one name to an environment.

With COMPILE_CLICKCURVE=1, as `make compiled` and `make wheel-compiled` have it, the code of rows is compiled beside its
source. All else stands in pyproject.toml, which cannot say this without naming each folder below them.
"""

from os import environ

from setuptools import Extension, find_packages, setup

PROGRAM = ("ingest", "storage", "query", "retention", "dashboard", "server")
MANUAL = "docs"  # which the program shows; pyproject.toml says what of it
# Where a flush spends its time. Each more takes seconds of a compiler, and copies of a frozen dataclass fail then.
BUCKETS = ("candidates", "cells", "codec", "disavowed", "integers", "prefixes", "row", "upper_bounds")
BREAKDOWNS = ("bodies", "closed_part", "few_hits", "open_part", "parts", "pieces")
COMPILED = (
    "clickcurve/keys.py",
    *(f"clickcurve/buckets/{name}.py" for name in BUCKETS),
    *(f"clickcurve/buckets/breakdowns/{name}.py" for name in BREAKDOWNS),
)


def below(*tops: str) -> list[str]:
    return find_packages(include=[pattern for top in tops for pattern in (top, f"{top}.*")])


def compiled() -> list[Extension]:
    """The extensions, all in one library inside the package; none unless they are asked for."""
    if environ.get("COMPILE_CLICKCURVE") != "1":
        return []
    from mypyc.build import mypycify  # of the extra `compile`

    # Level 2 or 3 takes half as long again, and its flushes were no faster.
    return mypycify([*COMPILED], opt_level="1", debug_level="0", group_name="clickcurve.compiled")


setup(
    packages=[*below("clickcurve"), *(f"clickcurve.program.{folder}" for folder in (*below(*PROGRAM), MANUAL))],
    ext_modules=compiled(),
    package_dir={f"clickcurve.program.{folder}": folder for folder in (*PROGRAM, MANUAL)},
)
