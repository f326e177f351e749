"""/docs: the OpenAPI document as one plain page. No scripts, nothing from elsewhere: it works without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from typing import Any
from urllib.parse import urlencode

Schema = dict[str, Any]

# The page has a style of its own and nothing else; no other site may put it into a frame.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2{margin-top:3rem;border-bottom:1px solid #ccc}h3{margin:2rem 0 .3rem}
h3 code{background:none;padding:0}h3 .get{color:#06529b}h3 .post{color:#1c6b2a}h3 .delete{color:#a11}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f3f3f3;border-radius:3px;padding:0 .2em}
pre{padding:.6rem;overflow-x:auto}table{border-collapse:collapse}td{vertical-align:top;padding:.15rem .8rem .15rem 0}
.scope{font-size:.8rem;color:#555;font-weight:normal}nav li{list-style:none}nav ul{padding:0}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}code,pre{background:#262626}.scope{color:#aaa}
h3 .get,a{color:#7db7f0}h3 .post{color:#7fce8d}h3 .delete{color:#f08a8a}}
"""


def docs_page(document: Schema, address: str) -> str:
    """Renders the whole page. `address` is that of the server, for the command lines."""
    title = f"{document['info']['title']} {document['info']['version']}"
    by_tag: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append((method, path, operation))
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>",
        _paragraphs(document["info"]["description"]),
        '<p>The same for programs: <a href="openapi.json">openapi.json</a>. <a href="./">To the links</a>.</p>',
        "<nav><ul>",
    ]
    for operations in by_tag.values():
        for method, path, operation in operations:
            name = operation["operationId"]
            parts.append(
                f'<li><a href="#{name}"><code>{method.upper()} {escape(path)}</code></a> {escape(operation["summary"])}'
            )
    parts.append("</ul></nav>")
    for tag, operations in by_tag.items():
        parts.append(f"<h2>{escape(tag.capitalize())}</h2>")
        for method, path, operation in operations:
            parts.extend(_operation(method, path, operation, address))
    return "".join(parts)


def _operation(method: str, path: str, operation: Schema, address: str) -> Iterator[str]:
    scope = operation.get("x-scope")
    asks = f' <span class="scope">scope {scope}</span>' if scope else ""
    yield f'<h3 id="{operation["operationId"]}"><code><span class="{method}">{method.upper()}</span> '
    yield f"{escape(path)}</code>{asks}</h3><p><b>{escape(operation['summary'])}.</b></p>"
    yield _paragraphs(operation.get("description", ""))
    parameters = operation.get("parameters", [])
    if parameters:
        yield "<table>"
        for parameter in parameters:
            default = parameter.get("schema", {}).get("default")
            shown = f" Default: {default}." if default not in (None, "") else ""
            yield f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}"
            yield f"<td>{_inline(parameter.get('description', '') + shown)}"
        yield "</table>"
    yield f"<pre>{escape(curl_command(method, path, operation, address))}</pre>"
    for media, name, example in _examples(operation.get("requestBody", {}).get("content", {})):
        yield f"<p>Body, <code>{escape(media)}</code>{name}:</p><pre>{escape(_shown(example))}</pre>"
    for status, response in operation["responses"].items():
        yield f"<p><b>{status}</b> {_inline(response.get('description', ''))}</p>"
        for media, name, example in _examples(response.get("content", {})):
            yield f"<p><code>{escape(media)}</code>{name}:</p><pre>{escape(_shown(example))}</pre>"


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
    body = next(_examples(operation.get("requestBody", {}).get("content", {})), None)
    if body is not None:
        words += [f"-H 'Content-Type: {body[0]}'", f"-d '{json.dumps(body[2])}'"]
    return " ".join(words)


def _examples(content: Schema) -> Iterator[tuple[str, str, Any]]:
    """Yields (media type, the example's name in brackets, the example)."""
    for media, body in content.items():
        if "example" in body:
            yield media, "", body["example"]
        for name, example in body.get("examples", {}).items():
            yield media, f" ({escape(name)})", example["value"]


def _shown(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=1, ensure_ascii=False)


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in text.split("\n\n") if part.strip())


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
