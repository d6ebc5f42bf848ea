"""The orders that jobs carry out, and why a license is not changed, in words."""

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
    """Change the licenses with these ids, or those that match a search and exist when it is ordered.
    ``is_from_now`` is where an extension begins; with ``zone``, it is by months of this time zone.
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
    """Write the licenses with these ids, or those that match a search, to a file."""

    license_ids: _Selected | None = None
    search: Search | None = None


class Import(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Import the licenses of an uploaded table: the field of each of its columns, in their order (see
    ``uploads.fields_by_name``), and the preset whose words it has. Settings define what is kept of addresses.
    Days without a time are of the time zone.

    Columns have no names here: a table without them may have a license key in its first line.
    """

    file_name: Annotated[str, msgspec.Meta(max_length=200)]
    format: Format
    fields: tuple[str, ...] = ()
    preset: str | None = None
    ip_addresses: IpAddresses = "full"
    keep_addresses_days: int = 0
    zone: str = "UTC"


class Apply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Give the licenses of a policy, which the search finds, these members of its terms, as they were when it
    was ordered; with ``overwrite``, also where they were set by hand.
    """

    policy_id: _Number
    terms: dict[str, Any]
    overwrite: bool = False
    search: Search
    license_ids: None = None


class TakeBack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Undo what another job has done, for each license that is still as that job left it."""

    job_id: _Number


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mail a notice to the customers with an affected device of its product, which the search has."""

    notice_id: _Number
    search: Search
    license_ids: None = None


class MakeFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a license file for each license and device that may have one, and mail them to the customers. They
    are good until ``ends_at``, or for as long as the license is. The search names a product, or nothing.
    """

    alg: SignatureAlg
    ends_at: datetime | None = None
    is_mailed: bool = True
    search: Search = Search()
    license_ids: None = None


Order: TypeAlias = Generate | Change | Export | Import | Apply | TakeBack | Notify | MakeFiles

#: The order of each kind of job.
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
    """The parameters that are stored with a job: the order, its author, and the last license at that time;
    of an import, also its outcomes so far.
    """

    order: dict[str, Any]
    actor: str
    ip_address: str
    last_license_id: int
    #: How many licenses met each verdict, how many activations each (``activation.new``), how many oddities
    #: of each code there were (``odd.over_limit``), and the number of the last chunk of lines that failed.
    outcomes: dict[str, int] = {}
    #: The job that takes back what this one did.
    taken_back_by: int | None = None
    #: Whether the keys that it made were downloaded.
    are_keys_fetched: bool = False


def start_command(order: Order, *, total: int | None = None, **command_fields: Any) -> StartJob:
    """The command that starts a job. ``total`` is the number of licenses, if they were counted."""
    parameters = msgspec.to_builtins(order)
    return StartJob(kind=_KIND_OF[type(order)], parameters=parameters, total=total, **command_fields)


def parse_order(command: StartJob) -> Order:
    """The order in a command. Raises ``InvalidParameters``."""
    if command.kind not in KINDS:
        raise InvalidParameters({"kind": "there is no such kind of job"})
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
    """The search for the job's licenses; None where they were selected, or are to be generated."""
    found = parameters_of(job).order.get("search")
    return None if found is None else msgspec.convert(found, Search)


def origin_of(job: Job) -> Origin:
    """The origin of the order, and so of all that the job does."""
    kept = parameters_of(job)
    return Origin(kept.actor, kept.ip_address, "")


def api_key_of(job: Job) -> int | None:
    """The number of the API key that ordered the job; None for a user."""
    kind, _, number = parameters_of(job).actor.partition(":")
    return int(number) if kind == "api_key" and number.isdigit() else None


def count_licenses(order: Order, total: int | None) -> int | None:
    """The number of licenses that an order is about, None if unknown."""
    if isinstance(order, Generate):
        return order.amount
    if isinstance(order, Change | Export) and order.license_ids is not None:
        return len(set(order.license_ids))
    return total


def right_for(order: Order) -> Right:
    """The right that ordering this needs: deleting many, and exporting or making files for all, is for
    administrators.
    """
    if isinstance(order, Change) and order.what is What.DELETE:
        return Right.ADMINISTER
    is_about_all = isinstance(order, Export | MakeFiles) and order.license_ids is None
    return Right.ADMINISTER if is_about_all else Right.CHANGE


def right_to_take_back(order: Order) -> Right:
    """The right that taking such a job back needs: that of the job, or that of deleting the licenses that it
    made or restored.
    """
    is_deletion = isinstance(order, Change) and order.what is What.DELETE
    is_large = is_deletion or isinstance(order, Generate | TakeBack | Apply)
    return Right.ADMINISTER if is_large else Right.CHANGE


def _require_valid(order: Change | Export) -> None:
    if (order.license_ids is None) == (order.search is None):
        raise InvalidParameters({"license_ids": "must be given, or a search, and not both"})
    if isinstance(order, Export):
        return
    if order.what in _NEEDS_AMOUNT and order.amount is None:
        raise InvalidParameters({"amount": "must be given"})
    if order.what is What.SET_STATUS and order.amount not in list(Status):
        raise InvalidParameters({"amount": "must be the number of a status"})


_REASONS: dict[type[Refusal], str] = {
    CannotUndo: "the history does not hold the state before",
    ExpiresLater: "it is good for longer already",
    FingerprintRequired: "no device is activated",
    InvalidParameters: "the limit would be too large",
    LicenseDisabled: "it is disabled",
    LicenseExpired: "it has expired",
    LicenseInactive: "it is inactive",
    LicenseKeyTaken: "another license has its key now",
    LimitReached: "too few places are free",
    NeverExpires: "it has no expiry that could be put off",
    NoLimit: "it has no limit",
    NotActivated: "no device is activated",
    NothingActive: "no place is taken",
    NothingToChange: "it is like that already",
    OfflineNotAllowed: "its terms allow no license file",
    OrderLineTaken: "another license is of its order line now",
    UnknownLicense: "it is not there any more",
    UnknownLicenseId: "it is not there any more",
    VersionNotCovered: "it has expired",
}


def reason_of(refusal: Refusal) -> str:
    """Why the license is not changed."""
    if isinstance(refusal, SetByHand):
        return refusal.fill("it was set by hand ({fields_in_words})")
    if isinstance(refusal, ChangedSince):
        return refusal.fill("it has been changed since ({fields_in_words})")
    return _REASONS.get(type(refusal), refusal.code)
