"""What one message of the Model Context Protocol is answered, in both of its eras, and whatever else is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.mcp.protocol import (
    BAD_PARAMETERS,
    FIELDS_DIFFER,
    NO_METHOD,
    NO_REQUEST,
    NO_SUCH_VERSION,
    NOT_JSON,
    McpRefused,
    Reply,
    Server,
    fields_of,
    reply,
)

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
JSON = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=8)
    | st.sampled_from(["2.0", "tools/call", "tools/list", "initialize", "server/discover", "2026-07-28"])
)
KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "_meta", "name", "arguments", "protocolVersion", *META])
TREES = st.recursive(JSON, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5))


async def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name != "count":
        raise McpRefused(BAD_PARAMETERS, f"no tool {name}")
    return {"content": [], "structuredContent": arguments, "isError": False}


SERVER = Server("clickcurve", "1.2.3", "what to know", [{"name": "count"}], called)


def answered(body: bytes | dict[str, Any], fields: dict[str, str] | None = None) -> tuple[Reply, Any]:
    """The reply to a message, sent with its own header fields unless others are given, and its body."""
    sent = fields_of(body) if fields is None else fields
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    given = {name.encode(): value.encode() for name, value in sent.items()}
    made = asyncio.run(reply(SERVER, raw, given))
    return made, msgspec.json.decode(made.body) if made.body else None


def request(method: str, modern: bool = True, **parameters: Any) -> dict[str, Any]:
    params = {**parameters, "_meta": META} if modern else parameters
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def test_a_stateless_client_discovers_lists_and_calls() -> None:
    _, found = answered(request("server/discover"))
    assert found["id"] == 7
    result = found["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["instructions"] == "what to know" and result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "clickcurve", "version": "1.2.3"}
    _, listed = answered(request("tools/list"))
    assert listed["result"] == {
        "tools": [{"name": "count"}], "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
    }  # fmt: skip
    _, told = answered(request("tools/call", name="count", arguments={"key": "a"}))
    assert told["result"]["structuredContent"] == {"key": "a"} and told["result"]["resultType"] == "complete"


@pytest.mark.parametrize(
    ("asked", "told"), [("2025-11-25", "2025-11-25"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")]
)
def test_an_older_client_begins_with_a_handshake(asked: str, told: str) -> None:
    _, begun = answered(request("initialize", modern=False, protocolVersion=asked, capabilities={}, clientInfo={}))
    assert begun["result"]["protocolVersion"] == told
    assert begun["result"]["serverInfo"]["name"] == "clickcurve"
    notified, nothing = answered({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status, nothing) == (202, None)
    fields = {"mcp-protocol-version": told}
    _, listed = answered(request("tools/list", modern=False), fields)
    assert listed["result"] == {"tools": [{"name": "count"}]}
    assert answered(request("ping", modern=False), fields)[1]["result"] == {}


@pytest.mark.parametrize(
    ("body", "fields", "status", "code"),
    [
        (b"{", {}, 400, NOT_JSON),
        (b"\xff", {}, 400, NOT_JSON),
        (b"[" * 100_000, {}, 400, NOT_JSON),
        (b"[]", {}, 400, NO_REQUEST),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, {}, 400, NO_REQUEST),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, {}, 400, NO_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, {}, 400, NO_REQUEST),
        (request("nothing"), None, 404, NO_METHOD),
        (request("initialize"), None, 404, NO_METHOD),
        (request("nothing", modern=False), None, 200, NO_METHOD),
        (request("tools/call", name=3), None, 400, BAD_PARAMETERS),
        (request("tools/call", name="count", arguments=[]), None, 400, BAD_PARAMETERS),
        (request("tools/call", name="launch_rockets"), None, 400, BAD_PARAMETERS),
        (request("tools/list", modern=False), {"mcp-protocol-version": "2026-07-28"}, 400, BAD_PARAMETERS),
        (request("tools/list"), {}, 400, FIELDS_DIFFER),
        (
            request("tools/call", name="count"),
            {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "curve"},
            400,
            FIELDS_DIFFER,
        ),
    ],
)
def test_what_is_wrong_is_said(body: Any, fields: dict[str, str] | None, status: int, code: int) -> None:
    made, error = answered(body, fields)
    assert (made.status, error["error"]["code"]) == (status, code)
    assert error["error"]["message"]


def test_an_unknown_version_names_those_that_are_known() -> None:
    message = request("tools/list")
    message["params"]["_meta"] = META | {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    made, error = answered(message)
    assert made.status == 400
    assert error["error"]["code"] == NO_SUCH_VERSION
    assert error["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}


@given(
    TREES,
    st.dictionaries(st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name"]), st.text("a-2/", max_size=9)),
)
def test_nothing_that_is_sent_raises(message: Any, fields: dict[str, str]) -> None:
    made, told = answered(msgspec.json.encode(message), fields)
    assert made.status in (200, 202, 400, 404)
    assert (told is None) == (made.status == 202)
