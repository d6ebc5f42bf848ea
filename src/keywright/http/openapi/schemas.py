"""JSON schemas from msgspec types, in shapes that client generators understand."""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

Schema = dict[str, Any]
_SCHEMAS = "#/components/schemas/"
_OPEN: Schema = {"type": "object", "additionalProperties": True}
_NULL: Schema = {"type": "null"}
#: The records for open objects in members with these names.
_RECORDS_OF_MEMBERS = {"metadata": "Metadata", "terms": "TermsPatch"}
_METADATA: Schema = _OPEN | {"description": "Any JSON object: at most 64 keys, 16 KiB and 4 levels."}


def ref(name: str) -> Schema:
    """Return a reference to a record of the document."""
    return {"$ref": _SCHEMAS + name}


def components(types: Iterable[Any]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    """Return the schema of each type, and the records that the schemas refer to, by name."""
    types = list(dict.fromkeys(types))
    schemas, records = msgspec.json.schema_components(types, ref_template=_SCHEMAS + "{name}")
    for record in records.values():
        del record["title"]
        for member in record.get("properties", {}).values():
            _lift_description(member)
    return dict(zip(types, schemas, strict=True)), records


def _lift_description(member: Schema) -> None:
    """Move the description of a nullable member's value to the member."""
    value: Schema = next(iter(member.get("anyOf", ())), {})
    for name in ("description", "examples"):
        if name in value and name not in member:
            member[name] = value.pop(name)


def name_open_objects(records: dict[str, Schema]) -> None:
    """Let open objects have any member, and turn metadata and changes of terms into named records."""
    names = ["Terms", *_find_records(records.get("Terms", {}))]
    patches = {f"{name}Patch": _build_patch(records[name], names) for name in names if name in records}
    for record in records.values():
        for name, member in record.get("properties", {}).items():
            record["properties"][name] = _name_open_object(member, _RECORDS_OF_MEMBERS.get(name))
    records |= patches
    records["Metadata"] = _METADATA


def _name_open_object(member: Schema, name: str | None) -> Schema:
    if "anyOf" in member:
        return member | {"anyOf": [_name_open_object(one, name) for one in member["anyOf"]]}
    if member.get("type") != "object" or "properties" in member or "additionalProperties" in member:
        return member
    about = {key: one for key, one in member.items() if key not in ("type", "maxProperties")}
    return about | (_OPEN if name is None else ref(name))


def _build_patch(schema: Schema, names: Collection[str]) -> Schema:
    """Build the schema of a record's JSON Merge Patch: each member may be omitted or null."""
    members = {name: _allow_null(_patch(one, names)) for name, one in schema["properties"].items()}
    return {
        "description": f"{schema['description'].rstrip('.')}, as a change. Omitted members do not change.",
        "type": "object",
        "properties": members,
        "additionalProperties": False,
    }


def _patch(schema: Schema, names: Collection[str]) -> Schema:
    """Replace references to the records with these names by references to their patches."""
    patched: Schema = {}
    if "anyOf" in schema:
        patched["anyOf"] = [_patch(one, names) for one in schema["anyOf"]]
    if isinstance(items := schema.get("additionalProperties"), dict):
        patched["additionalProperties"] = _allow_null(_patch(items, names))
    record = schema.get("$ref", "").removeprefix(_SCHEMAS)
    return schema | patched | (ref(f"{record}Patch") if record in names else {})


def _allow_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return schema if _NULL in schema["anyOf"] else schema | {"anyOf": [*schema["anyOf"], _NULL]}
    about = {key: one for key, one in schema.items() if key in ("description", "examples")}
    value = {key: one for key, one in schema.items() if key not in about}
    return about | {"anyOf": [value, _NULL]}


def state_what_is_optional(records: dict[str, Schema], bodies: Iterable[Schema]) -> None:
    """Put defaults into words, because client generators treat a member with a ``default`` as always there.

    In records that occur only in answers, such members become required.
    """
    sent = set(_find_all_records(records, bodies))
    for name, record in records.items():
        for member, schema in record.get("properties", {}).items():
            if "default" not in schema:
                continue
            default = schema.pop("default")
            if name not in sent:
                record.setdefault("required", []).append(member)
            elif default not in (None, [], {}):
                about = schema.get("description", "").rstrip(".")
                schema["description"] = f"{about}. Default: `{json.dumps(default)}`.".removeprefix(". ")


def _find_all_records(records: dict[str, Schema], schemas: Iterable[Schema]) -> Iterator[str]:
    """Yield the names of the records that these schemas refer to, directly or through other records."""
    found: set[str] = set()
    ahead = [name for one in schemas for name in _find_records(one)]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            yield name
            ahead += _find_records(records[name])


def _find_records(schema: Any) -> Iterator[str]:
    """Yield the names of the records that a schema refers to directly."""
    match schema:
        case {"$ref": str(name)}:
            yield name.removeprefix(_SCHEMAS)
        case dict():
            for one in schema.values():
                yield from _find_records(one)
        case list():
            for one in schema:
                yield from _find_records(one)


def as_text(schema: Schema) -> Schema:
    """Return the schema for a query parameter: it has one type and is never null."""
    first = schema["anyOf"][0] if "anyOf" in schema else schema
    about = {name: schema[name] for name in ("description", "examples") if name in schema}
    if "enum" in first:
        return about | {"type": "string", "enum": [str(one) for one in first["enum"]]}
    return first | about


def inline_enums(part: dict[str, Schema]) -> dict[str, Schema]:
    """Remove the records that only list values, and inline them where they are used."""
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
