"""/docs: the routes of the OpenAPI document, and those of other tools, as values for a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from server.tokens.token import Scope

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """What a body may look like. title: its media type, and what it is an example of."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """An answer: its status, what that means, and examples."""

    number: str
    text: str
    examples: list[Example]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter. place: path, query or header."""

    name: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class RouteText:
    """What the page says of a route. Texts have code between backquotes. scope: that a token needs, or empty."""

    method: str
    path: str
    scope: str
    summary: str
    description: str = ""
    parameters: Sequence[Parameter] = ()
    command: str = ""
    bodies: Sequence[Example] = ()
    statuses: Sequence[Status] = ()

    @property
    def anchor(self) -> str:
        """What its address on the page ends in: `get-v1-links-key-curve`."""
        return re.sub(r"\W+", "-", f"{self.method.lower()}{self.path}").strip("-")


def docs_values(
    document: Schema, others: Sequence[BaseRoute], address: str, scope_of: Callable[[str, str], Scope | None]
) -> dict[str, object]:
    """Returns what the page shows: routes by their part. address: that of the server, for command lines.

    others: routes of which those in the shapes of other tools are shown: they have a summary and the tool's name for a
    tag, and are not in the document. scope_of: the scope that a method and path need.
    """
    parts: dict[str, list[RouteText]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.setdefault(operation["tags"][0].capitalize(), []).append(_route(method, path, operation, address))
    for route in others:
        if isinstance(route, APIRoute) and route.summary and not route.include_in_schema:
            parts.setdefault(str(route.tags[0]), []).append(_other_route(route, scope_of))
    info = document["info"]
    return {"title": f"{info['title']} {info['version']}", "about": info["description"], "parts": parts}


def _route(method: str, path: str, operation: Schema, address: str) -> RouteText:
    return RouteText(
        method.upper(),
        path,
        operation.get("x-scope", ""),
        operation["summary"],
        operation.get("description", ""),
        [_parameter(each) for each in operation.get("parameters", [])],
        curl_command(method, path, operation, address),
        _examples_of(operation.get("requestBody", {})),
        [
            Status(status, answer.get("description", ""), _examples_of(answer))
            for status, answer in sorted(operation["responses"].items())
        ],
    )


def _other_route(route: APIRoute, scope_of: Callable[[str, str], Scope | None]) -> RouteText:
    methods = sorted(route.methods or ())
    scope = scope_of(methods[0], route.path)
    return RouteText(", ".join(methods), route.path, scope.value if scope else "", route.summary or "")


def _parameter(parameter: Schema) -> Parameter:
    default = parameter.get("schema", {}).get("default")
    shown = f" Default: {default}." if default not in (None, "") else ""
    return Parameter(parameter["name"], parameter["in"], parameter.get("description", "") + shown)


def curl_command(method: str, path: str, operation: Schema, address: str) -> str:
    """Returns a curl command line for an operation, with its examples filled in."""
    query = {}
    for parameter in operation.get("parameters", []):
        example = parameter.get("example")
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", str(example or parameter["name"]))
        elif parameter["in"] == "query" and example is not None:
            query[parameter["name"]] = example
        elif parameter["in"] == "query" and parameter.get("required"):
            query[parameter["name"]] = "1"
    url = address + path + ("?" + urlencode(query) if query else "")
    words = ["curl"] if method == "get" else ["curl", "-X", method.upper()]
    words.append(f"'{url}'" if query else url)
    if operation.get("x-scope"):
        words.append("-H 'Authorization: Bearer TOKEN'")
    for media, _, example in _examples(operation.get("requestBody", {})):
        words += [f"-H 'Content-Type: {media}'", f"-d '{json.dumps(example)}'"]
        break
    return " ".join(words)


def _examples_of(body: Schema) -> list[Example]:
    """Returns the examples of what a request or an answer holds, as the page shows them."""
    return [Example(f"{media}{name}", _shown(example)) for media, name, example in _examples(body)]


def _examples(body: Schema) -> Iterator[tuple[str, str, Any]]:
    """Yields (media type, the example's name in brackets, the example)."""
    for media, content in body.get("content", {}).items():
        if "example" in content:
            yield media, "", content["example"]
        for name, example in content.get("examples", {}).items():
            yield media, f" ({name})", example["value"]


def _shown(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=1, ensure_ascii=False)
