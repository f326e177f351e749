"""What the wheel holds: one top-level name, and every file of the program."""

from __future__ import annotations

from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

from testing.server import ROOT
from tests.install.environments import project
from tests.layout import PARTS


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def metadata(wheel: Path) -> str:
    (name,) = (name for name in contents(wheel) if name.endswith(".dist-info/METADATA"))
    return contents(wheel)[name].decode()


def in_wheel(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    return name if name.startswith("clickcurve/") else f"clickcurve/program/{name}"


def test_the_wheel_adds_one_name_to_an_environment(wheel: Path) -> None:
    version = project()["project"]["version"]
    assert {name.partition("/")[0] for name in contents(wheel)} == {"clickcurve", f"clickcurve-{version}.dist-info"}


def test_every_file_of_the_program_is_packed_and_nothing_else(wheel: Path) -> None:
    written = {
        in_wheel(path): path.read_bytes()
        for part in PARTS
        for path in (ROOT / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    written |= {in_wheel(path): path.read_bytes() for path in (ROOT / "docs").glob("*.md")}
    packed = {name: held for name, held in contents(wheel).items() if ".dist-info/" not in name}
    assert sorted(packed) == sorted(written)
    assert packed == written
    assert "clickcurve/py.typed" in packed
    assert any(name.endswith(".lua") for name in packed)


def test_a_source_distribution_gives_the_same_wheel(wheel: Path, sdist: Path, wheel_of_sdist: Path) -> None:
    assert contents(wheel_of_sdist) == contents(wheel)


def test_the_version_stands_in_one_place_and_the_changes_begin_with_it(wheel: Path) -> None:
    version = project()["project"]["version"]
    assert HeaderParser().parsestr(metadata(wheel))["Version"] == version
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    released = headings[1:] if headings[0] == "## Unreleased" else headings
    assert released[0] == f"## {version}"
