"""The paths for update frameworks in the OpenAPI document of v3; they lie outside its root."""

from keywright.http.openapi.schemas import Schema
from keywright.http.update_formats import list_addresses

TAG, _TEXT, _BYTES = "Update frameworks", "text/plain", {"type": "string", "format": "binary"}
_WORD = "^[a-z0-9][a-z0-9_.-]*$"
#: Description, pattern and example of each path parameter.
_PARAMETERS = {
    "token": ("An update token, or `open`.", "^(upd_[a-z2-7]{32}|open)$", f"upd_{'mfrggzdf' * 4}"),
    "product": ("The product's `code` or `id`.", _WORD, "photo-editor"),
    "name": ("The name of a file, such as a feed.", "^[A-Za-z0-9][A-Za-z0-9._+@()~ -]*$", "latest.yml"),
    "target": ("The platform.", _WORD, "darwin"),
    "arch": ("The processor.", _WORD, "aarch64"),
    "current_version": ("The program's version.", "^[0-9A-Za-z.+-]+$", "1.0.0"),
}
_HEADERS = {
    "Keywright-Update": {
        "description": "The codes that explain why nothing, or nothing newer, is offered.",
        "schema": {"type": "string"},
    }
}
_TAURI = {
    "type": "object",
    "required": ["version", "url", "signature"],
    "properties": {one: {"type": "string"} for one in ("version", "url", "signature", "pub_date", "notes")},
}


def build_paths() -> dict[str, Schema]:
    """Build the paths with their operations."""
    addresses = ", ".join(f"{one}: `{path}`" for one, path in list_addresses("", "{product}", "{token}"))
    about = (
        "A file as it is stored, byte for byte; a feed is of the newest release that is covered. "
        f"Frameworks are given these addresses. {addresses}."
    )
    file = {
        "200": _answer("The file.", "application/octet-stream", _BYTES),
        "206": _answer(
            "A range of the file; several are `multipart/byteranges`.", "application/octet-stream", _BYTES
        ),
        "302": _answer("The file is stored on the vendor's server."),
        "400": _answer("The `Range` is malformed.", _TEXT),
        "416": _answer("The file has no such range.", _TEXT),
    }
    tauri = {
        "200": _answer("A release to install.", "application/json", _TAURI),
        "204": _answer("Nothing to install."),
    }
    return {
        "/u/{token}/{product}/{name}": _path(
            "get_update_file", "Get a feed or a file", about, file, ("token", "product", "name")
        ),
        "/u/{token}/{product}/tauri/{target}/{arch}/{current_version}": _path(
            "find_tauri_update",
            "Check for an update of a Tauri app",
            "The newest release that the license covers, with a signed file for the target.",
            tauri,
            ("token", "product", "target", "arch", "current_version"),
        ),
    }


def _path(operation: str, summary: str, about: str, answers: Schema, names: tuple[str, ...]) -> Schema:
    parameters = []
    for name in names:
        description, pattern, example = _PARAMETERS[name]
        schema = {"type": "string", "pattern": pattern}
        one = {"name": name, "in": "path", "required": True, "description": description, "schema": schema}
        parameters.append(one | {"example": example})
    refusals = {
        "403": _answer("Not allowed for this license, device or product.", _TEXT),
        "404": _answer("No such file.", _TEXT),
    }
    get = {"operationId": operation, "tags": [TAG], "summary": summary, "description": about, "security": []}
    return {
        "servers": [{"url": "/"}],
        "get": get | {"parameters": parameters, "responses": answers | refusals},
    }


def _answer(description: str, media_type: str | None = None, schema: Schema | None = None) -> Schema:
    answer = {"description": description, "headers": _HEADERS}
    content = {media_type: {"schema": schema or {"type": "string"}}}
    return answer if media_type is None else answer | {"content": content}
