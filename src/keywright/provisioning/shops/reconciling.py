"""Bring in what a shop sold and this installation never heard of."""

from collections.abc import Iterator
from datetime import datetime

from keywright.core.command import Context
from keywright.core.errors import ConnectionFieldInvalid
from keywright.provisioning.shops.client import open_api
from keywright.provisioning.shops.commands import StoreShopEvent
from keywright.provisioning.shops.model import ApiAccess, OpenedConnection
from keywright.provisioning.shops.modules import MODULES
from keywright.provisioning.shops.payloads import payload_of
from keywright.provisioning.shops.rules import require_usable


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
    nothing. Raises ``ConnectionFieldInvalid``, ``ShopUnavailable``, ``ShopRefused``, ``UnreadableEvent``.
    """
    connection = opened.connection
    with open_api(find_access(opened)) as api:
        for found in MODULES[connection.shop].list_orders(api, connection, since):
            event = require_usable(found)
            yield StoreShopEvent(
                context=context,
                connection_id=connection.id,
                event_id=event.id,
                event=event,
                payload=payload_of(event),
                next_attempt_at=context.now,
            )
