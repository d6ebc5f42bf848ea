"""Examples of answers, made of the examples of the records' fields."""

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields, replace

from keywright.http.openapi.schemas import components
from keywright.http.v2 import schemas as v2

_Record = TypeVar("_Record", bound=msgspec.Struct)


def _example(record: type[_Record], **values: Any) -> _Record:
    """A record with these values, and elsewhere the examples of its fields."""
    return record(**_examples(record) | values)


@cache
def _examples(record: type[msgspec.Struct]) -> dict[str, Any]:
    properties = components([record])[1][record.__name__]["properties"]
    return {
        field.name: properties[field.encode_name]["examples"][0]
        for field in fields(record)
        if "examples" in properties[field.encode_name]
    }


_UNUSED = {"times_activated": 0}
_NEW = _UNUSED | {"updated_at": "2026-01-12 09:30:05"}
_ACTIVE = _example(v2.Activation)
_REACTIVATED = replace(_ACTIVE, created_at="2026-01-12 09:30:05", updated_at="2026-03-02 17:04:41")
_ENDED = replace(_ACTIVE, updated_at="2026-03-02 17:04:41", deactivated_at="2026-03-02 17:04:41")
_GENERATED = _NEW | {
    "license_key": "PRO-7KQ2M-XD94T-BVH3C-RWYP8",
    "expires_at": None,
    "valid_for": 365,
    "source": 1,
}
_GENERATOR = _example(v2.Generator, updated_at="2026-01-12 09:30:05")

#: The data of each operation's successful answers, by name.
SUCCESSES: dict[str, dict[str, Any]] = {
    "activate": {
        "activated": _example(v2.ActivatedLicense, activation_data=_ACTIVE),
        "reactivated": _example(v2.ActivatedLicense, activation_data=_REACTIVATED),
    },
    "validate": {"validated": _example(v2.ValidatedLicense, activation_data=[_ACTIVE])},
    "deactivate": {
        "one place": _example(v2.DeactivatedLicense, **_UNUSED, activation_data=_ENDED),
        "every place": _example(v2.DeactivatedLicense, **_UNUSED, activation_data=[_ENDED]),
    },
    "list_licenses": {"licenses": [_example(v2.LicenseWithActivations, activation_data=[_ACTIVE])]},
    "create_license": {"created": _example(v2.License, **_NEW)},
    "get_license": {"license": _example(v2.LicenseWithActivations, activation_data=[_ACTIVE])},
    "update_license": {
        "changed": _example(
            v2.License, **_UNUSED, expires_at="2028-12-31 00:00:00", times_activated_max=5, updated_by=1
        )
    },
    "delete_license": {"deleted": []},
    "list_generators": {"generators": [_GENERATOR]},
    "create_generator": {"created": _GENERATOR},
    "get_generator": {"policy": _GENERATOR},
    "update_generator": {"changed": _example(v2.Generator, times_activated_max="5", updated_by="1")},
    "delete_generator": {"deleted": []},
    "generate": {"generated": [_example(v2.License, **_GENERATED)]},
}
