"""Read values from forms, and collect an error message for each field that is wrong."""

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import TypeVar

from keywright.core.errors import KeywrightError, NoSuchAddress
from keywright.core.parsing import MAX_COUNT, MAX_ID, parse_integer
from keywright.http.pages.error_messages import explain, message_for
from keywright.http.pages.forms import Form
from keywright.http.pages.languages import _

Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)


class Inputs:
    """Reads the fields of a form. ``errors`` has a sentence for each field that is wrong."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.errors: dict[str, str] = {}

    def read(self, name: str, parse: Callable[[str], Value], *, is_trimmed: bool = True) -> Value | None:
        """The value of a field; None if it is empty, or if ``parse`` refuses it."""
        text = self._form.get(name, "") if is_trimmed else self._form.raw(name)
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as reason:
            self.errors[name] = explain(reason)
        except KeywrightError as error:
            self.errors[name] = message_for(error).sentence
        return None

    def require(
        self,
        name: str,
        parse: Callable[[str], Value | None],
        default: Value,
        *,
        is_trimmed: bool = True,
    ) -> Value:
        """The value of a field that must not be empty; ``default`` where there is an error."""
        value = self.read(name, parse, is_trimmed=is_trimmed)
        if value is None:
            self.errors.setdefault(name, _("This field is required."))
            return default
        return value

    def is_checked(self, name: str) -> bool:
        """Whether a checkbox is checked."""
        return name in self._form


def parse_choice(kind: type[Choice]) -> Callable[[str], Choice]:
    """A parser for the values of this enumeration."""

    def parse(text: str) -> Choice:
        try:
            return kind(text)
        except ValueError:
            raise ValueError("must be one of these") from None

    return parse


def parse_number(text: str) -> int | None:
    """A number in a query; None if the text is not one."""
    with suppress(ValueError):
        return parse_integer(text)
    return None


def parse_positive(text: str, maximum: int = MAX_COUNT) -> int:
    """A number from 1 to ``maximum``. Raises ``ValueError``."""
    number = parse_number(text)
    if not number or number > maximum:
        raise ValueError(f"must be a whole number from 1 to {maximum:,}")
    return number


def require_id(value: int) -> int:
    """A number from a path, if a database can hold it; otherwise raises ``NoSuchAddress``."""
    if not 0 <= value <= MAX_ID:
        raise NoSuchAddress
    return value
