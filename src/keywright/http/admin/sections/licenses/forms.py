"""Forms for a license, and whether the license would accept a device."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from keywright.core import parsing
from keywright.core.errors import Refusal, TooManyNewDevices, UnknownLicense
from keywright.core.nouns import Member, list_members
from keywright.db.transaction import ReadTransaction
from keywright.events.model import Event
from keywright.http.admin import event_text, event_views
from keywright.http.admin.crud import FormField, show_member
from keywright.http.admin.event_views import reader_zone
from keywright.http.admin.name_suggestions import read_number, write_number
from keywright.http.pages import session
from keywright.http.pages.error_messages import explain, message_for
from keywright.http.pages.formats import N_, _, last_day
from keywright.http.pages.forms import Form, parse_positive
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.jobs.orders import Change, What
from keywright.licensing.activations.device_handlers import check_device
from keywright.licensing.activations.model import PlaceChange
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import OWN_FIELDS, License, LicenseFields, Status, parse_status
from keywright.licensing.refusals import RefusedCall
from keywright.licensing.store import list_refusals
from keywright.licensing.undo.store import MAX_RECORDS
from keywright.provisioning.products import NameKind
from keywright.search import feed, license_pages
from keywright.search.license_pages import LicenseDetails
from keywright.search.store import EventFilter

#: The fields of a form, named as in ``License``.
FIELDS = (
    "key",
    "status",
    "times_activated_max",
    "expires_at",
    "valid_for_days",
    "product_id",
    "customer_id",
    "order_id",
    *OWN_FIELDS,
)
_BEFORE: Final = "before_"
#: The longest extension, in months.
_MAX_MONTHS = 12 * 9999
#: The text for no limit.
UNLIMITED: Final = "unlimited"
_REQUIRED = {
    "key": N_("A license needs a key."),
    "status": N_("A license needs a status."),
    "times_activated_max": N_("Type how many devices, or choose no limit."),
}


def _reader_of(member: Member) -> Callable[[ReadTransaction, str], Any]:
    return lambda _tx, text: member.read(text)


_PARSERS: dict[str, Callable[[ReadTransaction, str], Any]] = {
    "key": lambda _tx, text: keys.normalize_key(text),
    "status": lambda _tx, text: parse_status(text),
    "times_activated_max": lambda _tx, text: parse_limit(text),
    "valid_for_days": lambda _tx, text: parsing.parse_days(text),
    "product_id": lambda tx, text: read_number(tx, NameKind.PRODUCT, text),
    "customer_id": lambda tx, text: read_number(tx, NameKind.CUSTOMER, text),
    "order_id": lambda _tx, text: parsing.parse_integer(text),
} | {one.name: _reader_of(one) for one in list_members(LicenseFields)}


def list_statuses() -> list[tuple[str, str]]:
    """The choices for the status, with labels."""
    return [(one.name.lower(), _(one.name.lower()).capitalize()) for one in Status]


def read_details(tx: ReadTransaction, license_id: int, first: int = 0) -> LicenseDetails:
    """A license and a page of its activations, from position ``first``. Raises ``UnknownLicense``."""
    details = license_pages.get_license(tx, license_id, first)
    if details is None:
        raise UnknownLicense(str(license_id))
    return details


def get_details(request: PageRequest) -> LicenseDetails:
    """The license in the address, and its activations. Raises ``UnknownLicense``."""
    return request.ask(lambda tx: read_details(tx, request.path_params["id"]))


def get_license(request: PageRequest) -> License:
    """The license in the address. Raises ``UnknownLicense``."""
    return get_details(request).license


def read_extension(request: PageRequest, amount: int) -> Change:
    """The extension in a form: by ``amount`` of the chosen unit, or of days without one."""
    months = {"months": 1, "years": 12}.get(request.form.get("unit", ""), 0)
    return Change(
        what=What.EXTEND,
        amount=min(months * amount, _MAX_MONTHS) or amount,
        zone=reader_zone(request).key if months else None,
        is_from_now=request.form.get("begin", "") == "now",
    )


def undo_path(request: PageRequest, license_id: int) -> str:
    """The path of the form that undoes the changes of a license by this request."""
    return f"/licenses/{license_id}/undo/{int(request.now.timestamp())}"


def was_just_made(request: PageRequest, license: License) -> bool:
    """Whether this page shows the message about the license's creation, which is shown once."""
    message = session.load(request.browser)
    made = f"/licenses/{license.id}/undo/{int(license.created_at.timestamp())}"
    return message is not None and message.undo == made and request.may(Right.CHANGE)


def keeps_deleted(request: PageRequest, license: License) -> bool:
    """Whether a license could be restored after its deletion."""
    return request.site.settings.keep_deleted_days > 0 and license.record_count <= MAX_RECORDS


def new_texts(key: str) -> dict[str, str]:
    """The texts in the form for a new license."""
    return {name: "" for name in FIELDS} | {"key": key, "status": "active", "times_activated_max": "1"}


def texts_of(tx: ReadTransaction, license: License, zone: ZoneInfo) -> dict[str, str]:
    """The texts in the form for a license; its key is not shown."""
    texts = {name: write(getattr(license, name)) for name in FIELDS} | _write_own_fields(license)
    texts |= {"key": "", "status": Status(license.status).name.lower()}
    texts["times_activated_max"] = write_limit(license.times_activated_max)
    texts["product_id"] = write_number(tx, NameKind.PRODUCT, license.product_id)
    texts["customer_id"] = write_number(tx, NameKind.CUSTOMER, license.customer_id)
    if license.expires_at is not None:
        texts["expires_at"] = last_day(license.expires_at, zone).isoformat()
        # Once the expiry is known, days from the first activation have no meaning.
        texts["valid_for_days"] = ""
    return texts


def list_own_fields(texts: Mapping[str, str]) -> list[FormField]:
    """The fields that ``LicenseFields`` declares, with these texts."""
    return [show_member(one, texts[one.name]) for one in list_members(LicenseFields)]


def _write_own_fields(license: License) -> dict[str, str]:
    return {one.name: one.write(getattr(license, one.name)) for one in list_members(LicenseFields)}


def list_own_facts(license: License) -> list[tuple[str, str]]:
    """The labels and texts of those fields of ``LicenseFields`` that the license has."""
    texts = _write_own_fields(license)
    return [(one.label, one.value) for one in list_own_fields(texts) if one.value]


def texts_from(form: Form) -> dict[str, str]:
    """The texts in a submitted form."""
    texts = {name: form.get(name, "") for name in FIELDS}
    return texts | ({"times_activated_max": UNLIMITED} if UNLIMITED in form else {})


def find_changes(form: Form) -> set[str]:
    """The names of the fields that differ from what the form showed. Only these are updated: another user may
    have changed the others since.
    """
    return {name for name, text in texts_from(form).items() if text != form.get(_BEFORE + name, "")}


def parse(
    tx: ReadTransaction, texts: Mapping[str, str], zone: ZoneInfo, *, required: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse the values of the fields, and messages about invalid ones, by name. Fields in ``required`` must
    not be empty. An expiry is the end of a day in this time zone.
    """
    parsers = _PARSERS | {"expires_at": lambda _tx, text: parsing.parse_last_day(text, zone)}
    values: dict[str, Any] = {}
    errors = {name: _(_REQUIRED[name]) for name in required if not texts[name]}
    for name, text in texts.items():
        try:
            values[name] = parsers[name](tx, text) if text else None
        except Refusal as refusal:
            errors[name] = message_for(refusal).sentence
        except ValueError as reason:
            errors[name] = explain(reason)
    if values.get("expires_at") is not None and values.get("valid_for_days") is not None:
        errors["valid_for_days"] = _("Leave this empty if there is a date.")
    return values, errors


def changes_of(values: Mapping[str, Any], changed: set[str]) -> dict[str, Any]:
    """The values to update. An empty key is not changed. A change of the expiry includes the days from the
    first activation, which a new expiry removes.
    """
    changes = {name: values[name] for name in changed if name != "key" or values["key"] is not None}
    if "expires_at" in changes:
        changes["valid_for_days"] = values["valid_for_days"]
    return changes


def parse_limit(text: str) -> int | None:
    """A limit of 1 device or more; None for no limit. Raises ``ValueError``."""
    return None if text == UNLIMITED else parse_positive(text)


def write_limit(limit: int | None) -> str:
    """The text for a limit of devices."""
    return UNLIMITED if limit is None else str(limit)


def write(value: object) -> str:
    """The text for any other value of a license; times are written without a zone."""
    return "" if value is None else str(value)[:19]


#: The reasons that a change of the status explains.
_DECIDED = frozenset({"disabled", "inactive"})
#: The most changes of a license that are searched for the one that set its status.
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
    """Whether a license would accept a new device now: ``reason`` is the code of the refusal, or "".
    ``devices_free_in_hours`` is the time until the terms allow another new device, if too many is the reason.
    """

    reason: str
    decision: Decision | None
    devices_free_in_hours: int
    refused: Sequence[Refused]


class Trial(NamedTuple):
    """Whether a device would be accepted now: the change that would be made, or the code of the refusal."""

    fingerprint: str
    change: PlaceChange | None
    reason: str


def read_standing(tx: ReadTransaction, details: LicenseDetails, now: datetime) -> Standing:
    """Whether the license would accept a new device now, and its latest refused calls."""
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
    """Whether the device with this fingerprint would be accepted now; "" means a device never seen before."""
    outcome = check_device(tx, license, fingerprint or None, now)
    if isinstance(outcome, Refusal):
        return Trial(fingerprint, None, outcome.problem)
    return Trial(fingerprint, outcome, "")


def _hours(refusal: TooManyNewDevices) -> int:
    return -(-refusal.retry_after_seconds // 3600)


def _device(call: RefusedCall, details: LicenseDetails) -> str:
    """The device's name or fingerprint, or the label or short token of the activation that the call named."""
    labels = {one.token: one.label or one.token[:8] + "…" for one in details.activations}
    named = call.device_name or call.fingerprint or labels.get(call.token or "")
    return named or ("" if call.token is None else call.token[:8] + "…")


def _find_decision(tx: ReadTransaction, license: License) -> Decision | None:
    """The latest change that set the license's current status, if it is among the latest changes."""
    some = feed.list_events(
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
