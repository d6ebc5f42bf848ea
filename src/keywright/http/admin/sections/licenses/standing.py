"""How a license stands: whether a new device would be let in now, why not, and which calls were refused."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from keywright.core.errors import Refusal, TooManyNewDevices
from keywright.db import ReadTransaction
from keywright.events.model import Event
from keywright.http.admin import event_text, event_views
from keywright.licensing.activations.device_checks import check_device
from keywright.licensing.activations.model import PlaceChange
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.refusals import RefusedCall
from keywright.licensing.store import list_refusals
from keywright.search import event_pages
from keywright.search.license_details import LicenseDetails
from keywright.search.store import EventFilter

#: The states that a change of the status explains.
_DECIDED = frozenset({"disabled", "inactive"})
#: How many changes of a license are looked at to find who changed its status.
_MAX_CHANGES = 50


class Refused(NamedTuple):
    """A refused call, and the device that it named; "" for none."""

    call: RefusedCall
    device: str


class Decision(NamedTuple):
    """Who set the status, and when."""

    by: str
    at: datetime


class Standing(NamedTuple):
    """``reason`` is the code of why a new device would be refused now; "" where it would be let in.
    ``devices_free_in_hours`` says when the terms allow another new device, if that is the reason.
    """

    reason: str
    decision: Decision | None
    devices_free_in_hours: int
    refused: Sequence[Refused]


class Trial(NamedTuple):
    """The answer to "would this device be let in now?": what would happen, or the reason why not."""

    fingerprint: str
    change: PlaceChange | None
    reason: str


def read_standing(tx: ReadTransaction, details: LicenseDetails, now: datetime) -> Standing:
    """How the license stands."""
    license = details.license
    outcome = check_device(tx, license, None, now)
    reason = outcome.problem if isinstance(outcome, Refusal) else ""
    calls = list_refusals(tx, [license.id]).get(license.id, [])
    return Standing(
        reason=reason,
        decision=_find_decision(tx, license) if reason in _DECIDED else None,
        devices_free_in_hours=_hours(outcome) if isinstance(outcome, TooManyNewDevices) else 0,
        refused=[Refused(one, _device(one, details)) for one in calls],
    )


def try_device(tx: ReadTransaction, license: License, fingerprint: str, now: datetime) -> Trial:
    """Whether the device with this fingerprint would be let in now; "" is a device that was never seen."""
    outcome = check_device(tx, license, fingerprint or None, now)
    if isinstance(outcome, Refusal):
        return Trial(fingerprint, None, outcome.problem)
    return Trial(fingerprint, outcome, "")


def _hours(refusal: TooManyNewDevices) -> int:
    return -(-refusal.retry_after_seconds // 3600)


def _device(call: RefusedCall, details: LicenseDetails) -> str:
    """The name of the device, its fingerprint, or the label of the activation that was named."""
    labels = {one.token: one.label or one.token[:8] + "…" for one in details.activations}
    named = call.device_name or call.fingerprint or labels.get(call.token or "")
    return named or ("" if call.token is None else call.token[:8] + "…")


def _find_decision(tx: ReadTransaction, license: License) -> Decision | None:
    """The last change that gave the license its status, if it is among the last changes."""
    some = event_pages.list_events(
        tx, EventFilter(license_id=license.id, name="license.updated"), limit=_MAX_CHANGES
    )
    for one in some.events:
        if _sets_status(one.event, Status(license.status)):
            names = event_views.find_names(tx, [one])
            return Decision(event_text.describe_actor(one.event.actor, names), one.event.occurred_at)
    return None


def _sets_status(event: Event, status: Status) -> bool:
    change = (event.details or {}).get("status")
    return isinstance(change, list) and change[-1] == status
