"""The v2 interface as a table: which address and method does what, and who may call it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from keywright.core import errors as e
from keywright.core import examples
from keywright.http.v2 import generators, licenses, schemas, wire
from keywright.http.v2.call import Answer, Call
from keywright.http.v2.messages import NO_SAYINGS, Sayings


class Right(Enum):
    """What a caller needs for an action."""

    #: Nothing; an API key that is sent must be right.
    NONE = "none"
    #: Nothing but the license key; an API key that is sent must be right and may not be write-only.
    CORE = "core"
    READ = "read"
    WRITE = "write"


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


class Address:
    """The words of an address below ``v2``; None stands for the key or number in it."""

    def __init__(self, words: tuple[str | None, ...], actions: dict[str, Action]) -> None:
        self.words = words
        self.actions = actions
        #: Whether this is one of the addresses that shipped programs call.
        self.is_core = any(one.right is Right.CORE for one in actions.values())
        #: Whether browsers of any site may call it.
        self.is_open = self.is_core or any(one.right is Right.NONE for one in actions.values())
        has_head = "GET" in actions and not (self.is_core and actions["GET"].changes)
        #: The methods that can be used here, as ``Allow`` says them.
        self.methods = (*actions, *(("HEAD",) if has_head else ()), "OPTIONS")


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
    refusals=(e.UnknownLicense, e.TokenNotActive),
    example={"token": examples.EXAMPLE_TOKEN},
)
_DEACTIVATE = Action(
    "deactivate",
    Right.CORE,
    licenses.deactivate,
    takes=schemas.TokenParameters,
    gives=schemas.DeactivatedLicense,
    refusals=(e.UnknownLicense, e.TokenNotActive, e.NothingActive),
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
    Right.READ,
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
    refusals=(e.NoGenerators,),
)
_CREATE_GENERATOR = Action(
    "create_generator",
    Right.WRITE,
    generators.create_generator,
    takes=schemas.NewGenerator,
    gives=schemas.Generator,
    refusals=(e.GeneratorFieldMissing, e.GeneratorFieldInvalid),
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
    refusals=(e.UnknownGenerator,),
)
_UPDATE_GENERATOR = Action(
    "update_generator",
    Right.WRITE,
    generators.update_generator,
    takes=schemas.GeneratorParameters,
    gives=schemas.Generator,
    refusals=(e.UnknownGenerator, e.NothingToChange, e.GeneratorFieldInvalid),
    sayings={e.UnknownGenerator: "The generator could not be updated."},
    example={"times_activated_max": 5},
)
_DELETE_GENERATOR = Action(
    "delete_generator",
    Right.WRITE,
    generators.delete_generator,
    refusals=(e.UnknownGenerator,),
    sayings={e.UnknownGenerator: "The generator key could not be found or deleted."},
)
_GENERATE = Action(
    "generate",
    Right.WRITE,
    generators.generate,
    takes=schemas.GenerationParameters,
    gives=list[schemas.License],
    refusals=(e.UnknownGenerator, e.InvalidStatus),
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


async def _index(call: Call) -> Answer:
    """The interface's name, and its routes with their methods, as WordPress writes its index."""
    namespace = f"{call.namespace}/v2"
    routes = {
        "".join(f"/{word}" for word in (namespace, *_pattern(address))): {
            "namespace": namespace,
            "methods": list(address.actions),
        }
        for address in (INDEX, *ADDRESSES)
    }
    index = {"name": "Keywright", "namespaces": [namespace], "routes": routes}
    return Answer(200, wire.encode(index))


def _pattern(address: Address) -> Iterator[str]:
    """The words of an address, with WordPress's regular expression for the key or number."""
    name = "license_key" if address.words[:1] == ("licenses",) else "generator_id"
    return (f"(?P<{name}>[^/]+)" if word is None else word for word in address.words)


#: The address of the interface itself: programs call it to test the connection.
INDEX = Address((), {"GET": Action("index", Right.NONE, _index, changes=False)})


def find_address(words: list[str]) -> tuple[Address, str] | None:
    """The address with these words, and the key or number in it."""
    if not words:
        return INDEX, ""
    known = _addresses_by_words()
    # The key or number comes last, or second.
    if (found := known.get((*words[:-1], None))) is not None:
        return found, words[-1]
    if len(words) > 2 and (found := known.get((words[0], None, *words[2:]))) is not None:
        return found, words[1]
    found = known.get(tuple(words))
    return None if found is None else (found, "")


@cache
def _addresses_by_words() -> dict[tuple[str | None, ...], Address]:
    return {address.words: address for address in ADDRESSES}


def find_action(address: Address, method: str) -> Action:
    """What the method does there. Raises ``MethodNotAllowed``.

    HEAD does what GET does where that changes nothing.
    """
    action = address.actions.get("GET" if method == "HEAD" else method)
    if action is None or (method == "HEAD" and action.changes):
        raise e.MethodNotAllowed(address.methods)
    return action


def decoded(words: list[bytes]) -> list[str]:
    """The words of a path, each percent-decoded once; what is not UTF-8 becomes lone surrogates."""
    return [
        unquote_to_bytes(word).decode("utf-8", "surrogateescape") if b"%" in word else word.decode("latin-1")
        for word in words
    ]


def shown(word: str) -> str:
    """The word with U+FFFD for what is not UTF-8 in it."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def words_of_rest_route(value: bytes) -> list[str]:
    """The words of a ``rest_route`` parameter as it stands in the query, decoded once.

    Where its slashes are written as such, it is read like a path.
    """
    value = value.replace(b"+", b"%20")
    if b"/" in value:
        return decoded([word for word in value.split(b"/") if word])
    return [word for word in decoded([value])[0].split("/") if word]


def with_key_in_one(words: list[str]) -> list[str]:
    """The words below ``v2``, where a key with slashes in it came apart."""
    if words[:1] != ["licenses"] or len(words) < 3:
        return words
    start = 2 if words[1] in ("activate", "validate", "deactivate") else 1
    return [*words[:start], "/".join(words[start:])]
