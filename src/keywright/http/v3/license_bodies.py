"""The bodies of calls about licenses."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from keywright.core.fields import ExternalId, Id, Metadata, Name, OwnId, Time, about
from keywright.core.nouns import ListQuery
from keywright.core.parsing import MAX_COUNT, MAX_ID
from keywright.http.v3.fields import Body, LicenseKey
from keywright.http.v3.license_schemas import StatusName
from keywright.licensing.terms.model import MAX_DAYS
from keywright.provisioning.customers import Email, Language
from keywright.provisioning.licenses import MAX_QUANTITY
from keywright.provisioning.policies.model import TermsPatch

Days = Annotated[int, Meta(ge=1, le=MAX_DAYS)]
OrderText = Annotated[str, Meta(min_length=1, max_length=255)]
OrderNumber = Annotated[int, Meta(ge=0, le=MAX_ID)]
Quantity = Annotated[int, Meta(ge=1, le=MAX_QUANTITY)]
OrderIndex = Annotated[int, Meta(ge=0, le=MAX_COUNT)]


class OrderBody(Body):
    """The order line that licenses are sold with."""

    source: Annotated[OrderText | UnsetType | None, about("The shop.", "woocommerce")] = UNSET
    id: Annotated[OrderText | OrderNumber | UnsetType | None, about("The order.", "1042")] = UNSET
    line: Annotated[
        OrderText | OrderNumber | UnsetType | None,
        about("Its line: no two licenses are of one line and index.", "7"),
    ] = UNSET
    index: Annotated[OrderIndex | UnsetType | None, about("The index of the first license.", 0)] = UNSET


class CustomerBody(Body):
    """The customer with this id or, without one, this e-mail address; a new one if there is none."""

    id: Annotated[OwnId | None, about("The customer's number.", 1000000042)] = None
    email: Annotated[Email | None, about("The customer's address.", "ada@example.com")] = None
    name: Annotated[Name | None, about("The name of a new customer.", "Ada")] = None
    language: Annotated[Language | None, about("The language of a new customer's mails.", "pt-BR")] = None


class NewLicense(Body):
    """A license to make."""

    policy_id: Annotated[Id | None, about("The policy to make it from.", 5)] = None
    key: Annotated[LicenseKey | None, about("A key of your own; the policy makes it otherwise.")] = None
    terms: TermsPatch = msgspec.field(default_factory=dict)
    quantity: Annotated[Quantity | None, about("How many; the answer is a list.", None)] = None
    product_id: Annotated[Id | None, about("The product, if not the policy's.", 3)] = None
    customer: Annotated[CustomerBody | None, about("Whose it is.")] = None
    order: Annotated[OrderBody, about("The order; sent again, its licenses are returned.")] = msgspec.field(
        default_factory=OrderBody
    )
    status: Annotated[StatusName, about("What the vendor decided.", "active")] = "active"
    expires_at: Annotated[Time | UnsetType | None, about("The expiry, if not the terms'.")] = UNSET
    external_id: Annotated[ExternalId | None, about("Your own ID; not unique.", "crm-9001")] = None
    metadata: Annotated[Metadata | None, about("What you keep with it.", {"note": "gift"})] = None


class LicenseChanges(Body):
    """Members to change; the others stay."""

    key: Annotated[LicenseKey | UnsetType, about("A new key; the old one is refused from now on.")] = UNSET
    policy_id: Annotated[Id | UnsetType, about("Another policy, whose terms it gets.", 6)] = UNSET
    overwrite: Annotated[
        bool | UnsetType, about("With `policy_id`: also terms that were set by hand.", False)
    ] = UNSET
    product_id: Annotated[Id | UnsetType | None, about("The product.", 3)] = UNSET
    customer_id: Annotated[Id | UnsetType | None, about("The customer.", 1000000042)] = UNSET
    order: Annotated[OrderBody | UnsetType | None, about("The order, merged.")] = UNSET
    status: Annotated[StatusName | UnsetType, about("What the vendor decided.", "disabled")] = UNSET
    expires_at: Annotated[Time | UnsetType | None, about("The expiry; null is never.")] = UNSET
    terms: TermsPatch | UnsetType = UNSET
    external_id: Annotated[ExternalId | UnsetType | None, about("Your own ID.")] = UNSET
    metadata: Annotated[Metadata | UnsetType | None, about("Merged; null removes all.")] = UNSET


class Renewal(Body):
    """A later expiry."""

    days: Annotated[Days | None, about("So many days more.", 365)] = None
    until: Annotated[Time | None, about("The new expiry, instead of `days`.")] = None
    counted_from: Annotated[
        Literal["expiry", "now", "later_of_both"],
        about("Where the days are counted from; `later_of_both` where it is not said.", "later_of_both"),
    ] = msgspec.field(default="later_of_both", name="from")


class LicenseQuery(ListQuery):
    """Filters of the list of licenses."""

    status: Annotated[StatusName | None, about("Those with this status.")] = None
    product_id: Annotated[Id | None, about("Those for this product.")] = None
    policy_id: Annotated[Id | None, about("Those made from this policy.")] = None
    customer_id: Annotated[Id | None, about("Those of this customer.")] = None
    order_id: Annotated[OrderText | None, about("Those of this order.")] = None
    external_id: Annotated[str | None, about("Those that you call so.")] = None
    expires_after: Annotated[Time | None, about("Those that expire after this moment.")] = None
    expires_before: Annotated[Time | None, about("Those that expire before this moment.")] = None
    created_after: Annotated[Time | None, about("Those made after this moment.")] = None
    created_before: Annotated[Time | None, about("Those made before this moment.")] = None
    updated_after: Annotated[
        Time | None, about("Those changed after this moment; a change is found up to 2 seconds later.")
    ] = None
    sort: Annotated[
        Literal[
            "-created_at", "created_at", "-expires_at", "expires_at", "-updated_at", "updated_at", "id", "-id"
        ],
        about("The order; a `-` is the latest first. Licenses that never expire are the last to expire."),
    ] = "-created_at"
