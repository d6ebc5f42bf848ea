"""Types of the fields of nouns: which values are valid, how they are converted, and what they mean.

A member's type states what may be sent, with msgspec's constraints. ``Parse`` in its annotation converts the
value, so that handlers receive it ready to use::

    class ProductFields(Fields):
        name: Annotated[Name, about("Its name.", "Paint")] | UnsetType = UNSET  # UNSET: it was not sent
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields, force_setattr

from keywright.core import parsing

AnyStruct = TypeVar("AnyStruct", bound=Struct)

#: A license key and an activation token for examples in the documentation.
EXAMPLE_KEY = "KW7Q-2MXD-94TB-VH3C"
EXAMPLE_TOKEN = "8d0f3b6e52c94a17a1c05de98b7f24630c5e1d9a"  # noqa: S105 (no secret)


class Fields(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields that can be set on a noun, or an object in one of them; unknown members are refused."""


class Parse(NamedTuple):
    """Converts a value of the annotated type: returns one of the same type, or raises ``ValueError`` with a
    reason such as "must be …".
    """

    function: Callable[[Any], Any]


def about(description: str, *examples: object, label: str = "", hint: str | None = None, **more: Any) -> Meta:
    """Describe a member, with examples of its values. Forms and the history show only members with a
    ``label``; forms show ``hint`` instead of the description. Pages translate both. ``more`` is for the
    interfaces: the ``rows`` of a field, the text for ``none``, the ``bounds`` of a number, an ``option``.
    """
    extra = {"label": label, "hint": description if hint is None else hint, **more}
    return Meta(description=description, examples=list(examples) or None, extra=extra if label else None)


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise ValueError("must be a time such as 2026-11-22T08:54:00Z") from None


def _check_metadata(value: Mapping[str, Any]) -> Mapping[str, Any]:
    parsing.parse_metadata(value)
    return value


def _parse_text(text: str) -> str:
    parsing.parse_text(text, len(text))
    return text


def text(max_length: int) -> Any:
    """A string of 1 to ``max_length`` characters."""
    return Annotated[str, Meta(min_length=1, max_length=max_length), Parse(_parse_text)]


#: A time in RFC 3339 with an offset; converted to UTC in whole seconds.
Time = Annotated[datetime, Meta(tz=True), Parse(_to_utc)]
#: The ID of a license, policy and so on.
Id = Annotated[int, Meta(ge=1, le=parsing.MAX_ID, extra_json_schema={"format": "int64"})]
#: The largest ID that a caller may choose for a product or a customer: the largest integer that every JSON
#: parser reads exactly.
MAX_OWN_ID = 2**53 - 1
OwnId = Annotated[int, Meta(ge=1, le=MAX_OWN_ID)]
Name = Annotated[str, Meta(min_length=1, max_length=parsing.MAX_NAME_LENGTH), Parse(parsing.parse_name)]
ExternalId = Annotated[
    str, Meta(min_length=1, max_length=parsing.MAX_EXTERNAL_ID_LENGTH), Parse(parsing.parse_external_id)
]
#: A JSON object of at most 16 KiB and 4 levels.
Metadata = Annotated[
    dict[str, Any],
    Meta(max_length=parsing.MAX_METADATA_KEYS),
    Parse(_check_metadata),
    about("A JSON object with your own data. Changes are merged into it; null removes a member."),
]

#: Returns the converted value; raises ``ValueError`` or ``ValueRefusal`` if ``Parse`` refuses it.
Finish = Callable[[Any], Any]


def list_changes(body: Struct) -> dict[str, Any]:
    """The members of a body that were sent."""
    return {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}


def copy_as(kind: type[AnyStruct], one: Any, **others: Any) -> AnyStruct:
    """Build a struct of this type from the same-named fields of ``one``; ``others`` are given explicitly."""
    names = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**{name: getattr(one, name) for name in names}, **others)


def split_type(kind: Any) -> tuple[Any, bool]:
    """The single type in a union with None or UNSET, and whether None is allowed. A union of several types is
    returned unchanged.
    """
    if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) in (Union, UnionType):
        single, is_nullable = split_type(get_args(kind)[0])
        return Annotated[(single, *kind.__metadata__)], is_nullable
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    options = [one for one in get_args(kind) if one not in (type(None), UnsetType)]
    return (options[0] if len(options) == 1 else kind), type(None) in get_args(kind)


def strip_annotations(kind: Any) -> Any:
    """The type without ``Annotated``."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_struct(kind: Any) -> bool:
    """Whether the type is a struct."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def build_finish(kind: Any) -> Finish | None:
    """Build the function that converts values of the type; None if nothing is to convert. Slow: cache it."""
    kind, _ = split_type(kind)
    inner = _build_inner(strip_annotations(kind))
    steps = [] if inner is None else [inner]
    steps += [one.function for one in getattr(kind, "__metadata__", ()) if isinstance(one, Parse)]
    if len(steps) < 2:
        return steps[0] if steps else None

    def finish(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return finish


def _build_inner(kind: Any) -> Finish | None:
    """Build the function that converts the members or items of values."""
    if is_struct(kind):
        return _build_of_struct(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    finish = build_finish(arguments[-1]) if origin in (list, dict) else None
    if finish is None:
        return None
    finish_one = finish
    if origin is list:
        return lambda value: [finish_one(one) for one in value]
    return lambda value: {name: finish_one(one) for name, one in value.items()}


def _build_of_struct(struct: type[Struct]) -> Finish | None:
    built = [(one.name, build_finish(one.type)) for one in fields(struct)]
    finishes = [(name, finish) for name, finish in built if finish is not None]
    if not finishes:
        return None

    def finish(value: Any) -> Any:
        for name, finish_member in finishes:
            member = getattr(value, name)
            if member is not None and member is not UNSET:
                force_setattr(value, name, finish_member(member))
        return value

    return finish
