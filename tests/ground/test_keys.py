"""Keys of links, as values and in paths, and the stored keys that are made of them."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import HitRejected, ParameterInvalid
from clickcurve.keys import (
    KEY_BYTES,
    KEY_RULE,
    decoded_once,
    key_in_path,
    link_key,
    link_of,
    namespace_key,
    require_key,
)


@given(st.text(min_size=1, max_size=KEY_BYTES // 4))
def test_a_key_comes_out_of_its_path_as_it_was(key: str) -> None:
    try:
        require_key(key, HitRejected)
    except HitRejected:
        with pytest.raises(UnicodeEncodeError):
            key.encode()
        return
    assert key_in_path(quote(key, safe="").encode(), ParameterInvalid) == key


@pytest.mark.parametrize(
    ("raw", "key"), [(b"%252F", "%2F"), (b"a%2Fb", "a/b"), (b"a+b", "a+b"), (b"%00", "\0"), (b"k" * 1024, "k" * 1024)]
)
def test_a_path_is_decoded_exactly_once(raw: bytes, key: str) -> None:
    assert key_in_path(raw, ParameterInvalid) == key


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=KEY_BYTES // 4))
def test_a_path_that_was_followed_names_the_key_that_its_spelling_in_a_request_names(key: str) -> None:
    for spelling in (quote(key, safe=""), quote(key), "".join(f"%{byte:02x}" for byte in key.encode())):
        assert decoded_once(spelling) == key


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("a%2Fb%20c", "a/b c"),
        ("%F0%9F%9A%80", "\U0001f680"),
        ("%6Caunch", "launch"),
        ("%252F", "%2F"),
        ("caf%c3%a9%ff%fe!", "café%FF%FE!"),
        ("%e2%82", "%E2%82"),
        ("100%", "100%"),
        ("%zz%4", "%zz%4"),
        ("a+b", "a+b"),
        ("é%C3%A9", "éé"),
    ],
)
def test_what_is_no_utf_8_stays_escaped_and_nothing_is_refused(path: str, key: str) -> None:
    assert decoded_once(path) == key


@pytest.mark.parametrize("error", [HitRejected, ParameterInvalid])
@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "empty"),
        (b"k" * 1025, "1,025 bytes"),
        (b"%FF", "not percent-encoded UTF-8"),
        (b"%ED%A0%80", "not percent-encoded UTF-8"),
        (b"a%zz", "two hexadecimal digits"),
        (b"a%", "two hexadecimal digits"),
    ],
)
def test_what_is_not_a_key_is_refused_with_the_reason(
    error: type[HitRejected] | type[ParameterInvalid], raw: bytes, says: str
) -> None:
    with pytest.raises(error) as refused:
        key_in_path(raw, error)
    assert says in refused.value.detail
    assert refused.value.field == "key"
    assert refused.value.rule in (KEY_RULE, "a percent sign itself is %25")


@given(st.text(min_size=1), st.text())
def test_links_and_namespaces_never_meet(key: str, other: str) -> None:
    assert link_of(link_key(key)) == key
    assert link_of(namespace_key("limits", other)) is None
    assert link_key(key) != namespace_key("limits", other)
