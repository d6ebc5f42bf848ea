"""One step of the work on an endpoint: one transaction of the process that has claimed it."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from keywright.db.rows import to_seconds
from keywright.db.transaction import WriteTransaction
from keywright.delivery.webhooks import rules, store
from keywright.delivery.webhooks.commands import WorkOnEndpoint
from keywright.delivery.webhooks.model import (
    Attempt,
    Delivery,
    DisabledReason,
    Endpoint,
    State,
    Step,
)
from keywright.delivery.webhooks.queries import show_due
from keywright.engine.queue import claim_item
from keywright.events import store as event_store
from keywright.events.feed import FeedEvent
from keywright.events.model import Event, MailTemplate, Subject
from keywright.events.outbox_store import queue_notices
from keywright.events.unit_of_work import UnitOfWork
from keywright.search.feed import find_visible_id, select_of_product

#: The most events that become deliveries in a step, the most events that a step examines, and the sizes of
#: its successive reads.
_MAX_EVENTS, _MAX_LOOKED, _SIZES = 200, 10_000, (200, 800, 2_000)
#: After an outage of this length, the first success makes all waiting deliveries due at once.
_OUTAGE = timedelta(seconds=60)


def work_on_endpoint(work: UnitOfWork, command: WorkOnEndpoint) -> Step:
    """Save the outcomes of attempts, queue deliveries, and return the next work."""
    tx, now = work.tx, command.context.now
    before: Endpoint | None = claim_item(
        tx, store.ENDPOINTS, command.item, claimed_by=command.claimed_by, now=now, skips_locked=False
    )
    if before is None:
        return Step(is_over=True)
    endpoint = _save_attempts(work, command, before) if command.attempts else before
    found = _Next(endpoint)
    if endpoint.disabled_at is None and not command.is_last:
        found = _find_next(work, command, endpoint)
    endpoint, due = found.endpoint, show_due(tx, found.endpoint, found.due, now)
    if endpoint != before:
        store.WEBHOOKS.update(tx, endpoint)
    is_over = not (due or found.has_more or command.in_flight)
    if is_over:
        store.release_claim(tx, endpoint.id)
    known = tuple(store.list_secrets(tx, endpoint.id, now)) if due else ()
    return Step(due, endpoint, known, found.has_more, is_over, found.is_full)


# --- what came of attempts ------------------------------------------------------------------------


def _save_attempts(work: UnitOfWork, command: WorkOnEndpoint, endpoint: Endpoint) -> Endpoint:
    now = command.context.now
    attempts = {one.delivery_id: one for one in command.attempts}
    failing_at = endpoint.failing_at
    has_failed = any(not one.is_delivered and not one.is_hopeless for one in command.attempts)
    has_delivered = any(one.is_delivered for one in command.attempts)
    if has_delivered:
        failing_at = None
    elif has_failed:
        failing_at = min(failing_at or now, now)
    changed = replace(endpoint, failing_at=failing_at, paused_until=_paused_until(endpoint, command))
    changed = _disable(work, command, changed)
    waiting = store.find_deliveries(work.tx, attempts)
    saved = [_after_attempt(one, attempts[one.id], changed, now) for one in waiting]
    store.save_deliveries(work.tx, saved)
    done = [one.license_id for one in saved if one.state is not State.WAITING and one.license_id]
    store.begin_next(work.tx, endpoint.id, done, now)
    began = endpoint.failing_at
    if has_delivered and not has_failed and began is not None and now - began >= _OUTAGE:
        store.attempt_now(work.tx, endpoint.id, now)
    return changed


def _after_attempt(delivery: Delivery, attempt: Attempt, endpoint: Endpoint, now: datetime) -> Delivery:
    # A clock that was ahead may have written a later time.
    first_attempt_at = min(delivery.first_attempt_at or now, now)
    tried = replace(
        delivery,
        attempts=delivery.attempts + 1,
        first_attempt_at=first_attempt_at,
        last_attempt_at=now,
        duration_ms=attempt.duration_ms,
        status=attempt.status,
        answer=attempt.answer,
    )
    if attempt.is_delivered:
        return replace(tried, state=State.DELIVERED, next_attempt_at=None, finished_at=now)
    if attempt.is_hopeless or (
        endpoint.disabled_at is None and now - first_attempt_at >= rules.GIVE_UP_AFTER
    ):
        return replace(tried, state=State.GIVEN_UP, next_attempt_at=None, finished_at=now)
    jitter = random.random()  # noqa: S311
    return replace(tried, next_attempt_at=now + rules.pause_after(tried.attempts, attempt, jitter))


def _paused_until(endpoint: Endpoint, command: WorkOnEndpoint) -> datetime | None:
    """Return the end of the pause that the receiver has requested."""
    asked = [
        pause
        for one in command.attempts
        if one.status in rules.ASKING_FOR_QUIET and (pause := rules.retry_after_of(one)) is not None
    ]
    if asked:
        return command.context.now + max(asked)
    return endpoint.paused_until if rules.is_quiet(endpoint, command.context.now) else None


def _disable(work: UnitOfWork, command: WorkOnEndpoint, endpoint: Endpoint) -> Endpoint:
    """Disable an endpoint that is gone, or whose deliveries have all failed for five days."""
    now = command.context.now
    is_gone = any(one.status == rules.GONE for one in command.attempts)
    failing_at = endpoint.failing_at
    if endpoint.disabled_at is not None or not (
        is_gone or (failing_at is not None and now - failing_at >= rules.GIVE_UP_AFTER)
    ):
        return endpoint
    reason = DisabledReason.GONE if is_gone else DisabledReason.FAILING
    details = {"endpoint_id": endpoint.id, "url": rules.hide_path(endpoint.url), "reason": reason}
    work.record_event("webhook.disabled", command, details)
    unique = f"endpoint {endpoint.id} disabled {to_seconds(now)}"
    queue_notices(work.tx, MailTemplate.ENDPOINT_DISABLED, unique, Subject(endpoint_id=endpoint.id), now)
    return replace(endpoint, disabled_at=now, disabled_reason=reason, updated_at=now)


# --- what is next ---------------------------------------------------------------------------------


class _Next(NamedTuple):
    """The changed endpoint, the deliveries to attempt, whether more events follow, and whether they have to
    wait because the limit of waiting deliveries is reached.
    """

    endpoint: Endpoint
    due: Sequence[tuple[Delivery, Event | None]] = ()
    has_more: bool = False
    is_full: bool = False


def _find_next(work: UnitOfWork, command: WorkOnEndpoint, endpoint: Endpoint) -> _Next:
    now, in_flight = command.context.now, command.in_flight
    is_quiet = rules.is_quiet(endpoint, now)
    limit = 0 if is_quiet else command.limit
    if endpoint.failing_at is not None:
        # While the receiver is failing, only a few requests probe whether it has recovered.
        limit = min(limit, max(0, rules.PROBES - len(in_flight)))

    def list_due() -> list[tuple[Delivery, Event | None]]:
        return store.list_due(work.tx, endpoint.id, now, without=in_flight, limit=limit) if limit else []

    due = list_due()
    if len(due) == limit and not is_quiet:
        # Leave new events in the log: reading them in every step would cost as much as delivering them.
        return _Next(endpoint, due)
    found = _queue(work, endpoint, now)
    return found._replace(due=due if found.endpoint == endpoint else list_due())


def _queue(work: UnitOfWork, endpoint: Endpoint, now: datetime) -> _Next:
    """Turn the next events into deliveries."""
    tx = work.tx
    visible_id = find_visible_id(tx, endpoint.position)
    if visible_id <= endpoint.position:
        return _Next(endpoint)
    wanted, position = _look_for_events(tx, endpoint, min(visible_id, endpoint.position + _MAX_LOOKED), now)
    if wanted:
        room = rules.MAX_WAITING - store.count_waiting(tx, endpoint.id, limit=rules.MAX_WAITING)
        if room < len(wanted):
            return _Next(endpoint, is_full=True)
        _save_deliveries(work, endpoint, wanted, now)
    return _Next(replace(endpoint, position=position, position_at=now), has_more=position < visible_id)


def _look_for_events(
    tx: WriteTransaction, endpoint: Endpoint, until_id: int, now: datetime
) -> tuple[list[FeedEvent], int]:
    """Return the next events that the endpoint is notified of, and the ID up to which all were examined."""
    # Clocks jump: events after a recent position count as recent, and the newest event's time limits ``now``.
    oldest = rules.oldest_event_at(min(now, event_store.find_newest_moment(tx) or now))
    is_recent = endpoint.position_at is not None and endpoint.position_at >= oldest
    names, position = (*endpoint.events, rules.TESTED), endpoint.position
    wanted: list[FeedEvent] = []
    # Most of the events may concern other products, for example after an import.
    for size in _SIZES:
        some = event_store.list_feed(
            tx, after_id=position, until_id=until_id, license_id=None, limit=size, names=names
        )
        recent = [one for one in some if is_recent or one.event.occurred_at >= oldest]
        notified = [one for one in recent if rules.is_notified_of(endpoint, one.event)]
        wanted += select_of_product(tx, notified, endpoint.product_id)
        position = some[-1].id if len(some) == size else until_id
        if len(wanted) >= _MAX_EVENTS or position == until_id:
            break
    return wanted[:_MAX_EVENTS], wanted[_MAX_EVENTS - 1].id if len(wanted) > _MAX_EVENTS else position


def _save_deliveries(
    work: UnitOfWork, endpoint: Endpoint, wanted: Sequence[FeedEvent], now: datetime
) -> None:
    """Save a delivery for each event. A license's deliveries are sent in order, so only its first waiting
    delivery gets an attempt.
    """
    tx = work.tx
    known = store.find_by_events(tx, endpoint.id, [one.id for one in wanted])
    busy = store.list_busy_licenses(tx, endpoint.id, {one.event.license_id for one in wanted} - {0})
    new, again = [], []
    for one in wanted:
        license_id, before = one.event.license_id, known.get(one.id)
        if before is not None and before.state is State.WAITING:
            continue
        next_attempt_at = None if license_id in busy else now
        if license_id:
            busy.add(license_id)
        if before is None:
            new.append(_new_delivery(endpoint, one, now, next_attempt_at))
        else:
            again.append(replace(rules.restart(before, now), next_attempt_at=next_attempt_at))
    store.save_new_deliveries(tx, new)
    store.save_deliveries(tx, again)


def _new_delivery(
    endpoint: Endpoint, one: FeedEvent, now: datetime, next_attempt_at: datetime | None
) -> Delivery:
    return Delivery(
        id=0,
        endpoint_id=endpoint.id,
        event_id=one.id,
        license_id=one.event.license_id,
        name=one.event.name,
        state=State.WAITING,
        attempts=0,
        next_attempt_at=next_attempt_at,
        first_attempt_at=None,
        last_attempt_at=None,
        duration_ms=None,
        status=None,
        answer=None,
        created_at=now,
        finished_at=None,
    )
