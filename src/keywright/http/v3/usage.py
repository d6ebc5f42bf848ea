"""Usage of meters, as programs count it."""

from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lease_schemas as schemas
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route
from keywright.licensing.activations.model import Device
from keywright.licensing.usage.commands import RecordUsage
from keywright.licensing.usage.model import RecordedUsage


async def record_usage(call: Call, body: schemas.RecordUsage) -> Answer:
    """Count usage.

    Counts an `amount` of a meter of the license's terms. Where the meter has `overage: refuse` and the amount
    does not fit as a whole, nothing is counted. Send an `Idempotency-Key`, so that a repeated call is counted
    once. Periods are those of the calendar in UTC.
    """
    command = RecordUsage(
        context=call.context,
        license=body.license_key,
        only_product_id=call.only_product_id,
        device=Device(body.fingerprint),
        token=body.token,
        product=body.product,
        built_at=body.built_at,
        meter=body.meter,
        amount=body.amount,
    )

    def write(recorded: RecordedUsage) -> Answer:
        usage = recorded.usage
        shown = schemas.Usage(usage.meter, usage.used, recorded.limit, recorded.resets_at)
        return ok(shown, license_id=usage.license_id)

    return await call.change(command, write)


ROUTES = (
    Route(
        "POST",
        "/usage",
        "record_usage",
        Right.CORE,
        record_usage,
        body=schemas.RecordUsage,
        gives=schemas.Usage,
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
