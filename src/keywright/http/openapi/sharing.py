"""Say once what several operations have in common: bodies and responses become components."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from keywright.http.openapi.responses import STATUSES
from keywright.http.openapi.schemas import Schema

#: Statuses that each operation answers in its own way.
_OWN = frozenset({"200", "400", "401", "404"})
_Place = tuple[str, str, dict[str, Any], str]


def shared(paths: Schema) -> dict[str, Schema]:
    """Put references into the paths for what occurs more than once; returns what they refer to."""
    counted = Counter(_text(holder[name]) for _, _, holder, name in _places(paths))
    components: dict[str, Schema] = {"requestBodies": {}, "responses": {}}
    names: dict[str, str] = {}
    for kind, called, holder, name in list(_places(paths)):
        text = _text(holder[name])
        if counted[text] > 1 and text not in names and called not in components[kind]:
            names[text] = called
            components[kind][called] = holder[name]
        if text in names:
            holder[name] = {"$ref": f"#/components/{kind}/{names[text]}"}
    return components


def _places(paths: Schema) -> Iterator[_Place]:
    """Where a body or a response stands, and what it would be called."""
    for item in paths.values():
        for method, operation in item.items():
            if method == "parameters":
                continue
            own = "".join(word.capitalize() for word in operation["operationId"].split("_"))
            if "requestBody" in operation:
                yield "requestBodies", own, operation, "requestBody"
            for status in operation["responses"]:
                name = _name(own, method, status)
                yield "responses", name, operation["responses"], status


def _name(own: str, method: str, status: str) -> str:
    phrase = "Success" if status == "200" else STATUSES[int(status)].replace(" ", "")
    whose = own if status in _OWN else ""
    return f"{whose}{phrase}{'WithoutBody' if method == 'head' and not whose else ''}"


def _text(part: Any) -> str:
    return json.dumps(part)
