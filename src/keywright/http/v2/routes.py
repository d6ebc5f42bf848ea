"""The v2 interface as a table: which address and method does what, and who may call it."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from keywright.core import errors as e
from keywright.core import examples
from keywright.http.answer import Answer
from keywright.http.middleware import routing
from keywright.http.middleware.call import Call
from keywright.http.middleware.routing import Right
from keywright.http.v2 import generators, licenses, schemas
from keywright.http.v2.messages import NO_SAYINGS, Sayings


class Action(NamedTuple):
    """The action of a method at an address. The docstring of ``answer`` is its description for readers.

    ``takes`` and ``gives`` are the types of its parameters and of the ``data`` in its answer. ``refusals``
    are its own, or groups of them, beside those that any call may meet; ``sayings`` are its own words for
    some of them. ``unreadable`` is the refusal of a body that is neither a form nor an object, and
    ``example`` holds the parameters of an example call.
    """

    operation: str
    right: Right
    answer: Callable[[Call], Awaitable[Answer]]
    changes: bool = True
    takes: type[Struct] = schemas.NoParameters
    gives: Any = schemas.Nothing
    refusals: tuple[type[e.KeywrightError], ...] = ()
    sayings: Sayings = NO_SAYINGS
    unreadable: type[e.KeywrightError] | None = None
    example: Mapping[str, Any] = MappingProxyType({})


#: The words of a path and what each method does there.
Address = routing.Address[Action]

_ACTIVATE = Action(
    "activate",
    Right.CORE,
    licenses.activate,
    takes=schemas.ActivationParameters,
    gives=schemas.ActivatedLicense,
    refusals=(
        e.UnknownLicense,
        e.PlaceRefusal,
        e.UnknownToken,
        e.AlreadyActivated,
        e.TooManyChanges,
    ),
    example={"label": "Front desk", "meta": {"os": "linux", "version": "2.1"}},
)
_VALIDATE = Action(
    "validate",
    Right.CORE,
    licenses.validate,
    changes=False,
    takes=schemas.TokenParameters,
    gives=schemas.ValidatedLicense,
    refusals=(e.UnknownLicense, e.PlaceRefusal, e.TokenNotActive, e.TooManyKeptAnswers),
    example={"token": examples.EXAMPLE_TOKEN},
)
_DEACTIVATE = Action(
    "deactivate",
    Right.CORE,
    licenses.deactivate,
    takes=schemas.TokenParameters,
    gives=schemas.DeactivatedLicense,
    refusals=(e.UnknownLicense, e.TokenNotActive, e.NothingActive, e.TooManyKeptAnswers),
    sayings={e.UnknownLicense: "License Key: {key} could not be found or is deactivated."},
    example={"token": examples.EXAMPLE_TOKEN},
)
_LIST = Action(
    "list_licenses",
    Right.READ,
    licenses.list_licenses,
    changes=False,
    takes=schemas.ListParameters,
    gives=list[schemas.LicenseWithActivations],
    refusals=(e.NoLicenses,),
)
_CREATE = Action(
    "create_license",
    Right.WRITE,
    licenses.create_license,
    takes=schemas.NewLicense,
    gives=schemas.License,
    refusals=(e.ValueRefusal,),
    example={
        "license_key": examples.EXAMPLE_KEY,
        "order_id": 1042,
        "product_id": 7,
        "user_id": 311,
        "expires_at": "2027-12-31",
        "times_activated_max": 3,
    },
)
_GET = Action(
    "get_license",
    Right.ONE_LICENSE,
    licenses.get_license,
    changes=False,
    gives=schemas.LicenseWithActivations,
    refusals=(e.UnknownLicense,),
)
_UPDATE = Action(
    "update_license",
    Right.WRITE,
    licenses.update_license,
    takes=schemas.LicenseParameters,
    gives=schemas.License,
    refusals=(
        e.UnknownLicense,
        e.NothingToChange,
        e.FieldNotWritable,
        e.ValueRefusal,
    ),
    # The contract's refusal of an empty body.
    unreadable=e.NothingToChange,
    example={"expires_at": "2028-12-31", "times_activated_max": 5},
)
_DELETE = Action(
    "delete_license",
    Right.WRITE,
    licenses.delete_license,
    refusals=(e.UnknownLicense,),
    sayings={e.UnknownLicense: "The license key could not be found or deleted."},
)
_LIST_GENERATORS = Action(
    "list_generators",
    Right.READ,
    generators.list_generators,
    changes=False,
    gives=list[schemas.Generator],
    refusals=(e.NoPolicies,),
)
_CREATE_GENERATOR = Action(
    "create_generator",
    Right.WRITE,
    generators.create_generator,
    takes=schemas.NewGenerator,
    gives=schemas.Generator,
    refusals=(e.PolicyFieldMissing, e.PolicyFieldInvalid),
    example={
        "name": "Plugin, one year",
        "charset": "BCDFGHJKMPQRTVWXY2346789",
        "chunks": 4,
        "chunk_length": 5,
        "times_activated_max": 3,
        "separator": "-",
        "prefix": "PRO-",
        "expires_in": 365,
    },
)
_GET_GENERATOR = Action(
    "get_generator",
    Right.READ,
    generators.get_generator,
    changes=False,
    gives=schemas.Generator,
    refusals=(e.UnknownPolicy,),
)
_UPDATE_GENERATOR = Action(
    "update_generator",
    Right.WRITE,
    generators.update_generator,
    takes=schemas.GeneratorParameters,
    gives=schemas.Generator,
    refusals=(e.UnknownPolicy, e.NothingToChange, e.PolicyFieldInvalid),
    sayings={e.UnknownPolicy: "The generator could not be updated."},
    example={"times_activated_max": 5},
)
_DELETE_GENERATOR = Action(
    "delete_generator",
    Right.WRITE,
    generators.delete_generator,
    refusals=(e.UnknownPolicy,),
    sayings={e.UnknownPolicy: "The generator key could not be found or deleted."},
)
_GENERATE = Action(
    "generate",
    Right.WRITE,
    generators.generate,
    takes=schemas.GenerationParameters,
    gives=list[schemas.License],
    refusals=(e.UnknownPolicy, e.PolicyArchived, e.InvalidStatus),
    example={"amount": 1, "order_id": 1042, "product_id": 7, "user_id": 311},
)

ADDRESSES: list[Address] = [
    Address(("licenses", "activate", None), {"GET": _ACTIVATE, "POST": _ACTIVATE}),
    Address(("licenses", "validate", None), {"GET": _VALIDATE, "POST": _VALIDATE}),
    Address(("licenses", "deactivate", None), {"GET": _DEACTIVATE, "POST": _DEACTIVATE}),
    Address(("licenses",), {"GET": _LIST, "POST": _CREATE}),
    Address(
        ("licenses", None),
        {"GET": _GET, "PUT": _UPDATE, "PATCH": _UPDATE, "POST": _UPDATE, "DELETE": _DELETE},
    ),
    Address(("generators",), {"GET": _LIST_GENERATORS, "POST": _CREATE_GENERATOR}),
    Address(
        ("generators", None),
        {
            "GET": _GET_GENERATOR,
            "PUT": _UPDATE_GENERATOR,
            "PATCH": _UPDATE_GENERATOR,
            "POST": _UPDATE_GENERATOR,
            "DELETE": _DELETE_GENERATOR,
        },
    ),
    Address(("generators", None, "generate"), {"POST": _GENERATE}),
]


def refusing(address: Address) -> Address:
    """The address, where ``validate`` refuses what ``activate`` does."""
    actions = {
        method: one._replace(answer=licenses.validate_or_refuse) if one.operation == "validate" else one
        for method, one in address.actions.items()
    }
    return Address(address.words, actions)
