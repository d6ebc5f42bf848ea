"""Schemas of licenses, in requests and answers."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from keywright.core.fields import Id, Metadata, Name, OwnId, Time, about, copy_as
from keywright.core.nouns import ListQuery
from keywright.core.parsing import MAX_COUNT, MAX_ID
from keywright.http.v3.answers import etag_of
from keywright.http.v3.fields import Body, LicenseKey
from keywright.licensing.licenses import model as license_model
from keywright.licensing.licenses.model import License as StoredLicense
from keywright.licensing.licenses.model import Order as StoredOrder
from keywright.licensing.licenses.rules import grace_until, state, terms_of
from keywright.licensing.management import ManagedLicense
from keywright.licensing.terms.model import MAX_DAYS, Terms
from keywright.licensing.terms.rules import set_by_hand
from keywright.provisioning.customers import Email, Language
from keywright.provisioning.licenses import MAX_QUANTITY
from keywright.provisioning.policies.model import TermsPatch

_REF = "kwr_AAAAAAAAABGm3bK0x9cZp2VhY7dQ1uLs"
StatusName = Literal["sold", "delivered", "active", "inactive", "disabled"]


class Order(Struct):
    """The order line in which a license was sold."""

    source: Annotated[str, about("The shop that the order is from.", "woocommerce")] = ""
    id: Annotated[str | None, about("The order's ID.", "1042")] = None
    line: Annotated[
        str | None, about("The order line; each line and index has at most one license.", "7")
    ] = None
    index: Annotated[int, about("The license's position within its line, from 0.", 0)] = 0


class License(license_model.ShownFields, frozen=True):
    """A license, as the vendor sees it."""

    id: Annotated[Id, about("The license's ID.", 17)]
    key: Annotated[str, about("The license key.", "K7QX2-9MPRD-WT4HE-3BNVA-8LFZ6-YCJ5G")]
    product_id: Annotated[Id | None, about("The product that the license is for.", 3)]
    policy_id: Annotated[Id | None, about("The policy that the license was made from.", 5)]
    customer_id: Annotated[int | None, about("The customer who owns the license.", 1000000042)]
    trial_email: Annotated[str | None, about("The e-mail address given for a trial; not verified.", None)]
    license_ref: Annotated[
        str, about("Identifies the license in a shop's checkout, to renew or upgrade it; not its key.", _REF)
    ]
    order: Annotated[Order, about("The order in which the license was sold.")]
    status: Annotated[StatusName, about("The status set by the vendor.", "active")]
    state: Annotated[
        Literal["valid", "grace", "expired", "inactive", "disabled"],
        about(
            "Whether the license can be used now; derived from the status, the expiry and the terms.", "valid"
        ),
    ]
    expires_at: Annotated[Time | None, about("When the license expires; null means never.")]
    grace_until: Annotated[
        Time | None, about("When the license's grace ends: the expiry plus the days of grace.")
    ]
    activations: Annotated[int, about("How many places are taken.", 2)]
    leases: Annotated[int, about("How many leases are held.", 0)]
    usage: Annotated[dict[str, int], about("What each meter counted in the current period.", {"pages": 12})]
    terms: Annotated[Terms, about("What the license allows.")]
    quantity: Annotated[int, about("How many units were sold: they multiply the limits.", 1)]
    kept_terms: Annotated[
        list[str], about("The terms that were set by hand, which its policy and shops do not change.", [])
    ]
    metadata: Annotated[
        dict[str, Any],
        about(
            "Data that the vendor stores with the license; programs see its member `public`.",
            {"note": "gift"},
        ),
    ]
    last_validated_at: Annotated[
        Time | None, about("When a program last validated the license; may lag by a few minutes.")
    ]
    created_at: Annotated[Time, about("When the license was created.")]
    updated_at: Annotated[Time, about("When the license was last changed; an activation is a change.")]


class Licenses(Struct):
    """Licenses that were created by one call."""

    items: Annotated[list[License], about("The licenses, in the order of `order.index`.")]


def show_license(managed: ManagedLicense, now: datetime) -> License:
    """The license as v3 shows it to vendors."""
    one = managed.license
    return copy_as(
        License,
        one,
        trial_email=managed.trial_email,
        license_ref=managed.license_ref,
        order=show_order(license_model.order_of(one)),
        status=license_model.Status(one.status).name.lower(),
        state=state(one, now).value,
        grace_until=grace_until(one),
        activations=one.times_activated,
        leases=managed.leases,
        usage=dict(managed.usage),
        terms=terms_of(one),
        kept_terms=sorted(set_by_hand(one.rule_terms)),
        metadata={} if one.metadata is None else json.loads(one.metadata),
        last_validated_at=managed.last_validated_at,
    )


def show_order(order: StoredOrder) -> Order:
    """The order as v3 shows it."""
    return Order(order.source, order.id, order.line, order.index)


def etag_of_license(license: StoredLicense) -> bytes:
    """The ``ETag`` of a license: it depends on what vendors change, not on activations, usage or time."""
    shown = show_license(ManagedLicense(license), license.created_at)
    return etag_of(shown, state=license_model.State.VALID.value, activations=0, usage={}, updated_at=None)


Days = Annotated[int, Meta(ge=1, le=MAX_DAYS)]
OrderText = Annotated[str, Meta(min_length=1, max_length=255)]
OrderNumber = Annotated[int, Meta(ge=0, le=MAX_ID)]
Quantity = Annotated[int, Meta(ge=1, le=MAX_QUANTITY)]
OrderIndex = Annotated[int, Meta(ge=0, le=MAX_COUNT)]


class OrderBody(Body):
    """The order line in which the licenses are sold."""

    source: Annotated[
        OrderText | UnsetType | None, about("The shop that the order is from.", "woocommerce")
    ] = UNSET
    id: Annotated[OrderText | OrderNumber | UnsetType | None, about("The order's ID.", "1042")] = UNSET
    line: Annotated[
        OrderText | OrderNumber | UnsetType | None,
        about("The order line; each line and index has at most one license.", "7"),
    ] = UNSET
    index: Annotated[OrderIndex | UnsetType | None, about("The index of the first license.", 0)] = UNSET


class CustomerBody(Body):
    """The customer with this `id` or, without one, this `email`; created if there is none."""

    id: Annotated[OwnId | None, about("The customer's ID.", 1000000042)] = None
    email: Annotated[Email | None, about("The customer's e-mail address.", "ada@example.com")] = None
    name: Annotated[Name | None, about("The name of a new customer.", "Ada")] = None
    language: Annotated[Language | None, about("The language of a new customer's mails.", "pt-BR")] = None


class NewLicense(license_model.LicenseFields):
    """The license to create."""

    policy_id: Annotated[Id | None, about("The policy to make the license from.", 5)] = None
    key: Annotated[LicenseKey | None, about("A key of your own; without one, the policy makes it.")] = None
    terms: TermsPatch = msgspec.field(default_factory=dict)
    quantity: Annotated[
        Quantity | None, about("How many licenses to create; the answer is a list.", None)
    ] = None
    product_id: Annotated[Id | None, about("The product, if it is not the policy's.", 3)] = None
    customer: Annotated[CustomerBody | None, about("The customer who owns the license.")] = None
    order: Annotated[OrderBody, about("The order; if it is sent again, its licenses are returned.")] = (
        msgspec.field(default_factory=OrderBody)
    )
    status: Annotated[StatusName, about("The status set by the vendor.", "active")] = "active"
    expires_at: Annotated[
        Time | UnsetType | None, about("The expiry, if it does not follow from the terms.")
    ] = UNSET
    metadata: Annotated[Metadata | None, about("Data to store with the license.", {"note": "gift"})] = None


class LicenseChanges(license_model.LicenseFields):
    """The members to change; all others keep their values."""

    key: Annotated[LicenseKey | UnsetType, about("A new key; the old one is refused from now on.")] = UNSET
    policy_id: Annotated[Id | UnsetType, about("Another policy, whose terms the license gets.", 6)] = UNSET
    overwrite: Annotated[
        bool | UnsetType,
        about("With `policy_id`: whether to replace terms that were set by hand, too.", False),
    ] = UNSET
    product_id: Annotated[Id | UnsetType | None, about("The product.", 3)] = UNSET
    customer_id: Annotated[Id | UnsetType | None, about("The customer.", 1000000042)] = UNSET
    order: Annotated[OrderBody | UnsetType | None, about("The members of the order to change.")] = UNSET
    status: Annotated[StatusName | UnsetType, about("The status set by the vendor.", "disabled")] = UNSET
    expires_at: Annotated[Time | UnsetType | None, about("The expiry; null means never.")] = UNSET
    terms: TermsPatch | UnsetType = UNSET
    metadata: Annotated[
        Metadata | UnsetType | None, about("Merged into the stored metadata; null removes all of it.")
    ] = UNSET


class Renewal(Body):
    """The new expiry: `days` more, or `until` a moment."""

    days: Annotated[Days | None, about("The number of days to add.", 365)] = None
    until: Annotated[Time | None, about("The new expiry, instead of `days`.")] = None
    counted_from: Annotated[
        Literal["expiry", "now", "later_of_both"],
        about("What the days are counted from.", "later_of_both"),
    ] = msgspec.field(default="later_of_both", name="from")


class LicenseQuery(ListQuery):
    """Filters and sort order of a list of licenses."""

    status: Annotated[StatusName | None, about("Only licenses with this status.")] = None
    product_id: Annotated[Id | None, about("Only licenses for this product.")] = None
    policy_id: Annotated[Id | None, about("Only licenses made from this policy.")] = None
    customer_id: Annotated[Id | None, about("Only licenses of this customer.")] = None
    order_id: Annotated[OrderText | None, about("Only licenses of this order.")] = None
    external_id: Annotated[str | None, about("Only the license with this external ID.")] = None
    expires_after: Annotated[Time | None, about("Only licenses that expire after this time.")] = None
    expires_before: Annotated[Time | None, about("Only licenses that expire before this time.")] = None
    created_after: Annotated[Time | None, about("Only licenses created after this time.")] = None
    created_before: Annotated[Time | None, about("Only licenses created before this time.")] = None
    updated_after: Annotated[
        Time | None, about("Only licenses changed after this time; a change is found up to 2 seconds later.")
    ] = None
    sort: Annotated[
        Literal[
            "-created_at", "created_at", "-expires_at", "expires_at", "-updated_at", "updated_at", "id", "-id"
        ],
        about(
            "The sort order; `-` means latest first. Licenses that never expire sort as the last to expire."
        ),
    ] = "-created_at"
