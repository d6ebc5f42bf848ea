"""Look whether a database is as it has to be, and mend what can be mended safely.

Every check says in words what is wrong and what to do. Looking changes nothing, and can be done while
the server runs: some thousand licenses are read at one moment, then the next.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

import msgspec

from keywright.core.command import Origin
from keywright.db import Storage, WriteTransaction, ask, change
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.licensing.activations import store as activation_store
from keywright.maintenance import inspection
from keywright.maintenance.inspection import OTHERS, Inspected
from keywright.search.store import list_daily_counts
from keywright.search.terms_store import FORWARDED_BLINDLY, day_of

_AT_ONCE = 5_000
_RESTORE = "Restore a backup from before that happened."


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it has to be. ``code`` is stable, for scripts."""

    code: str
    what: str
    advice: str
    license_id: int | None = None
    is_mendable: bool = False


class Examined(msgspec.Struct):
    """How much was looked at so far."""

    licenses: int = 0
    activations: int = 0


def examine(storage: Storage, progress: Callable[[Examined], None]) -> Iterator[Finding]:
    """Everything that is wrong, as it is found; ``progress`` hears how far it is from time to time.

    Raises ``Unavailable`` when the database cannot be read.
    """
    for line in ask(storage, inspection.damage):
        yield Finding("file.damaged", f"the file is damaged: {line}", _RESTORE)
    seen, after_id = Examined(), 0
    while True:
        piece = ask(storage, partial(inspection.inspect, after_id=after_id, limit=_AT_ONCE))
        for license in piece.licenses:
            yield from _judged(license)
            seen.activations += license.records
        for number in piece.strays:
            what = f"there are activations of license {number}, which does not exist"
            yield Finding("activation.stray", what, _RESTORE, number)
        seen.licenses += len(piece.licenses)
        progress(seen)
        if len(piece.licenses) < _AT_ONCE:
            break
        after_id = piece.last_id
    for number in ask(storage, inspection.doubled_numbers):
        what = f"more than one activation has the number {number}"
        yield Finding("activation.doubled", what, _RESTORE)
    for kind in ask(storage, inspection.numbers_behind):
        what = f"the next {kind} would get a number that is given already"
        yield Finding(f"{kind}.numbers", what, "Restore the table of numbers, or its sequence.")


def proxy_warnings(storage: Storage, now: datetime) -> list[str]:
    """A sentence if calls of today or yesterday came through a proxy that the settings do not name."""
    today = day_of(int(now.timestamp()))
    counts = ask(storage, lambda tx: list_daily_counts(tx, (FORWARDED_BLINDLY,), today - 1))
    if not (calls := sum(counts.values())):
        return []
    return [
        f"since yesterday, {calls:,} calls said that they were forwarded by a proxy that trusted_proxies "
        "does not name: all callers behind it share one address, and activations are not limited by address. "
        "If the proxy is yours, add it to trusted_proxies; the server's log names it."
    ]


def mend(storage: Storage, finding: Finding, now: datetime, origin: Origin) -> None:
    """Set a license's counters to the activations that it has, and write that down as an event.

    Only for findings that say that they are mendable.
    """
    license_id = finding.license_id
    if license_id is None or not finding.is_mendable:
        raise ValueError(f"{finding.code} cannot be mended")

    def recount(tx: WriteTransaction) -> None:
        counted = activation_store.recount(tx, license_id)
        if counted is None:
            return
        event = Event(now, "license.recounted", license_id, None, origin.actor, origin.ip_address, counted)
        event_store.save_events(tx, [event])

    change(storage, recount)


def _judged(license: Inspected) -> Iterator[Finding]:
    number = license.id
    if not license.is_key_sound:
        what = f"the key of license {number} cannot be read, or is found under another name"
        yield Finding("key.unsound", what, _RESTORE, number)
    if license.times_activated != license.active:
        what = (
            f"license {number} counts {license.times_activated} active places, and has {license.active} "
            "active activations"
        )
        yield Finding("counter.wrong", what, "Run `keywright doctor --repair`.", number, is_mendable=True)
    elif license.deactivated_records != (ended := license.records - license.active):
        what = (
            f"license {number} counts {license.deactivated_records} activations that were given up, and has "
            f"{ended}"
        )
        yield Finding("counter.wrong", what, "Run `keywright doctor --repair`.", number, is_mendable=True)
    if license.places is not None and license.times_activated > license.places:
        what = f"license {number} has more active places than it may ({license.places})"
        yield Finding("counter.over_limit", what, "Deactivate some of them.", number)
    if license.are_events_kept:
        yield from _judged_by_events(license)


def _judged_by_events(license: Inspected) -> Iterator[Finding]:
    times = license.events
    created, activated = times.get("license.created", 0), times.get("license.activated", 0)
    active = activated + times.get("license.reactivated", 0) - times.get("license.deactivated", 0)
    # Records go after a while; and of very many that are given up together, not each has its event.
    is_whole = activated >= license.records and (active == license.active or OTHERS in times)
    if created != 1 or not is_whole:
        what = (
            f"the events of license {license.id} do not tell its story: it was created {created} times, "
            f"was activated {activated} times and has {license.records} activations, and would have {active} "
            f"active ones instead of {license.active}"
        )
        advice = "No decision depends on events; look what else happened at that time."
        yield Finding("events.incomplete", what, advice, license.id)
