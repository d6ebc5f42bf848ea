"""Nouns, which every door creates, shows, lists, changes and deletes; pages of lists by keyset.

What may be set of a noun is one struct. v3, the terminal, the pages and the documents read its members::

    class ProductFields(Fields):
        name: Annotated[Name, about("Its name.", "Paint", label="Name")] | UnsetType = UNSET

Its rules are functions of its handlers.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo
from msgspec.structs import fields as fields_of

from keywright.core.command import Command, Query
from keywright.core.fields import Fields, Time, about, build_finish, split_type, strip_annotations
from keywright.core.parsing import parse_integer, parse_metadata, parse_time

#: The highest number of matches that is counted.
MAX_COUNTED = 10_000
Item = TypeVar("Item")
#: The value by which a list is sorted, times in seconds, and the id.
Position = tuple[int | str, int]


class Paging(msgspec.Struct, frozen=True):
    """The page of a list that is asked for: up to ``limit`` items after a position.

    ``sort`` is the name of a column, with ``-`` before it for the largest first; ties are by id. One item
    more than ``limit`` is read: it means that there is a next page.
    """

    sort: str = "-created_at"
    after: Position | None = None
    limit: int = 50
    is_counted: bool = False


class ItemPage(msgspec.Struct, Generic[Item], frozen=True):
    """Items of a page, and one more where there is a next page. ``total`` is the number of matches, of which
    at most ``MAX_COUNTED + 1`` are counted; None where it was not asked for.
    """

    items: Sequence[Item]
    total: int | None = None


def position_of(item: Any, sort: str) -> Position:
    """The position of an item in a list that is sorted so."""
    value = getattr(item, sort.removeprefix("-"))
    return (int(value.timestamp()) if isinstance(value, datetime) else value, item.id)


MAX_LIMIT = 200


class Items(NamedTuple):
    """How a list is written as text: an item a line in a form, and an option for each on the terminal."""

    parse: Callable[[str], Any]
    write: Callable[[Any], str]
    option: str
    metavar: str


class Flag(NamedTuple):
    """The option of a member that is true or false."""

    option: str


class ListQuery(Struct):
    """The query parameters of every list; a noun's list adds its filters and its ``sort``."""

    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), about("The most items of a page.", 50)] = 50
    cursor: Annotated[str | None, about("The `next_cursor` of the page before.")] = None
    count: Annotated[bool, about("Whether the answer has `total` or `more_than`.")] = False


#: The members that every noun is shown with.
Kept = Annotated[dict[str, Any], about("What the vendor keeps with it.", {"sku": "P-1"})]
CreatedAt = Annotated[Time, about("When it was made.", "2026-11-22T08:54:00Z")]
UpdatedAt = Annotated[Time, about("When it was last changed.", "2026-11-22T08:54:00Z")]


class Create(Command, frozen=True, kw_only=True):
    """Make one with these fields; without an ``id`` in them, it gets one of Keywright's own."""

    fields: Any
    only_product_id: int | None = None

    def restored(self) -> dict[str, Any]:
        """What is stored with the fields, of one that was deleted before."""
        return {}


class Update(Command, frozen=True, kw_only=True):
    """Change the fields that are set; ``metadata`` is a JSON merge patch."""

    id: int
    fields: Any
    only_product_id: int | None = None


class Delete(Command, frozen=True, kw_only=True):
    """Delete the one with this ID, if nothing names it."""

    id: int
    only_product_id: int | None = None


class Get(Query, frozen=True, kw_only=True):
    """The one with this ID."""

    id: int
    only_product_id: int | None = None


class List(Query, frozen=True, kw_only=True):
    """A page of those that match; ``paging`` has the order and the place, not ``where``."""

    paging: Paging
    where: Any
    only_product_id: int | None = None


class Noun(NamedTuple):
    """A noun as the doors know it; ``name`` is in paths and messages, such as ``product``."""

    name: str
    model: type[Struct]
    fields: type[Fields]
    new: type[Fields]
    query: type[ListQuery]
    create: type[Create]
    update: type[Update]
    delete: type[Delete]
    get: type[Get]
    list: type[List]
    #: The column with the product, by which an API key of one product is restricted: a product itself it only
    #: reads, what belongs to a product it also changes. Empty for what such a key has nothing to do with.
    product_column: str = ""

    def make(self, **given: Any) -> Any:
        """One with these fields; the others are None or empty."""
        empty = {name: None if kind is None else kind() for name, kind in _required_of(self.model).items()}
        return self.model(**empty | given)


@cache
def _required_of(model: type[Struct]) -> dict[str, type | None]:
    """The fields of a struct that have no default; with their types where these are lists or objects."""
    kinds = {one.name: get_origin(strip_annotations(one.type)) for one in fields_of(model) if one.required}
    return {name: kind if kind in (list, dict) else None for name, kind in kinds.items()}


class Member:
    """A member of a struct of fields, as forms and terminals show and read it."""

    def __init__(self, field: FieldInfo) -> None:
        self.name = field.encode_name
        self.is_required = field.default is NODEFAULT
        kind, self.is_nullable = split_type(field.type)
        notes = getattr(kind, "__metadata__", ())
        self._limits = [one for one in notes if isinstance(one, Meta)]
        self.kind = strip_annotations(kind)
        self.is_text = self.kind is str
        #: The words that a choice has.
        is_choice = isinstance(self.kind, type) and issubclass(self.kind, StrEnum)
        self.options = [one.value for one in self.kind] if is_choice else []
        #: Whether it can be empty.
        self.is_optional = self.is_nullable or get_origin(self.kind) is list
        self.finish = build_finish(kind) or (lambda value: value)
        self.description = next((one.description for one in self._limits if one.description), "")
        self.can_be_empty = not any(one.min_length for one in self._limits)
        self.max_length = next((one.max_length for one in self._limits if one.max_length), None)
        #: The label, the hint and the number of rows in a form; empty for a member that no form has.
        self.form: dict[str, Any] = next((one.extra for one in self._limits if one.extra), {})
        self.items = next((one for one in notes if isinstance(one, Items)), None)
        self.flag = next((one.option for one in notes if isinstance(one, Flag)), None)

    def read(self, text: str) -> Any:
        """The value in a text; an item a line. Raises ``ValueError``."""
        return self.check(
            _parse(self.kind, text) if self.items is None else self.parse_items(text.splitlines())
        )

    def parse_items(self, texts: Sequence[str]) -> Sequence[Any]:
        """The items in these texts. Raises ``ValueError``."""
        return [self.items.parse(one.strip()) for one in texts if one.strip()] if self.items else ()

    def check(self, value: Any) -> Any:
        """The finished value. Raises ``ValueError`` for one beyond its limits."""
        value = self.finish(value)
        for limit in self._limits:
            if limit.min_length is not None and len(value) < limit.min_length:
                raise ValueError("must not be empty")
            if limit.max_length is not None and len(value) > limit.max_length:
                raise ValueError(f"must have at most {limit.max_length} characters")
            if limit.ge is not None and limit.le is not None and not limit.ge <= value <= limit.le:
                raise ValueError(f"must be an integer from {limit.ge} to {limit.le}")
        return value

    def write(self, value: Any) -> str:
        """The value as a text that ``read`` reads."""
        if self.items is not None:
            return "\n".join(map(self.items.write, value or ()))
        return "" if value is None else str(value)


@cache
def list_members(struct: type[Struct]) -> tuple[Member, ...]:
    """The members of a struct, in their order."""
    return tuple(map(Member, fields_of(struct)))


def differing(before: Struct, after: Struct) -> list[str]:
    """The names of the fields that differ as JSON, where 1 and true are not the same."""
    encode = msgspec.json.encode
    names = before.__struct_fields__
    return [one for one in names if encode(getattr(before, one)) != encode(getattr(after, one))]


def _parse(kind: Any, text: str) -> Any:
    """A text as a value of this type. Raises ``ValueError``."""
    if get_origin(kind) is dict:
        return {} if parse_metadata(text) is None else msgspec.json.decode(text)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if text not in list(kind):
            raise ValueError("must be one of these")
        return kind(text)
    readers: dict[Any, Callable[[str], Any]] = {int: parse_integer, datetime: parse_time}
    return readers.get(kind, str)(text)
