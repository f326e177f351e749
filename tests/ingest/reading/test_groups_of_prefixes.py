"""Which groups hits of a customer's token may name: those that are named as parts of its own, and no others."""

from __future__ import annotations

import pytest

from clickcurve.access import ALL_ACCESS, Access
from clickcurve.buckets.errors import HitRejected
from clickcurve.buckets.ladder import minutes_since
from clickcurve.keys import group_key
from ingest.hit import JsonHit, Moment
from ingest.reading.judge import HitJudge

MOMENT = Moment.at(1_760_000_000, minutes_since)
ACME = Access("acme/", "acme", "t1")
OWN = ("acme", "acme/spring", "acme.eu", "acme:x", "acme/", "acme/a/b")
OTHERS = ("beta", "gone", "later", "ACME", "acme2", "acme-eu", "acme ", "\u202eacme/", "Acme/x", "a", "spring")


def groups_counted(allowed: Access, key: str, named: list[str]) -> set[str]:
    hit = HitJudge(MOMENT, allowed=allowed).hit_of(JsonHit(key=key, groups=named), lambda agent: False)
    return set(hit.groups)


@pytest.mark.parametrize("name", OWN)
def test_a_hit_names_groups_that_are_parts_of_its_tokens_own(name: str) -> None:
    assert groups_counted(ACME, "acme/a", [name]) == {group_key("acme"), group_key(name)}


@pytest.mark.parametrize("name", OTHERS)
def test_a_hit_with_any_other_group_is_refused_whether_a_token_has_it_or_not(name: str) -> None:
    with pytest.raises(HitRejected) as refused:
        groups_counted(ACME, "acme/a", ["acme/spring", name])
    assert (refused.value.field, refused.value.value) == ("groups", name)
    assert refused.value.rule == "groups that begin with 'acme/' or 'acme:' or 'acme.'"


def test_a_group_of_another_name_than_the_prefix_has_parts_too() -> None:
    allowed = Access("a/", "company", "t1")
    for name in ("a/spring", "company/spring", "company"):
        assert group_key(name) in groups_counted(allowed, "a/x", [name])
    with pytest.raises(HitRejected, match="none of the token's") as refused:
        groups_counted(allowed, "a/x", ["a"])
    assert refused.value.rule == "groups that begin with 'a/' or 'company/' or 'company:' or 'company.'"


def test_without_a_prefix_a_hit_names_any_group() -> None:
    assert groups_counted(ALL_ACCESS, "x", ["beta", "gone"]) == {group_key("beta"), group_key("gone")}
