"""Import the sales of a shop for which this installation has no event."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core.command import Context
from keywright.core.errors import ConnectionFieldInvalid, ShopRefused, UnreadableEvent
from keywright.provisioning.shops.commands import StoreShopEvent
from keywright.provisioning.shops.event_rules import require_usable
from keywright.provisioning.shops.model import (
    Lines,
    OpenedConnection,
    Payload,
    Reason,
    ShopEvent,
    UnreadableOrder,
)
from keywright.provisioning.shops.payloads import MODULES, payload_of, unreadable_id
from keywright.provisioning.shops.shop_module import ApiAccess, open_api


def find_access(opened: OpenedConnection) -> ApiAccess:
    """Return the access to the shop's API. Raises ``ConnectionFieldInvalid`` if there is none."""
    connection = opened.connection
    if not opened.api_key:
        raise ConnectionFieldInvalid("api_key", "is missing: the shop's API requires it")
    access = MODULES[connection.shop].find_api(connection, opened.api_key)
    if access is None:
        raise ConnectionFieldInvalid("url", "is missing, or the shop has no API")
    return access


def list_sold(opened: OpenedConnection, since: datetime, context: Context) -> Iterator[StoreShopEvent]:
    """Yield a command for each order or event that the shop has changed since then; known ones change
    nothing. For one that cannot be read, the command has no ``event``: it waits for a person. Raises
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


def list_running(opened: OpenedConnection) -> Iterator[ShopEvent]:
    """Yield an event for each running subscription, as the shop reports it now. Raises as ``list_sold``."""
    connection = opened.connection
    with open_api(find_access(opened)) as api:
        for found in MODULES[connection.shop].list_running(api, connection):
            if isinstance(found.change, Lines):
                change = replace(found.change, is_asked=True)
                # The same report is stored once, no matter how often the shop is asked.
                number = blake2b(msgspec.json.encode(change), digest_size=12).hexdigest()
                with suppress(UnreadableEvent):
                    yield require_usable(replace(found, id=f"asked/{number}", change=change, needs_api=False))


def find_missing_topics(opened: OpenedConnection) -> tuple[str, ...] | None:
    """Return the topics that the shop is not set up to send; None if that is unknown. Raises
    ``ConnectionFieldInvalid``, ``ShopUnavailable``, ``UnreadableEvent``.
    """
    module = MODULES[opened.connection.shop]
    with open_api(find_access(opened)) as api, suppress(ShopRefused):
        topics = module.list_topics(api, opened.connection)
        return None if topics is None else tuple(sorted(module.TOPICS - topics))
    return None


def mend(opened: OpenedConnection, event: ShopEvent, context: Context, difference: str) -> StoreShopEvent:
    """Return a command that applies what the shop reports now."""
    event = replace(event, id=f"{event.id}/{context.now:%Y%m%dT%H%M%S}")
    return _store(opened, event, context, difference)


def note(opened: OpenedConnection, event: ShopEvent, context: Context, difference: str) -> StoreShopEvent:
    """Return a command that stores what the shop reports now for a person, who can apply it."""
    return replace(_store(opened, event, context, difference), reason=Reason.PAID_NOT_HELD)


def _store(opened: OpenedConnection, event: ShopEvent, context: Context, difference: str) -> StoreShopEvent:
    return StoreShopEvent(
        context=context,
        connection_id=opened.connection.id,
        event_id=event.id,
        event=event,
        payload=payload_of(event),
        next_attempt_at=context.now,
        detail=difference,
    )


def _what_is_kept(found: ShopEvent | UnreadableOrder) -> dict[str, Any]:
    """Return the fields of the command that contain the order."""
    if not isinstance(found, UnreadableOrder):
        try:
            event = require_usable(found)
            return {"event_id": event.id, "event": event, "payload": payload_of(event)}
        except UnreadableEvent as problem:
            found = UnreadableOrder(msgspec.json.encode(found), problem.reason)
    payload = Payload({}, found.body)
    return {"event_id": unreadable_id(found.body), "event": None, "payload": payload, "detail": found.reason}
