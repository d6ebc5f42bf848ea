"""One call of the v2 interface: what was asked, by whom, and how it is answered."""

import hashlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import Receive, Scope

from keywright.core import errors as e
from keywright.core.command import Command, IdempotentCall, Origin, Query
from keywright.core.parsing import MAX_USER_AGENT_LENGTH, IpAddresses, keep_address
from keywright.engine.desk import Desk
from keywright.engine.idempotency import IdempotencyRecord
from keywright.http.middleware.body import BodyReader
from keywright.http.server.protocol import is_gone
from keywright.http.v2 import messages, parameters, wire
from keywright.identity.model import Caller, Permissions
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses.commands import LicenseCommand

if TYPE_CHECKING:
    from keywright.http.middleware.call_limits import RateLimitCharge

REPLAYED: messages.Headers = ((b"idempotency-replayed", b"true"),)
_MOST_VISIBLE = 255
#: Where a POST says that it means another method, and which.
_METHOD_HEADER, _METHOD = b"x-http-method-override", "_method"
_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class Answer(msgspec.Struct):
    """What goes out: a status and a body, whole or piece by piece, and what the log says of it."""

    status: int
    body: bytes
    headers: messages.Headers = ()
    pieces: AsyncGenerator[bytes, None] | None = None
    license_id: int | None = None


class Call:
    """A request to the v2 interface, as far as it has been understood."""

    __slots__ = (
        "_now",
        "address",
        "body_limit",
        "caller",
        "desk",
        "has_body",
        "headers",
        "intake",
        "ip_addresses",
        "is_begun",
        "is_change",
        "is_forwarded_blindly",
        "is_replayed",
        "key",
        "namespace",
        "operation",
        "query",
        "receive",
        "sayings",
        "scope",
        "sent",
        "spending",
    )

    def __init__(self, scope: Scope, receive: Receive, headers: dict[bytes, bytes]) -> None:
        self.scope = scope
        self.receive = receive
        self.headers = headers
        #: Whether there is a body to be read.
        self.has_body = parameters.has_body(scope["method"], headers)
        self.query: parameters.Parameters = {}
        #: The parameters in the body.
        self.sent: parameters.Parameters = {}
        self._now: datetime | None = None
        self.operation = ""
        self.sayings = messages.NO_SAYINGS
        self.key = ""
        self.namespace = ""
        self.address = ""
        #: How much of the address is kept.
        self.ip_addresses: IpAddresses = "full"
        #: Whether a peer that is not trusted says that it calls for another.
        self.is_forwarded_blindly = False
        #: Whether the answer is that of an earlier call.
        self.is_replayed = False
        self.caller: Caller | None = None
        self.desk: Desk
        self.body_limit = 0
        self.intake: BodyReader
        self.spending: RateLimitCharge | None = None
        #: Whether the call asks for a change, and whether the desk is deciding it, or has.
        self.is_change = False
        self.is_begun = False

    @property
    def now(self) -> datetime:
        """When the call came, or was first asked; the clock is read once."""
        if self._now is None:
            self._now = datetime.now(UTC).replace(microsecond=0)
        return self._now

    @property
    def is_gone(self) -> bool:
        """Whether the caller has hung up."""
        return is_gone(self.scope)

    @property
    def actor(self) -> str:
        """Who calls, as events and the log say it."""
        return "program" if self.caller is None else f"api_key:{self.caller.api_key_id}"

    @property
    def is_stranger(self) -> bool:
        """Whether the caller has no API key that may read or write."""
        return self.caller is None or self.caller.permissions is Permissions.CLIENT

    @property
    def origin(self) -> Origin:
        """Where the call comes from, as events and activations remember it."""
        agent = self.headers.get(b"user-agent", b"").decode("utf-8", "replace")
        address = keep_address(self.address, self.ip_addresses)
        return Origin(self.actor, address, agent[:MAX_USER_AGENT_LENGTH])

    @property
    def by(self) -> int | None:
        """The number of the API key that calls."""
        return None if self.caller is None else self.caller.api_key_id

    @property
    def only_product_id(self) -> int | None:
        """The one product whose licenses exist for the caller; None is all."""
        return None if self.caller is None else self.caller.product_id

    async def read_body(self) -> None:
        """Read the parameters in the body."""
        parse = partial(parameters.parse_body, self.headers.get(b"content-type", b""))
        self.sent = await self.intake.take(
            self.headers, self.receive, self.body_limit, parse, is_stranger=self.is_stranger
        )

    @property
    def parameters(self) -> parameters.Parameters:
        """The parameters of query and body; the body wins."""
        return self.query | self.sent if self.sent else self.query

    def take_method(self) -> str:
        """The method that is meant: a POST may name another one, in a header, in the query or in the body, as
        WordPress has it. Raises ``InvalidParameters``.
        """
        method: str = self.scope["method"]
        if method != "POST":
            return method
        said = [value.decode("latin-1") for name, value in self.scope["headers"] if name == _METHOD_HEADER]
        said += [given.pop(_METHOD) for given in (self.query, self.sent) if _METHOD in given]
        methods = {one.upper() if isinstance(one, str) else "" for one in said} or {method}
        if len(methods) > 1 or not methods <= _METHODS:
            raise e.InvalidParameters({_METHOD: "must be POST, PUT, PATCH or DELETE"})
        return methods.pop()

    async def change(self, command: Command, write: Callable[[Any], bytes]) -> Answer:
        """Have the command decided, and answer with what ``write`` makes of its outcome."""
        token = self.headers.get(b"idempotency-key")
        if token is not None:
            retry = self._retry(command, token, write)
            command = msgspec.structs.replace(command, idempotency=retry)
        self.is_change = True
        outcome = await self.desk.execute(command, self)
        if type(outcome) is IdempotencyRecord:
            self.is_replayed = True
            return Answer(outcome.status, outcome.body, REPLAYED)
        return Answer(200, write(outcome), license_id=_license_id(outcome))

    async def ask(self, query: Query, write: Callable[[Any], bytes]) -> Answer:
        """Have the question answered, and answer with what ``write`` makes of it."""
        outcome = await self.desk.query(query, self)
        return Answer(200, write(outcome), license_id=_license_id(outcome))

    def _retry(self, command: Command, token: bytes, write: Callable[[Any], bytes]) -> IdempotentCall:
        """An idempotency key belongs to its caller, and to the license where the call is about one."""
        if not 1 <= len(token) <= _MOST_VISIBLE or not all(0x21 <= one <= 0x7E for one in token):
            reason = f"must be 1 to {_MOST_VISIBLE} visible ASCII characters"
            raise e.InvalidParameters({"Idempotency-Key": reason})
        # In the address; a new license's key is a parameter.
        key = self.key if isinstance(command, LicenseCommand) else ""
        scope = hashlib.sha256(wire.encode([self.by, key, token.decode()])).digest()
        # Others' refusals would fill the disk.
        is_trusted = self.caller is not None and self.caller.permissions is Permissions.READ_WRITE
        return IdempotentCall(scope, _digest(command), self._answer_writer(write), keeps_refusals=is_trusted)

    def _answer_writer(self, write: Callable[[Any], bytes]) -> Callable[[Any], tuple[int, bytes]]:
        def written(outcome: Any) -> tuple[int, bytes]:
            if isinstance(outcome, e.KeywrightError):
                return messages.write(outcome, self.sayings)
            return 200, write(outcome)

        return written


def _digest(command: Command) -> bytes:
    """What the command asks for, whoever asks, whenever and however often."""
    asked = msgspec.structs.asdict(command)
    for name in Command.__struct_fields__:
        del asked[name]
    return hashlib.sha256(_encode_sorted([type(command).__name__, asked])).digest()


def _license_id(outcome: Any) -> int | None:
    return outcome.license.id if type(outcome) is LicenseRecord else None
