"""The bodies and answers of calls about leases and usage."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, field

from keywright.core.fields import Id, Parse, Time, about
from keywright.core.nouns import ListQuery
from keywright.core.parsing import parse_text
from keywright.http.v3.client_schemas import MAX_TEXT, ProgramCall
from keywright.licensing.terms.model import MAX_SECONDS, MIN_LEASE_SECONDS
from keywright.signing.client_license import ClientLicense

EXAMPLE_LEASE = "5b0e8c2f9d7a41e3b6c4d8f01a2b3c4d"
_EXAMPLE_TIME, _EXAMPLE_END, _EXAMPLE_HALF = (f"2026-11-22T{one}:00Z" for one in ("08:54", "09:04", "08:59"))
_MAX_METER_NAME, _MAX_AMOUNT = 64, 1_000_000

MeterName = Annotated[str, Meta(max_length=_MAX_METER_NAME)]
LeaseId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


def _parse_holder(holder: str) -> str:
    parse_text(holder, MAX_TEXT)
    return holder


Holder = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT), Parse(_parse_holder)]
_Seconds = Annotated[int, Meta(ge=MIN_LEASE_SECONDS, le=MAX_SECONDS)]


class TakeLease(ProgramCall, kw_only=True):
    """The body of a call that takes a lease."""

    holder: Annotated[Holder, about("Who holds it, such as a user or a process.", "anna@studio-3")]
    seconds: Annotated[_Seconds | None, about("For how long, at most `lease_seconds`.", 600)] = None


class RenewLease(ProgramCall, kw_only=True):
    """The body of a call that renews a lease."""

    lease_id: Annotated[LeaseId, about("The lease's `id`.", EXAMPLE_LEASE)]
    seconds: Annotated[_Seconds | None, about("For how long from now, at most `lease_seconds`.", 600)] = None


class ReleaseLease(ProgramCall, kw_only=True):
    """The body of a call that gives up a lease."""

    lease_id: Annotated[LeaseId, about("The lease's `id`.", EXAMPLE_LEASE)]


class ClientLease(Struct):
    """A lease, as its holder sees it."""

    id: Annotated[str, about("Names this lease in later calls.", EXAMPLE_LEASE)]
    expires_at: Annotated[datetime, about("When it ends unless it is renewed.", _EXAMPLE_END)]
    renew_at: Annotated[datetime, about("When to renew it: half of its time is over then.", _EXAMPLE_HALF)]


class TakenLease(Struct):
    """A lease that was taken, or that its holder had."""

    lease: ClientLease
    license: ClientLicense
    nonce: Annotated[str | None, about("The one that was sent.", None)]


class RenewedLease(Struct):
    """A lease that was renewed."""

    lease: ClientLease
    was_lost: Annotated[bool, about("Whether it had ended, and was taken again.", False)]
    license: ClientLicense
    nonce: Annotated[str | None, about("The one that was sent.", None)]


class ReleasedLease(Struct):
    """A lease that was given up."""

    was_held: Annotated[bool, about("Whether it was held until now.", True)]
    license: ClientLicense
    nonce: Annotated[str | None, about("The one that was sent.", None)]


class Lease(Struct):
    """A lease, as the vendor sees it."""

    id: Annotated[str, about("The lease's id.", EXAMPLE_LEASE)]
    holder: Annotated[str, about("Who holds it, as the program says.", "anna@studio-3")]
    activation_id: Annotated[Id | None, about("The device's activation, if it has one.", 90)]
    is_held: Annotated[bool, about("Whether it is held now; one that ended by itself is not.", True)]
    created_at: Annotated[datetime, about("When it was taken.", _EXAMPLE_TIME)]
    renewed_at: Annotated[datetime, about("When it was last renewed.", _EXAMPLE_TIME)]
    expires_at: Annotated[datetime, about("When it ends, or ended.", _EXAMPLE_END)]


class RecordUsage(ProgramCall, kw_only=True):
    """The body of a call that counts usage."""

    meter: Annotated[MeterName, about("A meter of the terms.", "exports")]
    amount: Annotated[Annotated[int, Meta(ge=1, le=_MAX_AMOUNT)], about("How much to count.", 1)] = 1


class UsageQuery(ListQuery):
    """Which of a license's periods."""

    since: Annotated[Time | None, about("Those that begin then or later.")] = field(default=None, name="from")
    until: Annotated[Time | None, about("Those that begin before that.")] = field(default=None, name="to")
    meter: Annotated[MeterName | None, about("Those of this meter.", "exports")] = None


class AllUsageQuery(ListQuery):
    """Which periods of all licenses."""

    period_from: Annotated[Time | None, about("Those that begin then or later.")] = None
    period_to: Annotated[Time | None, about("Those that begin before that.")] = None
    product_id: Annotated[Id | None, about("Those of licenses of this product.", 17)] = None
    meter: Annotated[MeterName | None, about("Those of this meter.", "exports")] = None
    is_closed: Annotated[bool | None, about("Those that are closed, or those that are not.", True)] = None


class UsagePeriod(Struct):
    """The usage of a meter in a period."""

    license_id: Annotated[Id, about("The license, also one that was deleted.", 4711)]
    meter: Annotated[str, about("The meter.", "exports")]
    period_start: Annotated[datetime, about("When it began.", "2026-11-01T00:00:00Z")]
    period_end: Annotated[
        datetime | None, about("When it ends, or ended; null is never.", "2026-12-01T00:00:00Z")
    ]
    used: Annotated[int, about("How much was used.", 130)]
    limit: Annotated[
        int | None, about("The meter's limit, once it is closed that of then; null: the meter is gone.", 100)
    ]
    overage: Annotated[int, about("How much of it is above the limit.", 30)]
    is_closed: Annotated[bool, about("Whether nothing is counted in it any more.", True)]


class Usage(Struct):
    """The usage of a meter."""

    meter: Annotated[str, about("The meter.", "exports")]
    used: Annotated[int, about("How much is used in this period.", 12)]
    limit: Annotated[int, about("How much may be used in a period.", 100)]
    resets_at: Annotated[datetime | None, about("When the next period begins; null is never.", _EXAMPLE_TIME)]
