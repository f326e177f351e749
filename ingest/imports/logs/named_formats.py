"""Text formats of proxies and balancers that are neither combined nor W3C, in the words of nginx's `log_format`.

| format | source |
| --- | --- |
| Nginx Proxy Manager | its repository, `conf.d/include/log-proxy.conf` and `log.conf` |
| Envoy | Envoy's documentation, "Access logging: Default Format String" |
| Istio | Istio's documentation, "Envoy Access Logs: Default access log format" |
| HAProxy | HAProxy's configuration manual, "8.2.3. HTTP log format" |
| ALB, ELB | Elastic Load Balancing's user guides, "Access log entries" and "Access log file format" |
| S3 | Amazon S3's user guide, "Server access log format" |
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingest.imports.logs.log_format import nginx_pieces
from ingest.imports.logs.text_format import Field, Pattern, TextFormat, compile_format

_HASHED = re.compile("#([0-9A-F]{2})")
# What upstreams have answered: `502, 200` is of two, and `-` where none was asked. A method begins with no digit.
_STATUS_COMES = "(?>(?:[^ \n]++ )*?(?=(?:[0-9]{3}|-) - [^0-9 \n]))"
_TO_QUOTE = Pattern('[^"\n]*+')


def _proxy_manager() -> TextFormat:
    return compile_format(
        "Nginx Proxy Manager",
        (
            *nginx_pieces("[$time_local] "),
            Pattern(_STATUS_COMES),
            *nginx_pieces('$status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length '),
            _TO_QUOTE,
            *nginx_pieces('"$http_user_agent" "$http_referer"'),
        ),
    )


def _envoy(name: str, between: str, behind: str) -> TextFormat:
    """Returns the format of Envoy, which escapes nothing.

    Its client is the first of X-Forwarded-For; Istio names who has connected, too.
    """
    return compile_format(
        name,
        (
            *nginx_pieces('[$time_iso8601] "$request" $status '),
            Pattern(between),
            '"',
            Field("forwarded"),
            *nginx_pieces('" "$http_user_agent" "$x" "$host" "$x"'),
            Pattern(f"(?:{behind})?+", ("client",)),
        ),
    )


def _haproxy() -> TextFormat:
    """Returns the format of HAProxy, without zone, agent and referrer; syslog puts its own words before."""
    return compile_format(
        "HAProxy",
        (
            Pattern("(?>(?:[^ \n]++ )*?(?=[^ \n]++ \\[[0-9]{2}/))"),
            Field("client"),
            " [",
            Field("clf"),
            "] ",
            # The frontend, the backend with its server, and five timers.
            Pattern("[^ \n]++ [^ \n]++ [-+0-9]++(?:/[-+0-9]++){3,4} "),
            Field("status"),
            # Bytes, cookies, how it ended, connections, queues, and headers in braces, which hold no quotes.
            Pattern('(?: [^ "\n]++){6}[^"\n]*+'),
            '"',
            Field("request"),
            '"',
        ),
        mark="#",
        path=_unhashed,
    )


def _balancer(name: str, scheme: str) -> TextFormat:
    """Returns the format of a balancer, which writes whole URLs. What is no HTTP has dashes for status and request."""
    return compile_format(
        name,
        (
            Pattern(scheme, ("scheme",)),
            *nginx_pieces("$time_iso8601 "),
            Pattern("[^ \n]++ "),
            Field("client"),
            Pattern("(?: [^ \n]++){4} "),
            Field("status"),
            Pattern("(?: [^ \n]++){3} "),
            *nginx_pieces('"$request" "$http_user_agent"'),
        ),
    )


def _s3() -> TextFormat:
    """Returns the format of S3. The host stands five fields behind the agent, in lines since 2019."""
    return compile_format(
        "S3",
        (
            *nginx_pieces('$owner $bucket [$time_local] $remote_addr $x $x $x $x "$request" $status $x $x $x $x $x '),
            *nginx_pieces('"$http_referer" "$http_user_agent"'),
            Pattern("(?:(?: [^ \n]++){5} ([^ \n]++))?+", ("host",)),
        ),
    )


def _unhashed(text: str) -> str:
    """Undoes how HAProxy writes what does not print, quotes and itself: `#22`."""
    if "#" not in text:
        return text
    raw = _HASHED.sub(lambda found: chr(int(found[1], 16)), text.encode("utf-8", "surrogateescape").decode("latin-1"))
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")


NAMED_FORMATS: Sequence[TextFormat] = (
    _proxy_manager(),
    _envoy("Envoy", '(?:[^ "\n]++ ){5}', "()"),
    _envoy("Istio", '(?:[^ "\n]++ ){3}"[^"\n]*+" (?:[^ "\n]++ ){4}', "(?: [^ \n]++){3} ([^ \n]++)"),
    _haproxy(),
    _balancer("ALB", "(https?|h2|grpcs|wss?) "),
    _balancer("ELB", "()"),
    _s3(),
)
