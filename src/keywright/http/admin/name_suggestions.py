"""Names of products and customers in forms, where they stand for IDs."""

from collections.abc import Callable, Mapping

from keywright.core import parsing
from keywright.db import ReadTransaction
from keywright.http.pages.request import PageRequest
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_numbers, find_similar, has_more_names, list_names, names_of

_MAX_SUGGESTIONS = 200


def suggest_names(tx: ReadTransaction) -> Mapping[str, Mapping[int, str]]:
    """The names of products and of customers, by ID; none of a kind with too many to choose from."""
    return {"product": suggest(tx, NameKind.PRODUCT), "customer": suggest(tx, NameKind.CUSTOMER)}


def suggest(tx: ReadTransaction, kind: NameKind) -> Mapping[int, str]:
    """The names of products, or of customers, by ID; none if there are too many to choose from."""
    has_too_many = has_more_names(tx, kind, than=_MAX_SUGGESTIONS)
    return {} if has_too_many else list_names(tx, kind, after=-1, limit=_MAX_SUGGESTIONS)


def read_number(tx: ReadTransaction, kind: NameKind, text: str) -> int | None:
    """The ID of a product or customer, given by ID or name. Raises ``ValueError``."""
    if text.isascii() and text.isdigit():
        return parsing.parse_integer(text)
    numbers = find_numbers(tx, kind, text) or find_similar(tx, kind, text)
    if not numbers:
        raise ValueError("is neither an ID nor a name")
    if len(numbers) > 1:
        raise ValueError(f"is the name of {numbers[0]} and of {numbers[1]}: type the ID")
    return numbers[0]


def number_parser(request: PageRequest, kind: NameKind) -> Callable[[str], int | None]:
    """A parser for a form field with an ID or a name."""
    return lambda text: request.ask(lambda tx: read_number(tx, kind, text))


def write_number(tx: ReadTransaction, kind: NameKind, number: int | None) -> str:
    """The text that ``read_number`` reads as this ID: the name if it is unique, else the ID."""
    if number is None:
        return ""
    name = names_of(tx, kind, [number]).get(number, "")
    is_clear = bool(name) and not name.isdigit() and find_numbers(tx, kind, name) == [number]
    return name if is_clear else str(number)
