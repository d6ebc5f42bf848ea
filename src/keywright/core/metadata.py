"""Metadata: a JSON object that vendors store with a product, customer or license."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from keywright.core.errors import InvalidParameters
from keywright.core.fields import list_changes
from keywright.core.parsing import parse_metadata

AnyStruct = TypeVar("AnyStruct", bound=Struct)


def read_metadata(text: str | None) -> dict[str, Any]:
    """Parse the metadata in a column; empty for None."""
    return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])


def merge_metadata(text: str | None, patch: Mapping[str, Any] | None) -> str | None:
    """Apply a JSON Merge Patch (RFC 7396) to metadata; None removes all of it.

    Raises ``InvalidParameters`` if the result is too large.
    """
    merged = None if patch is None else _merge(read_metadata(text), patch)
    try:
        return parse_metadata(merged)
    except ValueError as reason:
        raise InvalidParameters({"metadata": str(reason)}) from None


def change_fields(before: AnyStruct, fields: Struct) -> AnyStruct:
    """Change the fields that are set; ``metadata`` is a JSON Merge Patch. Raises ``InvalidParameters``."""
    changes = list_changes(fields)
    if "metadata" in changes:
        text = merge_metadata(parse_metadata(before.metadata), changes["metadata"])  # type: ignore[attr-defined]
        changes["metadata"] = read_metadata(text)
    return replace(before, **changes)


def _merge(target: object, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged
