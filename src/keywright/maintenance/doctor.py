"""Check a database, and repair what can be repaired without loss.

Each finding states what is wrong and what to do. The checks change nothing, and can run while the server
runs: each transaction reads a few thousand licenses.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from keywright.core.command import Origin
from keywright.core.parsing import format_count
from keywright.db import Storage, WriteTransaction, run_read, run_write
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.licensing.activations import store as activation_store
from keywright.licensing.leases.store import recount_leases
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.undo.store import list_unreadable
from keywright.licensing.updates.store import list_stored_files
from keywright.maintenance import inspection
from keywright.maintenance.inspection import OTHERS, Inspected
from keywright.provisioning.releases.files import list_stored, path_of, read_digest
from keywright.search import reports
from keywright.search.counters_store import FORWARDED_BLINDLY, day_of
from keywright.search.store import list_daily_counts
from keywright.signing.keys import list_unsound

_LICENSES_AT_ONCE, _DELETED_AT_ONCE = 5_000, 100
_RESTORE = "Restore a backup from before that happened."
_REPORT_WRONG = "report.wrong"


class Finding(msgspec.Struct, frozen=True):
    """A problem. ``code`` is stable, for scripts."""

    code: str
    what: str
    advice: str
    license_id: int | None = None
    is_repairable: bool = False


class Examined(msgspec.Struct):
    """The row counts examined so far."""

    licenses: int = 0
    activations: int = 0


def examine(storage: Storage, progress: Callable[[Examined], None]) -> Iterator[Finding]:
    """Yield all problems; ``progress`` is called after each step.

    Raises ``Unavailable`` if the database cannot be read.
    """
    for line in run_read(storage, inspection.find_damage):
        yield Finding("file.damaged", f"the file is damaged: {line}", _RESTORE)
    examined, after_id = Examined(), 0
    while True:
        step = run_read(
            storage, partial(inspection.inspect_licenses, after_id=after_id, limit=_LICENSES_AT_ONCE)
        )
        for license in step.licenses:
            yield from _check_license(license)
            examined.activations += license.records
        for number in step.missing_licenses:
            what = f"activations or leases belong to license {number}, which does not exist"
            yield Finding("activation.stray", what, _RESTORE, number)
        examined.licenses += len(step.licenses)
        progress(examined)
        if len(step.licenses) < _LICENSES_AT_ONCE:
            break
        after_id = step.last_id
    yield from _examine_others(storage)


def examine_files(storage: Storage, folder: Path) -> Iterator[Finding]:
    """Yield release files that are missing, altered, or of no release. Slow: it reads all of them."""
    known = {str(one.sha256): one.name for one in run_read(storage, list_stored_files)}
    present = dict(list_stored(folder))
    again = "Upload the file again to a new release, or copy it there from a backup."
    for sha256, name in known.items():
        if sha256 not in present:
            what = f"the contents of {name} are missing: {path_of(folder, sha256)}"
            yield Finding("release_file.missing", what, again)
        elif read_digest(present[sha256]) != sha256:
            yield Finding(
                "release_file.altered", f"the contents of {name} were altered: {present[sha256]}", again
            )
    for sha256 in present.keys() - known.keys():
        what = f"{present[sha256]} belongs to no release"
        yield Finding("release_file.stray", what, "Delete it, unless an upload is in progress.")


def proxy_warnings(storage: Storage, now: datetime) -> list[str]:
    """Warn if calls of today or yesterday came through a proxy that the settings do not name."""
    today = day_of(int(now.timestamp()))
    counts = run_read(storage, lambda tx: list_daily_counts(tx, (FORWARDED_BLINDLY,), today - 1))
    if not (calls := sum(counts.values())):
        return []
    return [
        f"since yesterday, {calls:,} calls claimed to come through a proxy that trusted_proxies does not "
        "name: all callers behind it share one address, and activations are not limited by address. If the "
        "proxy is yours, add it to trusted_proxies; the server's log names it."
    ]


def repair(storage: Storage, finding: Finding, now: datetime, origin: Origin) -> None:
    """Recount a license's activations and leases, and record that as an event; or rebuild the reports.

    Raises ``ValueError`` for a finding that is not repairable.
    """
    if finding.code == _REPORT_WRONG:
        rebuild_reports(storage)
        return
    license_id = finding.license_id
    if license_id is None or not finding.is_repairable:
        raise ValueError(f"{finding.code} cannot be repaired")

    def recount(tx: WriteTransaction) -> None:
        counted = activation_store.recount(tx, license_id)
        if counted is None:
            return
        [license] = find_licenses_by_id(tx, [license_id]).values()
        recounted = recount_leases(tx, license_id, terms_of(license).max_leases)
        if recounted is not None:
            counted["leases"] = recounted
        event = Event(now, "license.recounted", license_id, None, origin.actor, origin.ip_address, counted)
        event_store.save_events(tx, [event])

    run_write(storage, recount)


def rebuild_reports(storage: Storage) -> None:
    """Rebuild the months of the reports from all events that are kept."""
    run_write(storage, reports.rebuild_months)
    while run_write(storage, reports.count_some):
        pass


def _examine_reports(storage: Storage) -> Iterator[Finding]:
    """Yield a finding if the months of the reports are not the sums of their events."""
    wrong = run_read(storage, reports.find_wrong)
    for (_, subject, day, name), (stored, counted) in sorted(wrong.items())[:1]:
        of = f"product {subject}" if subject else "all licenses"
        month = f"{reports.date_of(day):%Y-%m}"
        what = (
            f"{len(wrong)} figures of the reports do not match the events, such as {name!r} of {of} in "
            f"{month}: {stored} instead of {counted}"
        )
        yield Finding(_REPORT_WRONG, what, "Run `keywright doctor --repair`.", is_repairable=True)


def _examine_others(storage: Storage) -> Iterator[Finding]:
    """Yield problems not tied to a license that exists."""
    yield from _examine_reports(storage)
    for number in run_read(storage, inspection.find_doubled_numbers):
        what = f"more than one activation has the ID {number}"
        yield Finding("activation.doubled", what, _RESTORE)
    for kind in run_read(storage, inspection.find_kinds_behind):
        what = f"the next {kind} would get an ID that is already in use"
        yield Finding(f"{kind}.numbers", what, "Restore the table of IDs, or its sequence.")
    yield from _examine_deleted(storage)
    for kid in run_read(storage, list_unsound):
        yield Finding(
            "signing_key.unsound", f"the signing key {kid} cannot be read, or does not match its ID", _RESTORE
        )


def _examine_deleted(storage: Storage) -> Iterator[Finding]:
    """Yield deleted licenses that cannot be restored."""
    after_id: int | None = 0
    while after_id is not None:
        question = partial(list_unreadable, after_id=after_id, limit=_DELETED_AT_ONCE)
        unreadable, after_id = run_read(storage, question)
        for number in unreadable:
            what = f"the kept data of the deleted license {number} cannot be read"
            yield Finding("deleted_license.unsound", what, "It cannot be restored.", number)


def _check_license(license: Inspected) -> Iterator[Finding]:
    number = license.id
    if not license.is_key_sound:
        what = f"the key of license {number} cannot be read, or does not match its hash"
        yield Finding("key.unsound", what, _RESTORE, number)
    if license.times_activated != (counted := license.active - license.uncounted):
        what = (
            f"license {number} has an activation count of {license.times_activated}, but "
            f"{format_count(counted, 'active activation')}"
        )
        yield Finding("counter.wrong", what, "Run `keywright doctor --repair`.", number, is_repairable=True)
    elif license.uncounted_count != license.uncounted:
        what = (
            f"license {number} counts {license.uncounted_count} active activations that take no place, but "
            f"has {license.uncounted}"
        )
        yield Finding("counter.wrong", what, "Run `keywright doctor --repair`.", number, is_repairable=True)
    elif license.deactivated_count != (ended := license.records - license.active):
        what = f"license {number} counts {license.deactivated_count} deactivated activations, but has {ended}"
        yield Finding("counter.wrong", what, "Run `keywright doctor --repair`.", number, is_repairable=True)
    if license.leases_counted != license.leases:
        what = f"license {number} counts {license.leases_counted} leases, but has {license.leases}"
        yield Finding("counter.wrong", what, "Run `keywright doctor --repair`.", number, is_repairable=True)
    if license.places is not None and license.times_activated > license.places:
        what = f"license {number} uses more places than its limit ({license.places})"
        yield Finding("counter.over_limit", what, "Deactivate some.", number)
    if license.are_events_kept:
        yield from _check_events(license)


def _check_events(license: Inspected) -> Iterator[Finding]:
    times = license.events
    created, activated = times.get("license.created", 0), times.get("license.activated", 0)
    if "license.imported" in times and created <= 1:
        # Its earlier history was not imported.
        return
    active = activated + times.get("license.reactivated", 0) - times.get("license.deactivated", 0)
    # Old activations are purged; and when very many places are given up together, they share an event.
    placed = activated + times.get("license.device_replaced", 0)
    is_complete = placed >= license.records and (active == license.active or OTHERS in times)
    if created != 1 or not is_complete:
        what = (
            f"the events of license {license.id} do not match its activations: events show {created} "
            f"creations, {activated} activations and {active} active ones; the license has "
            f"{license.records} activations, of which {license.active} are active"
        )
        advice = "No decision depends on events; find out what else happened at that time."
        yield Finding("events.incomplete", what, advice, license.id)
