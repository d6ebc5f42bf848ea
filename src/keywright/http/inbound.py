"""Receive webhooks from shops.

The signature is the credential. An accepted event is stored before the shop gets an answer, and processed
afterwards.
"""

from time import monotonic

import msgspec
from starlette.types import Receive, Scope

from keywright.background.shop_runner import ShopRunner
from keywright.core import errors as e
from keywright.core.errors.problems import PROBLEMS
from keywright.core.parsing import MAX_ID
from keywright.core.standard_webhooks import new_secret
from keywright.engine.desk import Desk
from keywright.http.answer import Answer, error_headers
from keywright.http.middleware.call import Call
from keywright.http.middleware.public_interface import PublicAction, PublicInterface
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.middleware.routing import Address, Right
from keywright.provisioning.shops.commands import OpenConnection, StoreShopEvent
from keywright.provisioning.shops.model import OpenedConnection, Shop
from keywright.provisioning.shops.payloads import MODULES, find_events, keep_payload
from keywright.provisioning.shops.store import EVENTS

ROOT = b"/in/"
#: The largest event, in bytes; an order with a hundred lines has about 200 kB.
MAX_BODY = 512 * 1024
#: How many validly signed events a connection may send per minute, and in a burst.
_PER_MINUTE, _BURST = 3_000, 6_000
_RECEIVED = b'{"received":true}'
_SHOPS = {shop.value: shop for shop in Shop}


class Inbound(PublicInterface):
    """The interface for webhooks: nothing is parsed before its signature is verified."""

    malformed = frozenset({e.BadSignature, e.BodyTooLarge, e.BodyIncomplete})
    body_limit = untrusted_body_limit = MAX_BODY

    def __init__(self, desk: Desk, runner: ShopRunner) -> None:
        self.desk = desk
        self._runner = runner
        self._limit = RateLimit(_PER_MINUTE, burst=_BURST)
        self._decoy = new_secret()
        action = PublicAction("receive_event", Right.NONE, changes=True, answer=self._receive)
        self._address = Address(("in", None, None), {"POST": action})

    def open_call(self, scope: Scope, receive: Receive) -> Call | None:
        """The call for a request; None for a request to something else."""
        path: bytes = scope["raw_path"]
        if not path.startswith(ROOT):
            return None
        address = None if _parse_path(path) is None else self._address
        return Call(self, scope, receive, address)

    def write_error(self, error: e.KeywrightError, _call: Call | None = None) -> Answer:
        """The answer with the error's code and a sentence, for the shop's delivery log."""
        problem = PROBLEMS[error.problem]
        detail = error.fill(error.problem_detail or problem.detail or error.sentence)
        body = msgspec.json.encode({"code": error.problem, "detail": detail})
        return Answer(problem.status, body, error_headers(error))

    async def _receive(self, call: Call) -> Answer:
        """Verify the signature, store the event, and queue it for processing."""
        path = _parse_path(call.scope["raw_path"])
        assert path is not None  # noqa: S101
        shop, connection_id = path
        opened: OpenedConnection | None = await self.desk.query(
            OpenConnection(connection_id=connection_id, shop=shop), call
        )
        body = call.sent if isinstance(call.sent, bytes) else b""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in call.headers.items()}
        module = MODULES[shop]
        if module.is_ping(headers, body):
            return Answer(200, _RECEIVED)
        # For an unknown connection, verify with a decoy secret: the answer and its timing match those of a
        # wrong signature.
        module.verify(headers, body, self._decoy if opened is None else opened.secret, call.now)
        assert opened is not None  # noqa: S101
        self._limit.take(monotonic(), f"{connection_id}")
        payload = keep_payload(headers, body)
        call.actor = f"connection:{connection_id}"
        for event_id, event, problem in find_events(payload, opened.connection):
            command = StoreShopEvent(
                context=call.context,
                connection_id=connection_id,
                event_id=event_id,
                event=event,
                payload=payload,
                next_attempt_at=call.now + EVENTS.holds_for,
                detail=problem,
            )
            row_id: int | None = await self.desk.execute(command, call)
            if row_id is not None and event is not None:
                self._runner.add(row_id, connection_id, event)
        return Answer(200, _RECEIVED)


def _parse_path(path: bytes) -> tuple[Shop, int] | None:
    """The shop and the connection's ID; None for any other path."""
    words = path.decode("latin-1").split("/")
    if len(words) != 4 or words[2] not in _SHOPS:
        return None
    number = words[3]
    is_number = number.isascii() and number.isdigit() and len(number) < 20 and 1 <= int(number) <= MAX_ID
    return (_SHOPS[words[2]], int(number)) if is_number else None
