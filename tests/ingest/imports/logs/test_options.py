"""What an operator may say of a log: its own format, where the client stands, what is no link, one hit a click."""

from __future__ import annotations

import pytest

from clickcurve.buckets.errors import SettingInvalid
from ingest.imports.access_log import PROPOSED_EXCLUDES, LogOptions
from ingest.imports.logs.clicks import SECOND_LINE, TO_HTTPS
from ingest.imports.logs.line_reader import ClientField
from ingest.imports.logs.log_format import own_format
from tests.ingest.imports.logs.kit import AGENT, AT, CLF, COMBINED, FORMATS, NGINX_JSON, REF, json_of, log_of, told

CLICK = {"key": "launch", "ts": AT, "ip": "203.0.113.9", "utm": {"campaign": "spring"}}
PATH = "/launch?utm_campaign=spring"

# --- a format of one's own --------------------------------------------------------------------------------------------
OWN = {
    "$remote_addr|$time_iso8601|$request_method|$request_uri|$status": (
        f"203.0.113.9|2015-05-17T12:05:03+02:00|GET|{PATH}|302"
    ),
    "$msec $remote_addr $request_method $uri$is_args$args $status $upstream_response_time": (
        f"1431857103.540 203.0.113.9 GET {PATH} 302 0.004"
    ),
    '[$time_local] "$request" $status client=$remote_addr, rt=$request_time': (
        f'[{CLF}] "GET {PATH} HTTP/2.0" 302 client=203.0.113.9, rt=0.1'
    ),
    "${remote_addr} - $remote_user [$time_local] $request -> $status": (
        f"203.0.113.9 - Jane Q. [x] Public [{CLF}] GET {PATH} HTTP/1.1 -> 302"
    ),
    "$remote_addr $time_iso8601 $request_method $request_uri $args $status $http_referer $host $scheme": (
        f"203.0.113.9 2015-05-17T10:05:03Z GET {PATH} utm_campaign=spring 302 - a.example https"
    ),
    "$remote_addr $time_iso8601 $scheme://$host$request_uri $status": (
        f"203.0.113.9 2015-05-17T10:05:03Z https://a.example{PATH} 302"
    ),
    "log_format mine '$remote_addr [$time_local] '\n    '\"$request\" $status';": (
        f'203.0.113.9 [{CLF}] "GET {PATH} HTTP/1.1" 302'
    ),
    r"%h %l %u %t \"%r\" %>s %b": f'203.0.113.9 - ann [{CLF}] "GET {PATH} HTTP/1.1" 302 5',
    'LogFormat "%v %a %t \\"%r\\" %s" mine': f'a.example 203.0.113.9 [{CLF}] "GET {PATH} HTTP/1.1" 302',
    "%{%Y-%m-%d %T}t %a %m %U%q %>s %D": f"2015-05-17 10:05:03 203.0.113.9 GET {PATH} 302 512",
    '[%{%d/%b/%Y %H:%M:%S}t.%{msec_frac}t %{%z}t] %h "%m %U%q %H" %>s': (
        f'[17/May/2015 12:05:03.540 +0200] 203.0.113.9 "GET {PATH} HTTP/1.1" 302'
    ),
    "%{sec}t %{X-Real-IP}i %m %U%q %>s 100%%": f"1431857103 203.0.113.9 GET {PATH} 302 100%",
}


@pytest.mark.parametrize("text", OWN)
def test_a_format_of_nginx_or_apache_reads_its_lines(text: str) -> None:
    for count in (1, 3_000):
        log = log_of(options=LogOptions(own=own_format(text)))
        sums = log.read(f"{OWN[text]}\n".encode() * count + b"junk\n")
        assert told(sums) == [{**CLICK, **({"count": count} if count > 1 else {})}]
        assert [bad.reason for bad in sums.first_bad] == ["not a line of the given format"]
        assert sums.formats == {"the given format": count}


def test_a_format_of_one_s_own_gives_all_that_it_names() -> None:
    own = own_format('$host $remote_addr [$time_local] "$request" $status "$http_referer" "$http_user_agent"')
    line = f'a.example 203.0.113.9 [{CLF}] "GET {PATH} HTTP/1.1" 302 "{REF}" "{AGENT} \\x22q\\x22"'
    assert told(log_of(in_key=True, options=LogOptions(own=own)).read(line.encode())) == [
        {**CLICK, "key": "a.example/launch", "ref": "news.example", "ua": f'{AGENT} "q"'}
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("combined", "neither $names nor %letters"),
        ("$remote_addr $status", "no field for a time and a request"),
        ('[$time_local] "$request"', "no field for a status"),
        ('$remote_addr$status [$time_local] "$request"', "nothing between remote_addr and status"),
        ("%{%A}t %r %>s", "a time that is not read"),
    ],
)
def test_a_format_that_cannot_be_read_is_refused_and_says_why(text: str, says: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        own_format(text)
    assert says in refused.value.detail


# --- the client behind a proxy ----------------------------------------------------------------------------------------
ISTIO = FORMATS["Istio"].lines.replace("203.0.113.9", "10.0.0.3") + " 203.0.113.9"
BEHIND = f'10.0.0.3 - - {COMBINED} 0.1 "203.0.113.9, 10.0.0.9"'
NAMED = "X-Forwarded-For"
WITH_NAME = [
    json_of({**NGINX_JSON, "remote_addr": "10.0.0.3", "X-Forwarded-For": "203.0.113.9, 10.0.0.9"}),
    FORMATS["Caddy"].lines.replace("203.0.113.9", "10.0.0.3").replace("198.51.100.7", "203.0.113.9"),
    FORMATS["Traefik's JSON"].lines.replace("203.0.113.9", "10.0.0.3")[:-1]
    + ',"request_X-Forwarded-For":"203.0.113.9"}',
    "#Fields: date time c-ip cs-uri sc-status X-Forwarded-For cs(User-Agent) cs(Referer)\n"
    f"2015-05-17 10:05:03 10.0.0.3 {PATH} 302 203.0.113.9,+10.0.0.9 {AGENT.replace(' ', '+')} {REF}",
]


@pytest.mark.parametrize("place", [2, -1])
def test_the_client_may_stand_behind_the_known_fields(place: int) -> None:
    options = LogOptions(client=ClientField(place=place))
    lines = [BEHIND, BEHIND.replace("Mozilla", r"M\x6fzilla")]
    for line in [*lines, ISTIO] if place < 0 else lines:
        for text in (line, f"{line}\n" * 3_000):
            (hit,) = told(log_of(options=options).read(text.encode()))
            assert hit["ip"] == "203.0.113.9"


@pytest.mark.parametrize("line", WITH_NAME)
def test_the_client_may_have_a_name(line: str) -> None:
    (hit,) = told(log_of(options=LogOptions(client=ClientField(NAMED))).read(line.encode()))
    assert hit["ip"] == "203.0.113.9"


@pytest.mark.parametrize("name", ["X-Forwarded-For", "http_x_forwarded_for", "$http_x_forwarded_for"])
def test_the_client_may_have_a_name_of_the_format(name: str) -> None:
    own = own_format('$remote_addr [$time_local] "$request" $status "$http_x_forwarded_for"', name)
    options = LogOptions(own=own, client=ClientField(name))
    for client, ip in (("203.0.113.9, 10.0.0.9", "203.0.113.9"), ("-", "10.0.0.3")):
        line = f'10.0.0.3 [{CLF}] "GET {PATH} HTTP/1.1" 302 "{client}"'
        assert told(log_of(options=options).read(line.encode())) == [{**CLICK, "ip": ip}]
    with pytest.raises(SettingInvalid, match="no field X-Real-IP"):
        own_format('$remote_addr [$time_local] "$request" $status', "X-Real-IP")


def test_a_visit_without_a_proxy_keeps_its_address() -> None:
    for behind in ("", ' "-"', " 0.1", ' 0.1 "unknown"'):
        (hit,) = told(
            log_of(options=LogOptions(client=ClientField(place=-1))).read(
                f"203.0.113.9 - - {COMBINED}{behind}".encode()
            )
        )
        assert hit["ip"] == "203.0.113.9"


# --- keys -------------------------------------------------------------------------------------------------------------
def keys_of(*paths: str, in_key: bool = False, **options: object) -> tuple[list[object], dict[str, int], set[str]]:
    log = log_of(in_key, LogOptions(**options))  # type: ignore[arg-type]
    text = "".join(f'203.0.113.9 - - [{CLF}] "GET /{path} HTTP/1.1" 302 5\n' for path in paths)
    sums = log.read(text.encode())
    return [hit["key"] for hit in told(sums)], dict(sums.skipped), log.proposed


def test_each_spelling_of_a_path_has_one_key_and_as_sent_has_its_own() -> None:
    spellings = ["caf%C3%A9", "caf%c3%a9", "café", "%63af%C3%A9"]
    assert keys_of(*spellings)[0] == ["café"]
    assert keys_of(*spellings, keys_as_sent=True)[0] == spellings
    assert keys_of("%ff", "%FF")[0] == ["%FF"]
    assert keys_of("100%", "a%2")[0] == ["100%", "a%2"]


def test_what_is_no_link_is_left_out_by_patterns_and_proposed_without_them() -> None:
    paths = ["a", "favicon.ico", "wp-login.php", "wp-admin%2Fx", "robots.txt", "a/favicon.ico"]
    keys, skipped, proposed = keys_of(*paths)
    assert (len(keys), skipped, proposed) == (6, {}, set(PROPOSED_EXCLUDES))
    keys, skipped, proposed = keys_of(*paths, excluded=PROPOSED_EXCLUDES)
    assert (keys, skipped, proposed) == (["a", "a/favicon.ico"], {"excluded": 4}, set())
    assert keys_of("a", "b", in_key=True, excluded=("none/a",))[0] == ["none/b"]
    assert keys_of("a", "b", in_key=True, excluded=("a",))[0] == ["none/b"]


# --- one hit a click --------------------------------------------------------------------------------------------------
def line(
    second: int, path: str = "a", ip: str = "203.0.113.9", agent: str = "UA", host: str = "", status: int = 302
) -> str:
    at = f"17/May/2015:10:05:{second:02} +0000"
    return f'{host}{ip} - - [{at}] "GET /{path} HTTP/1.1" {status} 5 "-" "{agent}"\n'


ONCE = LogOptions(once_per_click=True)


@pytest.mark.parametrize(
    ("lines", "hits", "left_out"),
    [
        ([line(3), line(3)], 1, 1),
        ([line(3, status=301), line(4)], 1, 1),
        ([line(3), line(5)], 2, 0),
        ([line(3), line(3), line(3)], 2, 1),
        ([line(3), line(3), line(3), line(4)], 2, 2),
        ([line(3), line(3, path="b")], 2, 0),
        ([line(3, path="a?x"), line(3, path="a?y")], 2, 0),
        ([line(3), line(3, ip="203.0.113.8")], 2, 0),
        ([line(3), line(3, agent="other")], 2, 0),
        ([line(3, status=404), line(3)], 1, 0),
        ([line(3), line(4, path="b"), line(9), line(4)], 4, 0),
    ],
)
def test_the_second_line_of_a_click_is_left_out(lines: list[str], hits: int, left_out: int) -> None:
    sums = log_of(options=ONCE).read("".join(lines).encode())
    assert (sums.people_hits, sums.skipped[SECOND_LINE]) == (hits, left_out)
    assert log_of().read("".join(lines).encode()).people_hits == sum("404" not in one for one in lines)


def test_lines_of_http_are_left_out_where_a_log_names_schemes() -> None:
    https = FORMATS["Nginx Proxy Manager"].lines
    http = https.replace("GET https", "GET http")
    for lines, hits in (([http, https], 1), ([https, https], 2), ([http], 0), ([http, http, https], 1)):
        sums = log_of(options=ONCE).read("\n".join(lines).encode())
        assert (sums.people_hits, sums.skipped[TO_HTTPS]) == (hits, len(lines) - hits)
    ports = [line(3, host="a.example:80 "), line(9, host="a.example:443 ")]
    assert log_of(options=ONCE).read("".join(ports).encode()).people_hits == 1


def test_a_click_may_lie_over_the_edge_of_two_chunks_or_of_two_imports() -> None:
    log = log_of(options=ONCE)
    log.begin()
    assert [log.read(line(3).encode()).people_hits, log.read(line(3).encode()).people_hits] == [1, 0]
    again = log_of(options=ONCE)
    again.begin(before=b"the end of a line\n" + line(2, path="b").encode() + line(3).encode())
    assert [again.read(line(3).encode()).people_hits, again.read(line(3).encode()).people_hits] == [0, 1]
