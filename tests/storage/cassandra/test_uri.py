"""Addresses of clusters, good and bad."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import SettingInvalid
from storage.cassandra.uri import Address, parse

PLAIN: dict[str, Any] = {"hosts": ("h1",), "port": 9042, "keyspace": "clicks"}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("h1/clicks", {}),
        ("h1:9999/clicks", {"port": 9999}),
        ("h1,h2:9999,10.0.0.3/clicks_2", {"hosts": ("h1", "h2", "10.0.0.3"), "port": 9999, "keyspace": "clicks_2"}),
        ("h1:77,h2:77/clicks", {"hosts": ("h1", "h2"), "port": 77}),
        ("[::1]:9042,[fe80::2]/clicks", {"hosts": ("::1", "fe80::2")}),
        ("h1/clicks?dc=eu-west", {"dc": "eu-west"}),
        ("h1/clicks?dc=a%20b&timeout_s=2.5&in_flight=64", {"dc": "a b", "timeout_s": 2.5, "in_flight": 64}),
        ("h1/clicks?user=u&password_file=/secret", {"user": "u", "password_file": Path("/secret")}),
        ("h1/clicks?tls=1", {"tls": "names"}),
        ("h1/clicks?tls=0", {}),
        ("h1/clicks?tls=chain&ca=/a", {"tls": "chain", "ca": Path("/a")}),
        ("h1/clicks?tls=1&cert=/b&key=/c", {"tls": "names", "cert": Path("/b"), "key": Path("/c")}),
        ("h1/clicks?row_cache_mib=0", {"row_cache_mib": 0}),
    ],
)
def test_an_address_says_what_it_says(rest: str, expected: dict[str, Any]) -> None:
    uri = f"cassandra://{rest}"
    assert asdict(parse(uri)) == asdict(Address(uri, **{**PLAIN, **expected}))


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        ("", "has '' where a host, or host:port, must be"),
        ("h1", "must name a keyspace after the hosts"),
        ("h1/", "must name a keyspace"),
        ("h1/Clicks", "of a to z, 0 to 9 and _"),
        ("h1/a/b", "must name a keyspace"),
        ("h1/" + "k" * 49, "must name a keyspace"),
        ("/clicks", "has '' where a host"),
        ("h1,/clicks", "has '' where a host"),
        ("h 1/clicks", "has 'h 1' where a host"),
        ("h1:0/clicks", "has 'h1:0' where"),
        ("h1:65536/clicks", "has 'h1:65536' where"),
        ("h1:1,h2:2/clicks", "has several ports (1, 2)"),
        ("h1/clicks?DC=x", "has the unknown parameter DC; known are dc, user, password_file, tls,"),
        ("h1/clicks?dc=a&dc=b", "has the parameter dc twice"),
        ("h1/clicks?dc=", "has dc=: it must not be empty"),
        ("h1/clicks?dc", "must have name=value"),
        ("h1/clicks?timeout_s=0", "has timeout_s=0: it must be a number from 0.1 to 120"),
        ("h1/clicks?timeout_s=nan", "must be a number from 0.1 to 120"),
        ("h1/clicks?in_flight=1.5", "has in_flight=1.5: it must be a whole number from 1 to 1024"),
        ("h1/clicks?in_flight=5000", "must be a whole number from 1 to 1024"),
        ("h1/clicks?tls=yes", "has tls=yes: it must be 1, chain (certificates without host names) or 0"),
        ("h1/clicks?ca=/a", "has ca, which is for TLS only: add tls=1"),
        ("h1/clicks?tls=0&cert=/a&key=/b", "has cert, which is for TLS only"),
        ("h1/clicks?tls=1&cert=/a", "must have cert and key together"),
        ("h1/clicks?user=u", "must have user and password_file together"),
    ],
)
def test_a_wrong_address_is_refused_in_one_sentence(rest: str, sentence: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        parse(f"cassandra://{rest}")
    assert sentence in refused.value.detail
    assert "\n" not in refused.value.detail


@pytest.mark.parametrize(
    "rest",
    [
        "u:sesame@h1/clicks",
        "sesame@h1/clicks",
        "h1/clicks?user=u&password=sesame",
        "h1/clicks?sesame",
        "h1/clicks?pwd=sesame",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(rest: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        parse(f"cassandra://{rest}")
    assert "sesame" not in refused.value.detail
    assert "sesame" not in str(refused.value.value)
