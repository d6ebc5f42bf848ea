"""What people type into forms, as values; and what is wrong with it, to be said beside the field."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from keywright.core.errors import KeywrightError, NoSuchAddress
from keywright.core.parsing import MAX_ID
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.forms import Form

Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)

_MISSING = "This is needed."


class Inputs:
    """Reads a form. ``errors`` holds a sentence for each field that cannot be used."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.errors: dict[str, str] = {}

    def read(self, name: str, parse: Callable[[str], Value], *, is_trimmed: bool = True) -> Value | None:
        """The field's value; None for an empty one, and for one that ``parse`` refuses."""
        text = self._form.get(name, "") if is_trimmed else self._form.raw(name)
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as reason:
            self.errors[name] = f"It {reason}."
        except KeywrightError as error:
            self.errors[name] = message_for(error).sentence
        return None

    def need(
        self,
        name: str,
        parse: Callable[[str], Value | None],
        instead: Value,
        *,
        is_trimmed: bool = True,
    ) -> Value:
        """The same for a field that must not be empty; ``instead`` where there is an error."""
        value = self.read(name, parse, is_trimmed=is_trimmed)
        if value is None:
            self.errors.setdefault(name, _MISSING)
            return instead
        return value

    def ticked(self, name: str) -> bool:
        """Whether a box was ticked."""
        return name in self._form


def one_of(kind: type[Choice]) -> Callable[[str], Choice]:
    """Reads the value of one of these."""

    def parse(text: str) -> Choice:
        try:
            return kind(text)
        except ValueError:
            raise ValueError("must be one of these") from None

    return parse


def number_of(value: int) -> int:
    """A number from an address that a database can hold. Raises ``NoSuchAddress`` for any other."""
    if not 0 <= value <= MAX_ID:
        raise NoSuchAddress
    return value
