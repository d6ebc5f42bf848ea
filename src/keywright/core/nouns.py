"""Nouns, which all interfaces create, show, list, change and delete; keyset pagination of lists.

One struct has the fields that can be set on a noun. v3, the terminal, the pages and the documents read it::

    class ProductFields(Fields):
        name: Annotated[Name, about("Its name.", "Paint", label="Name")] | UnsetType = UNSET

The rules of a noun are functions in its handlers.
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

#: Matches are counted up to this number.
MAX_COUNTED = 10_000
Item = TypeVar("Item")
#: The sort key of an item, with times in seconds, and its ID.
Position = tuple[int | str, int]


class Paging(msgspec.Struct, frozen=True):
    """The requested page of a list: up to ``limit`` items after a position.

    ``sort`` is the name of a column, prefixed with ``-`` for descending order; ties are sorted by ID. One
    item more than ``limit`` is read, to find out whether there is a next page.
    """

    sort: str = "-created_at"
    after: Position | None = None
    limit: int = 50
    is_counted: bool = False


class ItemPage(msgspec.Struct, Generic[Item], frozen=True):
    """The items of a page, with one extra item if there is a next page. ``total`` is the number of matches,
    counted up to ``MAX_COUNTED + 1``; None if it was not requested.
    """

    items: Sequence[Item]
    total: int | None = None


def position_of(item: Any, sort: str) -> Position:
    """The position of an item in a list with this sort order."""
    value = getattr(item, sort.removeprefix("-"))
    return (int(value.timestamp()) if isinstance(value, datetime) else value, item.id)


MAX_LIMIT = 200


class Items(NamedTuple):
    """The text format of a list: one item per line in a form, one option per item at the terminal."""

    parse: Callable[[str], Any]
    write: Callable[[Any], str]
    option: str
    metavar: str


class Flag(NamedTuple):
    """The command-line option of a boolean member."""

    option: str


class ListQuery(Struct):
    """The query parameters that all lists share; the list of a noun adds its filters and ``sort``."""

    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), about("The maximum number of items on a page.", 50)] = 50
    cursor: Annotated[str | None, about("The `next_cursor` of the previous page.")] = None
    count: Annotated[bool, about("Whether to include `total` or `more_than`.")] = False


#: The members with which every noun is shown.
Kept = Annotated[dict[str, Any], about("Your own data, as a JSON object.", {"sku": "P-1"})]
CreatedAt = Annotated[Time, about("When it was created.", "2026-11-22T08:54:00Z")]
UpdatedAt = Annotated[Time, about("When it was last changed.", "2026-11-22T08:54:00Z")]


class Create(Command, frozen=True, kw_only=True):
    """Create a noun with these fields; without an ``id`` among them, it gets a generated one."""

    fields: Any
    only_product_id: int | None = None

    def restored(self) -> dict[str, Any]:
        """Additional columns to restore if a deleted item is created again."""
        return {}


class Update(Command, frozen=True, kw_only=True):
    """Change the fields that are set; ``metadata`` is a JSON Merge Patch."""

    id: int
    fields: Any
    only_product_id: int | None = None


class Delete(Command, frozen=True, kw_only=True):
    """Delete the item with this ID, unless something references it."""

    id: int
    only_product_id: int | None = None


class Get(Query, frozen=True, kw_only=True):
    """Get the item with this ID."""

    id: int
    only_product_id: int | None = None


class List(Query, frozen=True, kw_only=True):
    """Get a page of the items that match; ``paging`` determines the order and the position, not ``where``."""

    paging: Paging
    where: Any
    only_product_id: int | None = None


class Noun(NamedTuple):
    """A noun as the interfaces know it; ``name``, such as ``product``, appears in paths and messages."""

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
    #: The column with the product ID, which restricts API keys for one product: they may read but not change
    #: a product itself, and may change what belongs to it. Empty if such keys have no access.
    product_column: str = ""

    def make(self, **given: Any) -> Any:
        """Build an item with these fields; the others are None or empty."""
        empty = {name: None if kind is None else kind() for name, kind in _required_of(self.model).items()}
        return self.model(**empty | given)


@cache
def _required_of(model: type[Struct]) -> dict[str, type | None]:
    """The fields of a struct without a default, each with its type if that is a list or an object."""
    kinds = {one.name: get_origin(strip_annotations(one.type)) for one in fields_of(model) if one.required}
    return {name: kind if kind in (list, dict) else None for name, kind in kinds.items()}


class Member:
    """A member of a struct of fields, as forms and terminals display and parse it."""

    def __init__(self, field: FieldInfo) -> None:
        self.name = field.encode_name
        self.is_required = field.default is NODEFAULT
        kind, self.is_nullable = split_type(field.type)
        notes = getattr(kind, "__metadata__", ())
        self._limits = [one for one in notes if isinstance(one, Meta)]
        self.kind = strip_annotations(kind)
        self.is_text = self.kind is str
        #: The options of a choice.
        is_choice = isinstance(self.kind, type) and issubclass(self.kind, StrEnum)
        self.options = [one.value for one in self.kind] if is_choice else []
        #: Whether it can be empty.
        self.is_optional = self.is_nullable or get_origin(self.kind) is list
        self.finish = build_finish(kind) or (lambda value: value)
        self.description = next((one.description for one in self._limits if one.description), "")
        self.can_be_empty = not any(one.min_length for one in self._limits)
        self.max_length = next((one.max_length for one in self._limits if one.max_length), None)
        #: The label, hint and number of rows in a form; empty if no form shows the member.
        self.form: dict[str, Any] = next((one.extra for one in self._limits if one.extra), {})
        self.items = next((one for one in notes if isinstance(one, Items)), None)
        self.flag = next((one.option for one in notes if isinstance(one, Flag)), None)

    def read(self, text: str) -> Any:
        """Parse a text, for lists with one item per line. Raises ``ValueError``."""
        return self.check(
            _parse(self.kind, text) if self.items is None else self.parse_items(text.splitlines())
        )

    def parse_items(self, texts: Sequence[str]) -> Sequence[Any]:
        """Parse the items in these texts. Raises ``ValueError``."""
        return [self.items.parse(one.strip()) for one in texts if one.strip()] if self.items else ()

    def check(self, value: Any) -> Any:
        """Convert the value. Raises ``ValueError`` if it violates its constraints."""
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
        """Write the value as a text that ``read`` can parse."""
        if self.items is not None:
            return "\n".join(map(self.items.write, value or ()))
        return "" if value is None else str(value)


@cache
def list_members(struct: type[Struct]) -> tuple[Member, ...]:
    """The members of a struct, in order."""
    return tuple(map(Member, fields_of(struct)))


def differing(before: Struct, after: Struct) -> list[str]:
    """The names of the fields that differ as JSON, where 1 and true are different."""
    encode = msgspec.json.encode
    names = before.__struct_fields__
    return [one for one in names if encode(getattr(before, one)) != encode(getattr(after, one))]


def _parse(kind: Any, text: str) -> Any:
    """Parse a text as a value of this type. Raises ``ValueError``."""
    if get_origin(kind) is dict:
        return {} if parse_metadata(text) is None else msgspec.json.decode(text)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if text not in list(kind):
            raise ValueError("must be one of these")
        return kind(text)
    readers: dict[Any, Callable[[str], Any]] = {int: parse_integer, datetime: parse_time}
    return readers.get(kind, str)(text)
