"""Who calls: the last address of the chain that is no trusted proxy, in the one form under which it counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.http.address import Addresses, addresses
from tests.power import examples

PROXIES = "10.0.0.0/8, 2001:db8:a::/48"


def scope(peer: str | None, *values: str, header: str = "x-forwarded-for") -> dict[str, Any]:
    return {
        "client": None if peer is None else (peer, 4711),
        "headers": [(header.encode(), value.encode("latin-1")) for value in values],
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::FFFF:cb00:7107", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::/64", "2001:db8:1:2::/64"),  # named before
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("010.0.0.1", "010.0.0.1"),  # some read it as octal: no address
        ("203.0.113.7:51008", "203.0.113.7"),
        (" 203.0.113.7 ", "203.0.113.7"),
        ("::ffff:203.0.113.7:51008", "203.0.113.7"),
        ("[2001:db8:1:2::7]:51008", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::7]", "2001:db8:1:2::/64"),
        ("[launch]:80", "[launch]:80"),
        (" launch", " launch"),
        ("launch", "launch"),
        ("", ""),
    ],
)
def test_an_address_has_one_name_and_other_text_is_taken_as_it_is(text: str, name: str) -> None:
    assert Addresses().name(text) == name
    assert Addresses().name(name) == name


@pytest.mark.parametrize(
    ("prefix", "name"),
    [(32, "2001:db8::/32"), (56, "2001:db8:1:200::/56"), (64, "2001:db8:1:234::/64"), (128, "2001:db8:1:234::5")],
)
def test_the_width_of_a_household_can_be_chosen(prefix: int, name: str) -> None:
    assert Addresses(ipv6_prefix=prefix).name("2001:db8:1:234::5") == name


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        ("203.0.113.7", ["198.51.100.1"], "203.0.113.7"),  # not from a proxy: its own claim
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.2.3.4, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.2.3.4, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["1.2.3.4", "198.51.100.1,10.0.0.2"], "198.51.100.1"),  # two lines are one list
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),  # all of it ours: the farthest
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8:1:2::5]:4711"], "2001:db8:1:2::/64"),
        ("10.0.0.1", ["2001:db8:1:2::5"], "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("2001:db8:a::1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.2.3.4, unknown"], "unknown"),
        ("10.0.0.1", ["1.2.3.4,"], "unknown"),
        ("10.0.0.1", ["1.2.3.4, unix:"], "unix:"),
        (None, ["198.51.100.1"], "unix"),
    ],
)
def test_the_client_is_the_last_that_is_no_proxy(peer: str | None, values: list[str], client: str) -> None:
    assert addresses(PROXIES).client(scope(peer, *values)) == client


def test_a_local_socket_is_trusted_only_where_that_is_said() -> None:
    assert addresses("unix").client(scope(None, "198.51.100.1")) == "198.51.100.1"
    assert addresses("unix").client(scope("203.0.113.7", "198.51.100.1")) == "203.0.113.7"
    assert addresses("10.0.0.0/8").client(scope(None, "198.51.100.1")) == "unix"
    assert addresses("unix, 10.0.0.1").client(scope("10.0.0.1", "198.51.100.1, unix:")) == "198.51.100.1"


@pytest.mark.parametrize(
    ("values", "client"),
    [
        (["for=198.51.100.1"], "198.51.100.1"),
        (["For=198.51.100.1;proto=https;by=10.0.0.1"], "198.51.100.1"),
        (['for="[2001:db8:1:2::5]:4711"'], "2001:db8:1:2::/64"),
        (['for=1.2.3.4, for="198.51.100.1:80"'], "198.51.100.1"),
        (["for=198.51.100.1, for=10.0.0.2"], "198.51.100.1"),
        (["for=_hidden"], "_hidden"),
        (["proto=https"], "unknown"),
        (['host="a, b;for=1.2.3.4";for=198.51.100.1'], "198.51.100.1"),
        (['for="1.2.3.4, for=198.51.100.1'], "198.51.100.1"),  # left open, to swallow what the proxy adds
        (['for="1.2.3.4\\", for="[2001:db8:1:2::5]"'], "2001:db8:1:2::/64"),
        ([""], "unknown"),
    ],
)
def test_forwarded_is_read_as_its_standard_has_it(values: list[str], client: str) -> None:
    found = addresses(PROXIES, header="forwarded")
    assert found.client(scope("10.0.0.1", *values, header="forwarded")) == client
    assert found.client(scope("10.0.0.1", "198.51.100.9")) == "10.0.0.1", "the other header is anybody's"


CLAIMS = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n")) | st.text('",;=\\ for1.[]:')


@settings(max_examples=examples(1_000))
@given(claimed=CLAIMS, header=st.sampled_from((0, 1)))
def test_no_claim_of_a_client_hides_what_its_proxy_saw(claimed: str, header: int) -> None:
    name, written = (("x-forwarded-for", "198.51.100.1"), ("forwarded", 'for="198.51.100.1:80"'))[header]
    found = addresses("10.0.0.0/8", header=name)
    for said in (
        scope("10.0.0.1", f"{claimed}, {written}", header=name),
        scope("10.0.0.1", claimed, written, header=name),
    ):
        assert found.client(said) == "198.51.100.1"


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0", "all", "10.0.0.0/33", "::/129"])
def test_a_wrong_network_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ParameterInvalid, match="is not a network"):
        addresses(f"127.0.0.1, {text}")


def test_a_wrong_width_or_header_is_refused() -> None:
    with pytest.raises(ParameterInvalid):
        Addresses(ipv6_prefix=0)
    with pytest.raises(ParameterInvalid):
        Addresses(header="x-real-ip")
