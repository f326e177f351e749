"""The settings of sites: prefixes and groups by the number that Matomo's senders give, checked at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.access import PREFIX_RULE
from clickcurve.buckets.errors import SettingInvalid, shown
from clickcurve.keys import GROUP_RULE
from server.settings.reading import read_settings
from server.settings.sites import MOST_SITES, Site
from server.settings.table import Settings

MANY = "".join(f"[matomo.{n}]\ngroup = 'a'\n" for n in range(MOST_SITES + 1))


def read(folder: Path, text: str) -> Settings:
    file = folder / "clickcurve.toml"
    file.write_text(text)
    return read_settings({"config": str(file)}, {})


def test_sites_are_read(tmp_path: Path) -> None:
    text = '[matomo.1]\nprefix = "acme/"\n[matomo.2]\ngroup = "shop"\n[matomo.my-site]\nprefix = "a/"\ngroup = "a/b"\n'
    assert read(tmp_path, text).matomo_sites == {
        "1": Site("acme/"),
        "2": Site(group="shop"),
        "my-site": Site("a/", "a/b"),
    }
    assert read(tmp_path, "").matomo_sites == read_settings({}, {}).matomo_sites == {}
    in_key = 'hosts = "in_key"\n[matomo.1]\ngroup = "shop"\n'
    assert read(tmp_path, in_key).matomo_sites == {"1": Site(group="shop")}


@pytest.mark.parametrize(
    ("text", "field", "value", "rule"),
    [
        ("matomo = 7", "matomo", 7, "tables of sites: [matomo.1]"),
        (MANY, "matomo", "10,001 sites", "at most 10,000"),
        ('[matomo."a b"]\ngroup = "a"', "matomo.a b", "a b", "1 to 64 letters, digits, - or _"),
        ("[matomo]\n1 = 'acme/'", "matomo.1", "acme/", "a table [matomo.1] with prefix or group"),
        ("[matomo.1]", "matomo.1", {}, "a table [matomo.1] with prefix or group"),
        ("[matomo.1]\nprefixes = 'a'", "matomo.1.prefixes", "a", "called prefix or group"),
        ("[matomo.1]\nprefix = 7", "matomo.1.prefix", 7, PREFIX_RULE),
        ("[matomo.1]\nprefix = ''", "matomo.1.prefix", "", PREFIX_RULE),
        (f"[matomo.1]\nprefix = '{'é' * 129}'", "matomo.1.prefix", "é" * 129, PREFIX_RULE),
        (f"[matomo.1]\ngroup = '{'g' * 65}'", "matomo.1.group", "g" * 65, GROUP_RULE),
        ("hosts = 'in_key'\n[matomo.1]\nprefix = 'a/'", "matomo.1.prefix", "a/", "left out with hosts = in_key"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_what_breaks_a_rule_is_refused_with_field_value_and_rule(
    tmp_path: Path, text: str, field: str, value: object, rule: str
) -> None:
    with pytest.raises(SettingInvalid) as refused:
        read(tmp_path, text)
    error = refused.value
    assert (error.field, error.value) == (field, shown(value))
    assert rule in str(error.rule) and field in str(error) and rule in str(error)


@pytest.mark.parametrize("text", [",", "a,", "k" * 1_025, ",".join(["a"] * 101)], ids=range(4))
def test_patterns_of_keys_are_checked(text: str) -> None:
    assert read_settings({"doors_keys": " go/*, r/? "}, {}).doors_keys == ("go/*", "r/?")
    with pytest.raises(SettingInvalid, match="at most 100 patterns of keys") as refused:
        read_settings({"doors_keys": text}, {})
    assert refused.value.field == "doors_keys"
