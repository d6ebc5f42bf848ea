"""Handlers for the commands about endpoints and deliveries."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import NotFound, TooManyEndpoints
from keywright.core.fields import list_changes
from keywright.core.standard_webhooks import new_secret
from keywright.delivery.webhooks import rules, store
from keywright.delivery.webhooks.commands import (
    CreateEndpoint,
    DeleteEndpoint,
    PurgeDeliveries,
    ResendDelivery,
    ResendSince,
    RotateSecret,
    SendTest,
    UpdateEndpoint,
    WorkOnEndpoint,
)
from keywright.delivery.webhooks.fields import WebhookFields
from keywright.delivery.webhooks.model import DisabledReason, Endpoint, NewEndpoint, Payload
from keywright.delivery.webhooks.working import work_on_endpoint
from keywright.events import store as event_store
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.store import require_product
from keywright.search.store import find_first_event_id

#: The most deliveries that are deleted in one transaction.
_MAX_DELETED = 500
#: The defaults of fields that may be omitted.
_UNSET: dict[str, Any] = {"description": None, "product_id": None, "payload": Payload.FULL}


def create_endpoint(work: UnitOfWork, command: CreateEndpoint) -> NewEndpoint:
    """Create an endpoint for future events. Raises ``TooManyEndpoints``, ``UnknownReference``."""
    if store.count_endpoints(work.tx) >= rules.MAX_ENDPOINTS:
        raise TooManyEndpoints
    given = _given(work, command.fields)
    secret, now = given.pop("secret", None) or new_secret(), command.context.now
    is_enabled = given.pop("is_enabled", True)
    endpoint = Endpoint(
        id=0,
        **_UNSET | given,
        created_at=now,
        updated_at=now,
        disabled_at=None if is_enabled else now,
        disabled_reason=None if is_enabled else DisabledReason.BY_HAND,
        position=event_store.find_newest_id(work.tx),
        position_at=now,
    )
    endpoint = replace(endpoint, id=store.WEBHOOKS.insert_new(work.tx, endpoint))
    store.save_secret(work.tx, endpoint.id, secret, now=now, until=now)
    _record(work, command, "webhook.created", endpoint)
    return NewEndpoint(endpoint, secret)


def update_endpoint(work: UnitOfWork, command: UpdateEndpoint) -> Endpoint:
    """Change an endpoint. Raises ``NotFound``, ``UnknownReference``."""
    endpoint, now = _lock(work, command, command.id), command.context.now
    changes = _given(work, command.fields)
    is_enabled = changes.pop("is_enabled", endpoint.disabled_at is None)
    changed = replace(endpoint, **changes)
    if not is_enabled and endpoint.disabled_at is None:
        changed = replace(changed, disabled_at=now, disabled_reason=DisabledReason.BY_HAND)
    elif is_enabled and endpoint.disabled_at is not None:
        changed = _enable(work, changed, now)
    if changed == endpoint:
        return endpoint
    changed = replace(changed, updated_at=now)
    store.WEBHOOKS.update(work.tx, changed)
    _record(work, command, "webhook.updated", changed, _differences(endpoint, changed))
    return changed


def delete_endpoint(work: UnitOfWork, command: DeleteEndpoint) -> None:
    """Delete an endpoint. Its deliveries are deleted in batches afterwards. Raises ``NotFound``."""
    endpoint = _lock(work, command, command.id)
    store.delete_endpoint(work.tx, endpoint.id)
    _record(work, command, "webhook.deleted", endpoint)


def rotate_secret(work: UnitOfWork, command: RotateSecret) -> NewEndpoint:
    """Give an endpoint a new secret. Raises ``NotFound``."""
    endpoint, now = _lock(work, command, command.endpoint_id), command.context.now
    secret = command.secret or new_secret()
    store.save_secret(work.tx, endpoint.id, secret, now=now, until=now + rules.SECRET_OVERLAP)
    _record(work, command, "webhook.secret_rotated", endpoint)
    return NewEndpoint(endpoint, secret)


def send_test(work: UnitOfWork, command: SendTest) -> None:
    """Record an event that only this endpoint is notified of. Raises ``NotFound``."""
    _record(work, command, rules.TESTED, _lock(work, command, command.endpoint_id))


def resend_delivery(work: UnitOfWork, command: ResendDelivery) -> None:
    """Send a delivery again, without waiting for earlier ones of its license. Raises ``NotFound``."""
    endpoint, now = _lock(work, command, command.endpoint_id), command.context.now
    delivery = store.find_delivery(work.tx, endpoint.id, command.delivery_id)
    if delivery is None:
        raise NotFound(f"delivery {command.delivery_id}")
    store.save_deliveries(work.tx, [rules.restart(delivery, now)])
    _record(work, command, "webhook.resent", endpoint, {"event_id": delivery.event_id})


def resend_since(work: UnitOfWork, command: ResendSince) -> None:
    """Move the endpoint back to the first event since a time. Raises ``NotFound``."""
    endpoint, now = _lock(work, command, command.endpoint_id), command.context.now
    since = max(command.since, rules.oldest_event_at(now))
    first = find_first_event_id(work.tx, since)
    changed = replace(endpoint, position=min(endpoint.position, first - 1), position_at=now)
    store.WEBHOOKS.update(work.tx, changed)
    _record(work, command, "webhook.resent", endpoint, {"since": since})


def purge_deliveries(work: UnitOfWork, command: PurgeDeliveries) -> int:
    """Delete a batch of old deliveries. Returns how many."""
    return store.delete_finished(work.tx, command.before, limit=_MAX_DELETED)


def _enable(work: UnitOfWork, endpoint: Endpoint, now: datetime) -> Endpoint:
    """Enable the endpoint at its position, with at most the events of the last 30 days."""
    store.begin_again(work.tx, endpoint.id, now)
    first = find_first_event_id(work.tx, rules.oldest_event_at(now))
    return replace(
        endpoint,
        disabled_at=None,
        disabled_reason=None,
        failing_at=None,
        paused_until=None,
        position=max(endpoint.position, first - 1),
        position_at=now,
    )


def _given(work: UnitOfWork, fields: WebhookFields) -> dict[str, Any]:
    """Return the fields that are set. Raises ``UnknownReference``."""
    given = list_changes(fields)
    require_product(work.tx, given.get("product_id"))
    return given | ({"events": tuple(given["events"])} if "events" in given else {})


def _lock(work: UnitOfWork, command: Command, endpoint_id: int) -> Endpoint:
    endpoint = store.WEBHOOKS.lock(work.tx, endpoint_id)
    if endpoint is None:
        raise NotFound(f"webhook {endpoint_id}")
    if command.precondition is not None:
        command.precondition(endpoint)
    return endpoint


def _record(
    work: UnitOfWork,
    command: Command,
    name: str,
    endpoint: Endpoint,
    details: Mapping[str, Any] | None = None,
) -> None:
    about = {"endpoint_id": endpoint.id, "url": rules.hide_path(endpoint.url)}
    work.record_event(name, command, about | dict(details or {}))


def _differences(before: Endpoint, after: Endpoint) -> dict[str, Any]:
    """Return the changed fields as [before, after]; for a URL, whose path may be secret, only a flag."""
    names: Collection[str] = ("description", "events", "product_id", "payload")
    pairs = {name: [getattr(before, name), getattr(after, name)] for name in names}
    changed: dict[str, Any] = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if before.url != after.url:
        changed["url_changed"] = True
    if (before.disabled_at is None) != (after.disabled_at is None):
        changed["is_enabled"] = [before.disabled_at is None, after.disabled_at is None]
    return changed


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {
    CreateEndpoint: create_endpoint,
    UpdateEndpoint: update_endpoint,
    DeleteEndpoint: delete_endpoint,
    RotateSecret: rotate_secret,
    SendTest: send_test,
    ResendDelivery: resend_delivery,
    ResendSince: resend_since,
    WorkOnEndpoint: work_on_endpoint,
    PurgeDeliveries: purge_deliveries,
}
