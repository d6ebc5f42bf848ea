"""The base of the interfaces besides v2 and v3. They ignore API keys: credentials are in the path or body."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, ClassVar, NamedTuple

from keywright.core.errors import KeywrightError
from keywright.http.middleware.call import Call
from keywright.http.middleware.cors import CorsNames
from keywright.http.middleware.routing import Right
from keywright.licensing.refusals import NamedDevice


class PublicAction(NamedTuple):
    """An action of a public interface."""

    operation: str
    right: Right
    changes: bool
    answer: Callable[[Any], Awaitable[Any]]


class PublicInterface:
    """An interface without parameters and devices; subclasses that have any override these methods."""

    malformed: ClassVar[Collection[type[KeywrightError]]] = ()
    body_limit = untrusted_body_limit = 0
    has_own_credentials = True
    has_keys_in_body = True
    states_limits = False
    cors_names = CorsNames(b"", b"", b"", is_always_sent=False)

    def parse_query(self, _query: bytes) -> dict[str, Any]:
        """An empty dict: the query has no meaning here."""
        return {}

    def parse_body(self, _call: Call, body: bytes) -> Any:
        """The bytes of the body, unchanged."""
        return body

    def prepare(self, _call: Call, action: Any) -> Any:
        """The action: there is nothing to prepare."""
        return action

    def find_device(self, _call: Call) -> NamedDevice:
        """No device."""
        return NamedDevice()

    def write_methods(self, _methods: Collection[str]) -> bytes:
        """An empty body: ``Allow`` lists the methods."""
        return b""
