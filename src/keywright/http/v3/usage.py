"""Usage of meters: programs record it, vendors bill it by period."""

from datetime import timedelta
from operator import attrgetter

from msgspec.structs import replace

from keywright.core.fields import copy_as
from keywright.core.nouns import ItemPage
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import client_schemas, lists
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import JSON_TYPE, JWT_TYPE, Route
from keywright.http.v3.schemas import Page
from keywright.http.v3.signed import about_program, sign_statement
from keywright.licensing.usage.model import ListPeriods, MeterUsage, PeriodFilter, RecordedUsage, RecordUsage
from keywright.licensing.usage.rules import resets_at


async def record_usage(call: Call, body: client_schemas.RecordUsage) -> Answer:
    """Record usage.

    Adds `amount` to a meter of the license's terms. If the meter has `overage: refuse` and the whole amount
    does not fit, nothing is counted. Send an `Idempotency-Key`, so that a retry is not counted twice. Periods
    follow the UTC calendar or start with the license, depending on the meter.
    """
    command = RecordUsage(**about_program(call, body), meter=body.meter, amount=body.amount)

    def write(recorded: RecordedUsage) -> Answer:
        usage = recorded.usage
        shown = client_schemas.Usage(usage.meter, usage.used, recorded.limit, recorded.resets_at)
        return ok(shown, license_id=usage.license_id)

    return await call.change(command, write)


async def list_license_usage(call: Call, query: client_schemas.UsageQuery) -> Answer:
    """List the usage of a license.

    Returns the periods with usage by meter, the oldest first: closed periods, which never change, and current
    ones. A period is closed an hour after it ends, or earlier if its meter is removed or gets another `per`;
    until then, `limit` is the current limit. The periods of a deleted license are kept.

    With `Accept: application/jwt`, the page is a signed token of the type `keywright-usage+jwt`, which both
    parties can use as evidence.
    """
    where = PeriodFilter(
        license_id=call.path["license_id"], meter=query.meter, since=query.since, until=query.until
    )
    answer = await _list(call, where)
    if not call.is_signed:
        return answer
    statement = {
        "sub": f"license:{where.license_id}",
        "exp": int((call.now + timedelta(days=call.settings.keep_usage_days)).timestamp()),
        "from": where.since,
        "to": where.until,
        "meter": where.meter,
    }
    return await sign_statement(call, answer, statement)


async def list_usage(call: Call, query: client_schemas.AllUsageQuery) -> Answer:
    """List usage.

    Returns the periods of all licenses, including deleted ones, by license and meter, the oldest first. With
    `is_closed=true`, the listed periods never change and can be billed.
    """
    return await _list(
        call,
        PeriodFilter(
            product_id=query.product_id,
            meter=query.meter,
            since=query.period_from,
            until=query.period_to,
            is_closed=query.is_closed,
        ),
    )


async def _list(call: Call, where: PeriodFilter) -> Answer:
    asked = ListPeriods(
        where=replace(where, only_product_id=call.only_product_id),
        after=lists.read_cursor(call, tuple[lists.Number, client_schemas.MeterName, lists.Number]),
        limit=call.asked.limit + 1,
        is_counted=call.asked.count,
    )

    def write(found: ItemPage[MeterUsage]) -> Answer:
        return lists.answer_page(call, found.items, attrgetter("place"), show_period, total=found.total)

    return await call.ask(asked, write)


def show_period(one: MeterUsage) -> client_schemas.UsagePeriod:
    """A usage period as vendors see it."""
    return copy_as(
        client_schemas.UsagePeriod,
        one,
        period_end=resets_at(one),
        limit=one.meter_limit,
        is_closed=one.closed_at is not None,
    )


ROUTES = (
    Route(
        "GET",
        "/usage",
        Right.READ,
        list_usage,
        gives=Page[client_schemas.UsagePeriod],
        example={"is_closed": "true", "limit": "50"},
    ),
    Route(
        "GET",
        "/licenses/{license_id}/usage",
        Right.READ,
        list_license_usage,
        gives=Page[client_schemas.UsagePeriod],
        refusals=("not_found",),
        produces=(JSON_TYPE, JWT_TYPE),
    ),
    Route(
        "POST",
        "/usage",
        Right.CORE,
        record_usage,
        gives=client_schemas.Usage,
        refusals=(
            "unknown_license",
            "product_mismatch",
            "key_rotated",
            "expired",
            "inactive",
            "disabled",
            "usage_exceeded",
        ),
        example={"license_key": "KEY-1", "meter": "exports"},
    ),
)
