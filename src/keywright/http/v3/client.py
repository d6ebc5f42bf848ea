"""The client calls about activations: validate, activate, deactivate."""

from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from keywright.core.errors import FieldError, InvalidBody, Unavailable, UnknownLicenseId
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import client_schemas as schemas
from keywright.http.v3.answers import encode
from keywright.http.v3.call import Call
from keywright.http.v3.route import JSON_TYPE, JWT_TYPE, Route
from keywright.http.v3.signed import about_program, change, content_of_granted, sign
from keywright.identity.model import Permissions
from keywright.licensing.activations import devices
from keywright.licensing.activations import model as activation_model
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.rules import CHECK_SECONDS, terms_of
from keywright.licensing.validation import Code, Validated, ValidateLicense
from keywright.signing import rules
from keywright.signing.explanation import show_license, show_removed, show_signed_license
from keywright.signing.rules import SignedContent

_READING = (Permissions.READ, Permissions.READ_WRITE)


async def validate(call: Call, body: schemas.Validate) -> Answer:
    """Validate a license.

    Reports whether the program may run, and every finding: `codes` lists all findings in rank order, `code`
    is the first of them, and `valid` is true if none of them blocks. The status is always 200: an unknown
    license is a finding, too. The call changes nothing.

    With `Accept: application/jwt`, the answer is a signed token, whether the license is valid or not. A
    program can keep it until its `exp`: for `days`, but no longer than the terms' `offline_days`.

    Identify the device by `fingerprint` or `token`; without either, only the license is checked. `license`
    and `activation` are null if the key is unknown, was replaced, or belongs to another product.
    """
    query = ValidateLicense(
        key=body.license_key,
        now=call.now,
        fingerprint=body.fingerprint,
        token=body.token,
        product=body.product,
        built_at=body.built_at,
        app_version=body.app_version,
        lease_id=body.lease_id,
        entitlements=tuple(body.entitlements),
        only_product_id=call.only_product_id,
    )
    found: Validated = await call.desk.query(query, call)
    call.is_key_unknown = found.findings.code is Code.UNKNOWN_LICENSE
    if query.is_device_named and not (found.findings.is_valid or call.is_key_unknown):
        call.finding = found.findings.code
    content = _content_of(call, found) if call.is_signed else None
    ends_at = None if content is None else rules.ends_at(content)
    if found.findings.is_valid and found.activation is not None:
        kept = await _keep_offline(call, found, found.activation, ends_at)
        if kept is None:
            # The device has lost its place in the meantime.
            return await validate(call, body)
        ends_at = None if content is None else kept
    answer = _write_validation(call, found)
    return answer if content is None else await sign(call, answer, content, ends_at)


async def _keep_offline(
    call: Call, found: Validated, activation: activation_model.Activation, ends_at: datetime | None
) -> datetime | None:
    """Store the expiry of the answer before sending it, and return it. None if the device has no place."""
    assert found.view is not None  # noqa: S101
    license, now = found.view.license, call.now
    if devices.keep_offline(activation, terms_of(license), ends_at, now) is activation:
        return ends_at or now
    command = activation_model.KeepOffline(
        context=call.context, license=license.id, token=activation.token, ends_at=ends_at
    )
    try:
        kept: activation_model.Activation | None = await call.desk.execute(command)
    except UnknownLicenseId:
        return None
    except Unavailable:
        # The stored time already covers every answer that the device keeps.
        check = now + timedelta(seconds=CHECK_SECONDS)
        return min(ends_at or now, max(activation.offline_until or check, check))
    return None if kept is None else ends_at or now


def _content_of(call: Call, found: Validated) -> SignedContent:
    """The contents of the signed answer to ``validate``."""
    view, body, now = found.view, call.body, call.now
    return SignedContent(
        findings=found.findings,
        now=now,
        view=view,
        shown=None if view is None else show_signed_license(view, now),
        activation=found.activation,
        lease=found.lease,
        entitlements=() if view is None else entitlements_of(view),
        next_check_at=found.next_check_at,
        nonce=body.nonce,
        built_at=found.built_at,
        days=body.days,
        asked_product=body.product,
        notices=found.notices,
    )


def _write_validation(call: Call, found: Validated) -> Answer:
    view, activation, findings, now = found.view, found.activation, found.findings, call.now
    shown = schemas.Validation(
        findings.is_valid,
        findings.code,
        findings.codes,
        findings.detail,
        None if view is None else show_license(view, now),
        None if activation is None else show_activation(activation, now),
        () if view is None else entitlements_of(view),
        now,
        found.next_check_at,
        call.body.nonce,
        found.notices,
    )
    return Answer(
        200,
        encode(shown),
        license_id=None if view is None else view.license.id,
        product_id=None if view is None else view.license.product_id,
        activation_id=None if activation is None else activation.id,
        app_version=_new_version(call.body, activation),
    )


def _new_version(body: schemas.Validate, activation: activation_model.Activation | None) -> str | None:
    """The program's version if it differs from the one stored for the device, else None."""
    return None if activation is None or body.app_version == activation.app_version else body.app_version


async def activate(call: Call, body: schemas.Activate) -> Answer:
    """Activate a device.

    Gives the device a place on the license, and returns 201 if the place is new. A device that already has a
    place keeps it, and one that gave its place up gets it back: both return 200 with `is_new: false`. A
    device is recognized by its `fingerprint`; without one, every call takes a new place unless it sends the
    `token` of an existing one. Members that a later call omits keep their values.

    With `Accept: application/jwt`, a success is a signed token, as for `validate`.

    With `replaces`, the place of the device with that fingerprint moves to this device.

    If every place is taken, the terms decide. With `replace_unseen`, the device replaces the one that has not
    been seen for the longest time. With `devices_visible`, the problem `limit_reached` lists the `devices`;
    send the `id` of one as `remove` to take its place. Nothing is removed while a place is free.

    With `update_token: true`, the device also gets an update token for update frameworks, which can only
    check for updates and download them. Its previous token remains valid for seven days.
    """
    caller = call.caller
    named = (body.fingerprint, body.name, body.platform, body.app_version, body.metadata)
    device = activation_model.Device(*named)
    command = activation_model.ActivateDevice(
        **about_program(call, body) | {"device": device},
        replaces=body.replaces,
        remove=body.remove,
        wants_update_token=body.update_token,
        lists_devices=caller is not None and caller.permissions in _READING,
    )
    now, nonce = call.now, body.nonce

    def write(place: activation_model.DevicePlace) -> Answer:
        is_new = place.change is activation_model.PlaceChange.NEW
        shown = schemas.Activated(
            show_activation(place.activation, now),
            show_license(place.view, now),
            entitlements_of(place.view),
            is_new,
            show_removed(place.removed),
            nonce,
            place.update_token,
        )
        answer = _answer(shown, place, status=201 if is_new else 200)
        answer.is_unchanged = place.change is activation_model.PlaceChange.KEPT and place.update_token is None
        return answer

    def build_content(place: activation_model.DevicePlace) -> SignedContent:
        shown = show_signed_license(place.view, now)
        removed = show_removed(place.removed)
        content = content_of_granted(
            call, place.view, shown, activation=place.activation, now=now, removed=removed
        )
        return replace(content, update_token=place.update_token)

    return await change(call, command, write, build_content)


async def deactivate(call: Call, body: schemas.Deactivate) -> Answer:
    """Deactivate a device.

    Gives up the place of the device with this `fingerprint` or `token`, whatever the state of the license. If
    the place was given up before, the call succeeds with `was_active: false`.
    """
    command = activation_model.DeactivateDevice(**about_program(call, body))
    require_device(command)
    now, nonce = call.now, body.nonce

    def write(place: activation_model.ReleasedPlace) -> Answer:
        shown = schemas.Deactivated(
            show_activation(place.activation, now), show_license(place.view, now), place.was_active, nonce
        )
        answer = _answer(shown, place)
        answer.is_unchanged = not place.was_active
        return answer

    return await call.change(command, write)


def require_device(command: activation_model.ProgramCommand) -> None:
    """Raise ``InvalidBody`` if the command identifies no device."""
    if not command.is_device_named:
        raise InvalidBody([FieldError("/fingerprint", "missing", "is missing: send it or token")])


def _answer(
    shown: Any, place: activation_model.DevicePlace | activation_model.ReleasedPlace, *, status: int = 200
) -> Answer:
    return Answer(status, encode(shown), license_id=place.view.license.id, activation_id=place.activation.id)


_DEVICE = {"license_key": "KEY-1", "fingerprint": "device-7f3a9c0e12b4"}
ROUTES = (
    Route(
        "POST",
        "/validate",
        Right.CORE,
        validate,
        gives=schemas.Validation,
        example=_DEVICE,
        is_read=True,
        produces=(JSON_TYPE, JWT_TYPE),
    ),
    Route(
        "POST",
        "/activate",
        Right.CORE,
        activate,
        gives=schemas.Activated,
        status=201,
        also=(200,),
        refusals=(
            "unknown_license",
            "limit_reached",
            "expired",
            "inactive",
            "disabled",
            "product_mismatch",
            "fingerprint_required",
            "key_rotated",
            "too_many_new_devices",
            "no_removal_left",
            "unknown_device",
        ),
        produces=(JSON_TYPE, JWT_TYPE),
        example=_DEVICE | {"name": "Anna's laptop", "platform": "macOS 26"},
    ),
    Route(
        "POST",
        "/deactivate",
        Right.CORE,
        deactivate,
        gives=schemas.Deactivated,
        refusals=("unknown_license", "unknown_device", "product_mismatch", "key_rotated"),
        example=_DEVICE,
    ),
)


def show_activation(one: activation_model.Activation, now: datetime) -> schemas.ClientActivation:
    """The activation of the calling device, as it sees it."""
    return schemas.ClientActivation(
        one.id,
        one.token,
        one.fingerprint,
        one.label,
        one.platform,
        one.app_version,
        one.meta_data or {},
        one.created_at,
        now,
        one.deactivated_at,
    )


def entitlements_of(view: activation_model.LicenseView) -> tuple[str, ...]:
    """The features that the license includes."""
    return () if view.license.terms is None else license_rules.terms_of(view.license).entitlements
