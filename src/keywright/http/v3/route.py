"""A route of v3: a method and path, with everything that the server and the documents know about it."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from keywright.core.errors.problems import PROBLEMS
from keywright.http.answer import Answer
from keywright.http.middleware import routing
from keywright.http.middleware.routing import Right
from keywright.http.v3.decoding import StructDecoder

_PARAMETER = re.compile(r"\{(\w+)(:text)?\}")
_NO_EXAMPLE: Mapping[str, Any] = MappingProxyType({})
#: The safe methods (RFC 9110 §9.2.1).
_READING = ("GET", "HEAD")
JSON_TYPE, JWT_TYPE, TEXT_TYPE = "application/json", "application/jwt", "text/plain"


class Route:
    """``path`` is relative to the root of v3; ``{license_id}`` in it is an integer, ``{lease_id:text}`` a
    string.

    ``handler`` receives the call, then the body if it has a parameter ``body``, then the query if it has a
    parameter ``query``; their types are taken from its annotations unless given here. ``operation`` defaults
    to the name of the handler. The body is optional without ``needs_body``. ``text``, by default the
    handler's docstring, is the description in the documents: a summary line, then paragraphs in Markdown.
    ``gives`` is the type of the response body (None: no body) sent with ``status``; ``or_gives`` is an
    alternative type; ``also`` lists other success statuses. ``refusals`` are problem codes of this route, in
    addition to those of every call. ``example`` is the body or query of an example call; ``example_path`` has
    its path parameters. ``is_read`` marks a POST that changes nothing; ``produces`` lists the media types of
    the response. A route with ``needs_all_products`` does not exist for an API key of one product. A route
    that ``streams`` receives the body's bytes itself.
    """

    def __init__(
        self,
        method: str,
        path: str,
        right: Right,
        handler: Callable[..., Awaitable[Answer]],
        *,
        operation: str = "",
        body: type[Struct] | None = None,
        needs_body: bool = True,
        query: type[Struct] | None = None,
        gives: Any = None,
        or_gives: Any = None,
        status: int = 200,
        also: Sequence[int] = (),
        refusals: Sequence[str] = (),
        example: Mapping[str, Any] = _NO_EXAMPLE,
        example_path: Mapping[str, Any] = _NO_EXAMPLE,
        is_read: bool = False,
        produces: tuple[str, ...] = (JSON_TYPE,),
        needs_all_products: bool = False,
        streams: bool = False,
        text: str = "",
    ) -> None:
        self.method, self.path, self.right, self.handler = method, path, right, handler
        self.operation = operation or handler.__name__
        body = body or handler.__annotations__.get("body")
        query = query or handler.__annotations__.get("query")
        self.body = None if body is None else StructDecoder(body)
        self.needs_body = needs_body
        self.query = None if query is None else StructDecoder(query)
        self.gives, self.or_gives, self.status, self.also = gives, or_gives, status, tuple(also)
        self.refusals = tuple(refusals)
        self.example, self.example_path = example, example_path
        self.changes = method not in _READING and not is_read
        self.produces = produces
        self.can_be_signed = JWT_TYPE in produces
        self.needs_all_products = needs_all_products
        self.streams = streams
        self.text = text or inspect.getdoc(handler) or ""
        self.is_client = right is Right.CORE
        #: Whether the body of this client call contains a license key.
        self.has_key = self.is_client and body is not None and "license_key" in body.__struct_fields__
        self.answer = self._bind()
        unknown = set(refusals) - set(PROBLEMS)
        if unknown:
            raise ValueError(f"{self.operation}: no such problem codes: {unknown}")

    def _bind(self) -> Callable[[Any], Awaitable[Answer]]:
        """The handler in the form that the middlewares call."""
        handler = self.handler
        if self.body is not None and self.query is not None:
            return lambda call: handler(call, call.body, call.asked)
        if self.body is not None:
            return lambda call: handler(call, call.body)
        if self.query is not None:
            return lambda call: handler(call, call.asked)
        return handler

    @property
    def public_path(self) -> str:
        """The path as documents show it: without the types of its parameters."""
        return self.path.replace(":text}", "}")

    @property
    def words(self) -> tuple[str | None, ...]:
        """The segments of the path; None stands for a parameter."""
        words = self.path.strip("/").split("/")
        return tuple(None if one.startswith("{") else one for one in words if one)

    @property
    def parameters(self) -> list[tuple[str, bool]]:
        """The names of the path parameters, each with whether it is a string."""
        return [(name, bool(is_text)) for name, is_text in _PARAMETER.findall(self.path)]


class Address(routing.Address[Route]):
    """The routes that share a path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        super().__init__(routes[0].words, {one.method: one for one in routes})
        #: The names of the path parameters, each with whether it is a string.
        self.parameters = routes[0].parameters
