"""Project events into search terms and daily counts, some seconds later, so that activations do not wait for
it; and store the counters of server processes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Command
from keywright.db import ReadTransaction, WriteTransaction
from keywright.events.feed import find_settled
from keywright.events.store import settle
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing import moments
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License
from keywright.licensing.store import delete_old_refusals, mark
from keywright.search import counters_store, reports, terms_store
from keywright.search import store as search_store
from keywright.search.statistics import CountDevices, ProjectEvents, PurgeRefusals, SaveCounters
from keywright.search.terms_store import END, Checkpoints

#: The most events in one transaction.
MAX_EVENTS = 500
#: The name of validations in the daily counts; they are not events.
VALIDATED = "license.validated"
#: The name, in the daily counts, of activations that were refused at a license's limit.
REFUSED = "license.refused"
#: Events after which an activation may have other terms.
_WITH_TERMS = ("license.activated", "license.reactivated", "license.device_replaced")
#: Events after which all activations of a license may be new.
_WHOLE = ("license.imported", "license.restored")
#: How many items of past data take as long as one event: events that are only counted, or counted by product,
#: licenses, and activations in the order of their licenses.
_COUNTED, _COUNTED_BY_PRODUCT, _LICENSES, _ACTIVATIONS = 100, 20, 5, 2


class Lag(msgspec.Struct, frozen=True):
    """The remaining work: about ``behind`` events, the oldest from ``oldest_at``.

    ``past_share`` is the share of the data from before the projection began that can be found, from 0.0 to
    1.0.
    """

    behind: int
    oldest_at: datetime | None
    past_share: float

    @property
    def is_complete(self) -> bool:
        """Whether everything can be found."""
        return self.behind == 0 and self.past_share == 1.0


class Projected(msgspec.Struct, frozen=True):
    """The number of rows that a step projected, events and others; and the remaining work."""

    rows: int
    lag: Lag


def project_events(work: UnitOfWork, command: ProjectEvents) -> Projected:
    """Project the next events, each exactly once, and some of the data from before the projection began."""
    tx, newest = work.tx, terms_store.newest_event(work.tx)
    # Before anything is locked.
    settled_id = settle(tx)
    at = terms_store.find_checkpoints(tx)
    is_done = at is not None and at.is_past_done and at.is_past_of_products_done
    is_newest = at is not None and at.updates == at.events == at.reports == at.reports_listed == newest
    if is_done and is_newest and not terms_store.has_pruned(tx):
        return Projected(0, Lag(0, None, 1.0))
    at = terms_store.lock_checkpoints(tx)
    if at is None:
        return Projected(0, lag(tx))
    before = msgspec.structs.replace(at)
    limit = min(command.limit, MAX_EVENTS)
    if at.products_until < 0 <= at.past_until:
        at.products_until = at.events
    if at.past_until < 0:
        rows = _begin(at, newest, settled_id)
    elif at.updates < at.events:
        rows = _catch_up(tx, at, limit)
    elif at.is_past_done:
        rows = _project_next_events(tx, at, limit, settled_id)
    else:
        # Half for each, if there are events, so that neither waits for the end of the other.
        rows = _project_next_events(tx, at, max(1, limit // 2), settled_id)
        rows += _project_past(tx, at, max(1, limit - rows))
    rows += _count_past_of_products(tx, at, max(1, limit - rows))
    rows += reports.count_months(tx, at, limit)
    # After inserting terms, which may belong to deleted activations.
    rows += terms_store.delete_terms_of_pruned(tx, limit=limit)
    terms_store.save_checkpoints(tx, before, at)
    return Projected(rows, _lag(tx, at, newest))


def lag(tx: ReadTransaction) -> Lag:
    """Return the remaining work."""
    return _lag(tx, terms_store.find_checkpoints(tx) or Checkpoints(), terms_store.newest_event(tx))


def _lag(tx: ReadTransaction, at: Checkpoints, newest: int) -> Lag:
    behind = max(0, newest - min(at.events, at.updates))
    oldest_at = terms_store.find_time_after(tx, newest - behind) if behind else None
    if at.is_past_done:
        return Lag(behind, oldest_at, at.reports / at.events if at.reports < at.events else 1.0)
    # Activations take longest; the rest takes a few hundredths of that.
    return Lag(behind, oldest_at, min(at.past_activations / max(1, terms_store.newest_license(tx)), 0.99))


def _begin(at: Checkpoints, newest: int, settled_id: int) -> int:
    """Treat the events so far as past data, once no earlier one can still be committed."""
    if newest and not settled_id:
        return 0
    at.events = at.updates = at.past_until = at.products_until = min(settled_id, newest)
    return 1


def _project_next_events(tx: WriteTransaction, at: Checkpoints, limit: int, settled_id: int) -> int:
    """Project events that are settled, or follow settled ones without a gap."""
    events = terms_store.list_next_events(tx, after_id=at.events, limit=limit)
    until_id = find_settled(max(at.events, settled_id), [one.id for one in events if one.id > settled_id])
    complete = [one for one in events if one.id <= until_id]
    if complete:
        _project(tx, complete)
        at.events = at.updates = complete[-1].id
    return len(complete)


def _catch_up(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    """Project licenses again whose events were projected by a server of an older release."""
    events = terms_store.list_next_events(tx, after_id=at.updates, limit=limit)
    some = [one for one in events if one.id <= at.events]
    _project_states(tx, {one.license_id for one in some if one.license_id})
    at.updates = some[-1].id if len(some) == limit else at.events
    return max(1, len(some))


def _project_states(tx: WriteTransaction, touched: set[int]) -> None:
    """Project the current states of these licenses."""
    states = terms_store.list_states(tx, touched)
    terms_store.delete_terms_of_licenses(tx, touched - states.keys())
    terms_store.save_state_terms(tx, states.values())


def _project(tx: WriteTransaction, events: list[Any]) -> None:
    touched = {event.license_id for event in events if event.license_id}
    imported = {event.license_id for event in events if event.name in _WHOLE}
    activated: dict[int, list[int]] = defaultdict(list)
    for event in events:
        if event.name in _WITH_TERMS and event.activation_id is not None:
            activated[event.license_id].append(event.activation_id)
    _project_states(tx, touched)
    terms_store.save_activation_terms(tx, terms_store.list_activations_by_id(tx, activated))
    for some in terms_store.list_activations_of(tx, imported):
        terms_store.save_activation_terms(tx, some)
    counts = [(event.license_id, *counters_store.count_as(event)) for event in events]
    counters_store.save_counts(tx, Counter((day, name) for _, day, name in counts))
    products = search_store.list_products_of(tx, touched)
    counted = Counter((products.get(license_id), day, name) for license_id, day, name in counts)
    counters_store.save_product_counts(
        tx, {(one[0], one[1], one[2]): n for one, n in counted.items() if one[0] is not None}
    )


def _project_past(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    """Project data from before the projection in its current state: later changes have later events."""
    if at.past_events < at.past_until:
        return _count_past(tx, at, limit * _COUNTED)
    if at.past_licenses < END:
        return _project_past_licenses(tx, at, limit * _LICENSES)
    if at.past_activations < END:
        return _project_past_activations(tx, at, limit * _ACTIVATIONS)
    if at.key_starts < END:
        last_id = license_store.save_key_starts(tx, after_id=at.key_starts, limit=limit)
        at.key_starts = END if last_id is None else last_id
        return limit
    return 0


def _count_past(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    until = min(at.past_until, at.past_events + limit)
    counters_store.save_counts(tx, counters_store.count_per_day(tx, after_id=at.past_events, until_id=until))
    at.past_events = until
    return limit


def _count_past_of_products(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    """Count events from before the counts by product existed; the search does not wait for it."""
    if at.is_past_of_products_done or at.products_until < 0:
        return 0
    until = min(at.products_until, at.products_past + limit * _COUNTED_BY_PRODUCT)
    counts = counters_store.count_by_product(tx, after_id=at.products_past, until_id=until)
    counters_store.save_product_counts(tx, counts)
    at.products_past = until
    return limit


def _project_past_licenses(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    states = terms_store.list_next_states(tx, after_id=at.past_licenses, limit=limit)
    terms_store.insert_state_terms(tx, states)
    at.past_licenses = states[-1].license_id if len(states) == limit else END
    return max(1, len(states))


def _project_past_activations(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    if at.past_token:
        return _project_other_activations(tx, at, at.past_activations + 1, limit)
    places = terms_store.list_next_activations(tx, after_id=at.past_activations, limit=limit)
    terms_store.save_activation_terms(tx, places)
    if len(places) < limit:
        at.past_activations = END
        return max(1, len(places))
    # Read the last license again, as it may have more; if it is the only one, from its last token on.
    last = places[-1]
    is_only = places[0].license_id == last.license_id
    at.past_activations = last.license_id - 1
    at.past_token = terms_store.token_position(last.token) if is_only else 0
    return limit


def _project_other_activations(tx: WriteTransaction, at: Checkpoints, license_id: int, limit: int) -> int:
    """Continue with a license that has more activations than a step takes; some may be deleted since."""
    places = terms_store.list_activations_after_token(tx, license_id, after=at.past_token, limit=limit)
    terms_store.save_activation_terms(tx, places)
    if len(places) < limit:
        at.past_activations, at.past_token = license_id, 0
    else:
        at.past_token = terms_store.token_position(places[-1].token)
    return max(1, len(places))


def save_counters(work: UnitOfWork, command: SaveCounters) -> None:
    """Add these counters to the stored ones."""
    tx, now = work.tx, command.context.now
    refused: Counter[int | None] = Counter()
    if command.refused:
        found = license_store.find_licenses(tx, command.refused)
        times = {license.id: command.refused[key] for key, license in found.items()}
        counters_store.save_refusals(tx, times, now)
        for key, license in found.items():
            refused[license.product_id] += command.refused[key]
            _record_limit(work, command, license)
    counted = {
        VALIDATED: command.validations,
        counters_store.FORWARDED_BLINDLY: command.forwarded_blindly,
        REFUSED: sum(refused.values()),
    }
    day = counters_store.day_of(int(now.timestamp()))
    if counts := {(day, name): amount for name, amount in counted.items() if amount}:
        counters_store.save_counts(tx, counts)
    of_products = {(one, day, VALIDATED): amount for one, amount in command.product_validations.items()}
    of_products |= {(one, day, REFUSED): amount for one, amount in refused.items() if one is not None}
    if of_products:
        counters_store.save_product_counts(tx, of_products)
    if command.releases:
        counters_store.save_release_counts(tx, day, command.releases)
    counters_store.save_last_used(tx, command.used_api_keys)


def _record_limit(work: UnitOfWork, command: Command, license: License) -> None:
    """Record an event for an activation refused at the limit: once per limit of a license, and again after 30
    days.
    """
    limit, again_after = license.times_activated_max or 0, moments.LIMIT_AGAIN_AFTER
    now = command.context.now
    if mark(work.tx, license.id, moments.LIMIT_REACHED, limit, now, again_after=again_after):
        details = {"max_activations": limit}
        work.record_event("license.limit_reached", command, details, license_id=license.id)


def purge_refusals(work: UnitOfWork, command: PurgeRefusals) -> int:
    """Delete some of the old counts of refusals at the limit, and old refused calls; returns how many."""
    counts = counters_store.delete_old_refusals(work.tx, command.before)
    return counts + delete_old_refusals(work.tx, command.before)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    ProjectEvents: project_events,
    SaveCounters: save_counters,
    PurgeRefusals: purge_refusals,
    CountDevices: reports.count_devices,
}
