"""Handlers of the commands about notes, refused calls, removals by customers and moments."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from keywright.core.command import Command, Query
from keywright.core.errors import ChangedSince, NotFound, UnknownLicenseId
from keywright.db.rows import to_seconds
from keywright.db.transaction import ReadTransaction
from keywright.events.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing import moments, refusals, removals
from keywright.licensing import store as licensing_store
from keywright.licensing.activations import handlers as activations
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.moments import FindMoments, PassMoments, Place
from keywright.licensing.notes import Notes, SaveNotes
from keywright.licensing.refusals import SaveRefusals
from keywright.licensing.removals import RemoveByCustomer
from keywright.licensing.store import Expiring
from keywright.licensing.unit_of_work import LicenseWork


def save_notes(work: LicenseWork, command: SaveNotes) -> Notes:
    """Store the note and the tags; the event contains only the tags, as a note may be personal. Raises
    ``ChangedSince``.
    """
    license = work.get_license(command)
    before = licensing_store.find_notes(work.tx, [license.id])[license.id]
    if command.instead_of not in (None, before):
        raise ChangedSince(("note", "tags"))
    if before != command.notes:
        licensing_store.save_notes(work.tx, license.id, command.notes)
        details = {"tags": " ".join(command.notes.tags)}
        work.record_license_event("license.noted", license, command, details=details)
    return command.notes


NOTE_HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {SaveNotes: save_notes}


def save_refusals(work: LicenseWork, command: SaveRefusals) -> None:
    """Add refused calls to those of existing licenses, also calls with a former key; keep the latest."""
    tx, now = work.tx, command.context.now
    licensing_store.lock_refusals(tx, now)
    found = license_store.find_licenses(tx, command.refused)
    found |= license_store.find_rotated(tx, command.refused.keys() - found.keys())
    stored = licensing_store.list_refusals(tx, {one.id for one in found.values()})
    for key, license in found.items():
        stored[license.id] = refusals.merge([*stored.get(license.id, ()), *command.refused[key]])
    licensing_store.save_refusals(tx, stored)


REFUSAL_HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {SaveRefusals: save_refusals}


def remove_by_customer(work: LicenseWork, command: RemoveByCustomer) -> Activation:
    """Give up one place; one that was given up before stays as it is, and does not count. Returns the device
    as it was. Raises ``UnknownLicenseId``, ``NotFound`` or ``NoRemovalLeft``.
    """
    license, now = work.get_license(command), command.context.now
    if command.customer_id not in (None, license.customer_id):
        raise UnknownLicenseId(str(license.id))
    known = work.known_activations(license).values()
    activation = next((one for one in known if one.id == command.activation_id), None)
    if activation is None:
        raise NotFound(f"activation {command.activation_id}")
    if activation.deactivated_at is None:
        removals.require_removal(terms_of(license), work.removals.list_removals(license), now)
        work.removals.add(license, activation.id, now)
        activations.release(work, command)
    return activation


REMOVAL_HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    RemoveByCustomer: remove_by_customer
}


#: The most licenses per step.
MAX_LICENSES = 200
#: An expiry changed to a moment longer ago than this causes no event.
LOOKS_BACK = timedelta(days=1)


def pass_moments(work: UnitOfWork, command: PassMoments) -> Place | None:
    """Record events for some moments. Returns the position to continue after, None at the end: among the
    licenses checked again (with ``after``), or else among the moments that have come.
    """
    if command.after is not None:
        return _look_again(work, command, command.after)
    following = None
    for days in (*command.days, 0):
        following = _pass_next(work, command, days) or following
    return following


def _pass_next(work: UnitOfWork, command: PassMoments, days: int) -> Place | None:
    """Record events for the moments this many days before the expiry that have come since the last run."""
    tx, now = work.tx, command.context.now
    place, until = licensing_store.lock_place(tx, days), now + timedelta(days=days)
    if place is None:
        # Moments before the first run are ignored.
        if not days:
            licensing_store.save_begin(tx, now)
        licensing_store.save_place(tx, days, Place(to_seconds(until), 0), is_new=True)
        return None
    if place.expires_at > to_seconds(until + licensing_store.CLOCKS_APART):
        # A clock that was ahead moved the position.
        place = Place(to_seconds(until - LOOKS_BACK), 0)
        licensing_store.save_place(tx, days, place, is_new=False)
    found = licensing_store.list_expiring(tx, place, until, limit=MAX_LICENSES)
    _record_all(work, command, found)
    if found:
        licensing_store.save_place(tx, days, found[-1].place, is_new=False)
    return found[-1].place if len(found) == MAX_LICENSES else None


def _look_again(work: UnitOfWork, command: PassMoments, after: Place) -> Place | None:
    tx, now = work.tx, command.context.now
    begin = licensing_store.find_begin(tx)
    if begin is None:
        return None
    first = Place(to_seconds(max(begin, now - LOOKS_BACK)), 0)
    until = now + timedelta(days=max(command.days, default=0))
    found = licensing_store.list_expiring(tx, max(after, first), until, limit=MAX_LICENSES)
    _record_all(work, command, found)
    return found[-1].place if len(found) == MAX_LICENSES else None


def _record_all(work: UnitOfWork, command: PassMoments, found: Sequence[Expiring]) -> None:
    now = command.context.now
    known = licensing_store.find_marks(work.tx, [one.id for one in found])
    for one in found:
        days = moments.moment_of(one.expires_at, one.created_at, one.status, now, command.days)
        if days is None:
            continue
        about, recorded_at = known.get((one.id, moments.kind_of(days)), (0, 0))
        is_early = recorded_at > to_seconds(now + licensing_store.CLOCKS_APART)
        if (about != to_seconds(one.expires_at) or is_early) and _mark(work, one, days, now):
            _record(work, command, one, days, again=" again" if is_early else "")


def _mark(work: UnitOfWork, one: Expiring, days: int, now: datetime) -> bool:
    return licensing_store.mark(work.tx, one.id, moments.kind_of(days), to_seconds(one.expires_at), now)


def _record(work: UnitOfWork, command: PassMoments, one: Expiring, days: int, again: str) -> None:
    details: dict[str, Any] = {"expires_at": one.expires_at}
    if days:
        work.record_event("license.expiring", command, details | {"days": days}, license_id=one.id)
    else:
        work.record_event("license.expired", command, details, license_id=one.id)
    if command.notifies_customers and one.customer_id is not None:
        mail = QueuedMail(
            template=MailTemplate.EXPIRING if days else MailTemplate.EXPIRED,
            unique=f"license {one.id} {moments.kind_of(days)} {to_seconds(one.expires_at)}{again}",
            customer_id=one.customer_id,
            product_id=one.product_id,
            subject=Subject(license_ids=(one.id,)),
        )
        queue_mail(work.tx, mail, command.context.now)


def find_moments(read: Any, query: FindMoments) -> bool:
    """Whether a moment has come, or moments were never processed."""
    return any(_has_come(read.tx, query, days) for days in (*query.days, 0))


def _has_come(tx: ReadTransaction, query: FindMoments, days: int) -> bool:
    place = licensing_store.find_place(tx, days)
    until = query.now + timedelta(days=days)
    if place is None or place.expires_at > to_seconds(until + licensing_store.CLOCKS_APART):
        return True
    return bool(licensing_store.list_expiring(tx, place, until, limit=1))


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {FindMoments: find_moments}
MOMENT_HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {PassMoments: pass_moments}
