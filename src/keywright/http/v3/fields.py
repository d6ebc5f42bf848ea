"""The declaration of members of v3's bodies and queries.

A member's type says what may be sent, with msgspec's limits. ``Parse`` in its annotation finishes the value,
so that a handler receives it ready to use::

    class RenewLicense(Body):
        days: Annotated[int, Meta(ge=1, le=36_500)] | None = None
        until: Time | None = None

    class ProductChanges(Body):
        name: Annotated[str, Parse(parse_name)] | UnsetType = UNSET  # UNSET: it was not sent
"""

from collections.abc import Callable
from datetime import UTC, datetime
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from keywright.core.parsing import MAX_ID
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH, normalize_key


class Body(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a management call, or an object in one; unknown members are refused."""


class ClientBody(Struct, kw_only=True):
    """The body of a client call, or an object in one; unknown members are ignored."""


class Query(Struct, kw_only=True):
    """The query parameters of a route."""


class Parse(NamedTuple):
    """Finishes a value of the annotated type: returns one of the same type, or raises ``ValueError`` with a
    reason such as "must be …".
    """

    function: Callable[[Any], Any]


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise ValueError("must be a time such as 2026-11-22T08:54:00Z") from None


#: A moment in RFC 3339, with an offset; finished: in UTC and whole seconds.
Time = Annotated[datetime, Meta(tz=True), Parse(_to_utc)]
LicenseKey = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH), Parse(normalize_key)]
#: The number of a license, policy and so on.
Id = Annotated[int, Meta(ge=1, le=MAX_ID, extra_json_schema={"format": "int64"})]

#: Returns the finished value; raises ``ValueError`` or ``ValueRefusal`` for one that ``Parse`` refuses.
Finish = Callable[[Any], Any]


def split_type(kind: Any) -> tuple[Any, bool]:
    """The one type of a union beside None and UNSET, and whether None is allowed; a union of several types
    stays as it is.
    """
    if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) in (Union, UnionType):
        single, is_nullable = split_type(get_args(kind)[0])
        return Annotated[(single, *kind.__metadata__)], is_nullable
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    options = [one for one in get_args(kind) if one not in (type(None), UnsetType)]
    return (options[0] if len(options) == 1 else kind), type(None) in get_args(kind)


def strip_annotations(kind: Any) -> Any:
    """The type without its ``Annotated``."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_struct(kind: Any) -> bool:
    """Whether values of the type are objects with members of their own."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def join_pointer(pointer: str, name: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a member or an item."""
    return f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"


def build_finish(kind: Any) -> Finish | None:
    """A function that finishes values of the type; None where there is nothing to finish. Slow: keep it."""
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
    """The same for the members or items of values."""
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
                setattr(value, name, finish_member(member))
        return value

    return finish
