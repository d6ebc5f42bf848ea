"""The OpenAPI document of v2, which is a file, as tests read it."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from keywright.config import Settings
from keywright.http.openapi import v2
from keywright.http.v2 import routes

Document = dict[str, Any]

DOCUMENT: Document = json.loads(v2.read_document(Settings()))


def _template_of(address: routes.Address) -> str:
    name = "{key}" if address.words[0] == "licenses" else "{id}"
    return "".join(f"/{name if word is None else word}" for word in address.words)


#: Every action and None (HEAD of none, OPTIONS), by path template and method, as the interface has them.
ACTIONS = {
    (_template_of(address), method): address.actions.get("GET" if method == "HEAD" else method)
    for address in routes.ADDRESSES
    for method in address.methods
}


def operations(document: Document = DOCUMENT) -> Iterator[tuple[str, str, Document]]:
    """The path, the method and the description of each operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method.upper(), operation


def resolve(part: Document, document: Document = DOCUMENT) -> Document:
    """The component that this part refers to, or the part itself."""
    if "$ref" in part:
        kind, name = part["$ref"].removeprefix("#/components/").split("/")
        found: Document = document["components"][kind][name]
        return found
    return part


@cache
def codes_of(path: str, method: str) -> dict[int, frozenset[str]]:
    """The codes that an operation answers with, by status; a success has none."""
    found = {}
    for status, part in DOCUMENT["paths"][path][method.lower()]["responses"].items():
        contents = resolve(part)["content"].values()
        examples = (one["value"] for content in contents for one in content["examples"].values())
        found[int(status)] = frozenset(one["code"] for one in examples if "code" in one)
    return found


def require_documented(method: str, address: str, status: int, body: bytes) -> None:
    """Fail where the document lacks an answer that an operation gives. ``address`` is below v2."""
    path = _path_of(address)
    if (path, method) in ACTIONS:
        known = codes_of(path, method)
        assert status in known, f"{method} {path}: the document does not know the status {status}"
        if body and status != 200:
            code = json.loads(body)["code"]
            assert code in known[status], f"{method} {path}: the document does not know {status} {code}"


def _path_of(address: str) -> str:
    for pattern, path in (
        (r"licenses/(activate|validate|deactivate)/[^/]+", r"/licenses/\1/{key}"),
        (r"licenses/[^/]+", "/licenses/{key}"),
        (r"generators/[0-9]+(/generate)?", r"/generators/{id}\1"),
    ):
        if match := re.fullmatch(pattern, address):
            return match.expand(path)
    return f"/{address}"
