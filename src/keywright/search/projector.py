"""What follows the events, some seconds behind them, so that no activation pays for it: the terms under which
the pages find licenses, the figures of each day; and what server processes have counted in memory.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from keywright.core.command import Command
from keywright.db import ReadTransaction, WriteTransaction
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.licenses import store as license_store
from keywright.search import counters_store, terms_store
from keywright.search.commands import ProjectEvents, SaveCounters
from keywright.search.terms_store import END, Checkpoints

#: The most events that are followed in one transaction.
MOST_AT_ONCE = 500
#: The name of validations in the counts of days; they are no events.
VALIDATED = "license.validated"
#: How long it is remembered that somebody met a license's limit.
_REFUSALS_KEPT = timedelta(days=30)
#: How much of the past takes as long as one event that is followed: events that are only counted, licenses,
#: and activations, which come in the order of their licenses.
_COUNTED, _LICENSES, _ACTIVATIONS = 100, 5, 2


class Lag(msgspec.Struct, frozen=True):
    """How much is not followed yet: about so many events, the oldest of which happened at ``oldest_at``.

    ``past_share`` is how much of what there was before following began can be found already, from 0.0 to 1.0.
    """

    behind: int
    oldest_at: datetime | None
    past_share: float

    @property
    def is_complete(self) -> bool:
        """Whether everything can be found."""
        return self.behind == 0 and self.past_share == 1.0


class Projected(msgspec.Struct, frozen=True):
    """So many rows were followed, events and others; and what is left."""

    rows: int
    lag: Lag


def follow(work: UnitOfWork, command: ProjectEvents) -> Projected:
    """Follow the next events, each exactly once, and go on with what there was before."""
    tx, newest = work.tx, terms_store.newest_event(work.tx)
    at = terms_store.find_checkpoints(tx)
    if at is not None and at.is_past_done and at.events == newest and not terms_store.has_pruned(tx):
        return Projected(0, Lag(0, None, 1.0))
    at = terms_store.lock_checkpoints(tx)
    if at is None:
        return Projected(0, lag(tx))
    before = msgspec.structs.replace(at)
    limit = min(command.limit, MOST_AT_ONCE)
    if at.past_until < 0:
        rows = _begin(tx, at, newest)
    elif at.is_past_done:
        rows = _follow_events(tx, at, limit, newest)
    else:
        # Half for each, if there are events: neither waits for the end of the other.
        rows = _follow_events(tx, at, max(1, limit // 2), newest)
        rows += _follow_past(tx, at, max(1, limit - rows))
    # After the search terms that may be of these.
    rows += terms_store.forget_pruned(tx, limit=limit)
    terms_store.save_checkpoints(tx, before, at)
    return Projected(rows, _lag(tx, at))


def lag(tx: ReadTransaction) -> Lag:
    """How much is not followed yet."""
    return _lag(tx, terms_store.find_checkpoints(tx) or Checkpoints())


def _lag(tx: ReadTransaction, at: Checkpoints) -> Lag:
    behind = max(0, terms_store.newest_event(tx) - at.events)
    oldest_at = terms_store.find_moment_after(tx, at.events) if behind else None
    return Lag(behind, oldest_at, _past_share(tx, at))


def _past_share(tx: ReadTransaction, at: Checkpoints) -> float:
    if at.is_past_done:
        return 1.0
    # The last and the longest work; the other is a few hundredths of it.
    return min(at.past_activations / max(1, terms_store.newest_license(tx)), 0.99)


def _begin(tx: WriteTransaction, at: Checkpoints, newest: int) -> int:
    """What has happened is the past as soon as nothing more can appear in it."""
    settled = min(terms_store.settled(tx, at), newest)
    if newest and not settled:
        terms_store.wait_for(tx, at, 1, newest)
        return 0
    at.events = at.past_until = settled
    return 1


def _follow_events(tx: WriteTransaction, at: Checkpoints, limit: int, newest: int) -> int:
    settled = terms_store.settled(tx, at)
    happened = terms_store.list_happened(tx, after_id=at.events, limit=limit)
    certain, last = 0, at.events
    for event in happened:
        if event.id - 1 > max(last, settled):
            terms_store.wait_for(tx, at, last + 1, max(newest, happened[-1].id))
            break
        certain, last = certain + 1, event.id
    if certain:
        _apply(tx, happened[:certain])
        at.events = last
    if at.events >= at.events_seen:
        at.events_seen = at.events_after = 0
    return certain


def _apply(tx: WriteTransaction, happened: list[Any]) -> None:
    touched = {event.license_id for event in happened if event.license_id}
    activated: dict[int, list[int]] = defaultdict(list)
    for event in happened:
        if event.name == "license.activated" and event.activation_id is not None:
            activated[event.license_id].append(event.activation_id)
    states = terms_store.list_states(tx, touched)
    terms_store.forget_licenses(tx, touched - states.keys())
    terms_store.change_states(tx, states.values())
    terms_store.save_places(tx, terms_store.list_places(tx, activated))
    terms_store.save_counts(
        tx, Counter((terms_store.day_of(event.occurred_at), event.name) for event in happened)
    )


def _follow_past(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    """What was there when following began; what it is now is as good, for events follow."""
    if at.past_events < at.past_until:
        return _count_past(tx, at, limit * _COUNTED)
    if at.past_licenses < END:
        return _judge_past(tx, at, limit * _LICENSES)
    if at.past_activations < END:
        return _project_past_activations(tx, at, limit * _ACTIVATIONS)
    return 0


def _count_past(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    until = min(at.past_until, at.past_events + limit)
    terms_store.save_counts(tx, terms_store.count_on_days(tx, after_id=at.past_events, until_id=until))
    at.past_events = until
    return limit


def _judge_past(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    states = terms_store.list_next_states(tx, after_id=at.past_licenses, limit=limit)
    terms_store.save_states(tx, states)
    at.past_licenses = states[-1].license_id if len(states) == limit else END
    return max(1, len(states))


def _project_past_activations(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    if at.past_token:
        return _project_other_activations(tx, at, at.past_activations + 1, limit)
    places = terms_store.list_next_places(tx, after_id=at.past_activations, limit=limit)
    terms_store.save_places(tx, places)
    if len(places) < limit:
        at.past_activations = END
        return max(1, len(places))
    # The last license comes again, for it may have more; if it is the only one, without what is done.
    last = places[-1]
    is_only = places[0].license_id == last.license_id
    at.past_activations = last.license_id - 1
    at.past_token = terms_store.token_position(last.token) if is_only else 0
    return limit


def _project_other_activations(tx: WriteTransaction, at: Checkpoints, license_id: int, limit: int) -> int:
    """Go on with a license that has more activations than one step can take; some may go meanwhile."""
    places = terms_store.list_rest_of_places(tx, license_id, after=at.past_token, limit=limit)
    terms_store.save_places(tx, places)
    if len(places) < limit:
        at.past_activations, at.past_token = license_id, 0
    else:
        at.past_token = terms_store.token_position(places[-1].token)
    return max(1, len(places))


def tally(work: UnitOfWork, command: SaveCounters) -> None:
    """Add what was counted to what is known."""
    tx, now = work.tx, command.context.now
    counters_store.forget_refusals(tx, now - _REFUSALS_KEPT)
    if command.refused:
        found = license_store.find_licenses(tx, command.refused)
        times = {license.id: command.refused[key] for key, license in found.items()}
        counters_store.save_refusals(tx, times, now)
    counted = {VALIDATED: command.validations, terms_store.FORWARDED_BLINDLY: command.forwarded_blindly}
    day = terms_store.day_of(int(now.timestamp()))
    if counts := {(day, name): amount for name, amount in counted.items() if amount}:
        terms_store.save_counts(tx, counts)
    counters_store.save_used(tx, command.used_api_keys)


#: Which function decides which command.
HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {ProjectEvents: follow, SaveCounters: tally}
