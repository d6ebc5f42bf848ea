"""The orders that jobs carry out, and the reasons why a license is not changed."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from keywright.core.command import Origin
from keywright.core.errors import (
    CannotUndo,
    ChangedSince,
    ExpiresLater,
    FingerprintRequired,
    InvalidParameters,
    LicenseDisabled,
    LicenseExpired,
    LicenseInactive,
    LicenseKeyTaken,
    LimitReached,
    NeverExpires,
    NoLimit,
    NotActivated,
    NothingActive,
    NothingToChange,
    OfflineNotAllowed,
    OrderLineTaken,
    Refusal,
    SetByHand,
    UnknownLicense,
    UnknownLicenseId,
    VersionNotCovered,
)
from keywright.core.parsing import MAX_COUNT, MAX_ID, IpAddresses
from keywright.identity.model import Right
from keywright.jobs.model import Job, StartJob
from keywright.licensing.licenses.model import Status
from keywright.provisioning.importers.uploads import Format
from keywright.search.filters import Search
from keywright.signing.jws import SignatureAlg

MAX_GENERATED = 1_000_000
MAX_SELECTED = 10_000

_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]
_Selected = Annotated[tuple[_Number, ...], msgspec.Meta(min_length=1, max_length=MAX_SELECTED)]
_StatusNumber = Annotated[int, msgspec.Meta(ge=Status.SOLD.value, le=Status.DISABLED.value)]


class What(StrEnum):
    """The change to each license."""

    #: By ``amount`` days, or months.
    EXTEND = "extend"
    #: To ``amount`` places; without an amount, there is no limit.
    SET_LIMIT = "set_limit"
    #: By ``amount`` places.
    RAISE_LIMIT = "raise_limit"
    DISABLE = "disable"
    #: To the status from before they were disabled.
    ENABLE = "enable"
    #: To the status with the number ``amount``.
    SET_STATUS = "set_status"
    DEACTIVATE_ALL = "deactivate_all"
    DELETE = "delete"


class Generate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make ``amount`` licenses with a policy; with ``claimable``, customers may claim them in the portal."""

    policy_id: _Number
    amount: Annotated[int, msgspec.Meta(ge=1, le=MAX_GENERATED)]
    status: _StatusNumber
    order_id: _Number | None = None
    product_id: _Number | None = None
    customer_id: _Number | None = None
    claimable: bool | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Change the licenses with these IDs, or those that match a search and exist at the time of the order.
    With ``is_from_now``, an extension begins now; with ``zone``, it is in months of this time zone.
    """

    what: What
    amount: Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)] | None = None
    is_from_now: bool = False
    zone: str | None = None
    license_ids: _Selected | None = None
    search: Search | None = None

    def extension(self) -> dict[str, Any]:
        """The fields of the command that extends a license."""
        amount = self.amount or 0
        by = {"days": amount} if self.zone is None else {"months": amount, "zone": ZoneInfo(self.zone)}
        return by | {"is_from_now": self.is_from_now}


class Export(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Write the licenses with these IDs, or those that match a search, to a file."""

    license_ids: _Selected | None = None
    search: Search | None = None


class Import(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Import the licenses of an uploaded table. ``fields`` has the field of each column, in order (see
    ``uploads.fields_by_name``), ``preset`` names the preset whose vocabulary the table uses. The settings
    determine what is kept of addresses. Dates without a time are in the time zone.

    Column names are not stored here: the first line of a table without a header may contain a license key.
    """

    file_name: Annotated[str, msgspec.Meta(max_length=200)]
    format: Format
    fields: tuple[str, ...] = ()
    preset: str | None = None
    ip_addresses: IpAddresses = "full"
    keep_addresses_days: int = 0
    zone: str = "UTC"


class Apply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Copy these terms of a policy, as of the order, to its licenses, which the search finds; with
    ``overwrite``, also where they were set by hand.
    """

    policy_id: _Number
    terms: dict[str, Any]
    overwrite: bool = False
    search: Search
    license_ids: None = None


class TakeBack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Undo another job for each license that is still as that job left it."""

    job_id: _Number


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mail a notice to the customers with an affected device of its product; the search names the product."""

    notice_id: _Number
    search: Search
    license_ids: None = None


class MakeFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a license file for each license and device that may have one, and with ``is_mailed``, mail them to
    the customers. They are valid until ``ends_at``, or as long as the license. The search names a product, or
    is empty.
    """

    alg: SignatureAlg
    ends_at: datetime | None = None
    is_mailed: bool = True
    search: Search = Search()
    license_ids: None = None


Order: TypeAlias = Generate | Change | Export | Import | Apply | TakeBack | Notify | MakeFiles

#: The order type for each kind of job.
KINDS: dict[str, type[Order]] = {
    "generate": Generate,
    "change": Change,
    "export": Export,
    "import": Import,
    "apply": Apply,
    "take_back": TakeBack,
    "notify": Notify,
    "make_files": MakeFiles,
}
_KIND_OF = {order: kind for kind, order in KINDS.items()}
_NEEDS_AMOUNT = frozenset({What.EXTEND, What.RAISE_LIMIT, What.SET_STATUS})


class Parameters(msgspec.Struct, frozen=True):
    """The parameters stored with a job: the order, its author, and the ID of the newest license at that time;
    for some kinds, also the outcomes so far.
    """

    order: dict[str, Any]
    actor: str
    ip_address: str
    last_license_id: int
    #: Of an import: the number of licenses per verdict, of activations per verdict (``activation.new``), of
    #: oddities per code (``odd.over_limit``), and the last part with lines that failed. Of license files: the
    #: counts of its steps, and where they are (``after_device``, ``last_part``).
    outcomes: dict[str, int] = {}
    #: The ID of the job that undoes this one.
    taken_back_by: int | None = None
    #: Whether the keys that it generated were downloaded.
    are_keys_fetched: bool = False


def start_command(order: Order, *, total: int | None = None, **command_fields: Any) -> StartJob:
    """Build the command that starts a job. ``total`` is the number of licenses, if counted."""
    parameters = msgspec.to_builtins(order)
    return StartJob(kind=_KIND_OF[type(order)], parameters=parameters, total=total, **command_fields)


def parse_order(command: StartJob) -> Order:
    """Parse the order in a command. Raises ``InvalidParameters``."""
    if command.kind not in KINDS:
        raise InvalidParameters({"kind": "is not a kind of job"})
    try:
        order = msgspec.convert(command.parameters, KINDS[command.kind])
    except msgspec.ValidationError as problem:
        raise InvalidParameters({"parameters": str(problem)}) from None
    if isinstance(order, Change | Export):
        _require_valid(order)
    if isinstance(order, MakeFiles) and order.ends_at is not None and order.ends_at <= command.context.now:
        raise InvalidParameters({"ends_at": "must be in the future"})
    return order


def parameters_of(job: Job) -> Parameters:
    """The stored parameters of the job."""
    return msgspec.convert(job.parameters, Parameters)


def order_of(job: Job) -> Order:
    """The order that the job carries out."""
    return msgspec.convert(parameters_of(job).order, KINDS[job.kind])


def search_of(job: Job) -> Search | None:
    """The search for the job's licenses; None if its order has none."""
    found = parameters_of(job).order.get("search")
    return None if found is None else msgspec.convert(found, Search)


def origin_of(job: Job) -> Origin:
    """The origin of the order, and therefore of everything the job does."""
    kept = parameters_of(job)
    return Origin(kept.actor, kept.ip_address, "")


def api_key_of(job: Job) -> int | None:
    """The ID of the API key that ordered the job; None if a user did."""
    kind, _, number = parameters_of(job).actor.partition(":")
    return int(number) if kind == "api_key" and number.isdigit() else None


def count_licenses(order: Order, total: int | None) -> int | None:
    """The number of licenses an order affects, None if unknown."""
    if isinstance(order, Generate):
        return order.amount
    if isinstance(order, Change | Export) and order.license_ids is not None:
        return len(set(order.license_ids))
    return total


def right_for(order: Order) -> Right:
    """The right needed to order this: deleting many licenses, and exporting or making files for a search,
    are for administrators.
    """
    if isinstance(order, Change) and order.what is What.DELETE:
        return Right.ADMINISTER
    is_about_all = isinstance(order, Export | MakeFiles) and order.license_ids is None
    return Right.ADMINISTER if is_about_all else Right.CHANGE


def right_to_take_back(order: Order) -> Right:
    """The right needed to undo a job with this order. Undoing a generation (which deletes its licenses), a
    deletion, an undo or the application of terms is for administrators.
    """
    is_deletion = isinstance(order, Change) and order.what is What.DELETE
    is_large = is_deletion or isinstance(order, Generate | TakeBack | Apply)
    return Right.ADMINISTER if is_large else Right.CHANGE


def _require_valid(order: Change | Export) -> None:
    if (order.license_ids is None) == (order.search is None):
        raise InvalidParameters({"license_ids": "is required, or a search, but not both"})
    if isinstance(order, Export):
        return
    if order.what in _NEEDS_AMOUNT and order.amount is None:
        raise InvalidParameters({"amount": "is required"})
    if order.what is What.SET_STATUS and order.amount not in list(Status):
        raise InvalidParameters({"amount": "must be the number of a status"})


_REASONS: dict[type[Refusal], str] = {
    CannotUndo: "the history does not contain the previous state",
    ExpiresLater: "it is already valid for longer",
    FingerprintRequired: "no device is activated",
    InvalidParameters: "the limit would be too large",
    LicenseDisabled: "it is disabled",
    LicenseExpired: "it has expired",
    LicenseInactive: "it is inactive",
    LicenseKeyTaken: "another license now has its key",
    LimitReached: "too few places are free",
    NeverExpires: "it has no expiry that could be extended",
    NoLimit: "it has no limit",
    NotActivated: "no device is activated",
    NothingActive: "no place is taken",
    NothingToChange: "it is already like that",
    OfflineNotAllowed: "its terms do not allow license files",
    OrderLineTaken: "another license now has its order line",
    UnknownLicense: "it no longer exists",
    UnknownLicenseId: "it no longer exists",
    VersionNotCovered: "it has expired",
}


def reason_of(refusal: Refusal) -> str:
    """Why the license is not changed, as a clause."""
    if isinstance(refusal, SetByHand):
        return refusal.fill("it was set by hand ({fields_in_words})")
    if isinstance(refusal, ChangedSince):
        return refusal.fill("it has been changed since ({fields_in_words})")
    return _REASONS.get(type(refusal), refusal.code)
