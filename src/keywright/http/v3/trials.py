"""Trials, which programs start."""

from typing import Annotated

from msgspec import Meta, Struct

from keywright.core.errors import RateLimited
from keywright.core.fields import Id, Parse, Time, about
from keywright.core.parsing import parse_text
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import encode
from keywright.http.v3.call import Call
from keywright.http.v3.client import entitlements_of, show_activation
from keywright.http.v3.client_schemas import ClientActivation, ProductName, Text
from keywright.http.v3.fields import ClientBody
from keywright.http.v3.route import Route
from keywright.licensing.activations.model import Device
from keywright.provisioning.customers import Email
from keywright.provisioning.trials import HasTrial, StartTrial
from keywright.provisioning.trials import StartedTrial as Outcome
from keywright.signing.explanation import ClientLicense, show_license

_FINGERPRINT, _TIME, _KEY = "device-7f3a9c0e12b4", "2026-11-22T08:54:00Z", "TRIAL-7Q2M-94TB-VH3C"
_MAX_FINGERPRINT = 256


def _parse_fingerprint(text: str) -> str:
    parse_text(text, _MAX_FINGERPRINT)
    return text


_Fingerprint = Annotated[str, Meta(min_length=8, max_length=_MAX_FINGERPRINT), Parse(_parse_fingerprint)]


class StartTrialBody(ClientBody):
    """The body of a call that starts a trial."""

    product: Annotated[ProductName, about("The product's `id` or `code`.", "photo-editor")]
    fingerprint: Annotated[
        _Fingerprint, about("An opaque identifier of the device, such as an HMAC.", _FINGERPRINT)
    ]
    policy: Annotated[Id | None, about("The policy, if the product has several for trials.", None)] = None
    email: Annotated[
        Email | None, about("An e-mail address to store with the license.", "ada@example.com")
    ] = None
    name: Annotated[Text | None, about("The device's name, for people to read.", "Anna's laptop")] = None
    platform: Annotated[Text | None, about("The device's operating system.", "macOS 26")] = None
    app_version: Annotated[Text | None, about("The program's version.", "4.2.0")] = None
    built_at: Annotated[Time | None, about("When the program was built.", _TIME)] = None
    nonce: Annotated[Text | None, about("Returned unchanged in the answer.", None)] = None


class TrialLicense(ClientLicense, kw_only=True):
    """The license of a trial, including its key."""

    key: Annotated[str, about("The license key, for later calls.", _KEY)]


class StartedTrial(Struct):
    """The trial of a device."""

    license: TrialLicense
    activation: Annotated[
        ClientActivation | None, about("The device's activation; null if another device has the place now.")
    ]
    entitlements: Annotated[tuple[str, ...], about("The features that the license includes.", ["export"])]
    is_new: Annotated[bool, about("Whether the trial started with this call.", True)]
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]


async def start_trial(call: Call, body: StartTrialBody) -> Answer:
    """Start a trial.

    Creates a license from the product's trial policy, and activates the device. A device gets one trial per
    product, ever: another call returns 200 with the first trial, even if it has expired, and does not count
    towards the rate limit. The e-mail address is stored with the license, but belongs to a customer only
    after they have signed in with it.
    """
    command = StartTrial(
        context=call.context,
        product=body.product,
        fingerprint=body.fingerprint,
        device=Device(body.fingerprint, body.name, body.platform, body.app_version),
        policy_id=body.policy,
        email=body.email,
        built_at=body.built_at,
        only_product_id=call.only_product_id,
    )
    call.idempotency_subject = ["trial", body.product, body.fingerprint]
    now, nonce = call.now, body.nonce
    if call.limited is not None:
        await _require_trial(call, call.limited, command)

    def write(outcome: Outcome) -> Answer:
        view, activation = outcome.view, outcome.activation
        license = show_license(view, now)
        members = {name: getattr(license, name) for name in license.__struct_fields__}
        shown = StartedTrial(
            TrialLicense(**members, key=view.license.key),
            None if activation is None else show_activation(activation, now),
            entitlements_of(view),
            outcome.is_new,
            nonce,
        )
        return Answer(
            201 if outcome.is_new else 200,
            encode(shown),
            license_id=view.license.id,
            activation_id=None if activation is None else activation.id,
            # An existing trial does not count towards the limit on trials.
            is_unchanged=not outcome.is_new,
        )

    return await call.change(command, write)


async def _require_trial(call: Call, limited: RateLimited, command: StartTrial) -> None:
    """Refuse a device without a trial whose address may start no more of them."""
    query = HasTrial(
        product=command.product,
        fingerprint=command.fingerprint,
        only_product_id=command.only_product_id,
    )
    if not await call.desk.query(query, call):
        call.is_key_unknown = True
        raise limited


ROUTES = (
    Route(
        "POST",
        "/trials",
        Right.CORE,
        start_trial,
        gives=StartedTrial,
        status=201,
        also=(200,),
        refusals=("trial_not_offered", "trial_used", "policy_archived"),
        example={"product": "photo-editor", "fingerprint": _FINGERPRINT},
    ),
)
