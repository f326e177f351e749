"""Makes the page's map and its names of countries: `python -m testing.page.world`.

The outlines are those of Natural Earth (public domain), by way of the package world-atlas; the names are those of the
time zone database (public domain). Both packages are fetched by npm and pinned by hash, nothing of them is kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from math import hypot, radians
from pathlib import Path
from typing import Any, TypeAlias

from testing.server import ROOT

MAP = ROOT / "dashboard" / "page" / "static" / "world.svg"
NAMES = ROOT / "dashboard" / "page" / "audience" / "country_names.py"
OUTLINES = "world-atlas@2.0.2"
CODES = "i18n-iso-countries@7.14.0"  # which two letters an outline's number stands for
SHA512 = {
    OUTLINES: "IXfV0qwlKXpckz1FhwXVwKRjiIhOnWttOskm5CtxMsjgE/MXAYRHWJqgXOpM8IkcPBoXnyTU5lFHcYa5ChG0LQ==",
    CODES: "nXHJZYtNrfsi1UQbyRqm3Gou431elgLjKl//CYlnBGt5aTWdRPH1PiS2T/p/n8Q8LnqYqzQJik3Q7mkwvLokeg==",
}
FETCH_WITHIN_S = 120.0
WIDTH, HEIGHT, TOP = 1_000, 442, 2  # of the map in its units; TOP: above the northernmost land
SCALE = WIDTH / 5.4708
NEAR = 0.7  # units by which an outline may be off
LEAST = 3.0  # square units of the smallest island that is drawn
DOT = 4  # the radius of a country that is too small for an outline
LEFT_OUT = ("Antarctica",)
# The database's names are for lists sorted by their first word.
OWN_NAMES = {
    "CD": "DR Congo", "CG": "Congo", "GB": "United Kingdom", "KP": "North Korea", "KR": "South Korea",
    "SA": "Saudi Arabia", "VI": "US Virgin Islands", "VG": "British Virgin Islands", "XK": "Kosovo",
}  # fmt: skip

Place: TypeAlias = tuple[float, float]
Ring: TypeAlias = list[tuple[int, int]]


def projected(longitude: float, latitude: float) -> Place:
    """Places a point by the Natural Earth projection."""
    x, y = radians(longitude), radians(latitude)
    square = y * y
    fourth = square * square
    across = 0.8707 - 0.131979 * square + fourth * (-0.013791 + fourth * (0.003971 * square - 0.001529 * fourth))
    up = y * (1.007226 + square * (0.015085 + fourth * (-0.044475 + 0.028874 * square - 0.005916 * fourth)))
    return WIDTH / 2 + x * across * SCALE, TOP + (1.4224 - up) * SCALE


def simplified(line: Sequence[Place], near: float) -> list[Place]:
    """Leaves out the points of a line that lie near to the line without them."""
    if len(line) < 3:
        return list(line)
    (ax, ay), (bx, by) = line[0], line[-1]
    length = hypot(bx - ax, by - ay)

    def off(place: Place) -> float:
        if not length:
            return hypot(place[0] - ax, place[1] - ay)
        return abs((bx - ax) * (ay - place[1]) - (ax - place[0]) * (by - ay)) / length

    farthest = max(range(1, len(line) - 1), key=lambda n: off(line[n]))
    if off(line[farthest]) <= near:
        return [line[0], line[-1]]
    return simplified(line[: farthest + 1], near)[:-1] + simplified(line[farthest:], near)


class Outlines:
    """A TopoJSON file: countries that share their borders' lines."""

    def __init__(self, text: str, near: float) -> None:
        topology = json.loads(text)
        (dx, dy), (left, low) = topology["transform"]["scale"], topology["transform"]["translate"]
        self._lines: list[list[Place]] = []
        for arc in topology["arcs"]:
            x = y = 0
            line = []
            for step_x, step_y in arc:
                x, y = x + step_x, y + step_y
                line.append(projected(left + x * dx, low + y * dy))
            self._lines.append(simplified(line, near))
        self.countries: list[dict[str, Any]] = topology["objects"]["countries"]["geometries"]

    def rings(self, country: Mapping[str, Any]) -> Iterator[Ring]:
        """Yields the outer borders of a country, in whole units."""
        polygons = country["arcs"] if country["type"] == "MultiPolygon" else [country["arcs"]]
        for polygon in polygons:
            places: Ring = []
            for arc in polygon[0]:
                line = self._lines[arc] if arc >= 0 else self._lines[~arc][::-1]
                for x, y in line:
                    if not places or places[-1] != (round(x), round(y)):
                        places.append((round(x), round(y)))
            yield from halves(places)


def halves(ring: Ring) -> Iterator[Ring]:
    """Yields a border as it is, or, if it goes over the map's edge, the part at each edge."""
    turned = zip(ring, ring[1:] + ring[:1], strict=True)
    if not any(abs(x - u) > WIDTH / 2 for (x, _), (u, _) in turned):
        yield ring
        return
    for at_left in (True, False):
        if part := [place for place in ring if (place[0] < WIDTH / 2) is at_left]:
            yield part


def area(ring: Ring) -> float:
    turned = zip(ring, ring[1:] + ring[:1], strict=True)
    return abs(sum(x * v - u * y for (x, y), (u, v) in turned)) / 2


def middle(ring: Ring) -> tuple[int, int]:
    return round(sum(x for x, _ in ring) / len(ring)), round(sum(y for _, y in ring) / len(ring))


def path_of(rings: Sequence[Ring]) -> str:
    """Writes rings as the path of an SVG, each point from the one before."""
    path = ""
    for ring in rings:
        (x, y), *rest = ring
        path += f"M{x} {y}l"
        steps = []
        for u, v in rest:
            steps.append(f"{u - x} {v - y}")
            x, y = u, v
        path += " ".join(steps).replace(" -", "-") + "z"
    return path


def drawn(coarse: Outlines, fine: Outlines, codes: Mapping[str, str]) -> str:
    """Draws the map: each country has its two letters as its id; a small one is a dot, of which the world alone shows
    nothing."""
    shapes: dict[str, str] = {}
    nameless = ""
    for country in coarse.countries:
        name = country["properties"]["name"]
        rings = [ring for ring in coarse.rings(country) if len(ring) > 2 and area(ring) >= LEAST]
        if name in LEFT_OUT or not rings:
            continue
        code = "XK" if name == "Kosovo" else codes.get(country.get("id", ""))
        if code is None:
            nameless += path_of(rings)
        else:
            shapes[code] = f'<path id="{code}" d="{path_of(rings)}"/>'
    for country in fine.countries:
        code = codes.get(country.get("id", ""))
        if code is None or code in shapes or country["properties"]["name"] in LEFT_OUT:
            continue
        x, y = middle(max(fine.rings(country), key=lambda ring: area(ring)))
        shapes[code] = f'<circle id="{code}" cx="{x}" cy="{y}" r="{DOT}"/>'
    land = "".join(shape for shape in shapes.values() if shape.startswith("<path"))
    dots = "".join(shape for shape in shapes.values() if shape.startswith("<circle"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<defs>{dots}</defs><g id="world">{land}<path d="{nameless}"/></g></svg>\n'
    )


def names(table: str) -> dict[str, str]:
    """Reads the database's table of countries."""
    plain = table.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    lines = [line.split("\t") for line in plain.splitlines() if line and not line.startswith("#")]
    return dict(sorted({**dict(lines), **OWN_NAMES}.items()))


def module_of(named: Mapping[str, str]) -> str:
    """Writes the names as a module."""
    lines = "".join(
        f"    {json.dumps(code)}: {json.dumps(name, ensure_ascii=False)},\n" for code, name in named.items()
    )
    return (
        '"""Names of countries by their two letters, as the time zone database has them: testing/page/world.py."""\n\n'
        "from __future__ import annotations\n\n"
        "from collections.abc import Mapping\n\n"
        f"COUNTRY_NAMES: Mapping[str, str] = {{\n{lines}}}\n"
    )


def fetched(package: str, *members: str) -> list[str]:
    """Fetches a package and returns the text of some of its files. What is not the pinned file is refused."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", package, "--silent", "--pack-destination", folder]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_WITHIN_S)
        (packed,) = Path(folder).iterdir()
        found = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        assert found == SHA512[package], f"{package} is not the pinned file: {found}"
        with tarfile.open(packed) as archive:
            opened = [archive.extractfile(f"package/{member}") for member in members]
            return [each.read().decode() for each in opened if each is not None]


def make() -> None:
    """Writes the map and the names."""
    coarse, fine = fetched(OUTLINES, "countries-110m.json", "countries-50m.json")
    (table,) = fetched(CODES, "codes.json")
    codes = {number: letters for letters, _, number, _ in json.loads(table)}
    MAP.write_text(drawn(Outlines(coarse, NEAR), Outlines(fine, 0), codes))
    NAMES.write_text(module_of(names((files("tzdata") / "zoneinfo" / "iso3166.tab").read_text())))


if __name__ == "__main__":
    make()
