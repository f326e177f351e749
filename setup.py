"""Packs the program's folders inside the package `clickcurve`, so that a wheel adds one name to an environment.

All else stands in pyproject.toml, which cannot say this without naming each folder below them.
"""

from setuptools import find_packages, setup

PROGRAM = ("ingest", "storage", "query", "retention", "dashboard", "server")
MANUAL = "docs"  # which the program shows; pyproject.toml says what of it


def below(*tops: str) -> list[str]:
    return find_packages(include=[pattern for top in tops for pattern in (top, f"{top}.*")])


setup(
    packages=[*below("clickcurve"), *(f"clickcurve.program.{folder}" for folder in (*below(*PROGRAM), MANUAL))],
    package_dir={f"clickcurve.program.{folder}": folder for folder in (*PROGRAM, MANUAL)},
)
