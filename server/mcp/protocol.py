"""The Model Context Protocol over one POST, without sessions: what a client sends, and what it is answered.

Two eras speak it. Since revision 2026-07-28 each request says its version in `params._meta` and in its header fields,
and `server/discover` tells what a server can do. Before, a client began with `initialize`; as nothing is kept between
two requests, that is answered without a session. Source: the specification at modelcontextprotocol.io, "Basic".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

STATELESS = "2026-07-28"
WITH_HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # the newest first

NOT_JSON, NO_REQUEST, NO_METHOD, BAD_PARAMETERS, FAILED = -32700, -32600, -32601, -32602, -32603
FIELDS_DIFFER, NO_SUCH_VERSION = -32020, -32022
# The status of an error since 2026-07-28; before, an error is an answer like any other.
_STATUSES = {NO_METHOD: 404}

_META = "io.modelcontextprotocol/"
_VERSION, _CAPABILITIES, _SERVER = f"{_META}protocolVersion", f"{_META}clientCapabilities", f"{_META}serverInfo"
_VERSION_FIELD, _METHOD_FIELD, _NAME_FIELD = b"mcp-protocol-version", b"mcp-method", b"mcp-name"
_NAMING = {"tools/call": "name"}  # methods whose header fields repeat a parameter

Json: TypeAlias = dict[str, Any]
Fields: TypeAlias = Mapping[bytes, bytes]  # header fields, names in lower case


class McpRefused(Exception):
    """A request that is answered by an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP. body: JSON, empty for what needs none."""

    status: int
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Server:
    """What a client gets to know. tools: as `tools/list` has them; call: runs one by its name and arguments.

    call raises McpRefused for a tool that does not exist.
    """

    name: str
    version: str
    instructions: str
    tools: list[Json]
    call: Callable[[str, Json], Awaitable[Json]]

    @property
    def info(self) -> Json:
        return {"name": self.name, "version": self.version}


async def reply(server: Server, body: bytes, fields: Fields) -> Reply:
    """Answers one message; never raises for what a client sent."""
    id_: object = None
    modern = True
    try:
        message = _message(body)
        method, id_ = message["method"], message.get("id")
        if "id" not in message:
            return Reply(202)  # a notification: nothing that a client tells changes what it is answered
        parameters = message.get("params", {})
        modern = _is_modern(parameters, fields)
        if modern:
            _check_modern(method, parameters, fields)
        result = await _result(server, method, parameters, modern)
    except McpRefused as error:
        status = _STATUSES.get(error.code, 400) if modern else 200
        return Reply(status, _error_of(id_, error.code, error.message, error.data))
    return Reply(200, msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "result": result}))


def fields_of(message: object) -> dict[str, str]:
    """Returns the header fields that a message needs when it is passed on over HTTP."""
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return {}
    parameters = message.get("params")
    meta = parameters.get("_meta") if isinstance(parameters, dict) else None
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    if not isinstance(version, str):
        return {}
    fields = {_VERSION_FIELD: version, _METHOD_FIELD: message["method"]}
    name = parameters.get(_NAMING.get(message["method"], "")) if isinstance(parameters, dict) else None
    if isinstance(name, str):
        fields[_NAME_FIELD] = name
    return {field.decode(): value for field, value in fields.items() if value.isascii() and value.isprintable()}


def error_message(message: object, code: int, text: str) -> bytes:
    """Returns the error that answers a message; empty for one that is not answered."""
    if isinstance(message, dict) and "id" not in message:
        return b""
    return _error_of(message["id"] if isinstance(message, dict) else None, code, text)


def _error_of(id_: object, code: int, text: str, data: object = None) -> bytes:
    error = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "error": error})


def _message(body: bytes) -> Json:
    """Reads a request or a notification. What a client answers to a server is no request, and we ask nothing."""
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise McpRefused(NOT_JSON, f"the body is not JSON: {error}") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        raise McpRefused(NO_REQUEST, 'the body must be one object with "jsonrpc": "2.0" and a method')
    id_, parameters = message.get("id", 0), message.get("params", {})
    if isinstance(id_, bool) or not isinstance(id_, int | str):
        raise McpRefused(NO_REQUEST, "id must be a string or an integer")
    if not isinstance(parameters, dict):
        raise McpRefused(NO_REQUEST, "params must be an object")
    return message


def _is_modern(parameters: Json, fields: Fields) -> bool:
    meta = parameters.get("_meta")
    if isinstance(meta, dict) and _VERSION in meta:
        return True
    version = fields.get(_VERSION_FIELD, b"").decode("latin-1")
    return bool(version) and version not in WITH_HANDSHAKE


def _check_modern(method: str, parameters: Json, fields: Fields) -> None:
    """Checks what each request of the newer era says of itself, in the order that the specification has."""
    meta = parameters.get("_meta")
    missing = [key for key in (_VERSION, _CAPABILITIES) if not isinstance(meta, dict) or key not in meta]
    if missing:
        raise McpRefused(BAD_PARAMETERS, f"params._meta lacks {', '.join(missing)}")
    assert isinstance(meta, dict)
    version = meta[_VERSION]
    if not isinstance(version, str):
        raise McpRefused(BAD_PARAMETERS, "the protocol version must be a string")
    expected: dict[bytes, object] = {_VERSION_FIELD: version, _METHOD_FIELD: method}
    if method in _NAMING:
        expected[_NAME_FIELD] = parameters.get(_NAMING[method])
    for field, value in expected.items():
        if isinstance(value, str) and fields.get(field, b"").decode("latin-1") != value:
            raise McpRefused(FIELDS_DIFFER, f"the header field {field.decode()} must say what the body says: {value}")
    if version != STATELESS:
        data = {"supported": [STATELESS], "requested": version}
        raise McpRefused(NO_SUCH_VERSION, "unsupported protocol version", data)


async def _result(server: Server, method: str, parameters: Json, modern: bool) -> Json:
    match method:
        case "server/discover" if modern:
            can = {"supportedVersions": [STATELESS], "capabilities": _CAN, "instructions": server.instructions}
            return {**can, "resultType": "complete", **_NOT_KEPT, "_meta": {_SERVER: server.info}}
        case "initialize" if not modern:
            asked = parameters.get("protocolVersion")
            version = asked if asked in WITH_HANDSHAKE else WITH_HANDSHAKE[0]
            can = {"protocolVersion": version, "capabilities": _CAN, "instructions": server.instructions}
            return {**can, "serverInfo": server.info}
        case "ping" if not modern:
            return {}
        case "tools/list":
            return {"tools": server.tools, **({"resultType": "complete", **_NOT_KEPT} if modern else {})}
        case "tools/call":
            name, arguments = parameters.get("name"), parameters.get("arguments")
            if not isinstance(name, str) or not isinstance(arguments, dict | None):
                raise McpRefused(BAD_PARAMETERS, "a call has a name, and arguments that are an object")
            called = await server.call(name, arguments or {})
            return {**called, "resultType": "complete"} if modern else called
    raise McpRefused(NO_METHOD, f"no method {method!r}")


_CAN: Json = {"tools": {"listChanged": False}}
_NOT_KEPT: Json = {"ttlMs": 0, "cacheScope": "private"}  # another token may be told otherwise
