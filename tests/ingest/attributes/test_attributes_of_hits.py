"""What the words of a hit become: hosts, families, countries, languages, campaigns; and what is refused, and how."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import HitRejected, SettingInvalid
from ingest.agents.bots import bot_judge
from ingest.agents.reader import NO_AGENT, AgentReader
from ingest.attributes.campaign import campaign_of_query, source_of, utm_of
from ingest.attributes.country import COUNTRIES, address_of, country_of_field, country_reader
from ingest.attributes.dimensions import DIMENSIONS, dimensions_of
from ingest.attributes.language import language_of
from ingest.attributes.profile import AttributeFields, Profile, ProfileReader, pairs_of
from ingest.attributes.referrer import ALIASES, ReferrerReader, host_of, read_aliases
from ingest.attributes.text import VALUE_BYTES, cut, text_of
from ingest.hit import JsonHit, Moment
from ingest.reading.judge import HitJudge

IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.0 Mobile/15E148 Safari/604.1"
)


# --- referrers --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "referrer, host",
    [
        ("", ""),
        ("-", ""),
        ("https://www.News.example:8080/a?b#c", "news.example"),
        ("news.example", "news.example"),
        ("//news.example/x", ""),
        ("news.example:443", "news.example"),
        ("http://user:secret@news.example/", "news.example"),
        ("https://news.example./", "news.example"),
        ("android-app://org.example.reader/", "org.example.reader"),
        ("android-app://com.twitter.android/", "x.com"),
        ("https://t.co/abc", "x.com"),
        ("http://l.facebook.com/l.php?u=http%3A%2F%2Fother.example", "facebook.com"),
        ("HTTPS://BÜCHER.example/", "bücher.example"),
        ("http://[2001:db8::1]:80/", "[2001:db8::1]"),
        ("javascript:alert(1)", ""),
        ("about:blank", ""),
        ("<b>", ""),
        ("https://xn--mnchen-3ya.example/", "münchen.example"),
        ("https://XN--MNCHEN-3YA.example:443/", "münchen.example"),
        ("https://m%C3%BCnchen.example/", "münchen.example"),
        ("https://mu\u0308nchen\u3002example/", "münchen.example"),
        ("https://xn--i-7iq.example/", "i❤.example"),
        ("https://i❤\ufe0f.example/", "i❤.example"),
        ("https://xn--zzzzzzzz99999.example/", "xn--zzzzzzzz99999.example"),  # the Punycode of nothing
        ("http://a%ff.example/", ""),
        ("http://a\uff0fb.example/", ""),  # a slash, once it is in one form
        ("https://www.com/", "www.com"),
        ("https://www.www.com/", "www.com"),
        ("null", ""),
        ("undefined", ""),
        ("https://www.google.de/", "google.com"),
        ("https://google.com.br/url?q=x", "google.com"),
        ("https://notgoogle.de/", "notgoogle.de"),
        ("https://www.pinterest.co.uk/", "pinterest.com"),
        ("https://go.bsky.app/redirect?u=x", "bsky.app"),
        ("android-app://xyz.blueskyweb.app/", "bsky.app"),
    ],
)
def test_a_referrer_is_kept_as_its_site(referrer: str, host: str) -> None:
    assert ReferrerReader().site(referrer) == host


def test_without_aliases_each_host_is_kept_and_asked_for_as_it_is() -> None:
    reader = ReferrerReader(["t.co"], with_aliases=False)
    assert [reader.site(f"https://{host}/x") for host in ("www.youtu.be", "m.facebook.com", "t.co", "x.com")] == [
        "youtu.be",
        "m.facebook.com",
        "",
        "x.com",
    ]
    assert reader.kept_value("ref", "t.co") == "t.co"


def test_the_docs_list_every_host_that_is_kept_as_another() -> None:
    text = Path("docs/http-api.md").read_text().partition("### Hosts of one site")[2].partition("\n### ")[0]
    rows = [re.findall("`([^`]+)`", line) for line in text.splitlines() if line.startswith("| `")]
    assert {alias: site for site, *aliases in rows for alias in aliases} == ALIASES


def test_own_hosts_are_no_referrers_whatever_their_spelling() -> None:
    reader = ReferrerReader(["https://WWW.Short.example/", "lnkd.in", "-"])
    assert [reader.site(name) for name in ("short.example", "http://linkedin.com/x", "lnkd.in", "a.example")] == [
        "",
        "",
        "",
        "a.example",
    ]


def test_an_own_host_in_another_spelling_is_the_same() -> None:
    reader = ReferrerReader(["xn--mnchen-3ya.example", "go.bsky.app"])
    assert [reader.site(name) for name in ("münchen.example", "https://M%C3%BCNCHEN.example/", "bsky.app")] == [""] * 3


@pytest.mark.parametrize("asked", ["xn--mnchen-3ya.example", "MÜNCHEN.example", "www.münchen.example"])
def test_a_question_names_a_referrer_in_any_spelling(asked: str) -> None:
    assert ReferrerReader().kept_value("ref", asked) == "münchen.example"
    assert ReferrerReader().kept_value("source", asked) == asked


@given(
    st.text(max_size=60) | st.from_regex(r"(https?://)?(www\.)?(xn--[a-z0-9-]{1,12}|[a-zü]{1,6})\.(de|com|www\.com)")
)
def test_what_is_kept_of_a_referrer_is_asked_for_as_itself(text: str) -> None:
    reader = ReferrerReader()
    kept = reader.site(text)
    assert reader.kept_value("ref", kept) == reader.site(kept) == kept


def test_a_file_of_aliases_adds_sites_and_wins(tmp_path: Path) -> None:
    file = tmp_path / "sites.txt"
    file.write_text(
        "# ours\nshop.example: m.shop.example, MÜNCHEN.example # and the city's\n\nmeta.example: facebook.com\n"
    )
    reader = ReferrerReader(more_aliases=read_aliases(file))
    names = ("m.shop.example", "https://xn--mnchen-3ya.example/", "facebook.com", "t.co")
    assert list(map(reader.site, names)) == ["shop.example", "shop.example", "meta.example", "x.com"]
    for line in ("shop.example", "shop.example:", ": a.example", "shop.example: <b>"):
        file.write_text(f"a.example: b.example\n{line}\n")
        with pytest.raises(SettingInvalid, match="line 2"):
            read_aliases(file)
    with pytest.raises(SettingInvalid, match="cannot be read"):
        read_aliases(tmp_path / "none")


def test_no_alias_names_a_site_that_is_an_alias_itself() -> None:
    assert not ALIASES.keys() & set(ALIASES.values())


@given(st.text(max_size=200))
def test_whatever_a_referrer_holds_a_site_is_short_and_without_spaces(text: str) -> None:
    site = ReferrerReader().site(text)
    assert len(site.encode("utf-8", "surrogatepass")) <= VALUE_BYTES and not re.search(r"[\s/?#@]", site)


@pytest.mark.parametrize("with_aliases", [False, True])
@pytest.mark.parametrize(
    "referrer",
    ["https://WWW.t.co:80/x", "http://[2001:db8::1]:80/", "Bücher.example/", f"http://{'ü' * 5_000}.example/"],
)
def test_the_host_of_a_referrer_is_a_referrer_of_the_same_site(referrer: str, with_aliases: bool) -> None:
    reader, host = ReferrerReader(with_aliases=with_aliases), host_of(referrer)
    assert host and reader.site_of_field(host) == reader.site_of_field(host_of(host)) == reader.site(referrer)


@given(
    st.sampled_from(["http", "HTTPS", "android-app"]),
    st.sampled_from(["", "user@", "user:secret@"]),
    st.lists(
        st.from_regex(r"[a-zA-Z0-9]([a-zA-Z0-9]{0,8}[a-zA-Z0-9])?", fullmatch=True).filter(
            lambda label: label != "www"
        ),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from(["", ":80", ":"]),
    st.from_regex(r"(/[a-z@:]{0,5})?([?][a-z@:/]{0,5})?(#[a-z@:/?]{0,5})?", fullmatch=True),
)
def test_the_host_of_a_url_is_the_one_that_the_standard_library_finds(
    scheme: str, user: str, labels: list[str], port: str, rest: str
) -> None:
    url = f"{scheme}://{user}{'.'.join(labels)}{port}{rest}"
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    assert host_of(url) == host


# --- agents -----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def agents() -> AgentReader:
    return AgentReader()


@pytest.mark.parametrize(
    "agent, families",
    [
        (IPHONE, ("Safari", "iOS", "phone")),
        (
            "Mozilla/5.0 (Linux; Android 13; SM-S901B) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/112.0.0.0 Mobile Safari/537.36",
            ("Chrome", "Android", "phone"),
        ),
        (
            "Mozilla/5.0 (Linux; Android 12; SM-T870) AppleWebKit/537.36 (KHTML, like Gecko) "
            "SamsungBrowser/20.0 Chrome/106.0.0.0 Safari/537.36",
            ("Samsung Internet", "Android", "tablet"),
        ),
        (
            "Mozilla/5.0 (iPad; CPU OS 16_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/16.5 Mobile/15E148 Safari/604.1",
            ("Safari", "iOS", "tablet"),
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/114.0.0.0 Safari/537.36 Edg/114.0.1",
            ("Edge", "Windows", "desktop"),
        ),
        (
            "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/538.1 (KHTML, like Gecko) "
            "Version/6.0 TV Safari/538.1",
            ("Safari", "Tizen", "tv"),
        ),
        (
            "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0",
            ("Firefox", "Linux", "desktop"),
        ),
        ("PlayStation", ("other", "other", "other")),
        ("-", NO_AGENT),
        ("", NO_AGENT),
    ],
)
def test_an_agent_becomes_families_and_a_device(agents: AgentReader, agent: str, families: tuple[str, ...]) -> None:
    assert agents.read(agent) == families


# --- countries --------------------------------------------------------------------------------------------------------
def test_the_country_of_an_address_is_found_inside_the_program_or_nowhere() -> None:
    assert country_reader("builtin")("193.99.144.80") == "DE"
    assert country_reader("builtin")("127.0.0.1") == ""
    assert country_reader("off")("193.99.144.80") == ""


@pytest.mark.parametrize(
    "given, address",
    [
        (" 193.99.144.80 ", "193.99.144.80"),
        ("::FFFF:193.99.144.80", "193.99.144.80"),
        ("fe80::1%eth0", "fe80::1"),
        ("193.99.144.80:51008", "193.99.144.80"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("::ffff:193.99.144.80:51008", "193.99.144.80"),
        ("193.99.144.80, 10.0.0.1", "193.99.144.80"),
        ("unknown, 193.99.144.80:7, 10.0.0.1", "193.99.144.80"),
    ],
)
def test_an_address_is_read_as_people_write_it(given: str, address: str) -> None:
    assert address_of(given) == address


@pytest.mark.parametrize("value", ["1.2.3", "193.99.144", "unknown", "a" * 99, ",", 7, ["::1"], {"ip": "::1"}])
def test_what_is_no_address_is_refused_and_never_repeated(value: object) -> None:
    with pytest.raises(HitRejected) as refused:
        address_of(value)
    assert refused.value.field == "ip" and refused.value.value is None and "193" not in str(refused.value)


def test_a_file_of_countries_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "countries.mmdb").write_bytes(b"not a database")
    for name in ("countries.mmdb", "missing.mmdb"):
        with pytest.raises(SettingInvalid, match=name):
            country_reader(str(tmp_path / name))


@pytest.mark.parametrize("value", ["DEU", "D", "ÄÖ", "D1", "T1", "O1", "XX", "EU", "AP", "ZZ", "AN", 49, None])
def test_a_country_is_one_of_iso_3166_or_kosovo(value: object) -> None:
    assert (country_of_field("de"), country_of_field(" XK "), len(COUNTRIES)) == ("DE", "XK", 250)
    with pytest.raises(HitRejected, match="country"):
        country_of_field(value)


# --- languages, campaigns ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value, language",
    [
        ("de-AT,en;q=0.8", "de"),
        ("en;q=0.2, fr", "fr"),
        ("EN", "en"),
        ("*", ""),
        ("en;q=0", ""),
        ("", ""),
        ("x-y!", ""),
        ("en_US", "en"),
        ("pt_BR.UTF-8", "pt"),
        ("de_AT@euro", "de"),
        ("sr_RS.utf8@latin", "sr"),
        ("zh_Hans_CN", "zh"),
        ("iw", "he"),
        ("in_ID", "id"),
        ("ji-001", "yi"),
        ("mo;q=0.9,en;q=0.1", "ro"),
        ("C.UTF-8", ""),
        ("POSIX", ""),
    ],
)
def test_the_language_is_the_one_that_is_asked_for_first(value: str, language: str) -> None:
    assert language_of(value) == language


@pytest.mark.parametrize(
    "query, campaign",
    [
        ("", ("", {})),
        ("a=b", ("", {})),
        (
            "utm_source=mail&utm_medium=e-mail&utm_campaign=spring%20sale",
            ("", {"source": "mail", "medium": "e-mail", "campaign": "spring sale"}),
        ),
        ("source=qr&utm_campaign=", ("qr", {})),
        ("qr=1", ("qr", {})),
        ("qr", ("qr", {})),
        ("qr=0", ("", {})),
        ("source=a&source=b", ("a", {})),
        ("&".join(f"f{n}=1" for n in range(200)), ("", {})),
    ],
)
def test_the_query_of_a_link_names_source_and_campaign(query: str, campaign: tuple[str, dict[str, str]]) -> None:
    assert campaign_of_query(query) == campaign


@pytest.mark.parametrize("value", ["x" * 65, 1, "a\nb", "\ud800"])
def test_a_source_is_short_text(value: object) -> None:
    assert source_of("qr") == "qr"
    with pytest.raises(HitRejected) as refused:
        source_of(value)
    assert refused.value.field == "source"


def test_utm_is_an_object_of_strings_of_which_others_are_left_out() -> None:
    assert utm_of({"source": "mail", "medium": None, "term": 7}) == {"source": "mail"}
    for value in (["source"], "mail", {"source": 7}, {"campaign": "a\x00"}):
        with pytest.raises(HitRejected, match="utm"):
            utm_of(value)


# --- texts ------------------------------------------------------------------------------------------------------------
@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_a_long_value_is_cut_at_a_character_and_says_so(value: str) -> None:
    kept = cut(value)
    if len(value.encode()) <= VALUE_BYTES:
        assert kept == value
    else:
        assert kept.endswith("…") and value.startswith(kept[:-1])
        assert VALUE_BYTES - 6 <= len(kept.encode()) <= VALUE_BYTES


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\n", "\x7f", "\x9b", "\udc80"])
def test_control_characters_refuse(sign: str) -> None:
    with pytest.raises(HitRejected, match="control"):
        text_of(f"a{sign}b", "tag.x", "any text", 100)


# --- profiles ---------------------------------------------------------------------------------------------------------
def reader(*dimensions: str) -> ProfileReader:
    return ProfileReader(dimensions, country_reader("builtin"), ReferrerReader(["short.example"]))


def test_a_hit_has_a_value_for_each_dimension_of_people() -> None:
    dimensions = ("ref", "country", "device", "source", "lang", "utm_campaign", "tag.team")
    found = reader(*dimensions, "bot")
    words = AttributeFields(
        ref="https://www.news.example/",
        ip="193.99.144.80",
        ua=IPHONE,
        lang="de-AT",
        source="qr",
        utm={"campaign": "spring", "source": "mail"},
        tags={"team": "blue", "other": "x"},
    )
    for each in (words, AttributeFields(*map(pairs_of, words)), words):
        assert found.values_of(each) == ("news.example", "DE", "phone", "qr", "de", "spring", "blue")
    assert found.values_of(AttributeFields(ref="x.example")) == ("x.example", "", "", "", "", "", "")


def test_hits_that_say_nothing_of_the_dimensions_have_no_values() -> None:
    found = reader("ref", "source")
    assert found.values_of(AttributeFields()) is None
    assert found.values_of(AttributeFields(ua=IPHONE, ip="193.99.144.80", country="FR", lang="de")) is None
    assert found.values_of(AttributeFields(ref="")) == ("", "")  # a visit without a referrer says that


def test_a_country_that_is_given_beats_the_address() -> None:
    found = reader("country")
    assert found.values_of(AttributeFields(ip="193.99.144.80", country="fr")) == ("FR",)
    assert found.values_of(AttributeFields(ip="193.99.144.80")) == ("DE",)
    assert found.values_of(AttributeFields(ip="127.0.0.1")) == ("",)
    assert found.values_of(AttributeFields(ip="193.99.144.80", country="")) == ("DE",)
    judge = HitJudge(Moment(60, 0, 360), found)
    for ip, country in (("nowhere", "fr"), ("193.99.144.80", "nowhere")):
        with pytest.raises(HitRejected):
            judge.hit_of(JsonHit("k", ip=ip, country=country), lambda agent: False)


def test_a_hit_has_the_same_values_whether_its_visitor_is_known_or_not() -> None:
    divided = ("ref", "country")
    found = ProfileReader(divided, country_reader("builtin"), ReferrerReader(), salts={0: b"salt"})
    judge = HitJudge(Moment(60, 0, 360), found)
    for ref, values, alone in (
        ("a.example", ("a.example", ""), Profile(divided, ("a.example", ""))),
        (None, ("", ""), None),
    ):
        of_known = judge.hit_of(JsonHit("k", ref=ref, visitor="v"), lambda agent: False)
        assert of_known.profile == Profile(divided, values, known=True)
        assert judge.hit_of(JsonHit("k", ref=ref), lambda agent: False).profile == alone


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "ip": st.sampled_from(["", "193.99.144.80", "nowhere"]),
            "ref": st.sampled_from(["", "https://news.example/a", "x" * 101, "a\x1b"]),
            "ua": st.sampled_from(["", IPHONE, "curl/8"]),
            "country": st.sampled_from(["", "fr", "nowhere"]),
            "lang": st.sampled_from(["", "de-AT", "?"]),
            "source": st.sampled_from(["", "qr", "print"]),
            "utm": st.sampled_from([{}, {"source": "mail"}, {"campaign": "x" * 101, "other": "y"}, {"medium": None}]),
            "tags": st.sampled_from([{}, {"team": "blue"}, {"other": "x"}]),
        },
    ),
    st.sets(st.sampled_from((*DIMENSIONS[:11], "tag.team")), min_size=1).map(sorted),
)
def test_the_values_of_a_hit_are_the_same_by_memos_and_without(said: dict[str, object], names: list[str]) -> None:
    found = reader(*names)
    by_memos, anew = AttributeFields(**{name: pairs_of(value) for name, value in said.items()}), AttributeFields(**said)
    for _ in range(2):
        assert outcome(found, by_memos) == outcome(found, anew)


def outcome(found: ProfileReader, fields: AttributeFields) -> tuple[str, ...] | str | None:
    """Returns the values of a hit, or the field that breaks a rule."""
    try:
        return found.values_of(fields)
    except HitRejected as error:
        return f"refused for {error.field}"


def test_words_that_break_a_rule_are_refused_each_time() -> None:
    found = reader("ref")
    for _ in range(2):
        with pytest.raises(HitRejected):
            found.values_of(AttributeFields(ref="https://a\x1b.example"))
        with pytest.raises(HitRejected):
            found.values_of(AttributeFields(ref="x" * 2_049))
        with pytest.raises(HitRejected):
            found.values_of(AttributeFields(ref="a", ip="nowhere"))
        with pytest.raises(HitRejected):
            found.values_of(AttributeFields(ip=["193.99.144.80"]))
        with pytest.raises(HitRejected):
            found.values_of(AttributeFields(ref={"a": 1}))


def test_tags_are_those_that_the_settings_know_and_say_something() -> None:
    found = reader("tag.team")
    assert found.values_of(AttributeFields(tags={"other": "x"})) is None
    for tags in ({"team": "x" * 101}, {"team": 1}, dict.fromkeys("abcde", "x"), ["team"], "team"):
        for written in (tags, pairs_of(tags)):
            with pytest.raises(HitRejected, match="tag"):
                found.values_of(AttributeFields(tags=written))


def test_a_bots_profile_is_its_name_if_bots_are_divided() -> None:
    assert reader("ref").bot("Googlebot/2.1") is None
    found = ProfileReader(("ref", "bot"), country_reader("off"), ReferrerReader(), bot_judge().bot)
    assert found.bot("Mozilla/5.0 (compatible; Googlebot/2.1)") == Profile(("bot",), ("Googlebot",))
    assert found.bot(None) == found.bot("Mozilla/5.0") == Profile(("bot",), ("",))


@given(st.ip_addresses(v=4).map(str) | st.text(st.sampled_from("0123456789. :af%"), max_size=16) | st.text(max_size=5))
def test_an_address_alone_is_read_as_the_standard_library_does(text: str) -> None:
    try:
        read = ip_address(text.strip())
    except ValueError:
        return  # with a port, perhaps
    mapped = read.ipv4_mapped if isinstance(read, IPv6Address) else None
    assert address_of(text) == str(mapped or read).partition("%")[0]


def test_referrers_are_texts_to_2048_bytes() -> None:
    assert ReferrerReader().site_of_field("https://a.example/" + "x" * 2_000) == "a.example"
    with pytest.raises(HitRejected, match="ref"):
        ReferrerReader().site_of_field(["https://a.example/"])


def test_the_names_of_dimensions_are_known_and_stand_once() -> None:
    assert dimensions_of(["ref", "tag.team"]) == ("ref", "tag.team")
    for names in (["referrer"], ["tag."], ["ref", "ref"]):
        with pytest.raises(SettingInvalid):
            dimensions_of(names)
