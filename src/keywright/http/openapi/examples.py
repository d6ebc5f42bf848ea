"""Examples, written by the functions that write the answers themselves."""

import json
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from keywright.core import errors as e
from keywright.http.openapi import inputs
from keywright.http.v2 import messages, routes, wire
from keywright.licensing.activations.model import Activation, ActivationSource, LicenseRecord
from keywright.licensing.licenses.model import License, LicenseSource, Status
from keywright.provisioning.generators.model import Generator

KEY = "KW7Q-2MXD-94TB-VH3C"
TOKEN = inputs.TOKEN.example
_MADE = datetime(2026, 1, 12, 9, 30, 5, tzinfo=UTC)
_NOW = datetime(2026, 3, 2, 17, 4, 41, tzinfo=UTC)

_ACTIVATION = Activation(
    id=501,
    token=TOKEN,
    license_id=42,
    label="Front desk",
    source=ActivationSource.API,
    ip_address="203.0.113.7",
    user_agent="Plugin/2.1",
    meta_data={"os": "linux", "version": "2.1"},
    created_at=_NOW,
    updated_at=None,
    deactivated_at=None,
)
_ENDED = replace(_ACTIVATION, updated_at=_NOW, deactivated_at=_NOW)
_REACTIVATED = replace(_ACTIVATION, created_at=_MADE, updated_at=_NOW)
_NEW = License(
    id=42,
    key=KEY,
    order_id=1042,
    product_id=7,
    user_id=311,
    expires_at=datetime(2027, 12, 31, tzinfo=UTC),
    valid_for_days=None,
    source=LicenseSource.API,
    status=Status.ACTIVE,
    times_activated=0,
    times_activated_max=3,
    created_at=_MADE,
    created_by=1,
    updated_at=_MADE,
    updated_by=None,
)
_TAKEN = replace(_NEW, times_activated=1, updated_at=_NOW)
_GIVEN_UP = replace(_NEW, updated_at=_NOW)
_CHANGED = replace(
    _NEW,
    expires_at=datetime(2028, 12, 31, tzinfo=UTC),
    times_activated_max=5,
    updated_at=_NOW,
    updated_by=1,
)
_GENERATED = replace(
    _NEW,
    key="PRO-7KQ2M-XD94T-BVH3C-RWYP8",
    source=LicenseSource.GENERATOR,
    expires_at=None,
    valid_for_days=365,
)
_GENERATOR = Generator(
    id=3,
    name="Plugin, one year",
    charset="BCDFGHJKMPQRTVWXY2346789",
    chunks=4,
    chunk_length=5,
    times_activated_max=3,
    separator="-",
    prefix="PRO-",
    suffix=None,
    expires_in_days=365,
    created_at=_MADE,
    created_by=1,
    updated_at=_MADE,
    updated_by=None,
)
_CHANGED_GENERATOR = replace(_GENERATOR, times_activated_max=5, updated_at=_NOW, updated_by=1)
_RECORD = LicenseRecord(_TAKEN, (_ACTIVATION,))

#: What each operation answers when it succeeds, by what the example shows.
SUCCESSES: dict[str, dict[str, bytes]] = {
    "activate": {
        "activated": wire.one_activation(_RECORD),
        "reactivated": wire.one_activation(LicenseRecord(_TAKEN, (_REACTIVATED,))),
    },
    "validate": {"validated": wire.validation(_RECORD)},
    "deactivate": {
        "one place": wire.one_activation(LicenseRecord(_GIVEN_UP, (_ENDED,))),
        "every place": wire.many_activations(LicenseRecord(_GIVEN_UP, (_ENDED,))),
    },
    "list_licenses": {"licenses": wire.licenses_with_activations([_RECORD])},
    "create_license": {"created": wire.license_alone(LicenseRecord(_NEW))},
    "get_license": {"license": wire.license_with_activations(_RECORD)},
    "update_license": {"changed": wire.license_alone(LicenseRecord(_CHANGED))},
    "delete_license": {"deleted": wire.nothing(None)},
    "list_generators": {"generators": wire.generators([_GENERATOR])},
    "create_generator": {"created": wire.generator(_GENERATOR)},
    "get_generator": {"generator": wire.generator(_GENERATOR)},
    "update_generator": {"changed": wire.generator(_CHANGED_GENERATOR)},
    "delete_generator": {"deleted": wire.nothing(None)},
    "generate": {"generated": wire.licenses_alone([LicenseRecord(_GENERATED)])},
}

#: Those errors that are about something.
_INSTANCES: tuple[e.KeywrightError, ...] = (
    *(kind(KEY) for kind in e.LicenseRefusal.__subclasses__()),
    *(kind(TOKEN) for kind in e.TokenRefusal.__subclasses__()),
    e.LicenseExpired(datetime(2020, 1, 1, tzinfo=UTC)),
    e.FieldNotWritable("times_activated"),
    e.UnknownGenerator(7),
    e.GeneratorFieldMissing("name"),
    e.GeneratorFieldInvalid("charset"),
    e.GeneratorFieldNotInteger("chunks"),
    e.GeneratorTooWeak(40.0),
    e.InvalidParameters({"label": "must be a text of at most 255 characters, without null characters"}),
    e.RateLimited(12),
    e.TooManyChanges(12),
    e.MethodNotAllowed(("GET", "POST", "OPTIONS")),
)
_BY_TYPE = {type(one): one for one in _INSTANCES}


def instance(kind: type[e.KeywrightError]) -> e.KeywrightError:
    """An error of this kind."""
    return _BY_TYPE.get(kind) or kind()


def refusal(kind: type[e.KeywrightError], sayings: messages.Sayings) -> Any:
    """The body of this error, as an operation with these sayings writes it."""
    return _decoded(messages.write(instance(kind), sayings)[1])


def successes(operation: str) -> dict[str, Any]:
    """The operation's examples of success."""
    return {name: _decoded(body) for name, body in SUCCESSES[operation].items()}


def methods(address: routes.Address) -> Any:
    """The answer to OPTIONS."""
    return _decoded(wire.success({"methods": address.methods}))


def _decoded(body: bytes) -> Any:
    return json.loads(body)
