"""Licenses: create, find, change and delete them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from keywright.core.errors import FieldError, InvalidBody
from keywright.core.fields import list_changes
from keywright.core.parsing import parse_metadata
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists
from keywright.http.v3.answers import created, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.license_schemas import (
    CustomerBody,
    License,
    LicenseChanges,
    LicenseQuery,
    Licenses,
    NewLicense,
    OrderBody,
    Renewal,
    etag_of_license,
    show_license,
)
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.licensing.licenses import model as license_model
from keywright.licensing.management import ChangeAndShow, GetLicense, ManagedLicense
from keywright.provisioning.licenses import CustomerReference, Issued, IssueLicenses, MoveLicense, RotateKey
from keywright.search.filters import Order as ListOrder
from keywright.search.filters import Search
from keywright.search.license_pages import ListManaged, ManagedPage

_ORDERS: Mapping[str, tuple[ListOrder, bool]] = {
    "created_at": (ListOrder.CREATED, False),
    "-created_at": (ListOrder.CREATED, True),
    "expires_at": (ListOrder.EXPIRES, False),
    "-expires_at": (ListOrder.EXPIRES, True),
    "updated_at": (ListOrder.UPDATED, False),
    "-updated_at": (ListOrder.UPDATED, True),
    "id": (ListOrder.OLDEST, False),
    "-id": (ListOrder.OLDEST, True),
}


async def create_license(call: Call, body: NewLicense) -> Answer:
    """Create licenses.

    Creates them from a policy, whose terms and product are copied, or with your own `key` and `terms`.
    Members that are sent together with `policy_id` override those of the policy. With `quantity`, even if it
    is 1, the answer is `{"items": […]}`, and `order.index` counts up. An order with a `line` is fulfilled
    once: if it is sent again, the answer is 200 with the licenses of the first call.
    """
    _require_key_or_policy(body)
    order = _build_order(body.order)
    command = IssueLicenses(
        context=call.context,
        status=license_model.Status[body.status.upper()],
        quantity=body.quantity or 1,
        policy_id=body.policy_id,
        key=body.key,
        terms=body.terms,
        product_id=body.product_id,
        customer=_build_customer(body.customer),
        order=order,
        expires_at=None if body.expires_at is UNSET else body.expires_at,
        has_expiry=body.expires_at is not UNSET,
        metadata=parse_metadata(body.metadata),
        fields={name: one for name, one in list_changes(body).items() if name in license_model.OWN_FIELDS},
        needs_known_product=True,
        only_product_id=call.only_product_id,
    )
    now, root = call.now, call.root

    def write(issued: Issued) -> Answer:
        shown = [show_license(one, now) for one in issued.licenses]
        if body.quantity is not None:
            return ok(Licenses(shown), status=201 if issued.is_new else 200)
        etag = etag_of_license(issued.licenses[0].license)
        if not issued.is_new:
            return ok(shown[0], etag=etag, license_id=shown[0].id)
        return created(shown[0], f"{root}/licenses/{shown[0].id}", etag=etag, license_id=shown[0].id)

    return await call.change(command, write)


async def list_licenses(call: Call, query: LicenseQuery) -> Answer:
    """List licenses.

    Filters can be combined. If few of very many licenses match, a page may have fewer than `limit`, or none:
    there are more as long as there is a `next_cursor`.
    """
    order, is_backward = _ORDERS[query.sort]
    number = license_model.Order(id=query.order_id).number
    search = Search(
        status=None if query.status is None else license_model.Status[query.status.upper()],
        product_id=query.product_id,
        policy_id=query.policy_id,
        customer_id=query.customer_id,
        order_id=number,
        order_ref=query.order_id if number is None else None,
        expires=_range(query.expires_after, query.expires_before),
        created=_range(query.created_after, query.created_before),
        updated=_range(query.updated_after, None),
        external_id=query.external_id,
        order=order,
    )
    only = call.only_product_id
    if only is not None:
        if query.product_id not in (None, only):
            return lists.answer_found(call, Page([], None), None)
        search = msgspec.structs.replace(search, product_id=only)
    asked = ListManaged(
        search=search,
        now=call.now,
        limit=query.limit,
        after=lists.read_cursor(call, tuple[lists.Number, lists.Number]),
        is_backward=is_backward,
        is_counted=query.count,
    )
    return await call.ask(asked, lambda page: write_page(call, page))


def write_page(call: Call, found: ManagedPage) -> Answer:
    """The answer with a page of licenses."""
    page = Page([show_license(one, call.now) for one in found.licenses], None)
    if found.total_is_least:
        page.more_than = UNSET if found.total is None else found.total
    else:
        page.total = UNSET if found.total is None else found.total
    return lists.answer_found(call, page, found.after)


async def get_license(call: Call) -> Answer:
    """Get a license.

    Its `ETag` changes when the vendor changes the license, not with activations, leases or usage.
    """
    query = GetLicense(**call.named("license_id"), now=call.now)
    return await call.ask(query, _writer(call))


async def update_license(call: Call, body: LicenseChanges) -> Answer:
    """Change a license.

    Members that are not sent keep their values; `terms`, `order` and `metadata` are merged (JSON Merge Patch,
    RFC 7396). A new `key` replaces the old one, which is refused with `key_rotated` from now on. If a limit
    is lowered below what is in use, existing activations and leases remain, and no new ones are possible.

    `policy_id` moves the license to another policy of its product. The license gets that policy's terms, with
    limits multiplied by `quantity`, and keeps its key, activations, usage and expiry. Terms that were set by
    hand, which `kept_terms` lists, keep their values unless `overwrite` is true.
    """
    changes = list_changes(body)
    moved = {name: changes.pop(name) for name in ("policy_id", "overwrite") if name in changes}
    merged: dict[str, Any] = {name: changes.pop(name) for name in ("terms", "metadata") if name in changes}
    if "order" in changes:
        merged["order"] = _order_changes(changes.pop("order"))
    if "status" in changes:
        changes["status"] = license_model.Status[changes["status"].upper()]
    fields = {"changes": changes, **merged, "precondition": call.precondition(etag_of_license)}
    if "policy_id" in moved:
        return await _change(call, MoveLicense(**call.about_license(), **fields, **moved))
    return await _change(call, license_model.UpdateLicense(**call.about_license(), **fields))


async def renew_license(call: Call, body: Renewal) -> Answer:
    """Renew a license.

    Extends the license by `days`, counted `from` its expiry, from now, or from the later of both; or `until`
    a moment. An expiry that is not later than the current one is refused.
    """
    if (body.days is None) is (body.until is None):
        detail = "either days or until must be sent"
        raise InvalidBody([FieldError("/days", "missing" if body.days is None else "invalid", detail)])
    command = license_model.ExtendLicense(
        **call.about_license(),
        days=body.days or 0,
        until=body.until,
        is_from_now=body.counted_from == "now",
        is_from_later=body.counted_from == "later_of_both",
    )
    return await _change(call, command)


async def rotate_license_key(call: Call) -> Answer:
    """Rotate a license key.

    The new key has the format of the policy. Activations and leases remain; v3 refuses the old key with
    `key_rotated`, and v2 does not know it. For 14 days after a customer has claimed the license, the key can
    only be changed by a PATCH of `key`.
    """
    return await _change(call, RotateKey(**call.about_license()))


async def delete_license(call: Call) -> Answer:
    """Delete a license.

    Deletes its activations as well; its events remain.
    """
    command = license_model.DeleteLicense(
        **call.about_license(), precondition=call.precondition(etag_of_license)
    )
    return await call.change(command, no_content)


async def _change(call: Call, command: license_model.LicenseCommand) -> Answer:
    return await call.change(ChangeAndShow(context=call.context, change=command), _writer(call))


def _writer(call: Call) -> Callable[[ManagedLicense], Answer]:
    """A function that writes a license as of now."""
    now = call.now

    def write(managed: ManagedLicense) -> Answer:
        one = managed.license
        return ok(show_license(managed, now), etag=etag_of_license(one), license_id=one.id)

    return write


def _require_key_or_policy(body: NewLicense) -> None:
    if body.policy_id is None and body.key is None:
        raise InvalidBody([FieldError("/policy_id", "missing", "is missing: send it or key")])
    if body.key is not None and (body.quantity or 1) > 1:
        raise InvalidBody([FieldError("/quantity", "too_large", "must be 1 if key is sent")])


def _build_customer(body: CustomerBody | None) -> CustomerReference | None:
    if body is None:
        return None
    if body.id is None and body.email is None:
        raise InvalidBody([FieldError("/customer/id", "missing", "is missing: send it or email")])
    return CustomerReference(body.id, body.email, body.name, body.language)


def _build_order(body: OrderBody) -> license_model.Order:
    return license_model.Order(**{name: one for name, one in _order_changes(body).items() if one is not None})


def _order_changes(body: OrderBody | None) -> dict[str, Any]:
    """The members of an order that were sent, with numbers as strings. None clears the whole order."""
    if body is None:
        return dict.fromkeys(license_model.Order.__struct_fields__)
    return {
        name: str(one) if name != "index" and one is not None else one
        for name, one in list_changes(body).items()
    }


def _range(after: Any, before: Any) -> tuple[Any, Any] | None:
    return None if after is None and before is None else (after, before)


_NEW = {
    "policy_id": 5,
    "customer": {"email": "ada@example.com"},
    "order": {"source": "shop", "id": "1042", "line": "7"},
}
_ONE = "/licenses/{license_id}"
_TERMS = {"status": "disabled", "terms": {"max_activations": 5}, "metadata": {"note": None}}

ROUTES = (
    Route(
        "POST",
        "/licenses",
        Right.WRITE,
        create_license,
        gives=License,
        or_gives=Licenses,
        status=201,
        also=(200,),
        refusals=("policy_archived", "already_exists"),
        example=_NEW,
    ),
    Route(
        "GET",
        "/licenses",
        Right.READ,
        list_licenses,
        gives=Page[License],
        example={"status": "active", "product_id": 3},
    ),
    Route("GET", _ONE, Right.READ, get_license, gives=License, refusals=("not_found",)),
    Route(
        "PATCH",
        _ONE,
        Right.WRITE,
        update_license,
        gives=License,
        refusals=("not_found", "already_exists", "changed_meanwhile"),
        example=_TERMS,
    ),
    Route(
        "POST",
        f"{_ONE}/renew",
        Right.WRITE,
        renew_license,
        gives=License,
        refusals=("not_found", "never_expires"),
        example={"days": 365},
    ),
    Route(
        "POST",
        f"{_ONE}/rotate-key",
        Right.WRITE,
        rotate_license_key,
        gives=License,
        refusals=("not_found", "not_transferable"),
    ),
    Route(
        "DELETE", _ONE, Right.WRITE, delete_license, status=204, refusals=("not_found", "changed_meanwhile")
    ),
)
