"""Leases of floating licenses: programs take, renew and release them; vendors list and end them."""

from datetime import datetime
from functools import partial
from typing import Any

from keywright.core.fields import copy_as
from keywright.core.nouns import ListQuery
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import client_schemas, lists
from keywright.http.v3.answers import encode, no_content
from keywright.http.v3.call import Call
from keywright.http.v3.route import JSON_TYPE, JWT_TYPE, Route
from keywright.http.v3.schemas import Page
from keywright.http.v3.signed import about_program, change, content_of_granted
from keywright.licensing.activations.model import LicenseView
from keywright.licensing.leases import model as lease_model
from keywright.licensing.leases import rules
from keywright.signing.explanation import ClientLicense, show_license
from keywright.signing.rules import SignedContent, hash_key


def show(lease: lease_model.Lease, now: datetime) -> client_schemas.Lease:
    """A lease as vendors see it."""
    number = lease.activation_id
    return copy_as(
        client_schemas.Lease,
        lease,
        id=lease.lease_id,
        activation_id=None if number is None or number < 0 else number,
        is_held=not rules.is_over(lease, now),
    )


async def take_lease(call: Call, body: client_schemas.TakeLease) -> Answer:
    """Take a lease.

    Takes one of the license's `max_leases` for a `holder`, until it is released or expires. Renew it at
    `renew_at`. The same holder on the same device has only one lease: another call extends it and returns
    200.

    If all leases are held, `retry_after_seconds` is the longest time until the next one expires.
    """
    command = lease_model.TakeLease(**about_program(call, body), holder=body.holder, seconds=body.seconds)

    def write(granted: lease_model.GrantedLease) -> Answer:
        shown = client_schemas.TakenLease(_show(granted), _show_license(call, granted), body.nonce)
        return _answer(shown, granted, status=201 if granted.leased.is_new else 200)

    return await change(call, command, write, partial(_content_of, call))


async def renew_lease(call: Call, body: client_schemas.RenewLease) -> Answer:
    """Renew a lease.

    The lease is held for `seconds` from now. A lease that has expired is taken again if one is free;
    `was_lost` is then true, because another holder may have had it in the meantime.
    """
    command = lease_model.RenewLease(
        **about_program(call, body), lease_id=body.lease_id, seconds=body.seconds
    )

    def write(granted: lease_model.GrantedLease) -> Answer:
        license, was_lost = _show_license(call, granted), granted.leased.was_lost
        return _answer(client_schemas.RenewedLease(_show(granted), was_lost, license, body.nonce), granted)

    return await change(call, command, write, partial(_content_of, call))


async def release_lease(call: Call, body: client_schemas.ReleaseLease) -> Answer:
    """Release a lease.

    The lease is free at once, whatever the state of the license. If it was released before or has expired,
    the call succeeds with `was_held: false`.
    """
    command = lease_model.ReleaseLease(**about_program(call, body), lease_id=body.lease_id)

    def write(released: lease_model.ReleasedLease) -> Answer:
        license = _show_counted(call, released.view, released.count)
        shown = client_schemas.ReleasedLease(released.was_held, license, body.nonce)
        is_unchanged = not released.was_held
        return Answer(200, encode(shown), license_id=released.view.license.id, is_unchanged=is_unchanged)

    return await call.change(command, write)


async def list_leases(call: Call, query: ListQuery) -> Answer:
    """List the leases of a license.

    Newest first. Includes the latest leases that expired or were ended by the vendor; released leases are
    deleted.
    """
    asked = lease_model.ListLeases(
        **call.named("license_id"),
        before=lists.read_cursor(call, tuple[lists.Number, client_schemas.LeaseId]),
        limit=query.limit + 1,
        is_counted=query.count,
    )

    def position_of(lease: lease_model.Lease) -> tuple[int, str]:
        return int(lease.created_at.timestamp()), lease.lease_id

    return await call.ask(
        asked,
        lambda found: lists.answer_page(
            call, found.items, position_of, lambda one: show(one, call.now), total=found.total
        ),
    )


async def end_lease(call: Call) -> Answer:
    """End a lease.

    The lease is free at once. Its program gets the code `lease_lost` when it validates, and can renew the
    lease if one is free. Ending a lease that has already ended changes nothing.
    """
    command = lease_model.EndLease(**call.about_license(), lease_id=call.path["lease_id"])
    return await call.change(command, no_content)


def _show(granted: lease_model.GrantedLease) -> client_schemas.ClientLease:
    lease = granted.leased.lease
    return client_schemas.ClientLease(lease.lease_id, lease.expires_at, rules.renew_at(lease))


def _content_of(call: Call, granted: lease_model.GrantedLease) -> SignedContent:
    """The contents of the signed answer about a lease."""
    shown = _show_license(call, granted)
    shown.key_hash = hash_key(granted.view.license.key)
    lease, activation = granted.leased.lease, granted.activation
    return content_of_granted(call, granted.view, shown, activation=activation, now=call.now, lease=lease)


def _show_license(call: Call, granted: lease_model.GrantedLease) -> ClientLicense:
    return _show_counted(call, granted.view, granted.leased.count)


def _show_counted(call: Call, view: LicenseView, count: int) -> ClientLicense:
    license = show_license(view, call.now)
    license.leases = count
    return license


def _answer(shown: Any, granted: lease_model.GrantedLease, *, status: int = 200) -> Answer:
    return Answer(
        status,
        encode(shown),
        license_id=granted.view.license.id,
        activation_id=None if granted.activation is None else granted.activation.id,
    )


_HELD = {"license_key": "KEY-1", "lease_id": client_schemas.EXAMPLE_LEASE}
_UNUSABLE = ("unknown_license", "product_mismatch", "key_rotated")
_NOT_LEASABLE = (
    *_UNUSABLE,
    "expired",
    "inactive",
    "disabled",
    "leases_not_offered",
    "fingerprint_required",
    "not_activated",
    "no_free_lease",
)
ROUTES = (
    Route(
        "POST",
        "/leases",
        Right.CORE,
        take_lease,
        gives=client_schemas.TakenLease,
        status=201,
        also=(200,),
        refusals=_NOT_LEASABLE,
        example={"license_key": "KEY-1", "fingerprint": "device-7f3a9c0e12b4", "holder": "anna@studio-3"},
        produces=(JSON_TYPE, JWT_TYPE),
    ),
    Route(
        "POST",
        "/leases/renew",
        Right.CORE,
        renew_lease,
        gives=client_schemas.RenewedLease,
        refusals=(*_NOT_LEASABLE, "not_found"),
        example=_HELD,
        produces=(JSON_TYPE, JWT_TYPE),
    ),
    Route(
        "POST",
        "/leases/release",
        Right.CORE,
        release_lease,
        gives=client_schemas.ReleasedLease,
        refusals=_UNUSABLE,
        example=_HELD,
    ),
    Route(
        "GET",
        "/licenses/{license_id}/leases",
        Right.READ,
        list_leases,
        gives=Page[client_schemas.Lease],
        refusals=("not_found",),
    ),
    Route(
        "DELETE",
        "/licenses/{license_id}/leases/{lease_id:text}",
        Right.WRITE,
        end_lease,
        status=204,
        refusals=("not_found",),
        example_path={"lease_id": client_schemas.EXAMPLE_LEASE},
    ),
)
