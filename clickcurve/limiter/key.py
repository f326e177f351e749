"""Keys: the name under which one caller's hits are counted for one rule. No two callers, rules or features share one.

A key is a row of parts, each with its length in front (`2:ip`): what the rule is and how it counts, the names of the
features, their values. The last value needs no length, since nothing follows. So ("a/b", "c") and ("a", "b/c") differ,
and so do the user "10.0.0.1" and the address 10.0.0.1.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from binascii import crc_hqx
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.rule import Rule

# A longer key is replaced by its digest. Keys begin with a digit, so a digest's # keeps the two apart.
MAX_KEY_CHARS = 512
# memcached takes 250 bytes, but each name is sent and kept whole, and a digest has 25.
MAX_MEMCACHED_CHARS = 40

TAG_CHARS = len("{0123}")

_PLAIN = re.compile(r"[!-~]+", re.ASCII)


def part(text: str) -> str:
    return str(len(text)) + ":" + text  # not an f-string: a value that is not text must fail here


class Choice(NamedTuple):
    """One alternative of `by`: its first feature, the others, and what all of its keys begin with."""

    first: str
    others: tuple[str, ...]
    start: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.first, *self.others)


@dataclass(frozen=True, slots=True)
class KeyMaker:
    """Makes the keys of one rule.

    is_tagged: keys begin with the tag of their caller, in braces: on a Redis Cluster those of one tag lie on one node.
    """

    event: str
    choices: tuple[Choice, ...]
    is_tagged: bool = False

    def key(self, features: Mapping[str, str]) -> str:
        """Returns the key of the first alternative of which all features are given; an empty value is not.

        ParameterInvalid if there is no such alternative, or a value is not text.
        """
        for choice in self.choices:
            first, others, start = choice
            key = features.get(first)
            if not key:
                continue
            try:
                if others:
                    values = [key, *(features.get(name) or "" for name in others)]
                    if not all(values):
                        continue
                    key = "".join(map(part, values[:-1])) + values[-1]
                tag = tag_of(key) if self.is_tagged else ""
                key = tag + start + key
            except TypeError:
                raise self._not_text(choice.names, features) from None
            if not key.isascii():
                self._check_unicode(choice.names, features)
            if len(key) <= MAX_KEY_CHARS:
                return key
            return f"{tag}#{blake2b(key.encode(), digest_size=32).hexdigest()}"
        wanted = " or ".join(" and ".join(choice.names) for choice in self.choices)
        raise ParameterInvalid(
            f"the event {self.event} needs {wanted}", field=self.choices[0].first, rule="text that is not empty"
        )

    def given(self, features: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the names of the first alternative of which all features are given; () if there is none."""
        return next((choice.names for choice in self.choices if all(map(features.get, choice.names))), ())

    def caller(self, features: Mapping[str, str]) -> str:
        """Returns the values that the key is made of, to be read by people."""
        return " ".join(str(features[name]) for name in self.given(features))

    def identity(self, features: Mapping[str, str]) -> str:
        """Returns the caller's identity (`identity_of`), which does not depend on the rule or how it counts."""
        return identity_of({name: features[name] for name in self.given(features)})

    def _not_text(self, names: Iterable[str], features: Mapping[str, str]) -> ParameterInvalid:
        name = next((name for name in names if not isinstance(features[name], str)), "")
        return ParameterInvalid(
            f"{name} of the event {self.event} is not text", field=name, value=features.get(name), rule="text"
        )

    def _check_unicode(self, names: Iterable[str], features: Mapping[str, str]) -> None:
        for name in names:
            try:
                features[name].encode()
            except UnicodeEncodeError:
                raise ParameterInvalid(
                    f"{name} of the event {self.event} is not text that UTF-8 can hold", field=name, rule="UTF-8"
                ) from None


def tag_of(caller: str) -> str:
    """Returns the tag of a caller's values: `{`, four hexadecimal digits, `}`."""
    # A join, since a value that is not text must fail as `part` does.
    return f"{{{crc_hqx(''.join((caller, '')).encode(errors='surrogatepass'), 0):04x}}}"


def tag_digits(name: str) -> str:
    """Returns the four hexadecimal digits of the tag that a key or a reservation's name begins with."""
    return name[1 : TAG_CHARS - 1]


def key_maker(rule: Rule, is_tagged: bool = False) -> KeyMaker:
    """Returns what makes the keys of this rule; equal for rules that go on from each other's counts."""
    head = _head(rule)
    choices = tuple(
        Choice(names[0], names[1:], head + part(str(len(names))) + "".join(map(part, names))) for names in rule.by
    )
    return KeyMaker(rule.event, choices, is_tagged)


def shared_key(rule: Rule, number: int) -> str:
    """Returns one of the keys that callers share where there is no room for their own."""
    return f"{_head(rule)}{part('overflow')}{number}"


def _head(rule: Rule) -> str:
    return part(rule.event) + part(rule.name) + part(rule.kept_as)


def identity_of(caller: Mapping[str, str]) -> str:
    """Returns a caller's name, made of some features and their values. No two callers share one."""
    return "".join(part(name) + part(caller[name]) for name in sorted(caller))


def memcached_key(key: str) -> str:
    """Returns the key if memcached takes it and it is short, else a digest of it.

    memcached takes visible ASCII.
    """
    if len(key) <= MAX_MEMCACHED_CHARS and _PLAIN.fullmatch(key):
        return key
    return "#" + urlsafe_b64encode(blake2b(key.encode(), digest_size=18).digest()).decode()
