"""Lines of all formats that are recognised, each a click on `/launch`, and what they say."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from clickcurve.hosts import Hosts
from ingest.imports.access_log import OF_LINES, AccessLog, LogOptions
from ingest.imports.importer import dated_hits
from ingest.imports.log_sums import LogSums

AT = 1_431_857_100  # 17 May 2015 10:05 UTC; all lines are of its third second
CLF = "17/May/2015:10:05:03 +0000"
ISO = "2015-05-17T10:05:03.310Z"
AGENT = "Mozilla/5.0 (X11; Linux x86_64) Firefox/120.0"
PLUS = AGENT.replace(" ", "+")
REF = "https://news.example/a"
GET = "GET /launch?utm_campaign=spring HTTP/1.1"
COMBINED = f'[{CLF}] "{GET}" 302 5 "{REF}" "{AGENT}"'


class Given(NamedTuple):
    """What a format gives of the click. host: the host of its key; the others: fields of its hit."""

    lines: str
    host: str = ""
    ip: str | None = "203.0.113.9"
    ref: str | None = "news.example"
    ua: str | None = AGENT
    campaign: str | None = "spring"
    format: str = "combined"


ALB = f'302 - 225 24 "GET https://a.example:443/launch?utm_campaign=spring HTTP/1.1" "{AGENT}" ECDHE TLSv1.2'
W3C_IIS = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer)"
CLOUDFRONT = (
    "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent)"
    " cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol"
)
CLOUDFRONT_LINE = (
    f"2015-05-17\t10:05:03\tFRA2\t182\t203.0.113.9\tGET\td1.cloudfront.example\t/launch\t302\t{REF}\t%s"
    "\tutm_campaign=spring\t-\tMiss\tMRVM==\ta.example\thttps\t217"
)
PROXY_MANAGER = (
    f'[{CLF}] %s - GET https a.example "/launch?utm_campaign=spring" [Client 203.0.113.9] [Length 14] [Gzip -]'
    f'%s "{AGENT}" "{REF}"'
)
ENVOY = f'"203.0.113.9,10.0.0.3" "{AGENT}" "cc21d9b0-cf5c" "a.example" "10.0.2.1:80"'
TRAEFIK_JSON = {
    "ClientAddr": "203.0.113.9:51008",
    "ClientHost": "203.0.113.9",
    "DownstreamStatus": 302,
    "RequestMethod": "GET",
    "RequestHost": "a.example",
    "RequestPath": "/launch?utm_campaign=spring",
    "StartUTC": ISO,
    "time": ISO,
    "msg": "",
    "request_User-Agent": AGENT,
    "request_Referer": REF,
}
CADDY_REQUEST = {
    "remote_ip": "203.0.113.9",
    "method": "GET",
    "host": "a.example",
    "uri": "/launch?utm_campaign=spring",
    "tls": {"version": 772, "server_name": "a.example"},
    "headers": {"User-Agent": [AGENT], "Referer": [REF], "X-Forwarded-For": ["198.51.100.7"]},
}
NGINX_JSON = {
    "time_iso8601": "2015-05-17T12:05:03+02:00",
    "remote_addr": "203.0.113.9",
    "host": "a.example",
    "request": GET,
    "status": "302",
    "http_referer": REF,
    "http_user_agent": AGENT,
}


def json_of(fields: object) -> str:
    return msgspec.json.encode(fields).decode()


FORMATS = {
    "combined": Given(f"203.0.113.9 - - {COMBINED}"),
    "common": Given(f'203.0.113.9 - - [{CLF}] "{GET}" 302 5', ref=None, ua=None, format="common"),
    "a host in front": Given(f"a.example:443 203.0.113.9 - - {COMBINED}", "a.example"),
    "a host behind the address": Given(f"203.0.113.9 a.example ann {COMBINED}", "a.example"),
    "a host behind": Given(f"203.0.113.9 - - {COMBINED} a.example", "a.example"),
    "a host in quotes behind": Given(f'203.0.113.9 - - {COMBINED} "A.example:443"', "a.example"),
    "a host behind the common format": Given(
        f'203.0.113.9 - - [{CLF}] "{GET}" 302 5 a.example', "a.example", ref=None, ua=None, format="common"
    ),
    "Traefik's text": Given(f'203.0.113.9 - - {COMBINED} 5 "web@docker" "http://10.0.0.1:80" 12ms'),
    "ingress-nginx": Given(f"203.0.113.9 - - {COMBINED} 371 0.006 [web-80] [] 10.0.0.5:80 12 0.007 302 e3b0c442"),
    "HAProxy's clf": Given(
        f'203.0.113.9 - - [{CLF}] "{GET}" 302 5 "" "" 51008 310 "web" "links" "s1" 0 0 0 72 72 ---- 1 1 0 1 0 "" ""',
        ref=None,
        ua=None,
        format="common",
    ),
    "HAProxy": Given(
        "May 17 10:05:03 lb1 haproxy[6801]: 203.0.113.9:55008 [17/May/2015:10:05:03.584] web~ links/s1 0/0/0/72/72"
        f' 302 7456 - - ---- 5/4/0/1/0 0/0 {{a.example|Mozilla/5.0 (X)}} {{}} "{GET}"',
        ref=None,
        ua=None,
        format="HAProxy",
    ),
    "Nginx Proxy Manager": Given(
        PROXY_MANAGER % ("- 302 302", " [Sent-to 172.18.0.1]"), "a.example", format="Nginx Proxy Manager"
    ),
    "Nginx Proxy Manager, two upstreams": Given(
        PROXY_MANAGER % ("MISS 502, 302 302", " [Sent-to 172.18.0.1]"), "a.example", format="Nginx Proxy Manager"
    ),
    "Nginx Proxy Manager, no upstream": Given(
        PROXY_MANAGER % ("- - 302", " [Sent-to 172.18.0.1]"), "a.example", format="Nginx Proxy Manager"
    ),
    "Nginx Proxy Manager, a redirect of its own": Given(
        PROXY_MANAGER % ("302", ""), "a.example", format="Nginx Proxy Manager"
    ),
    "Envoy": Given(f'[{ISO}] "{GET}" 302 - 154 0 226 100 {ENVOY}', "a.example", ref=None, format="Envoy"),
    "Istio": Given(
        f'[{ISO}] "{GET}" 302 - via_upstream - "-" 0 135 4 4 {ENVOY} inbound|80|| 127.0.0.1:4 10.4.1.2:80 10.4.1.9:3 -',
        "a.example",
        ref=None,
        format="Istio",
    ),
    "ALB": Given(
        f"https {ISO} app/lb/50dc6c 203.0.113.9:2817 10.0.0.1:80 0.0 0.1 0.0 {ALB} arn:aws:x",
        "a.example",
        ref=None,
        format="ALB",
    ),
    "ELB": Given(f"{ISO} lb 203.0.113.9:2817 10.0.0.1:80 0.0 0.1 0.0 {ALB}", "a.example", ref=None, format="ELB"),
    "S3": Given(
        f'79a59df9 links [{CLF}] 203.0.113.9 - 3E57427F3 WEBSITE.GET.OBJECT launch "{GET}" 302 - 113 - 7 - "{REF}"'
        f' "{AGENT}" - s9lzHY+9= - - - a.example TLSv1.2 - -',
        "a.example",
        format="S3",
    ),
    "S3, before 2019": Given(
        f'79a59df9 links [{CLF}] 203.0.113.9 - 3E57427F3 WEBSITE.GET.OBJECT launch "{GET}" 302 - 113 - 7 - "{REF}"'
        f' "{AGENT}" -',
        format="S3",
    ),
    "IIS": Given(
        f"#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Date: 2015-05-17 10:00:00\r\n"
        f"#Fields: {W3C_IIS} cs-host sc-status sc-substatus sc-win32-status time-taken\r\n"
        f"2015-05-17 10:05:03 10.0.0.5 GET /launch utm_campaign=spring 443 - 203.0.113.9 {PLUS} {REF} a.example"
        " 302 0 0 15\r",
        "a.example",
        format="W3C",
    ),
    "IIS, values in quotes": Given(
        "#Fields:  date-local time-local cs-uri-stem cs-uri-query cs-method sc-status c-ip cs(User-Agent) cs(Referer)\n"
        f'2015-05-17 10:05:03.310 /launch utm_campaign=spring GET 302 "203.0.113.9" "{AGENT}" "{REF}"',
        format="W3C",
    ),
    "CloudFront": Given(
        f"#Version: 1.0\n#Fields: {CLOUDFRONT}\n{CLOUDFRONT_LINE % AGENT.replace(' ', '%20')}",
        "a.example",
        format="W3C",
    ),
    "CloudFront, escaped twice": Given(
        f"#Version: 1.0\n#Fields: {CLOUDFRONT}\n{CLOUDFRONT_LINE % AGENT.replace(' ', '%2520')}",
        "a.example",
        format="W3C",
    ),
    "W3C, any columns": Given(
        "#Fields: sc-status cs-uri c-ip time date\n302 /launch?utm_campaign=spring 203.0.113.9 10:05:03 2015-05-17",
        ref=None,
        ua=None,
        format="W3C",
    ),
    "W3C, all in quotes": Given(
        "#Fields: date time c-ip cs(User-Agent) cs-uri cs-postbody cs(Referrer) cs-method cs-uri-query sc-status\n"
        f'"2015-05-17" "10:05:03" "203.0.113.9" "{AGENT}" "a.example/launch" "" "{REF}" "GET"'
        ' "utm_campaign=spring" "302"',
        "a.example",
        format="W3C",
    ),
    "Caddy": Given(
        json_of({"ts": AT + 3.31, "logger": "http.log.access", "request": CADDY_REQUEST, "status": 302}),
        "a.example",
        format="Caddy JSON",
    ),
    "Caddy, before 2.5": Given(
        json_of(
            {
                "ts": AT + 3,
                "request": {**CADDY_REQUEST, "remote_ip": None, "remote_addr": "203.0.113.9:51008"},
                "status": 302,
            }
        ),
        "a.example",
        format="Caddy JSON",
    ),
    "Traefik's JSON": Given(json_of(TRAEFIK_JSON), "a.example", format="Traefik JSON"),
    "nginx's JSON": Given(json_of(NGINX_JSON), "a.example", format="JSON"),
    "nginx's JSON without escape=json": Given(
        json_of({**NGINX_JSON, "http_user_agent": "@"}).replace("@", AGENT.replace(" ", r"\x20")),
        "a.example",
        format="JSON",
    ),
    "other names in JSON": Given(
        json_of(
            {
                "date": ISO,
                "clientip": "203.0.113.9",
                "vhost": "a.example",
                "verb": "GET",
                "path": "/launch",
                "query": "utm_campaign=spring",
                "response": 302,
                "referrer": REF,
                "useragent": AGENT,
            }
        ),
        "a.example",
        format="JSON",
    ),
    "JSON behind a word of syslog": Given(
        f"May 17 10:05:03 web1 nginx: {json_of(NGINX_JSON)}", "a.example", format="JSON"
    ),
    "Docker's file": Given(
        json_of({"log": f"203.0.113.9 - - {COMBINED}\n", "stream": "stdout", "time": "2026-01-01T00:00:00Z"})
    ),
}


def is_bot(agent: str) -> bool:
    return "bot" in agent.lower()


def log_of(in_key: bool = False, options: LogOptions | None = None) -> AccessLog:
    """A reader of logs that fills all fields; with hosts in keys, that of lines without one is `none`."""
    log = AccessLog(is_bot, hosts=Hosts(default="none"), options=options or LogOptions())
    log.use(OF_LINES)
    log.use_hosts(in_key)
    return log


def told(sums: LogSums) -> list[dict[str, object]]:
    """The hits of some lines as fields of JSON."""
    return [msgspec.to_builtins(hit) for hit in dated_hits(sums)]
