"""What the module of a shop does: ``provisioning.shops.<shop>`` has the functions of ``ShopModule``."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from keywright.provisioning.shops.model import Connection, ShopEvent, UnreadableOrder


class ApiAccess(msgspec.Struct, frozen=True):
    """Where a shop's API is, and the headers that every call to it has."""

    url: str
    headers: Mapping[str, str] = {}


class ShopApi(Protocol):
    """Asks the API of a shop. Made by ``client.open_api``; calls have a timeout, answers a largest size."""

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        """The decoded JSON at this path below the API's address (``/v1/charges/ch_1``).

        Raises ``ShopUnavailable`` where another attempt may help (no answer, no JSON, 429, 5xx), and
        ``ShopRefused`` where not (401, 403, 404).
        """


class ShopModule(Protocol):
    """The functions of a shop's module. All are pure but those that are given an API. ``TOPICS`` are the
    events that a connection needs, for subscriptions that change, too.

    ``headers`` have lower-case names. What a body says may be anything: ``read`` raises ``UnreadableEvent``
    for what is not as documented, and nothing else.
    """

    TOPICS: frozenset[str]

    def is_ping(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether this is a call that the shop sends to try the address, without a signature: it is answered
        with 200, and nothing is stored.
        """

    def verify(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
        """Check the signature over the raw body, in constant time, before anything of it is parsed. Raises
        ``BadSignature``.
        """

    def read(self, headers: Mapping[str, str], body: bytes, connection: Connection) -> Sequence[ShopEvent]:
        """The events in a body, in the shop's order: most shops send one. Raises ``UnreadableEvent``."""

    def find_api(self, connection: Connection, api_key: str) -> ApiAccess | None:
        """Where to ask; None for a shop without an API, or a connection without the address that it needs."""

    def complete(self, event: ShopEvent, api: ShopApi) -> ShopEvent:
        """The event with what the webhook left out; only for events that have ``needs_api``. Raises
        ``ShopUnavailable``, ``ShopRefused``, ``UnreadableEvent``.
        """

    def list_orders(
        self, api: ShopApi, connection: Connection, since: datetime
    ) -> Iterator[ShopEvent | UnreadableOrder]:
        """An event for each order that changed since then, oldest first, each with the ``id`` that
        ``read`` gives the same event. Raises as ``complete``; an order that cannot be read stops no other.
        """

    def list_running(self, api: ShopApi, connection: Connection) -> Iterator[ShopEvent]:
        """An event for each subscription that runs, with all of its lines. Raises as ``complete``."""

    def list_topics(self, api: ShopApi, connection: Connection) -> frozenset[str] | None:
        """The events that the shop was asked to send to this connection; None where it cannot be asked.
        Raises as ``complete``.
        """
