"""What came with a request to a page: its query and its form."""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from keywright.core.errors import MalformedForm
from keywright.core.parsing import is_storable
from keywright.http.middleware.intake import BodyReader

#: The most fields of a query or a form; a page of a list has far fewer boxes to tick.
_MOST_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"


class Form(Mapping[str, str]):
    """Names and texts. ``form["x"]`` is the first value, trimmed; ``form.get("x", "")`` where it may be
    missing; ``form.all("x")`` every value, for boxes that were ticked; ``form.raw("x")`` untrimmed, for
    passwords.
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
        """Every value of this name, in the order they came."""
        return list(self._values.get(name, ()))

    def raw(self, name: str) -> str:
        """The first value exactly as it came, or the empty text."""
        return self._values.get(name, [""])[0]


def of_query(request: Request) -> Form:
    """What stands behind the ``?``. Raises ``MalformedForm``."""
    return Form(_pairs(request.scope["query_string"]))


async def of_body(request: Request, intake: BodyReader, limit: int, *, is_stranger: bool) -> Form:
    """The form in a body of at most ``limit`` bytes.

    Raises ``EncodedBody``, ``BodyTooLarge``, ``BodyIncomplete``, ``RequestTooSlow``, ``QueueFull`` or
    ``MalformedForm``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()

    def parse(body: bytes) -> list[tuple[str, str]]:
        if body and kind != _FORM:
            raise MalformedForm
        return _pairs(body)

    headers = dict(request.scope["headers"])
    return Form(await intake.take(headers, request.receive, limit, parse, is_stranger=is_stranger))


def _pairs(encoded: bytes) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(
            encoded.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise MalformedForm from None
    if not all(is_storable(name) and is_storable(value) for name, value in pairs):
        raise MalformedForm
    # Line ends as people mean them: browsers send CR LF for each.
    return [(name, value.replace("\r\n", "\n")) for name, value in pairs]
