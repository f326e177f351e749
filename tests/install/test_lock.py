"""The lock file: pip, refusing all that is not pinned, must find each pin that it looks for."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def with_extras(requires: list[str]) -> list[str]:
    """Returns what is always required with an extra: `coverage[toml]`."""
    always = (line for line in requires if "extra ==" not in line)
    return [match[0] for match in (re.match(r"[\w.-]+\[[^\]]+\]", line) for line in always) if match]


@pytest.mark.parametrize(
    ("requires", "asked"),
    [
        ("coverage[toml]>=7.10.6", ["coverage[toml]"]),
        ("pluggy>=1.2", []),
        ('execnet[testing]>=2; extra == "testing"', []),
    ],
)
def test_a_requirement_with_an_extra_is_seen(requires: str, asked: list[str]) -> None:
    assert with_extras([requires]) == asked


def test_a_package_that_another_requires_with_an_extra_is_pinned_with_it() -> None:
    """pip 23.2 takes the newest `coverage[toml]`, which has no hash, although `coverage` is pinned, and ends."""
    pins = set(re.findall(r"^([^ =]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    names = {pin.partition("[")[0] for pin in pins}
    for distribution in distributions():
        if distribution.name.lower().replace("_", "-") in names:
            missing = set(with_extras(distribution.requires or [])) - pins
            assert not missing, f"{distribution.name} requires {missing}"
