"""The root of the tree of errors, and the groups of refusals."""

from typing import Any, ClassVar, Literal, NamedTuple

from keywright.core.examples import EXAMPLE_KEY, EXAMPLE_TOKEN


class V2(NamedTuple):
    """An answer of the v2 interface. Shipped programs match on these: they are part of the contract (§4)."""

    status: int
    code: str
    sentence: str


#: The codes of wrong values over v3; the reference says what each means.
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
    """A wrong value. ``pointer`` is a JSON Pointer into the body, or names a query parameter or a header."""

    pointer: str
    code: ValueCode
    detail: str


class KeywrightError(Exception):
    """Everything that Keywright raises on purpose.

    The first paragraph of a class's docstring says when it is raised; the OpenAPI document shows it, too. Its
    attributes say what each interface answers; a class inherits those that it does not set. Sentences are
    format strings over ``facts``.
    """

    #: Stable: may be logged, counted and matched. Each class has its own.
    code: ClassVar[str] = "error"
    #: The HTTP status of a page.
    status: ClassVar[int] = 500
    #: The heading of the page; "" stands for the usual heading of the status.
    heading: ClassVar[str] = ""
    #: The sentence of the page: no license key, token or other secret.
    sentence: ClassVar[str] = "This is a fault of the server, and nothing was changed. Its log says more."
    #: The sentence of the terminal, which says what to do; "" stands for the sentence of the page.
    hint: ClassVar[str] = ""
    #: The answer of v2; None for an error that no call of v2 meets.
    v2: ClassVar[V2 | None] = None
    #: The problem code of v3 (``problems.PROBLEMS``), and its sentence; "" stands for the code's own.
    problem: ClassVar[str] = "internal_error"
    problem_detail: ClassVar[str] = ""
    #: The arguments that make an example of this error.
    example: ClassVar[tuple[Any, ...]] = ()

    def __str__(self) -> str:
        """The first argument, which the others belong to."""
        return str(self.args[0]) if self.args else ""

    def facts(self) -> dict[str, Any]:
        """The values that sentences may name: the error's attributes, ``code`` and ``detail``, its text."""
        return {"code": self.code, "detail": str(self) or self.code, **vars(self)}

    def problem_members(self) -> dict[str, Any]:
        """More members of the problem details of v3, such as ``limit``; JSON values, None is left out."""
        return {}

    def say(self, sentence: str) -> str:
        """The sentence with the facts of this error."""
        return sentence.format(**self.facts())


class Refusal(KeywrightError):
    """The command was understood and declined; nothing was changed by it."""

    code = "refused"
    status = 409
    sentence = "Keywright declined this ({code})."


class LicenseRefusal(Refusal):
    """A refusal about one license key."""

    example: ClassVar[tuple[Any, ...]] = (EXAMPLE_KEY,)

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class TokenRefusal(Refusal):
    """A refusal about one activation token."""

    example = (EXAMPLE_TOKEN,)

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


class PlaceRefusal(Refusal):
    """The license has no place for an activation now."""


class ValueRefusal(Refusal):
    """A field of a license cannot have this value."""

    problem = "invalid"
    status = 422


class FieldRefusal(Refusal):
    """A refusal about one field, by its name."""

    problem = "invalid"
    problem_detail = "The member {field} is missing or cannot have this value."
    status = 422
    example = ("charset",)

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field

    def facts(self) -> dict[str, Any]:
        """``field_in_words`` has spaces."""
        return super().facts() | {"field_in_words": self.field.replace("_", " ")}


def v2_data_error(sentence: str) -> V2:
    """The answer of v2 to most commands that it declines."""
    return V2(404, "lmfwc_rest_data_error", sentence)
