"""A call of an interface: what the middlewares learn about it, and its access to the desk."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import lru_cache
from time import time
from typing import Any, Protocol

from starlette.types import Receive, Scope

from keywright.core.command import Command, Context, Origin, Query
from keywright.core.errors import KeywrightError, RateLimited
from keywright.core.parsing import MAX_USER_AGENT_LENGTH
from keywright.engine.desk import Desk
from keywright.engine.idempotency import IdempotencyRecord
from keywright.http.answer import Answer, Headers
from keywright.http.middleware.attempts import Attempt
from keywright.http.middleware.cors import CorsNames
from keywright.http.middleware.idempotency import add_idempotency_key
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.middleware.routing import Action, Address
from keywright.http.server.protocol import TRANSPORT, has_body
from keywright.identity.model import Caller, Permissions
from keywright.licensing.activations.model import LicenseRecord, Validate
from keywright.licensing.refusals import NamedDevice

REPLAYED: Headers = ((b"idempotency-replayed", b"true"),)

#: A limit, and the source from whose bucket a token was taken.
Token = tuple[RateLimit, str | bytes]


class Interface(Protocol):
    """An interface as the middlewares use it: its addresses, parameters and answers."""

    @property
    def desk(self) -> Desk:
        """The desk that executes its calls."""

    @property
    def body_limit(self) -> int:
        """The maximum size of a body, in bytes."""

    @property
    def untrusted_body_limit(self) -> int:
        """The maximum size of a body from a caller without an API key that may read or write, in bytes."""

    @property
    def has_own_credentials(self) -> bool:
        """Whether API keys are accepted only in headers, including as bearer tokens, and unknown addresses
        answer 404 without credentials.
        """

    @property
    def has_keys_in_body(self) -> bool:
        """Whether client calls send the license key in the body."""

    @property
    def states_limits(self) -> bool:
        """Whether answers have the headers ``RateLimit`` and ``RateLimit-Policy``."""

    @property
    def cors_names(self) -> CorsNames:
        """The headers that browser programs may send and read."""

    @property
    def malformed(self) -> Collection[type[KeywrightError]]:
        """The errors that count as malformed requests."""

    def open_call(self, scope: Scope, receive: Receive) -> "Call | None":
        """The call for a request; None for a request to something else."""

    def parse_query(self, query: bytes) -> dict[str, Any]:
        """The parameters of a query."""

    def parse_body(self, call: "Call", body: bytes) -> Any:
        """The parameters in a body; they become ``sent``, which ``prepare`` reads."""

    def prepare(self, call: "Call", action: Any) -> Action:
        """Check the parameters of a call whose body was read, and return the action to execute."""

    def find_device(self, call: "Call") -> NamedDevice:
        """The device that a program's call names, if it can be determined."""

    def write_methods(self, methods: Collection[str]) -> bytes:
        """The body of the answer to OPTIONS."""

    def write_error(self, error: KeywrightError, call: "Call") -> Answer:
        """The answer for an error."""


class Charge:
    """The tokens that a call has taken. Each is given back unless the event that it is for has happened."""

    __slots__ = ("attempt", "for_kept_answer", "for_malformed", "for_success", "for_unknown")

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self.for_kept_answer: tuple[Token, ...] = ()
        self.for_malformed: tuple[Token, ...] = ()
        self.for_success: tuple[Token, ...] = ()
        self.for_unknown: tuple[Token, ...] = ()


class Call:
    """A request to an interface, with everything that was read from it so far."""

    __slots__ = (
        "_now",
        "_transport",
        "action",
        "actor",
        "address",
        "by",
        "caller",
        "charge",
        "client_address",
        "desk",
        "error_code",
        "finding",
        "has_body",
        "has_secret_key",
        "headers",
        "interface",
        "is_begun",
        "is_behind_unknown_proxy",
        "is_change",
        "is_key_text",
        "is_key_unknown",
        "is_replayed",
        "is_unchanged",
        "kept_address",
        "key",
        "limited",
        "method",
        "only_product_id",
        "operation",
        "parameters",
        "query",
        "receive",
        "scope",
        "sent",
    )

    def __init__(
        self,
        interface: Interface,
        scope: Scope,
        receive: Receive,
        address: Address[Any] | None,
        key: str = "",
    ) -> None:
        """``address`` is None if nothing is there; ``key`` is the license key or ID in the path."""
        self.interface = interface
        self.desk = interface.desk
        self.scope = scope
        self.receive = receive
        self.address = address
        self.key = key
        #: Whether the key in the path is valid text; otherwise no license has it.
        self.is_key_text = True
        #: The finding of a successful answer that forbids the named device to use the license, if any.
        self.finding: str | None = None
        #: Whether a successful answer reports that no license has the key, or that the device has had no
        #: trial.
        self.is_key_unknown = False
        self.method: str = scope["method"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.has_body = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        if self.has_body:
            self.has_body = has_body(self.method, self.headers)
        #: The action for the request's method, for the access log and the messages of errors.
        self.action: Action | None = None if address is None else address.actions.get(self.method)
        #: The code of the error that answers the call; None for a success.
        self.error_code: str | None = None
        self.operation = "" if self.action is None else self.action.operation
        #: The parameters in the query, in the body, and combined: the body takes precedence.
        self.query: dict[str, Any] = {}
        self.sent: Any = {}
        self.parameters: dict[str, Any] = {}
        self.client_address = ""
        #: The part of the client's address that is stored in events and activations.
        self.kept_address = ""
        #: Whether an untrusted peer claims to forward a call of another client.
        self.is_behind_unknown_proxy = False
        self.caller: Caller | None = None
        #: The caller's name in events and in the log.
        self.actor = "program"
        #: The ID of the calling API key.
        self.by: int | None = None
        #: The only product whose licenses the caller can see; None is all.
        self.only_product_id: int | None = None
        #: Whether the caller has an API key that may read or write, and not just a client key, which shipped
        #: programs contain.
        self.has_secret_key = False
        self.charge: Charge | None = None
        #: Set if the call may create nothing new; it can still get an existing license.
        self.limited: RateLimited | None = None
        #: Whether the call is a change, and whether the desk has begun to execute it.
        self.is_change = False
        self.is_begun = False
        #: Whether the answer is the stored one of an earlier call.
        self.is_replayed = False
        #: Whether nothing had to be changed: such a call does not count towards limits on changes.
        self.is_unchanged = False
        self._now: datetime | None = None
        self._transport = scope.get(TRANSPORT)

    @property
    def now(self) -> datetime:
        """The time of the call, in whole seconds; the clock is read only once."""
        if self._now is None:
            self._now = _to_moment(int(time()))
        return self._now

    @property
    def is_gone(self) -> bool:
        """Whether the caller has disconnected."""
        return self._transport is not None and self._transport.is_closing()

    @property
    def context(self) -> Context:
        """When, from where and by whom the call was made, in the form that events and activations store."""
        agent = self.headers.get(b"user-agent", b"").decode("utf-8", "replace")
        origin = Origin(self.actor, self.kept_address, agent[:MAX_USER_AGENT_LENGTH])
        return Context(self.now, origin, self.by)

    def set_caller(self, caller: Caller) -> None:
        """Set the authenticated caller."""
        self.caller = caller
        self.actor = f"api_key:{caller.api_key_id}"
        self.by = caller.api_key_id
        self.only_product_id = caller.product_id
        self.has_secret_key = caller.permissions is not Permissions.CLIENT

    def list_headers(self, name: bytes) -> list[bytes]:
        """The values of every header with this name, in order."""
        if name not in self.headers:
            return []
        return [value for one, value in self.scope["headers"] if one == name]

    async def change(self, command: Command, write: Callable[[Any], bytes]) -> Answer:
        """Execute the command; ``write`` builds the body of the answer from its outcome."""
        header = self.headers.get(b"idempotency-key")
        if header is not None:
            command = add_idempotency_key(command, header, self.caller, self.key, self._answer_writer(write))
        self.is_change = True
        outcome = await self.desk.execute(command, self)
        if type(outcome) is IdempotencyRecord:
            self.is_replayed = True
            return Answer(outcome.status, outcome.body, REPLAYED)
        answer = Answer(200, write(outcome), license_id=_license_id(outcome))
        if answer.license_id is not None and len(outcome.activations) == 1:
            answer.activation_id = outcome.activations[0].id
        return answer

    async def ask(self, query: Query, write: Callable[[Any], bytes]) -> Answer:
        """Execute the query; ``write`` builds the body of the answer from its outcome."""
        outcome = await self.desk.query(query, self)
        answer = Answer(200, write(outcome), license_id=_license_id(outcome))
        if type(query) is Validate:
            answer.product_id = outcome.license.product_id
            if query.token is not None:
                answer.activation_id = outcome.activations[0].id
        return answer

    def _answer_writer(self, write: Callable[[Any], bytes]) -> Callable[[Any], tuple[int, bytes]]:
        def write_answer(outcome: Any) -> tuple[int, bytes]:
            if isinstance(outcome, KeywrightError):
                answer = self.interface.write_error(outcome, self)
                return answer.status, answer.body
            return 200, write(outcome)

        return write_answer


@lru_cache(maxsize=4)
def _to_moment(seconds: int) -> datetime:
    """The time as a datetime; all calls within a second share the object."""
    return datetime.fromtimestamp(seconds, UTC)


def _license_id(outcome: Any) -> int | None:
    return outcome.license.id if type(outcome) is LicenseRecord else None
