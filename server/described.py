"""What /openapi.json says of every route alike: which token it asks for, and errors as they are."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI

from server.auth import scope_of

Schema = dict[str, Any]

PROBLEM: Schema = {
    "title": "Problem",
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, in a sentence."},
        "field": {"type": "string", "description": "What is to blame, where it is one thing."},
        "value": {"description": "What was given for it."},
        "rule": {"type": "string", "description": "The rule that it breaks."},
    },
}
_SAID = {
    401: "The token is missing or unknown.",
    403: "The token lacks the scope.",
    422: "A parameter breaks a rule.",
}


def describe(app: FastAPI) -> None:
    """Makes /openapi.json complete; it is built when it is first asked for."""
    found: list[Schema] = []

    def document() -> Schema:
        if not found:
            found.append(_completed(FastAPI.openapi(app)))
        return found[0]

    app.openapi = document  # type: ignore[method-assign]


def _completed(document: Schema) -> Schema:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # the framework's own, which are not answered here
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            responses = operation["responses"]
            if "HTTPValidationError" in json.dumps(responses.get("422")):
                responses["422"] = _problem(422)
            scope = scope_of(method.upper(), path)
            if scope is not None:
                operation["security"] = [{"token": []}]
                operation["x-scope"] = scope.value
                responses.update({"401": _problem(401), "403": _problem(403)})
    return document


def _problem(status: int) -> Schema:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": _SAID[status], "content": content}
