"""The channel of a hit: what its referrer, campaign and source say of the way, alone and among many hits."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.attributes import channel
from ingest.attributes.channel import CHANNELS, channel_of, kind_of_site
from ingest.attributes.country import country_reader
from ingest.attributes.profile import AttributeFields, ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import DAY, MOMENT, summed

REFERRERS = ReferrerReader(["own.example"])
SALTS = {DAY: b"a salt of thirty-two bytes length", DAY - 86_400: b"another of thirty-two bytes long"}


def of_referrer(referrer: str, field: str = "", **utm: str) -> str:
    return channel_of(REFERRERS.site(referrer), field, utm)


@pytest.mark.parametrize(
    ("referrer", "expected"),
    [
        ("", "direct"),
        ("https://own.example/page", "direct"),
        ("https://www.google.com/", "search"),
        ("https://www.google.co.uk/", "search"),
        ("https://images.google.de/", "search"),
        ("android-app://com.google.android.googlequicksearchbox/", "search"),
        ("https://de.search.yahoo.com/", "search"),
        ("https://cn.bing.com/", "search"),
        ("https://yandex.com.tr/", "search"),
        ("https://search.anything.example/", "search"),
        ("https://docs.google.com/", "referral"),
        ("https://mail.google.com/", "email"),
        ("android-app://com.google.android.gm/", "email"),
        ("https://deref-web.de/mail/", "email"),
        ("https://webmail.anything.example/", "email"),
        ("https://t.co/x", "social"),
        ("https://l.facebook.com/l.php", "social"),
        ("https://somebody.tumblr.com/", "social"),
        ("https://mastodon.social/", "social"),
        ("https://social.anything.example/", "social"),
        ("https://youtu.be/x", "video"),
        ("https://music.youtube.com/", "audio"),
        ("https://chatgpt.com/", "ai"),
        ("https://www.perplexity.ai/", "ai"),
        ("https://gemini.google.com/", "ai"),
        ("https://copilot.microsoft.com/", "ai"),
        ("https://www.amazon.de/", "shopping"),
        ("https://smile.amazon.com/", "shopping"),
        ("https://www.googleadservices.com/", "paid_search"),
        ("https://ad.doubleclick.net/", "display"),
        ("https://en.wikipedia.org/", "referral"),
        ("https://notgoogle.com/", "referral"),
        ("https://google.com.evil.example/", "referral"),
        ("https://mail/", "referral"),
    ],
)
def test_a_referrer_tells_the_kind_of_its_site(referrer: str, expected: str) -> None:
    assert of_referrer(referrer) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"source": "google", "medium": "cpc"}, "paid_search"),
        ({"source": "Google", "medium": "organic"}, "search"),
        ({"source": "google", "medium": "banner"}, "display"),
        ({"source": "google_ads"}, "paid_search"),
        ({"source": "facebook", "medium": "paid-social"}, "paid_social"),
        ({"source": "ig", "medium": "cpm"}, "paid_social"),
        ({"source": "fb-ads"}, "paid_social"),
        ({"source": "youtube", "medium": "retargeting"}, "paid_video"),
        ({"source": "somebody", "medium": "cpm"}, "display"),
        ({"source": "somebody", "medium": "ppc"}, "paid_other"),
        ({"source": "amazon", "medium": "cpc"}, "paid_other"),
        ({"campaign": "spring-shop", "medium": "cpc"}, "paid_other"),
        ({"campaign": "spring-shop"}, "shopping"),
        ({"campaign": "workshop"}, "direct"),
        ({"source": "chatgpt.com"}, "ai"),
        ({"source": "spring", "medium": "email"}, "email"),
        ({"source": "newsletter"}, "email"),
        ({"medium": "social-media"}, "social"),
        ({"medium": "video-ad"}, "video"),
        ({"medium": "affiliate"}, "affiliate"),
        ({"medium": "audio"}, "audio"),
        ({"medium": "sms"}, "sms"),
        ({"medium": "web-push"}, "push"),
        ({"source": "firebase"}, "push"),
        ({"source": "flyer", "medium": "qr"}, "qr"),
        ({"medium": "referral"}, "referral"),
        ({"source": "somebody"}, "referral"),
        ({"source": "(direct)", "medium": "(none)"}, "direct"),
    ],
)
def test_a_campaign_tells_more_than_that_there_is_one(said: dict[str, str], expected: str) -> None:
    assert channel_of("", "", said) == expected


def test_a_campaign_beats_the_source_and_that_the_referrer_as_far_as_they_are_known() -> None:
    google = "https://www.google.com/"
    assert of_referrer(google, "email") == "email"
    assert of_referrer(google, "qr", source="facebook") == "qr", "a code that was scanned was on paper"
    assert of_referrer(google, "email", source="facebook") == "social"
    assert of_referrer(google, "flyer") == "search"
    assert of_referrer(google, medium="cpc") == "paid_search"
    assert of_referrer(google, medium="email") == "email"
    assert of_referrer(google, medium="referral", source="spring") == "search"
    assert of_referrer("https://news.example/", "flyer") == "referral"


words = st.sampled_from(
    ["", "google", "x.com", "qr", "fb_ads", "cpc", "email", "spring-shop", "ﬀ", "*.", ".", "a" * 99]
)


@given(words | st.text(max_size=30), words, st.dictionaries(st.sampled_from(["source", "medium", "campaign"]), words))
def test_there_are_eighteen_channels_and_no_others(site: str, source: str, utm: dict[str, str]) -> None:
    assert len(CHANNELS) == len(set(CHANNELS)) == 18
    assert channel_of(site, source, utm) in CHANNELS


def test_the_files_of_sites_have_known_kinds_and_each_site_in_one() -> None:
    for name in ("own_sites.txt", "listed_sites.txt"):
        found: dict[str, str] = {}
        for line in Path(channel.__file__).with_name(name).read_text("utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            kind, *sites = line.split()
            assert kind in CHANNELS and sites, line
            for site in sites:
                assert site == site.lower() and (name == "listed_sites.txt" or site not in found), (site, kind)
                found[site] = kind
        assert len(found) > 300, "the list is there"
    assert kind_of_site("fosstodon.org") == "social", "which the public list alone has"


# --- one hit and many -------------------------------------------------------------------------------------------------
attributes = {
    "ref": st.sampled_from(["", "https://www.google.com/", "https://own.example/", "news.example"]),
    "source": st.sampled_from(["", "qr", "flyer"]),
    "utm": st.sampled_from(
        [{}, {"source": ""}, {"medium": "cpc"}, {"source": "x", "medium": "social"}, {"campaign": "c"}]
    ),
    "country": st.sampled_from(["", "DE"]),
    "ua": st.just("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Mobile Safari"),
    "ip": st.just("193.99.144.80"),
    "visitor": st.just("v"),
}
hits = st.lists(st.fixed_dictionaries({}, optional=attributes), min_size=1, max_size=12)
divided = st.sampled_from(
    [("channel",), ("channel", "ref"), ("country", "channel"), ("utm_source", "channel", "source"), ("ref", "device")]
)


def reader_of(dimensions: tuple[str, ...], visitors: bool) -> ProfileReader:
    salts = SALTS if visitors else None
    return ProfileReader(dimensions, country_reader("builtin"), REFERRERS, salts=salts)


def said(body: list[dict[str, Any]], reader: ProfileReader) -> Counter[tuple[str, ...]]:
    batch = summed(json.dumps(body).encode(), Media.json, RequestSums(MOMENT, reader=reader), 1 << 20).batch()
    counts: Counter[tuple[str, ...]] = Counter()
    if batch is not None and batch.attributes is not None:
        table = batch.attributes.table()
        for of_hour in batch.attributes.links.hours.values():
            for _, number, count in of_hour.cells():
                counts[tuple(table[number].values)] += count
    return counts


@given(hits, divided, st.booleans())
def test_many_hits_have_the_channels_of_each_alone(some: list[dict[str, Any]], names: Any, visitors: bool) -> None:
    reader = reader_of(names, visitors)
    body = [{"key": "k", **hit} for hit in some]
    alone: Counter[tuple[str, ...]] = Counter()
    for hit in body:
        alone += said([hit], reader)
    assert said(body, reader) == alone


def test_a_hit_that_says_nothing_that_is_counted_has_no_channel_and_costs_nothing() -> None:
    reader = reader_of(("ref", "channel"), visitors=False)
    assert reader.values_of(AttributeFields(ua="curl/8", country="DE")) is None
    assert said([{"key": "k", "country": "DE"}] * 8, reader) == Counter()
    assert reader.values_of(AttributeFields(ref="")) == ("", "direct")
    only = reader_of(("channel",), visitors=True)
    assert said([{"key": "k", "visitor": "v"}] * 8, only) == {("direct",): 8}, "its visitor is counted"


def test_the_fields_that_a_channel_is_judged_from_are_used() -> None:
    reader = reader_of(("channel",), visitors=False)
    assert not {"ref", "source", "utm"} & set(reader.ignored)
    assert {"ref", "source", "utm"} <= set(reader.useful_fields())
    assert "country" in reader.ignored
