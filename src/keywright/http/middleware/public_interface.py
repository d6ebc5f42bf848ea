"""What the interfaces beside v2 and v3 have in common: API keys mean nothing to them; a credential is in the
address or in the body.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, ClassVar, NamedTuple

from keywright.core.errors import KeywrightError
from keywright.http.middleware.call import Call
from keywright.http.middleware.cors import CorsNames
from keywright.http.middleware.routing import Right
from keywright.licensing.refusals import NamedDevice


class PublicAction(NamedTuple):
    """What a call does."""

    operation: str
    right: Right
    changes: bool
    answer: Callable[[Any], Awaitable[Any]]


class PublicInterface:
    """An interface that takes no parameters, and knows no device; where there are any, it overrides that."""

    malformed: ClassVar[Collection[type[KeywrightError]]] = ()
    body_limit = untrusted_body_limit = 0
    has_own_credentials = True
    has_keys_in_body = True
    states_limits = False
    cors_names = CorsNames(b"", b"", b"", is_always_sent=False)

    def parse_query(self, _query: bytes) -> dict[str, Any]:
        """Nothing: the query means nothing here."""
        return {}

    def parse_body(self, _call: Call, body: bytes) -> Any:
        """The bytes, as they were sent."""
        return body

    def prepare(self, _call: Call, action: Any) -> Any:
        """Nothing to prepare."""
        return action

    def find_device(self, _call: Call) -> NamedDevice:
        """None."""
        return NamedDevice()

    def write_methods(self, _methods: Collection[str]) -> bytes:
        """Nothing: the answer to OPTIONS has them in a header."""
        return b""
