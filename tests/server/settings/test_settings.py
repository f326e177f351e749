"""Where settings come from, which one wins, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.buckets.errors import SettingInvalid
from server.settings.reading import read_settings
from server.settings.table import TABLE


@pytest.mark.parametrize(
    ("flag", "environ", "file", "value", "origin"),
    [
        (None, None, None, 8080, "default"),
        (None, None, 1003, 1003, "file {file}"),
        (None, "1002", 1003, 1002, "environment CLICKCURVE_PORT"),
        ("1001", "1002", 1003, 1001, "flag --port"),
        ("1001", None, 1003, 1001, "flag --port"),
        ("1001", "1002", None, 1001, "flag --port"),
        (None, "1002", None, 1002, "environment CLICKCURVE_PORT"),
        ("1001", None, None, 1001, "flag --port"),
    ],
)
def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(
    tmp_path: Path, flag: str | None, environ: str | None, file: int | None, value: int, origin: str
) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text("" if file is None else f"port = {file}\n")
    settings = read_settings(
        {"port": flag, "config": str(config)}, {} if environ is None else {"CLICKCURVE_PORT": environ, "PATH": "/bin"}
    )
    assert settings.port == value
    assert settings.origins["port"] == origin.format(file=config)


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text('sync = false\nworkers = 2\nstore = "memory://"\n')
    settings = read_settings({}, {"CLICKCURVE_CONFIG": str(config)})
    assert (settings.sync, settings.workers, settings.store) == (False, 2, "memory://")


def test_lists_are_written_with_commas_or_as_lists_of_toml(tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text('cors_origins = ["https://A.example", "http://[::1]:80"]\nallowed_hosts = "a.example, b"\n')
    settings = read_settings({"config": str(config)}, {})
    assert settings.cors_origins == ("https://a.example", "http://[::1]:80")
    assert settings.allowed_hosts == ("a.example", "b")
    assert ("allowed_hosts", "a.example, b", f"file {config}") in settings.listing()


def test_the_database_lies_in_the_data_folder_unless_a_store_is_named() -> None:
    assert read_settings({"data": "/srv/clicks"}, {}).store == "sqlite:////srv/clicks/clickcurve.db"
    assert read_settings({}, {}).store == "sqlite:///clickcurve-data/clickcurve.db"
    assert read_settings({"store": "memory://"}, {}).store == "memory://"


@pytest.mark.parametrize(
    ("flags", "environ", "sentence"),
    [
        ({"port": "eighty"}, {}, "port (flag --port) is 'eighty': it must be a whole number from 0 to 65535"),
        ({"port": "65536"}, {}, "port (flag --port) is '65536': it must be a whole number from 0 to 65535"),
        ({"port": "1_0"}, {}, "port (flag --port) is '1_0': it must be a whole number from 0 to 65535"),
        ({"port": ""}, {}, "port (flag --port) is '': it must be a whole number from 0 to 65535"),
        ({"workers": "0"}, {}, "workers (flag --workers) is '0': it must be a whole number from 1 to 64"),
        ({"sync": "maybe"}, {}, "sync (flag --sync) is 'maybe': it must be on or off"),
        ({"store": "redis://h1"}, {}, "must begin with sqlite:///, cassandra:// or memory://"),
        ({"data": ""}, {}, "data (flag --data) is '': it must not be empty"),
        ({"url": "127.0.0.1:8080"}, {}, "it must begin with http:// or https://"),
        ({"url": "http://[bad"}, {}, "it must name a host, and perhaps a port"),
        ({"url": "http://h:port"}, {}, "it must name a host, and perhaps a port"),
        ({"url": "http://"}, {}, "it must name a host, and perhaps a port"),
        ({"allowed_hosts": "http://a"}, {}, "must be names such as clicks.example.org, without a port"),
        ({"allowed_hosts": "a:80"}, {}, "must be names such as clicks.example.org, without a port"),
        ({"cors_origins": "www.example.org"}, {}, "must be * or origins such as https://www.example.org"),
        ({"cors_origins": "*, http://a"}, {}, "must be * or origins such as https://www.example.org"),
        ({}, {"CLICKCURVE_FLUSH_S": "0"}, "flush_s (environment CLICKCURVE_FLUSH_S) is '0': it must be a whole number"),
        ({}, {"CLICKCURVE_FLUSH": "15"}, "flush is not a setting (variable CLICKCURVE_FLUSH); did you mean flush_s?"),
        ({}, {"CLICKCURVE_xyz": "1"}, "xyz is not a setting"),
        ({}, {"CLICKCURVE_port": "1"}, "the variable CLICKCURVE_port must be written CLICKCURVE_PORT"),
        (
            {"breakdown_dimensions": "ref,refs"},
            {},
            "it must be known names, each once (refs is not a dimension): ref, ",
        ),
        ({"breakdown_dimensions": "ref,ref"}, {}, "it must be known names, each once (a dimension is named twice)"),
        ({"breakdown_caps": "1,2,3"}, {}, "it must be 4 whole numbers from 1 to 1,000"),
        ({"breakdown_keep": "ref"}, {}, "it must be dimensions with a number of days from 2 to 36,500"),
        ({"breakdown_keep": "ref=1d"}, {}, "it must be dimensions with a number of days from 2 to 36,500"),
        ({"breakdown_keep": "ref=36501d"}, {}, "it must be dimensions with a number of days from 2 to 36,500"),
        ({"breakdown_keep": "ref=4w"}, {}, "it must be dimensions with a number of days from 2 to 36,500"),
        ({"breakdown_keep": "refs=4d"}, {}, "it must be known names, each once"),
        ({"breakdown_keep": "ref=4d,ref=5d"}, {}, "it must be known names, each once (a dimension is named twice)"),
        ({"breakdown_caps": "1,2,3,0"}, {}, "it must be 4 whole numbers from 1 to 1,000"),
        ({"breakdown_caps": "1,2,3,1001"}, {}, "it must be 4 whole numbers from 1 to 1,000"),
        ({}, {"CLICKCURVE_BREAKDOWN_OWN_HOSTS": "http://a"}, "must be names such as clicks.example.org"),
        (
            {},
            {"CLICKCURVE_BREAKDOWN_COUNTRY_DATA": "/nowhere"},
            "it must be builtin, off, or a file in MaxMind's format",
        ),
        ({}, {"CLICKCURVE_BREAKDOWN_VISITORS": "maybe"}, "it must be on or off"),
        ({"config": "/nowhere/at/all.toml"}, {}, "the settings file /nowhere/at/all.toml cannot be read: No such file"),
    ],
)
def test_a_wrong_or_unknown_setting_is_refused_in_one_sentence(
    flags: dict[str, str], environ: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SettingInvalid) as refused:
        read_settings(flags, environ)
    assert sentence in refused.value.detail
    assert "\n" not in refused.value.detail


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prot = 1\n", "prot is not a setting (name in {file}); did you mean port?"),
        ("port = [1]\n", "port in {file} is a list: it must be a text, a number, true or false, or a list of texts"),
        ("port = 1.5\n", "port in {file} is a float"),
        ("port =\n", "the settings file {file} is not TOML"),
        ('config = "b.toml"\n', "{file} names another settings file"),
        ("breakdown = 1\n", "breakdown in {file} must be a table: [breakdown]"),
        ("[breakdown]\nrefs = 1\n", "breakdown_refs is not a setting (name in {file})"),
        ("[breakdown]\ncaps = [1, 2.5]\n", "breakdown_caps in {file} is a list"),
        ('port = "x"\n', "port (file {file}) is 'x': it must be a whole number"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text(text)
    with pytest.raises(SettingInvalid) as refused:
        read_settings({"config": str(config)}, {})
    assert sentence.format(file=config) in refused.value.detail


def test_the_listing_has_every_setting_with_its_origin_and_hides_secrets() -> None:
    listing = read_settings({"token": "cc_secret"}, {"CLICKCURVE_SYNC": "off"}).listing()
    assert [name for name, _, _ in listing] == [setting.name for setting in TABLE]
    assert ("token", "********", "flag --token") in listing
    assert ("sync", "off", "environment CLICKCURVE_SYNC") in listing
    assert ("port", "8080", "default") in listing


def test_a_secret_is_not_repeated_in_a_refusal(tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text('token = "cc_secret"\nport = "x"\n')
    with pytest.raises(SettingInvalid) as refused:
        read_settings({"config": str(config)}, {})
    assert "cc_secret" not in refused.value.detail


def test_hits_are_divided_by_four_dimensions_where_nothing_else_is_said() -> None:
    assert read_settings({}, {}).breakdown_dimensions == ("ref", "country", "device", "source", "channel")


def test_for_how_long_values_are_kept_is_a_table_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text('[breakdown.keep]\nref = "400d"\ntag.shop = 30\n"tag.my.shop" = "31d"\n')
    settings = read_settings({"config": str(config)}, {})
    assert settings.breakdown_keep == (("ref", 400), ("tag.shop", 30), ("tag.my.shop", 31))
    assert settings.bounded.times == settings.breakdown_keep
    assert ("breakdown_keep", "ref=400d, tag.shop=30d, tag.my.shop=31d", f"file {config}") in settings.listing()
    given = read_settings({"breakdown_keep": "ref=2d, country=90", "config": str(config)}, {})
    assert given.breakdown_keep == (("ref", 2), ("country", 90))
    assert read_settings({"breakdown_keep": ""}, {}).breakdown_keep == ()
    config.write_text("[breakdown.keep]\nref = true\n")
    with pytest.raises(SettingInvalid, match=r"breakdown_keep .* is 'ref=True': it must be dimensions"):
        read_settings({"config": str(config)}, {})


def test_the_table_of_breakdowns_is_read_as_flags_and_variables_are(tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    table = 'dimensions = ["ref", "tag.team"]\ncaps = [10, 9, 8, 7]\nown_hosts = ["a.example"]\nvisitors = false\n'
    table += 'ref_aliases = "off"\n'
    config.write_text(f'port = 9000\n[breakdown]\n{table}country_data = "off"\n')
    settings = read_settings({"config": str(config)}, {})
    assert (settings.port, settings.breakdown_dimensions, settings.breakdown_caps) == (
        9_000,
        ("ref", "tag.team"),
        (10, 9, 8, 7),
    )
    assert (settings.breakdown_own_hosts, settings.breakdown_visitors) == (("a.example",), False)
    assert (settings.breakdown_country_data, settings.breakdown_ref_aliases) == ("off", False)
    assert ("breakdown_caps", "10, 9, 8, 7", f"file {config}") in settings.listing()
    both = read_settings(
        {"breakdown_dimensions": "lang", "config": str(config)}, {"CLICKCURVE_BREAKDOWN_CAPS": "1,1,1,1"}
    )
    assert (both.breakdown_dimensions, both.breakdown_caps) == (("lang",), (1, 1, 1, 1))
    config.write_text("[breakdown]\ndimensions = []\n")
    assert read_settings({"config": str(config)}, {}).breakdown_dimensions == ()
