"""The root of the tree of errors, and groups of refusals."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, dataclass_transform, get_origin

from keywright.core.fields import EXAMPLE_KEY, EXAMPLE_TOKEN


class V2(NamedTuple):
    """An answer of the v2 interface. Shipped programs match on all of it: it is part of the contract (§4)."""

    status: int
    code: str
    sentence: str


#: The codes of invalid values over v3; the reference explains them.
ValueCode = Literal[
    "missing",
    "unknown",
    "invalid",
    "wrong_type",
    "too_long",
    "too_short",
    "too_large",
    "too_small",
    "duplicate",
    "already_exists",
    "too_old",
]


class FieldError(NamedTuple):
    """An invalid value. ``pointer`` is a JSON Pointer into the body, or names a query parameter or header."""

    pointer: str
    code: ValueCode
    detail: str


@dataclass_transform()
class KeywrightError(Exception):
    """Everything that Keywright raises on purpose.

    The first paragraph of a class's docstring states when it is raised. The attributes state what each
    interface answers; a class inherits those that it does not set. Annotated members of a class are the
    arguments of its errors, after those of its bases, and become attributes. Sentences are format strings
    over ``facts``.
    """

    #: Stable, so that it can be logged, counted and matched. Each class has its own.
    code: ClassVar[str] = "error"
    #: The HTTP status of a page with this error.
    status: ClassVar[int] = 500
    #: The heading of the page; "" is the default heading for the status.
    heading: ClassVar[str] = ""
    #: The message on the page. It must not contain license keys, tokens or other secrets.
    sentence: ClassVar[str] = "The server failed, and nothing was changed. See its log for details."
    #: The message at the terminal, which explains what to do; "" is the message on the page.
    hint: ClassVar[str] = ""
    #: The answer of v2; None if no call of v2 raises the error.
    v2: ClassVar[V2 | None] = None
    #: The problem code of v3 (``problems.PROBLEMS``), and its detail; "" is the default detail for the code.
    problem: ClassVar[str] = "internal_error"
    problem_detail: ClassVar[str] = ""
    #: The arguments of an example of this error.
    example: ClassVar[tuple[Any, ...]] = ()
    #: The names of the arguments.
    members: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Collect the members of the class, those of its bases first."""
        bases = [name for base in reversed(cls.__mro__) for name in getattr(base, "members", ())]
        own: dict[str, object] = inspect.get_annotations(cls)
        names = [name for name, kind in own.items() if get_origin(kind) is not ClassVar]
        cls.members = tuple(dict.fromkeys(bases + names))

    def __init__(self, *given: Any, **named: Any) -> None:
        """Take the members in order, and copy them; without members, take a text."""
        if not self.members:
            super().__init__(*given)
            return
        values = dict(zip(self.members, given, strict=False)) | named
        for name in self.members:
            if name not in values and hasattr(type(self), name):
                values[name] = getattr(type(self), name)
        if len(given) > len(self.members) or values.keys() != {*self.members}:
            raise TypeError(f"{type(self).__name__} takes {self.members}")
        facts = {name: _copy(values[name]) for name in self.members}
        super().__init__(*facts.values())
        vars(self).update(facts)

    def __str__(self) -> str:
        """The first argument, which the others describe further."""
        return str(self.args[0]) if self.args else ""

    def facts(self) -> dict[str, Any]:
        """The values for sentences: the error's attributes, ``code``, and ``detail``, which is its text."""
        return {"code": self.code, "detail": str(self) or self.code, **vars(self)}

    def problem_members(self) -> dict[str, Any]:
        """Additional members of v3's problem details, such as ``limit``: JSON values; None is omitted."""
        return {}

    def fill(self, sentence: str) -> str:
        """Format the sentence with the facts of this error."""
        return sentence.format(**self.facts())


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return tuple(value) if isinstance(value, list) else value


class Refusal(KeywrightError):
    """The command is valid but was declined; it changed nothing."""

    code = "refused"
    status = 409
    sentence = "Keywright refused this ({code})."


class LicenseRefusal(Refusal):
    """A refusal that concerns one license key."""

    example: ClassVar[tuple[Any, ...]] = (EXAMPLE_KEY,)

    key: str


class TokenRefusal(Refusal):
    """A refusal that concerns one activation token."""

    example = (EXAMPLE_TOKEN,)

    token: str


class PlaceRefusal(Refusal):
    """The license cannot give a place to an activation now."""


class ValueRefusal(Refusal):
    """A field of a license cannot have this value."""

    problem = "invalid"
    status = 422


class FieldRefusal(Refusal):
    """A refusal that concerns one field, by its name."""

    problem = "invalid"
    problem_detail = "The member {field} is missing or invalid."
    status = 422
    example = ("charset",)

    field: str

    def facts(self) -> dict[str, Any]:
        """Add ``field_in_words``, the name with spaces."""
        return super().facts() | {"field_in_words": self.field.replace("_", " ")}


def v2_data_error(sentence: str) -> V2:
    """The answer of v2 to most refused commands."""
    return V2(404, "lmfwc_rest_data_error", sentence)
