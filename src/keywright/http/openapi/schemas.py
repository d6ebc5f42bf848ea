"""JSON schemas from msgspec types."""

from collections.abc import Iterable
from typing import Any

import msgspec

Schema = dict[str, Any]
_SCHEMAS = "#/components/schemas/"


def ref(name: str) -> Schema:
    """A reference to a record of the document."""
    return {"$ref": _SCHEMAS + name}


def components(types: Iterable[Any]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    """The schema of each type, and the records that these refer to, by name."""
    types = list(dict.fromkeys(types))
    schemas, records = msgspec.json.schema_components(types, ref_template=_SCHEMAS + "{name}")
    for record in records.values():
        del record["title"]
        for member in record.get("properties", {}).values():
            _lift_description(member)
    return dict(zip(types, schemas, strict=True)), records


def _lift_description(member: Schema) -> None:
    """Describe a member that may be null itself, not only its value."""
    value: Schema = next(iter(member.get("anyOf", ())), {})
    for name in ("description", "examples"):
        if name in value and name not in member:
            member[name] = value.pop(name)


def require_defaults(record: Schema) -> None:
    """Require the members that have a default: answers always have them."""
    members = record.get("properties", {})
    needed = {*record.get("required", ()), *(name for name, one in members.items() if "default" in one)}
    record["required"] = [name for name in members if name in needed]
    for one in members.values():
        one.pop("default", None)


def as_text(schema: Schema) -> Schema:
    """The same parameter in a query: it has one type, and is never null."""
    first = schema["anyOf"][0] if "anyOf" in schema else schema
    about = {name: schema[name] for name in ("description", "examples") if name in schema}
    if "enum" in first:
        return about | {"type": "string", "enum": [str(one) for one in first["enum"]]}
    return first | about


def inline_enums(part: dict[str, Schema]) -> dict[str, Schema]:
    """The records without those that only list values: these stand where they are used."""
    lists = {_SCHEMAS + name: one["enum"] for name, one in part.items() if "enum" in one}

    def inline(schema: Any) -> Any:
        match schema:
            case {"$ref": str(name)} if name in lists:
                others = {key: one for key, one in schema.items() if key != "$ref"}
                return {**others, "type": "string", "enum": lists[name]}
            case dict():
                return {key: inline(one) for key, one in schema.items()}
            case list():
                return list(map(inline, schema))
        return schema

    return {name: inline(one) for name, one in part.items() if _SCHEMAS + name not in lists}
