"""Rules for bots: what settings and files say, and which hits each rule takes."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import SettingInvalid
from ingest.attributes import bot_rules
from ingest.attributes.bot_rules import NO_RULE, PERSON, BotRules, BotRuleSet, read_bot_rules
from ingest.attributes.referrer import ReferrerReader


def rules_of(refs: str = "", networks: str = "", agents: str = "", with_aliases: bool = True) -> BotRules:
    found = read_bot_rules(refs.split(), networks.split(), agents.split(), ())
    return BotRules(found, ReferrerReader(with_aliases=with_aliases))


@pytest.mark.parametrize(
    ("ref", "rule"),
    [
        ("spam.example", "ref:spam.example"),
        ("https://www.SPAM.example:8080/a?b#c", "ref:spam.example"),
        ("https://eu.west.spam.example/", "ref:spam.example"),
        ("https://notspam.example/", ""),
        ("https://example/", ""),
        ("https://spam.example.org/", ""),
        ("https://deep.below.example/", "ref:deep.below.example"),
        ("https://very.deep.below.example/", "ref:deep.below.example"),
        ("https://other.below.example/", "ref:below.example"),
        ("https://t.co/x", "ref:x.com"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_rule_for_referrers_takes_a_host_and_those_below_it(ref: str | None, rule: str) -> None:
    assert rules_of("spam.example below.example deep.below.example x.com").rule(None, ref, None) == rule


def test_where_hosts_of_one_site_are_kept_apart_a_rule_takes_its_own_host_alone() -> None:
    assert rules_of("x.com", with_aliases=False).rule(None, "https://t.co/x", None) == NO_RULE
    assert rules_of("t.co").rule(None, "https://t.co/x", None) == "ref:t.co"
    assert rules_of("t.co").rule(None, "https://x.com/x", None) == NO_RULE


@pytest.mark.parametrize(
    ("ip", "rule"),
    [
        ("192.0.2.7", "network:192.0.2.0/24"),
        ("::ffff:192.0.2.7", "network:192.0.2.0/24"),
        ("192.0.2.200", "network:192.0.2.192/26"),
        ("192.0.3.1", ""),
        ("198.51.100.9", "network:198.51.100.9/32"),
        ("203.0.113.4", "network:203.0.113.0/24"),
        ("2001:DB8:0:0::1", "network:2001:db8::/32"),
        ("2001:db9::1", ""),
        (None, ""),
    ],
)
def test_the_longest_network_that_holds_an_address_takes_it(ip: str | None, rule: str) -> None:
    networks = "192.0.2.0/24 192.0.2.192/26 198.51.100.9 ::ffff:203.0.113.0/120 2001:db8::/32"
    assert rules_of(networks=networks).rule(ip, None, None) == rule


_networks = st.one_of(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 32)).map(lambda n: ip_network((n[0], n[1]), strict=False)),
    st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 128)).map(lambda n: ip_network((n[0], n[1]), strict=False)),
)


@given(st.lists(_networks, max_size=12), st.data())
def test_networks_take_what_the_standard_library_finds_in_them(networks: list, data: st.DataObject) -> None:  # type: ignore[type-arg]
    rules = BotRules(read_bot_rules((), map(str, networks), (), ()))
    near = [network.network_address for network in networks] + [network.broadcast_address for network in networks]
    addresses = st.one_of(*map(st.just, near), st.ip_addresses()) if near else st.ip_addresses()
    address = data.draw(addresses)
    address = getattr(address, "ipv4_mapped", None) or address
    plain = [ip_network(rule.removeprefix("network:")) for rule in rules.rules.names()]
    holding = [network for network in plain if network.version == address.version and address in network]
    longest = max(holding, key=lambda network: network.prefixlen, default=None)
    assert rules.rule(str(ip_address(str(address))), None, None) == (f"network:{longest}" if holding else NO_RULE)


def test_a_rule_for_agents_takes_agents_that_contain_its_words_in_any_case() -> None:
    rules = BotRules(read_bot_rules((), (), ["SafeLinks", "mail  scanner"], ()))
    assert rules.rule(None, None, "Mozilla/5.0 (safelinks; x64)") == "agent:SafeLinks"
    assert rules.rule(None, None, "a MAIL  SCANNER") == "agent:mail  scanner"
    assert rules.rule(None, None, "Mozilla/5.0") == rules.rule(None, None, None) == NO_RULE


def test_a_hit_that_several_rules_take_stands_under_one_of_them() -> None:
    rules = rules_of("spam.example", "192.0.2.0/24", "SafeLinks")
    assert rules.rule("192.0.2.1", "spam.example", "SafeLinks") == "ref:spam.example"
    assert rules.rule("192.0.2.1", "a.example", "SafeLinks") == "network:192.0.2.0/24"
    assert rules.fields == {"ip", "ref", "ua"}
    assert rules.rules_of(["192.0.2.1", None], [None, None], [None, "safelinks"]) == [
        "network:192.0.2.0/24",
        "agent:SafeLinks",
    ]


def test_an_exception_beats_every_rule() -> None:
    rules = BotRules(read_bot_rules(["spam.example"], ["192.0.2.0/24"], ["OurApp"], (), ["ourapp/2"]))
    assert rules.rule("192.0.2.1", "spam.example", "OurApp/2.1") is PERSON
    assert rules.rule("192.0.2.1", None, "OurApp/1") == "network:192.0.2.0/24"
    assert rules.rules_of([None, "192.0.2.1"], [None, None], ["OURAPP/2", None]) == [PERSON, "network:192.0.2.0/24"]
    assert [rules.exception(agent) for agent in ("OurApp/2", "x", None)] == ["people:ourapp/2", NO_RULE, NO_RULE]
    assert BotRules(BotRuleSet(people=("OurApp",))).fields == {"ua"}


def test_other_rules_may_be_used_at_any_time() -> None:
    rules = rules_of("spam.example")
    assert rules.rule(None, "spam.example", None) == "ref:spam.example"
    rules.use(BotRuleSet(refs=("other.example",)))
    assert rules.rule(None, "spam.example", None) == NO_RULE
    assert rules.rule(None, "other.example", None) == "ref:other.example"
    rules.use(BotRuleSet())
    assert rules.fields == frozenset()


LIST = """\ufeff# hosts and networks, as published lists have them
spam.example
Other.Example  # with the reason
192.0.2.0/24
2001:db8::/32
198.51.100.7

ref:deep.example
network:203.0.113.0/25
agent:SafeLinks (Microsoft)
agent:#hash
people:OurApp
"""


def test_a_file_has_a_rule_a_line(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text(LIST, "utf-8")
    found = read_bot_rules(["spam.example"], [], [], [file])
    assert found.refs == ("spam.example", "other.example", "deep.example")
    assert [*map(str, found.networks)] == ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32", "203.0.113.0/25"]
    assert found.agents == ("SafeLinks (Microsoft)", "#hash")
    assert found.people == ("OurApp",)
    assert (found.names()[0], found.names()[-1]) == ("ref:spam.example", "people:OurApp")
    assert len(found) == 10


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ref:*.spam.example", "must be a host"),
        ("spam example", "must be a host"),
        ("network:192.0.2.1/24", "192.0.2.1/24 has host bits set"),
        ("network:192.0.2", "must be a network"),
        ("192.0.2.1/24", "has host bits set"),
        ("agent:a", "must be 3 characters or more"),
        ("agent:", "must be 3 characters or more"),
        ("people:ab", "must be 3 characters or more"),
    ],
)
def test_a_line_that_is_no_rule_is_named_with_its_place(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "list.txt"
    file.write_text(f"spam.example\n{line}\n")
    with pytest.raises(SettingInvalid) as refused:
        read_bot_rules((), (), (), [file])
    assert f"{file}:2: " in refused.value.detail
    assert why in refused.value.detail


def test_files_that_cannot_be_read_and_too_many_rules_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingInvalid, match=r"none\.txt cannot be read"):
        read_bot_rules((), (), (), [tmp_path / "none.txt"])
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingInvalid, match="cannot be read"):
        read_bot_rules((), (), (), [tmp_path / "bytes.txt"])
    monkeypatch.setattr(bot_rules, "MOST_RULES", 2)
    monkeypatch.setattr(bot_rules, "MOST_AGENTS", 1)
    with pytest.raises(SettingInvalid, match="3 rules; at most 2"):
        read_bot_rules(["a.example", "b.example", "c.example"], (), (), ())
    with pytest.raises(SettingInvalid, match="2 rules for agents; at most 1"):
        read_bot_rules((), (), ["abc", "def"], ())
    monkeypatch.setattr(bot_rules, "LONGEST_FILE", 1)
    with pytest.raises(SettingInvalid, match="larger than 1 bytes"):
        read_bot_rules((), (), (), [tmp_path / "bytes.txt"])
