"""The table of v2's routes: what each method does at each address, and who may call it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from keywright.core import errors as e
from keywright.http.answer import Answer
from keywright.http.middleware import routing
from keywright.http.middleware.call import Call
from keywright.http.middleware.routing import Right
from keywright.http.v2 import generators, licenses, parameters
from keywright.http.v2.wire import NO_SENTENCES, Sentences


def parse_setting(setting: str) -> list[str]:
    """The path segments in a setting such as ``api_root``."""
    return [word for word in setting.split("/") if word]


def decode_words(words: Sequence[bytes]) -> list[str]:
    """The path segments, each percent-decoded once; bytes that are not UTF-8 become lone surrogates."""
    return [
        unquote_to_bytes(word).decode("utf-8", "surrogateescape") if b"%" in word else word.decode("latin-1")
        for word in words
    ]


def to_text(word: str) -> str:
    """The segment with U+FFFD for bytes that are not UTF-8."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def parse_rest_route(value: bytes) -> list[str]:
    """The path segments in the raw value of a ``rest_route`` parameter, decoded once.

    A value with unescaped slashes is treated as a path.
    """
    value = value.replace(b"+", b"%20")
    if b"/" in value:
        return decode_words([word for word in value.split(b"/") if word])
    return [word for word in decode_words([value])[0].split("/") if word]


def join_key(words: list[str]) -> list[str]:
    """The segments below ``v2``, with a license key that was split at its slashes joined into one segment."""
    if words[:1] != ["licenses"] or len(words) < 3:
        return words
    start = 2 if words[1] in ("activate", "validate", "deactivate") else 1
    return [*words[:start], "/".join(words[start:])]


class Action(NamedTuple):
    """The action of a method at an address.

    ``takes`` lists its parameters; ``sentences`` replaces messages of some errors. ``unreadable`` is the
    error for a body that is neither a form nor an object.
    """

    operation: str
    right: Right
    answer: Callable[[Call], Awaitable[Answer]]
    changes: bool = True
    takes: tuple[str, ...] = ()
    sentences: Sentences = NO_SENTENCES
    unreadable: type[e.KeywrightError] | None = None


#: The path segments and the action of each method.
Address = routing.Address[Action]

_ACTIVATE = Action(
    "activate",
    Right.CORE,
    licenses.activate,
    takes=("token", "label", "meta"),
)
_VALIDATE = Action(
    "validate",
    Right.CORE,
    licenses.validate,
    changes=False,
    takes=("token",),
)
_DEACTIVATE = Action(
    "deactivate",
    Right.CORE,
    licenses.deactivate,
    takes=("token",),
    sentences={e.UnknownLicense: "License Key: {key} could not be found or is deactivated."},
)
_LIST = Action(
    "list_licenses",
    Right.READ,
    licenses.list_licenses,
    changes=False,
    takes=parameters.LIST_PARAMETERS,
)
_CREATE = Action(
    "create_license",
    Right.WRITE,
    licenses.create_license,
    takes=parameters.LICENSE_PARAMETERS,
)
_GET = Action(
    "get_license",
    Right.ONE_LICENSE,
    licenses.get_license,
    changes=False,
)
_UPDATE = Action(
    "update_license",
    Right.WRITE,
    licenses.update_license,
    takes=parameters.LICENSE_PARAMETERS,
    # The contract's error for an empty body.
    unreadable=e.NothingToChange,
)
_DELETE = Action(
    "delete_license",
    Right.WRITE,
    licenses.delete_license,
    sentences={e.UnknownLicense: "The license key could not be found or deleted."},
)
_LIST_GENERATORS = Action(
    "list_generators",
    Right.READ,
    generators.list_generators,
    changes=False,
)
_CREATE_GENERATOR = Action(
    "create_generator",
    Right.WRITE,
    generators.create_generator,
    takes=parameters.GENERATOR_PARAMETERS,
)
_GET_GENERATOR = Action(
    "get_generator",
    Right.READ,
    generators.get_generator,
    changes=False,
)
_UPDATE_GENERATOR = Action(
    "update_generator",
    Right.WRITE,
    generators.update_generator,
    takes=parameters.GENERATOR_PARAMETERS,
    sentences={e.UnknownPolicy: "The generator could not be updated."},
)
_DELETE_GENERATOR = Action(
    "delete_generator",
    Right.WRITE,
    generators.delete_generator,
    sentences={e.UnknownPolicy: "The generator key could not be found or deleted."},
)
_GENERATE = Action(
    "generate",
    Right.WRITE,
    generators.generate,
    takes=parameters.GENERATION_PARAMETERS,
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
    """The address, with a ``validate`` that refuses what ``activate`` refuses."""
    actions = {
        method: one._replace(answer=licenses.validate_or_refuse) if one.operation == "validate" else one
        for method, one in address.actions.items()
    }
    return Address(address.words, actions)
