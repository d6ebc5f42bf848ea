"""The addresses of update frameworks in the OpenAPI document of v3, beside whose root they are."""

from keywright.http.openapi.schemas import Schema
from keywright.http.update_formats import list_addresses

TAG, _TEXT = "Update frameworks", "text/plain"
#: Descriptions, patterns and examples.
_PARAMETERS = {
    "token": (
        "An update token, or `open` for a product whose updates are open.",
        "^(upd_[a-z2-7]{32}|open)$",
        f"upd_{'mfrggzdf' * 4}",
    ),
    "product": ("The product's `code` or `id`.", "^[a-z0-9][a-z0-9_.-]*$", "photo-editor"),
    "name": ("The name of a file, such as a feed.", "^[A-Za-z0-9][A-Za-z0-9._+@()~ -]*$", "latest.yml"),
    "target": ("The platform.", "^[a-z0-9][a-z0-9_.-]*$", "darwin"),
    "arch": ("The processor.", "^[a-z0-9][a-z0-9_.-]*$", "aarch64"),
    "current_version": ("The program's version.", "^[0-9A-Za-z.+-]+$", "1.0.0"),
}
_REASON = {
    "Keywright-Update": {
        "description": "The codes for which nothing, or nothing newer, is offered.",
        "schema": {"type": "string"},
    }
}
_TAURI_ANSWER = {
    "type": "object",
    "required": ["version", "url", "signature"],
    "properties": {one: {"type": "string"} for one in ("version", "url", "signature", "pub_date", "notes")},
}


def build_paths() -> dict[str, Schema]:
    """The paths, with their operations."""
    addresses = ", ".join(
        f"{framework}: `{address}`" for framework, address in list_addresses("", "{product}", "{token}")
    )
    file = _operation(
        "get_update_file",
        "Get a feed or a file",
        "As it is stored, byte for byte: a feed is that of the newest release that the license covers. "
        f"Frameworks are given these addresses. {addresses}.",
        {
            "200": _answer("The file.", "application/octet-stream", {"type": "string", "format": "binary"}),
            "206": _answer("Its ranges.", "*/*", {"type": "string", "format": "binary"}),
            "302": {"description": "It is at the vendor's place.", "headers": _REASON},
            "400": _answer("The `Range` is malformed.", _TEXT),
            "416": _answer("The file has no such range.", _TEXT),
        },
    )
    tauri = _operation(
        "find_tauri_update",
        "Check for an update of a Tauri app",
        "The newest release that the license covers, with a signed file for the target.",
        {
            "200": _answer("A release to install.", "application/json", _TAURI_ANSWER),
            "204": {"description": "Nothing to install.", "headers": _REASON},
        },
    )
    return {
        path: {"servers": [{"url": "/"}], "parameters": _parameters(path), "get": operation}
        for path, operation in (
            ("/u/{token}/{product}/{name}", file),
            ("/u/{token}/{product}/tauri/{target}/{arch}/{current_version}", tauri),
        )
    }


def _operation(operation: str, summary: str, description: str, responses: Schema) -> Schema:
    refusals = {
        "403": _answer("Not for this license, device or product.", _TEXT),
        "404": _answer("No such file.", _TEXT),
    }
    return {
        "operationId": operation,
        "tags": [TAG],
        "summary": summary,
        "description": description,
        "security": [],
        "responses": responses | refusals,
    }


def _answer(description: str, media_type: str, schema: Schema | None = None) -> Schema:
    content = {media_type: {"schema": schema or {"type": "string"}}}
    return {"description": description, "headers": _REASON, "content": content}


def _parameters(path: str) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": description,
            "schema": {"type": "string", "pattern": pattern},
            "example": example,
        }
        for name, (description, pattern, example) in _PARAMETERS.items()
        if f"{{{name}}}" in path
    ]
