"""The query and the form of a request for a page."""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from keywright.core.errors import MalformedForm
from keywright.core.parsing import is_storable
from keywright.http.middleware.body import BodyReader

#: The most fields of a query or a form; a page of a list has far fewer checkboxes.
_MAX_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"


class Form(Mapping[str, str]):
    """Fields by name. ``form["x"]`` is the first value, trimmed; ``form.get("x", "")`` allows it to be
    missing; ``form.all("x")`` is every value, for checkboxes; ``form.raw("x")`` is untrimmed, for passwords.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name][0].strip()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def all(self, name: str) -> list[str]:
        """Every value of this name, in order."""
        return list(self._values.get(name, ()))

    def raw(self, name: str) -> str:
        """The first value untrimmed, or an empty string."""
        return self._values.get(name, [""])[0]


def parse_query(request: Request) -> Form:
    """The query of the address. Raises ``MalformedForm``."""
    return Form(_parse(request.scope["query_string"]))


async def read_form(request: Request, body_reader: BodyReader, limit: int, *, is_anonymous: bool) -> Form:
    """The form in a body of at most ``limit`` bytes.

    Raises ``EncodedBody``, ``BodyTooLarge``, ``BodyIncomplete``, ``RequestTooSlow``, ``QueueFull`` or
    ``MalformedForm``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()

    def parse(body: bytes) -> list[tuple[str, str]]:
        if body and kind != _FORM:
            raise MalformedForm
        return _parse(body)

    headers = dict(request.scope["headers"])
    return Form(await body_reader.read(headers, request.receive, limit, parse, is_trusted=not is_anonymous))


def _parse(encoded: bytes) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(
            encoded.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise MalformedForm from None
    if not all(is_storable(name) and is_storable(value) for name, value in pairs):
        raise MalformedForm
    # Browsers send CR LF for each line end.
    return [(name, value.replace("\r\n", "\n")) for name, value in pairs]
