"""Rules of the operator: hits that count as bots', by referrer, network or words in the agent, and his exceptions.

They are asked at the door, before the journal, about hits that say nothing of `bot` themselves. An exception, words of
agents of people, beats all other rules and the patterns of bots. So a hit is judged once: what is journaled is a count
of bots or people, whatever the rules are by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Final

from clickcurve.buckets.errors import SettingInvalid
from ingest.agents.reader import AGENT_CHARACTERS
from ingest.attributes.country import address_of
from ingest.attributes.memo import Memo
from ingest.attributes.referrer import ReferrerReader, host_of
from ingest.attributes.text import cut, lines_in

REFS, NETWORKS, AGENTS, PEOPLE = "ref", "network", "agent", "people"  # kinds, as files and names of rules have them
LEAST_AGENT = 3  # characters: fewer are in nearly every agent
MOST_AGENTS = 1_000  # each is looked for in each new agent: 0.1 ms for so many
MOST_RULES = 500_000  # some 100 MB
LONGEST_FILE = 64 << 20
NO_RULE: Final = ""
PERSON: Final = "people:"  # an exception has the hit, so it is a person's
_FIELDS: Final[Mapping[str, str]] = {REFS: "ref", NETWORKS: "ip", AGENTS: "ua", PEOPLE: "ua"}
_SETTINGS: Final[Mapping[str, str]] = {REFS: "refs", NETWORKS: "networks", AGENTS: "agents", PEOPLE: "people"}
_ANSWERS_KEPT = 65_536  # of each kind
_ADDRESS_CHARACTERS = 64
_REFERRER_CHARACTERS = 256


class BotRuleInvalid(ValueError):
    """Why a text is no rule, as the end of a sentence: "must be ..."."""


def ref_rule(text: str) -> str:
    """Returns the host of a rule for referrers; raises BotRuleInvalid."""
    host = host_of(text)
    if not host:
        raise BotRuleInvalid("must be a host such as spam.example; hosts below it are meant, too")
    return host


def network_rule(text: str) -> IPv4Network | IPv6Network:
    """Returns the network of a rule, that of IPv4 for one that is mapped into IPv6; raises BotRuleInvalid."""
    try:
        network = ip_network(text.strip())
    except ValueError as error:
        raise BotRuleInvalid(f"must be a network such as 192.0.2.0/24: {error}") from None
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    return IPv4Network((mapped, network.prefixlen - 96)) if mapped and network.prefixlen >= 96 else network


def agent_rule(text: str) -> str:
    """Returns the words of a rule for agents; raises BotRuleInvalid."""
    words = text.strip()
    if len(words) < LEAST_AGENT or not words.isprintable():
        raise BotRuleInvalid(f"must be {LEAST_AGENT} characters or more that an agent contains, such as SafeLinks")
    return words


# By kind, in the order of BotRuleSet.
_RULE_OF: Final[Mapping[str, Callable[[str], object]]] = {
    REFS: ref_rule,
    NETWORKS: network_rule,
    AGENTS: agent_rule,
    PEOPLE: agent_rule,
}


@dataclass(frozen=True, slots=True)
class BotRuleSet:
    """Rules as the settings and files have them, each once."""

    refs: tuple[str, ...] = ()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    agents: tuple[str, ...] = ()
    people: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.refs) + len(self.networks) + len(self.agents) + len(self.people)

    def names(self) -> list[str]:
        """Lists the rules as dimension `bot` names them."""
        return [
            *(f"{REFS}:{host}" for host in self.refs),
            *(f"{NETWORKS}:{network}" for network in self.networks),
            *(f"{AGENTS}:{words}" for words in self.agents),
            *(f"{PEOPLE}:{words}" for words in self.people),
        ]


NO_BOT_RULES: Final = BotRuleSet()


def read_bot_rules(
    refs: Iterable[str],
    networks: Iterable[str],
    agents: Iterable[str],
    files: Sequence[Path],
    people: Iterable[str] = (),
) -> BotRuleSet:
    """Returns the rules of the settings and of files; raises SettingInvalid, which names file and line."""
    given = {REFS: refs, NETWORKS: networks, AGENTS: agents, PEOPLE: people}
    lines = [(f"bots_{_SETTINGS[kind]}", kind, text) for kind, texts in given.items() for text in texts]
    for path in files:
        lines += _lines_of(path)
    rules: dict[str, dict[Any, None]] = {kind: {} for kind in _RULE_OF}
    for place, kind, text in lines:
        try:
            rules[kind][_RULE_OF[kind](text)] = None
        except BotRuleInvalid as error:
            raise SettingInvalid(f"{place}: {text!r} {error}", field="bots", value=text, rule=str(error)) from None
    agent_rules = len(rules[AGENTS]) + len(rules[PEOPLE])
    for what, many, most in (("rules", len(lines), MOST_RULES), ("rules for agents", agent_rules, MOST_AGENTS)):
        if many > most:
            raise SettingInvalid(f"bots has {many:,} {what}; at most {most:,} are allowed", field="bots", value=many)
    return BotRuleSet(*map(tuple, rules.values()))


def _lines_of(path: Path) -> list[tuple[str, str, str]]:
    """Returns place, kind and text of each rule of a file.

    A line is `ref:HOST`, `network:NETWORK`, `agent:WORDS` or `people:WORDS`. One without a kind is a network if it can
    be one, else a host: published lists are so.
    """
    named_rules = []
    for number, rule in lines_in(path, LONGEST_FILE, "bots_files"):
        kind, colon, rest = rule.partition(":")
        if colon and kind in _FIELDS:
            named_rules.append((f"{path}:{number}", kind, rest.strip()))
        else:
            named_rules.append((f"{path}:{number}", NETWORKS if _is_network(rule) else REFS, rule))
    return named_rules


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


class _Lookup:
    """One set of rules in the form in which hits are judged, with the answers for what was asked last."""

    def __init__(self, rules: BotRuleSet, referrers: ReferrerReader) -> None:
        self._referrers = referrers
        self._hosts = {host: cut(f"{REFS}:{host}") for host in rules.refs}
        # By IP version: the lengths of prefixes, longest first, with the networks of each by their first bits.
        self._networks: dict[int, list[tuple[int, dict[int, str]]]] = {4: [], 6: []}
        of_length: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
        for network in rules.networks:
            first_bits = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
            of_length[network.version, network.prefixlen][first_bits] = f"{NETWORKS}:{network}"
        for version, length in sorted(of_length, reverse=True):
            self._networks[version].append((length, of_length[version, length]))
        self._agents = [(words.lower(), cut(f"{AGENTS}:{words}")) for words in rules.agents]
        self._people = [(words.lower(), cut(f"{PEOPLE}:{words}")) for words in rules.people]
        given = {REFS: rules.refs, NETWORKS: rules.networks, AGENTS: rules.agents, PEOPLE: rules.people}
        self.fields = frozenset(_FIELDS[kind] for kind, texts in given.items() if texts)
        self.of_ref = Memo(self._rule_of_ref, _ANSWERS_KEPT, _REFERRER_CHARACTERS)
        self.of_ip = Memo(self._rule_of_ip, _ANSWERS_KEPT, _ADDRESS_CHARACTERS)
        self.of_agent = Memo(self._rule_of_agent, _ANSWERS_KEPT // 8, AGENT_CHARACTERS)

    def _rule_of_ref(self, ref: str | None) -> str:
        if ref is None or not self._hosts:
            return NO_RULE
        host = host_of(ref)
        for name in (host, self._referrers.kept_value(REFS, host)):  # t.co, and x.com, as which it may be kept
            while name:
                if name in self._hosts:
                    return self._hosts[name]
                name = name.partition(".")[2]
        return NO_RULE

    def _rule_of_ip(self, ip: str | None) -> str:
        if ip is None or "ip" not in self.fields:
            return NO_RULE
        address = ip_address(address_of(ip))
        for length, networks in self._networks[address.version]:
            if name := networks.get(int(address) >> (address.max_prefixlen - length)):
                return name
        return NO_RULE

    def exception(self, agent: str) -> str:
        """Returns the name of the exception that has an agent."""
        text = agent[:AGENT_CHARACTERS].lower()
        return next((name for words, name in self._people if words in text), NO_RULE)

    def _rule_of_agent(self, agent: str | None) -> str:
        if agent is None or "ua" not in self.fields:
            return NO_RULE
        if self._people and self.exception(agent):
            return PERSON
        text = agent[:AGENT_CHARACTERS].lower()
        return next((name for words, name in self._agents if words in text), NO_RULE)


class BotRules:
    """Judges hits by the rules that are in use, which may be replaced at any time: those of the server's settings."""

    def __init__(self, rules: BotRuleSet = NO_BOT_RULES, referrers: ReferrerReader | None = None) -> None:
        self._referrers = ReferrerReader() if referrers is None else referrers
        self.use(rules)

    def use(self, rules: BotRuleSet) -> None:
        """Judges by these rules from now on."""
        self.rules = rules
        self._lookup = _Lookup(rules, self._referrers)

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a hit that the rules look at; empty if there are no rules."""
        return self._lookup.fields

    def rule(self, ip: str | None, ref: str | None, ua: str | None) -> str:
        """Returns the name of the first rule that takes a hit with these valid attributes.

        PERSON if an exception has it, NO_RULE if none does.
        """
        lookup = self._lookup
        by_agent = lookup.of_agent[ua]
        return by_agent if by_agent is PERSON else lookup.of_ref[ref] or lookup.of_ip[ip] or by_agent

    def exception(self, ua: str | None) -> str:
        """Returns the name of the exception that has the hits of an agent; NO_RULE if none has."""
        return NO_RULE if ua is None else self._lookup.exception(ua)

    def rules_of(
        self, ips: Iterable[str | None], refs: Iterable[str | None], agents: Iterable[str | None]
    ) -> list[str]:
        """Returns the rule of each of many hits, all looked up by C."""
        lookup = self._lookup
        by_ref, by_ip = map(lookup.of_ref.__getitem__, refs), map(lookup.of_ip.__getitem__, ips)
        named_rules = zip(by_ref, by_ip, map(lookup.of_agent.__getitem__, agents), strict=True)
        return [agent if agent is PERSON else ref or ip or agent for ref, ip, agent in named_rules]
