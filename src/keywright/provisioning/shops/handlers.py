"""The handlers of the commands about connections and the events of shops."""

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from keywright.core import errors as e
from keywright.core.command import Command
from keywright.core.standard_webhooks import new_secret
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.policies.store import find_policy
from keywright.provisioning.shops import (
    commands,
    event_rules,
    later_store,
    model,
    sale_mails,
    sold_store,
    store,
)
from keywright.provisioning.shops.event_rules import require_usable_connection, require_usable_secret
from keywright.provisioning.shops.outcome_rules import Outcome
from keywright.provisioning.shops.selling import Selling, Unfinished

#: Lemon Squeezy takes secrets of at most 40 characters.
_SECRET_BYTES = 20


# --- connections ----------------------------------------------------------------------------------


def add_connection(work: UnitOfWork, command: commands.AddConnection) -> model.OpenedConnection:
    """Add a connection. Raises ``ConnectionFieldInvalid``, ``UnknownReference``."""
    now = command.context.now
    secret = command.secret or _make_secret(command.connection.shop)
    connection = replace(
        command.connection,
        has_api_key=bool(command.api_key),
        last_event_at=None,
        failures=0,
        created_at=now,
        updated_at=now,
    )
    _require_usable(work, connection)
    require_usable_secret(connection.shop, secret)
    if len(store.list_connections(work.tx)) >= store.MAX_CONNECTIONS:
        raise e.ConnectionFieldInvalid("name", f"exceeds the limit of {store.MAX_CONNECTIONS} connections")
    connection_id = store.save_new_connection(work.tx, connection, secret, command.api_key or "")
    connection = replace(connection, id=connection_id)
    details = {"number": connection_id, "shop": connection.shop.value, "name": connection.name}
    work.record_event("connection.added", command, details)
    return model.OpenedConnection(connection, secret, command.api_key or "")


def update_connection(work: UnitOfWork, command: commands.UpdateConnection) -> model.Connection:
    """Change a connection. Raises ``UnknownConnection``, ``ConnectionFieldInvalid``, ``UnknownReference``."""
    connection = _lock(work, command.connection_id)
    if command.precondition is not None:
        command.precondition(connection)
    changes = dict(command.changes)
    if command.api_key is not None:
        changes["has_api_key"] = bool(command.api_key)
    changed = replace(connection, **changes)
    if command.secret is not None:
        require_usable_secret(connection.shop, command.secret)
    if changed == connection and command.secret is None and command.api_key is None:
        return connection
    _require_usable(work, changed)
    if changed.url not in (None, connection.url) and changed.has_api_key and command.api_key is None:
        # A person who changes the URL cannot see the key, and must not have it sent to a server of their own.
        raise e.ConnectionFieldInvalid("api_key", "must be entered again, because the address has changed")
    changed = replace(changed, updated_at=command.context.now)
    store.save_connection(work.tx, changed)
    store.save_secrets(work.tx, changed.id, secret=command.secret, api_key=command.api_key)
    names = [name for name in changes if getattr(connection, name) != getattr(changed, name)]
    given = (("secret", command.secret), ("api_key", command.api_key))
    names += [name for name, value in given if value is not None]
    work.record_event(
        "connection.updated", command, {"number": connection.id} | dict.fromkeys(names, "changed")
    )
    return changed


def remove_connection(work: UnitOfWork, command: commands.RemoveConnection) -> None:
    """Remove a connection. Raises ``UnknownConnection``."""
    connection = _lock(work, command.connection_id)
    if command.precondition is not None:
        command.precondition(connection)
    store.delete_connection(work.tx, connection.id)
    work.record_event("connection.removed", command, {"number": connection.id, "name": connection.name})


def take_over_sales(work: UnitOfWork, command: commands.TakeOverSales) -> int:
    """Assign the sales of a removed connection to this one. Raises ``UnknownConnection``, also if the other
    one is not removed, has sold nothing, or is of another shop.
    """
    connection = _lock(work, command.connection_id)
    removed = sold_store.list_removed(work.tx, connection.shop)
    if command.removed_id not in {one.connection_id for one in removed}:
        raise e.UnknownConnection(command.removed_id)
    taken = sold_store.take_over(work.tx, command.removed_id, connection.id)
    details = {"number": connection.id, "removed": command.removed_id, "licenses": taken}
    work.record_event("connection.took_over", command, details)
    return taken


def _make_secret(shop: model.Shop) -> str:
    return new_secret() if shop is model.Shop.GENERIC else secrets.token_hex(_SECRET_BYTES)


def _require_usable(work: UnitOfWork, connection: model.Connection) -> None:
    require_usable_connection(connection)
    places = {number: i for i, one in enumerate(connection.mapping) for number in one.all_policy_ids}
    for policy_id, place in places.items():
        if find_policy(work.tx, policy_id) is None:
            raise e.UnknownReference(f"policy {policy_id}", f"/mapping/{place}/policy_id")


def _lock(work: UnitOfWork, connection_id: int) -> model.Connection:
    connection = store.lock_connection(work.tx, connection_id)
    if connection is None:
        raise e.UnknownConnection(connection_id)
    return connection


# --- events ---------------------------------------------------------------------------------------


def store_event(work: UnitOfWork, command: commands.StoreShopEvent) -> int | None:
    """Store an event; return its ID, None if it is stored already."""
    now, event = command.context.now, command.event
    is_readable = event is not None and command.reason is None
    reason = command.reason or model.Reason.UNREADABLE
    stored = model.StoredEvent(
        id=0,
        connection_id=command.connection_id,
        event_id=command.event_id,
        name="" if event is None else event.name,
        order_ref=None if event is None else event_rules.order_of(event.change),
        state=model.EventState.WAITING if is_readable else model.EventState.UNMATCHED,
        reason=None if is_readable else reason,
        detail=command.detail,
        happened_at=now if event is None or event.at is None else event.at,
        received_at=now,
        attempts=1,
        next_attempt_at=command.next_attempt_at if is_readable else None,
    )
    row_id = store.save_new_event(work.tx, stored, command.payload)
    if row_id is not None and not is_readable:
        _save_progress(work, _lock(work, command.connection_id), stored, model.EventState.UNMATCHED)
        _record_unmatched(work, command, replace(stored, id=row_id), reason)
    return row_id


def claim_look(work: UnitOfWork, command: commands.ClaimLook) -> bool:
    """Whether this process is the one to check the shop now."""
    return later_store.claim_look(work.tx, command.connection_id, command.before, command.context.now)


def save_topics(work: UnitOfWork, command: commands.SaveTopics) -> None:
    """Store which topics are missing."""
    later_store.save_topics(work.tx, command.connection_id, command.missing)


def work_event(work: LicenseWork, command: commands.WorkShopEvent) -> Outcome | Unfinished | None:
    """Apply an event; None if it is not waiting any more."""
    found = _lock_waiting(work, command)
    if found is None:
        return None
    connection, stored = found
    at = event_rules.to_milliseconds(command.event.at or stored.happened_at)
    selling = Selling(work, command, connection, at=at, again=stored.is_forced)
    if command.event.is_test is not (connection.mode is model.Mode.TEST):
        outcome: Outcome | Unfinished = Outcome(
            model.EventState.IGNORED, model.Reason.OTHER_MODE, connection.mode.value
        )
    elif stored.state is model.EventState.DONE:
        outcome = selling.look_again() or Outcome(model.EventState.DONE, stored.reason, stored.detail)
    else:
        outcome = selling.apply()
    if isinstance(outcome, Outcome):
        outcome = sale_mails.name_buyer(work, command, connection, outcome)
        _finish(work, command, connection, stored, outcome)
    return outcome


def postpone_event(work: UnitOfWork, command: commands.PostponeShopEvent) -> None:
    """Schedule another attempt at an event, or let it wait for a person."""
    found = _lock_waiting(work, command)
    if found is not None:
        _finish(work, command, *found, Outcome(model.EventState.UNMATCHED, command.reason, command.detail))


def try_again(work: UnitOfWork, command: commands.TryAgain) -> model.StoredEvent:
    """Schedule an event for now; one that is done stays as it is. Raises ``UnknownShopEvent``, also if its
    payload was deleted, and ``UnknownConnection``.
    """
    connection = _lock(work, command.connection_id)
    stored = store.lock_event(work.tx, command.event_id)
    is_known = stored is not None and stored.connection_id == connection.id
    if stored is None or not is_known or stored.reason is model.Reason.FORGOTTEN:
        raise e.UnknownShopEvent(command.event_id)
    if stored.state is model.EventState.DONE:
        return stored
    return _begin_again(
        work, command, stored, model.Again.OVERWRITE if command.overwrite else model.Again.KEEP
    )


def replay(work: UnitOfWork, command: commands.ReplayEvents) -> int | None:
    """Schedule a batch of events again. Raises ``UnknownConnection``."""
    connection = _lock(work, command.connection_id)
    found = store.list_received(work.tx, connection.id, command.since, command.after_id)
    for one in found:
        if one.state is not model.EventState.WAITING and one.reason is not model.Reason.FORGOTTEN:
            _begin_again(work, command, one, model.Again.NO)
    return found[-1].id if found else None


def purge_events(work: UnitOfWork, command: commands.PurgeShopEvents) -> int:
    """Delete a batch of old events, or of events of removed connections; return their number."""
    return store.delete_old_events(work.tx, command.before) or store.delete_left_events(work.tx)


def _begin_again(
    work: UnitOfWork, command: Command, stored: model.StoredEvent, again: model.Again
) -> model.StoredEvent:
    now = command.context.now
    store.save_outcome(
        work.tx,
        stored.id,
        model.EventState.WAITING,
        next_attempt_at=now,
        attempts=0,
        is_forced=again.value,
    )
    return replace(
        stored,
        state=model.EventState.WAITING,
        reason=None,
        detail=None,
        attempts=0,
        is_forced=again,
        next_attempt_at=now,
    )


def _lock_waiting(
    work: UnitOfWork, command: commands.WorkShopEvent | commands.PostponeShopEvent
) -> tuple[model.Connection, model.StoredEvent] | None:
    """Lock the connection, then an event that is waiting or due for a second look; None if there is none."""
    connection = store.lock_connection(work.tx, command.connection_id)
    stored = None if connection is None else store.lock_event(work.tx, command.event_id)
    if stored is None or connection is None:
        return None
    is_looked_at = stored.state is model.EventState.DONE and stored.next_attempt_at is not None
    return (connection, stored) if is_looked_at or stored.state is model.EventState.WAITING else None


def _finish(
    work: UnitOfWork,
    command: commands.WorkShopEvent | commands.PostponeShopEvent,
    connection: model.Connection,
    stored: model.StoredEvent,
    outcome: Outcome,
) -> None:
    """Save the outcome of an event, or schedule another attempt if that may help."""
    now, reason = command.context.now, outcome.reason
    is_failure = outcome.state is model.EventState.UNMATCHED
    delay: timedelta | None = None
    if is_failure and reason is not None:
        pause = command.pause if isinstance(command, commands.PostponeShopEvent) else timedelta(0)
        delay = event_rules.next_delay(reason, stored.attempts, pause)
    others: dict[str, int | str | None] = {}
    customer_id = outcome.customer_id or sale_mails.find_buyer(work, command.event)
    if customer_id is not None:
        others["customer_id"] = customer_id
    if isinstance(command, commands.WorkShopEvent):
        others["order_ref"] = event_rules.order_of(command.event.change)
    store.save_outcome(
        work.tx,
        stored.id,
        outcome.state if delay is None else model.EventState.WAITING,
        reason,
        outcome.detail,
        next_attempt_at=outcome.look_at if delay is None else now + delay,
        **others,
    )
    is_over = outcome.state if delay is None else None
    _save_progress(work, connection, stored, is_over)
    if isinstance(command, commands.WorkShopEvent) and outcome.state is model.EventState.DONE:
        change = command.event.change
        if isinstance(change, model.Sale) and change.subscription is not None:
            store.hasten(work.tx, connection.id, change.subscription, now)
    # Once for each event, no matter how often a person tries again.
    if is_failure and delay is None and not stored.is_forced and reason is not None:
        _record_unmatched(work, command, stored, reason)


def _save_progress(
    work: UnitOfWork, connection: model.Connection, stored: model.StoredEvent, state: model.EventState | None
) -> None:
    """Count unmatched events in a row; one that is done resets the count."""
    failures = connection.failures + 1 if state is model.EventState.UNMATCHED else connection.failures
    last = max(stored.received_at, connection.last_event_at or stored.received_at)
    store.save_progress(work.tx, connection, last, 0 if state is model.EventState.DONE else failures)


def _record_unmatched(
    work: UnitOfWork, command: Command, stored: model.StoredEvent, reason: model.Reason
) -> None:
    details: dict[str, Any] = {
        "number": stored.connection_id,
        "event": stored.id,
        "reason": reason.value,
    }
    if stored.order_ref is not None:
        details["order"] = stored.order_ref
    work.record_event("order.unmatched", command, details)


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {
    commands.AddConnection: add_connection,
    commands.UpdateConnection: update_connection,
    commands.RemoveConnection: remove_connection,
    commands.TakeOverSales: take_over_sales,
    commands.StoreShopEvent: store_event,
    commands.ClaimLook: claim_look,
    commands.SaveTopics: save_topics,
    commands.WorkShopEvent: work_event,
    commands.WorkShopEventAlone: work_event,
    commands.PostponeShopEvent: postpone_event,
    commands.TryAgain: try_again,
    commands.ReplayEvents: replay,
    commands.PurgeShopEvents: purge_events,
}
