"""Examples of v3, made of the examples of the types' members."""

from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, inspect

_TIME = "2026-11-22T08:54:00Z"
_OF_TYPE: dict[type[inspect.Type], Any] = {
    inspect.AnyType: "…",
    inspect.BoolType: True,
    inspect.DateTimeType: _TIME,
    inspect.FloatType: 1.5,
    inspect.NoneType: None,
    inspect.StrType: "…",
}


def example_of(kind: Any) -> Any:
    """An example of a type, as JSON: of each member its first example, else one that its type allows."""
    return _example(inspect.type_info(kind))


def _example(node: inspect.Type) -> Any:
    match node:
        case inspect.Metadata():
            examples = (node.extra_json_schema or {}).get("examples")
            return msgspec.to_builtins(examples[0]) if examples else _example(node.type)
        case inspect.StructType():
            return {one.encode_name: _example(one.type) for one in node.fields if not _is_optional(one)}
        case inspect.ListType():
            return [_example(node.item_type)]
        case inspect.DictType():
            return {}
        case inspect.UnionType():
            return _example(node.types[0])
    return _simple_example(node)


def _simple_example(node: inspect.Type) -> Any:
    match node:
        case inspect.LiteralType():
            return node.values[0]
        case inspect.EnumType():
            return next(iter(node.cls)).value
        case inspect.IntType():
            return node.ge or 1
    return _OF_TYPE[type(node)]


def _is_optional(field: inspect.Field) -> bool:
    """Whether answers leave the member out."""
    has_default = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
    return field.default is UNSET or not (field.required or has_default)
