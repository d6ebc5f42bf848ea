"""A call of v3, as its handlers see it."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.types import Receive, Scope

from keywright.config import Settings
from keywright.core.command import Command, IdempotentCall, Query
from keywright.core.errors import ChangedMeanwhile, KeywrightError
from keywright.engine.idempotency import IdempotencyRecord
from keywright.http.answer import Answer
from keywright.http.middleware.call import REPLAYED, Interface
from keywright.http.middleware.call import Call as AnyCall
from keywright.http.middleware.idempotency import owner_of
from keywright.http.server.sockets import base_of_links
from keywright.http.signatures import Signatures
from keywright.http.v3 import answers
from keywright.http.v3.decoding import parse_idempotency_key
from keywright.http.v3.route import JWT_TYPE, Address, Route
from keywright.http.v3.waiting import Waiters
from keywright.identity.model import Permissions

_encode = msgspec.json.Encoder(order="sorted").encode
#: The methods that support idempotency keys.
_KEYED_METHODS = ("POST", "PATCH")


class Call(AnyCall):
    """A request to v3. ``path`` has the path parameters; ``body`` and ``asked`` are the decoded body and
    query, which handlers receive as arguments.
    """

    __slots__ = (
        "asked",
        "body",
        "idempotency_subject",
        "is_signed",
        "path",
        "raw_body",
        "root",
        "settings",
        "signatures",
        "waiters",
    )

    def __init__(
        self,
        interface: Interface,
        scope: Scope,
        receive: Receive,
        address: Address | None,
        path: dict[str, Any],
        *,
        root: str,
        signatures: Signatures,
        waiters: Waiters,
        settings: Settings,
    ) -> None:
        """``root`` is the path of the interface; ``path`` has the path parameters of this call."""
        super().__init__(interface, scope, receive, address)
        if isinstance(self.action, Route) and self.action.streams:
            # The handler receives the body itself.
            self.has_body = False
        self.path = path
        self.root = root
        self.signatures = signatures
        self.waiters = waiters
        self.settings = settings
        #: Whether the answer is to be signed.
        self.is_signed = False
        self.body: Any = None
        #: The body as sent, with the transfer coding removed.
        self.raw_body = b""
        self.asked: Any = None
        #: What an idempotency key is scoped to besides the route; None is the caller.
        self.idempotency_subject: list[Any] | None = None

    async def change(self, command: Command, write: Callable[[Any], Answer]) -> Answer:  # type: ignore[override]
        """Execute the command; ``write`` builds the answer from its outcome.

        With an idempotency key, ``write`` is also called in another thread, so it must be pure.
        """
        header = self.headers.get(b"idempotency-key")
        if header is not None and self.method in _KEYED_METHODS:
            call = self._identify(parse_idempotency_key(header), write)
            command = msgspec.structs.replace(command, idempotency=call)
        self.is_change = True
        outcome = await self.desk.execute(command, self)
        if type(outcome) is IdempotencyRecord:
            self.is_replayed = True
            answer = answers.read(outcome.status, outcome.body)
            answer.headers += REPLAYED
            return answer
        answer = write(outcome)
        self.is_unchanged = answer.is_unchanged
        return answer

    def named(self, *names: str) -> dict[str, Any]:
        """These path parameters, and the product that the caller is restricted to: fields of queries and,
        together with ``context``, of commands.
        """
        return {name: self.path[name] for name in names} | {"only_product_id": self.only_product_id}

    def about_license(self) -> dict[str, Any]:
        """The fields that every command about the license in the path has."""
        return {
            "context": self.context,
            "license": self.path["license_id"],
            "only_product_id": self.only_product_id,
        }

    def base_of_links(self) -> str:
        """The base URL for links to this server. Raises ``PublicUrlMissing``."""
        host = self.headers.get(b"host", b"").decode("latin-1")
        return base_of_links(self.settings.public_url, self.scope["scheme"], host)

    async def ask(self, query: Query, write: Callable[[Any], Answer]) -> Answer:  # type: ignore[override]
        """Execute the query; ``write`` builds the answer from its outcome."""
        return write(await self.desk.query(query, self))

    def precondition(self, etag_of: Callable[[Any], bytes]) -> Callable[[Any], None] | None:
        """The ``Command.precondition`` for ``If-Match``: it raises ``ChangedMeanwhile`` unless the current
        ``ETag`` is in that header. None without the header.
        """
        header = self.headers.get(b"if-match")
        if header is None or header.strip() == b"*":
            return None
        # Weak ETags never match (RFC 9110 §13.1.1).
        named = {one.strip() for one in header.split(b",")}

        def require_match(current: Any) -> None:
            if etag_of(current) not in named:
                raise ChangedMeanwhile

        return require_match

    def _identify(self, key: str, write: Callable[[Any], Answer]) -> IdempotentCall:
        """The call as identified by this idempotency key."""
        caller, route = self.caller, self.action
        assert isinstance(route, Route)  # noqa: S101
        subject: list[Any]
        if self.idempotency_subject is not None:
            subject = self.idempotency_subject
        elif self.key:
            subject = ["license", self.key]
        else:
            subject = ["caller", None if caller is None else caller.api_key_id]
        if subject[0] != "caller" and caller is not None and (self.has_secret_key or self.only_product_id):
            # Callers with other rights must not be given this answer.
            subject = [*subject, self.has_secret_key, self.only_product_id]
        scope = hashlib.sha256(_encode(["v3", route.operation, subject, key])).digest()
        asked = [self.path, self.body, self.asked]
        digest = hashlib.sha256(_encode([*asked, JWT_TYPE] if self.is_signed else asked)).digest()
        # Stored refusals of other callers could fill the disk.
        keeps_refusals = caller is not None and caller.permissions is Permissions.READ_WRITE

        def write_answer(outcome: Any) -> tuple[int, bytes] | None:
            is_error = isinstance(outcome, KeywrightError)
            answer = self.interface.write_error(outcome, self) if is_error else write(outcome)
            return None if answer.is_unchanged else (answer.status, answers.write(answer))

        owner = owner_of(self.key, caller)
        return IdempotentCall(scope, digest, write_answer, keeps_refusals=keeps_refusals, owner=owner)
