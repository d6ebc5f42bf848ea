"""Licenses in answers of the management API."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Struct

from keywright.core.fields import Id, Time, about
from keywright.http.v3.answers import etag_of
from keywright.licensing.licenses.model import License as StoredLicense
from keywright.licensing.licenses.model import Order as StoredOrder
from keywright.licensing.licenses.model import State, Status, order_of
from keywright.licensing.licenses.rules import grace_until, state, terms_of
from keywright.licensing.management import ManagedLicense
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import set_by_hand

_REF = "kwr_AAAAAAAAABGm3bK0x9cZp2VhY7dQ1uLs"
StatusName = Literal["sold", "delivered", "active", "inactive", "disabled"]


class Order(Struct):
    """The order line that a license was sold with."""

    source: Annotated[str, about("The shop.", "woocommerce")] = ""
    id: Annotated[str | None, about("The order.", "1042")] = None
    line: Annotated[str | None, about("Its line: no two licenses are of one line and index.", "7")] = None
    index: Annotated[int, about("Counts the licenses of a line, from 0.", 0)] = 0


class License(Struct):
    """A license, as vendors see it."""

    id: Annotated[Id, about("The license's number.", 17)]
    key: Annotated[str, about("The license key.", "K7QX2-9MPRD-WT4HE-3BNVA-8LFZ6-YCJ5G")]
    product_id: Annotated[Id | None, about("The product that it is for.", 3)]
    policy_id: Annotated[Id | None, about("The policy that it was made from.", 5)]
    customer_id: Annotated[int | None, about("The customer whose it is.", 1000000042)]
    trial_email: Annotated[
        str | None, about("The address that was given for a trial; nobody has proved it.", None)
    ]
    license_ref: Annotated[
        str, about("What names it in a shop's checkout, to renew or upgrade it; not its key.", _REF)
    ]
    external_id: Annotated[str | None, about("What another system of yours calls it.", "crm-9001")]
    order: Annotated[Order, about("The order that it was sold with.")]
    status: Annotated[StatusName, about("What the vendor decided.", "active")]
    state: Annotated[
        Literal["valid", "grace", "expired", "inactive", "disabled"],
        about("Whether it can be used now: derived from the status, the expiry and the terms.", "valid"),
    ]
    expires_at: Annotated[Time | None, about("When it expires; null is never.")]
    grace_until: Annotated[Time | None, about("The expiry and the days of grace after it.")]
    activations: Annotated[int, about("The places that are taken.", 2)]
    leases: Annotated[int, about("The leases that are held.", 0)]
    usage: Annotated[dict[str, int], about("What its meters count in the present period.", {"pages": 12})]
    terms: Annotated[Terms, about("What it allows.")]
    quantity: Annotated[int, about("How many units it was sold for: they multiply its limits.", 1)]
    kept_terms: Annotated[
        list[str], about("The terms that were set by hand: its policy and shops leave them.", [])
    ]
    metadata: Annotated[
        dict[str, Any],
        about("What the vendor keeps with it; programs see its member `public`.", {"note": "gift"}),
    ]
    last_validated_at: Annotated[Time | None, about("When a program last asked, some minutes late.")]
    created_at: Annotated[Time, about("When it was made.")]
    updated_at: Annotated[Time, about("When it was changed last; an activation is a change.")]


class Licenses(Struct):
    """Licenses that were made together."""

    items: Annotated[list[License], about("The licenses, in the order of `order.index`.")]


def show_license(managed: ManagedLicense, now: datetime) -> License:
    """A license with all its members."""
    one = managed.license
    return License(
        id=one.id,
        key=one.key,
        product_id=one.product_id,
        policy_id=one.policy_id,
        customer_id=one.customer_id,
        trial_email=managed.trial_email,
        license_ref=managed.license_ref,
        external_id=one.external_id,
        order=show_order(order_of(one)),
        status=Status(one.status).name.lower(),  # type: ignore[arg-type]
        state=state(one, now).value,
        expires_at=one.expires_at,
        grace_until=grace_until(one),
        activations=one.times_activated,
        leases=managed.leases,
        usage=dict(managed.usage),
        terms=terms_of(one),
        quantity=one.quantity,
        kept_terms=sorted(set_by_hand(one.rule_terms)),
        metadata={} if one.metadata is None else json.loads(one.metadata),
        last_validated_at=managed.last_validated_at,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )


def show_order(order: StoredOrder) -> Order:
    """An order with all its members."""
    return Order(order.source, order.id, order.line, order.index)


def etag_of_license(license: StoredLicense) -> bytes:
    """The ``ETag`` of a license: what vendors change, without what programs and the clock do."""
    shown = show_license(ManagedLicense(license), license.created_at)
    return etag_of(shown, state=State.VALID.value, activations=0, usage={}, updated_at=None)
