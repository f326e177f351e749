"""The map of the page: outlines that keep to the line, the edge of the map, and the file that is in the tree."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from dashboard.page.audience.country_names import COUNTRY_NAMES
from testing.page.world import HEIGHT, MAP, WIDTH, Ring, halves, path_of, projected, simplified


def test_the_map_has_each_country_by_its_two_letters() -> None:
    shapes = {each.get("id"): each.tag.rpartition("}")[2] for each in ElementTree.parse(MAP).iter() if each.get("id")}
    countries = {code for code in shapes if code and len(code) == 2}
    assert countries <= COUNTRY_NAMES.keys() and {"AT", "US", "CN", "BR", "ZA", "NZ", "XK"} <= countries
    assert shapes["AT"] == "path" and shapes["SG"] == "circle", "what is too small for an outline is a dot"
    assert len(countries) > 220 and "AQ" not in countries


def test_the_ends_of_the_world_are_on_the_map() -> None:
    for longitude, latitude in ((-180, 0), (180, 0), (0, 83.6), (-67, -55.9), (178, -18)):
        x, y = projected(longitude, latitude)
        assert 0 <= x <= WIDTH and 0 <= y <= HEIGHT, (longitude, latitude)
    assert projected(0, 0)[0] == WIDTH / 2


def test_a_line_loses_only_points_that_are_near_to_it() -> None:
    assert simplified([(0, 0), (5, 0.5), (10, 0)], 0.7) == [(0, 0), (10, 0)]
    assert simplified([(0, 0), (5, 0.9), (10, 0)], 0.7) == [(0, 0), (5, 0.9), (10, 0)]
    assert simplified([(0, 0), (5, 3), (0, 0)], 0.7) == [(0, 0), (5, 3), (0, 0)], "an island stays"


@pytest.mark.parametrize(
    ("ring", "parts"),
    [
        ([(10, 0), (20, 0), (20, 9)], [[(10, 0), (20, 0), (20, 9)]]),
        ([(990, 0), (5, 0), (5, 9), (990, 9)], [[(5, 0), (5, 9)], [(990, 0), (990, 9)]]),
    ],
)
def test_a_border_that_goes_over_the_edge_is_cut_there(ring: Ring, parts: list[Ring]) -> None:
    assert list(halves(ring)) == parts


def test_a_path_says_each_point_from_the_one_before() -> None:
    assert path_of([[(10, 10), (12, 9), (11, 15)]]) == "M10 10l2-1-1 6z"
