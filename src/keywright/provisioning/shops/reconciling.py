"""Bring in what a shop sold and this installation never heard of."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Context
from keywright.core.errors import ConnectionFieldInvalid, UnreadableEvent
from keywright.provisioning.shops.client import open_api
from keywright.provisioning.shops.commands import StoreShopEvent
from keywright.provisioning.shops.event_rules import require_usable
from keywright.provisioning.shops.model import (
    OpenedConnection,
    Payload,
    ShopEvent,
    UnreadableOrder,
)
from keywright.provisioning.shops.modules import MODULES
from keywright.provisioning.shops.payloads import payload_of, unreadable_id
from keywright.provisioning.shops.shop_module import ApiAccess


def find_access(opened: OpenedConnection) -> ApiAccess:
    """The API of the connection's shop. Raises ``ConnectionFieldInvalid`` where there is none to ask."""
    connection = opened.connection
    if not opened.api_key:
        raise ConnectionFieldInvalid("api_key", "is missing: the shop's API cannot be asked without it")
    access = MODULES[connection.shop].find_api(connection, opened.api_key)
    if access is None:
        raise ConnectionFieldInvalid("url", "is missing, or the shop has no API")
    return access


def list_sold(opened: OpenedConnection, since: datetime, context: Context) -> Iterator[StoreShopEvent]:
    """A command for each order or event that the shop has changed since then: those that are known change
    nothing. One that cannot be read has no ``event``: it waits for a person. Raises
    ``ConnectionFieldInvalid``, ``ShopUnavailable``, ``ShopRefused``, ``UnreadableEvent``.
    """
    connection = opened.connection
    with open_api(find_access(opened)) as api:
        for found in MODULES[connection.shop].list_orders(api, connection, since):
            yield StoreShopEvent(
                context=context,
                connection_id=connection.id,
                next_attempt_at=context.now,
                **_what_is_kept(found),
            )


def _what_is_kept(found: ShopEvent | UnreadableOrder) -> dict[str, Any]:
    """The fields of the command that say what an order is."""
    if not isinstance(found, UnreadableOrder):
        try:
            event = require_usable(found)
            return {"event_id": event.id, "event": event, "payload": payload_of(event)}
        except UnreadableEvent as problem:
            found = UnreadableOrder(msgspec.json.encode(found), problem.reason)
    payload = Payload({}, found.body)
    return {"event_id": unreadable_id(found.body), "event": None, "payload": payload, "detail": found.reason}
