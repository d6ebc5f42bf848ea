"""The v2 interface as a table: which address and method does what, and who may call it."""

from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from keywright.core import errors as e
from keywright.http.v2 import generators, licenses, wire
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
    """The action of a method at an address. ``takes`` are the parameters that it knows, ``sayings`` refusals
    in its own words, ``unreadable`` is what it says of a body that is no form and no object.
    """

    operation: str
    right: Right
    answer: Callable[[Call], Awaitable[Answer]]
    changes: bool = True
    takes: frozenset[str] = frozenset()
    sayings: Sayings = NO_SAYINGS
    unreadable: type[e.KeywrightError] | None = None


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


_ACTIVATE = Action("activate", Right.CORE, licenses.activate, takes=licenses.ACTIVATION)
_DEACTIVATE = Action(
    "deactivate",
    Right.CORE,
    licenses.deactivate,
    takes=licenses.TOKEN,
    sayings={e.UnknownLicense: "License Key: {e.key} could not be found or is deactivated."},
)
_VALIDATE = Action("validate", Right.CORE, licenses.validate, changes=False, takes=licenses.TOKEN)
_UPDATE = Action(
    "update_license",
    Right.WRITE,
    licenses.update_license,
    takes=licenses.WRITABLE,
    # The contract's word for a body that says nothing.
    unreadable=e.NothingToChange,
)
_UPDATE_GENERATOR = Action(
    "update_generator",
    Right.WRITE,
    generators.update_generator,
    takes=generators.WRITABLE,
    sayings={e.UnknownGenerator: "The generator could not be updated."},
)

ADDRESSES: list[Address] = [
    Address(("licenses", "activate", None), {"GET": _ACTIVATE, "POST": _ACTIVATE}),
    Address(("licenses", "validate", None), {"GET": _VALIDATE, "POST": _VALIDATE}),
    Address(("licenses", "deactivate", None), {"GET": _DEACTIVATE, "POST": _DEACTIVATE}),
    Address(
        ("licenses",),
        {
            "GET": Action(
                "list_licenses", Right.READ, licenses.list_licenses, changes=False, takes=licenses.LISTING
            ),
            "POST": Action("create_license", Right.WRITE, licenses.create_license, takes=licenses.WRITABLE),
        },
    ),
    Address(
        ("licenses", None),
        {
            "GET": Action("get_license", Right.READ, licenses.get_license, changes=False),
            "PUT": _UPDATE,
            "PATCH": _UPDATE,
            "POST": _UPDATE,
            "DELETE": Action(
                "delete_license",
                Right.WRITE,
                licenses.delete_license,
                sayings={e.UnknownLicense: "The license key could not be found or deleted."},
            ),
        },
    ),
    Address(
        ("generators",),
        {
            "GET": Action("list_generators", Right.READ, generators.list_generators, changes=False),
            "POST": Action(
                "create_generator", Right.WRITE, generators.create_generator, takes=generators.WRITABLE
            ),
        },
    ),
    Address(
        ("generators", None),
        {
            "GET": Action("get_generator", Right.READ, generators.get_generator, changes=False),
            "PUT": _UPDATE_GENERATOR,
            "PATCH": _UPDATE_GENERATOR,
            "POST": _UPDATE_GENERATOR,
            "DELETE": Action(
                "delete_generator",
                Right.WRITE,
                generators.delete_generator,
                sayings={e.UnknownGenerator: "The generator key could not be found or deleted."},
            ),
        },
    ),
    Address(
        ("generators", None, "generate"),
        {"POST": Action("generate", Right.WRITE, generators.generate, takes=generators.GENERATION)},
    ),
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
