"""Ownership of licenses: claims with a license key, and transfers between customers."""

from datetime import datetime
from typing import Annotated

from msgspec import Struct

from keywright.core.fields import Id, OwnId, Time, about, copy_as
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import created, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body, LicenseKey, Query
from keywright.http.v3.license_schemas import OrderText
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.licensing.licenses.model import License
from keywright.provisioning.customers import Email, Language
from keywright.provisioning.ownership import model
from keywright.provisioning.ownership.model import TransferState
from keywright.provisioning.ownership.rules import state_of


class NewClaim(Body):
    """A claim to a license by a customer who has its key."""

    license_key: Annotated[LicenseKey, about("The license key.")]
    customer_id: Annotated[OwnId, about("The customer.", 1000000042)]


class Claimed(Struct):
    """A license that was claimed, and its owner."""

    license_id: Annotated[Id, about("The license.", 17)]
    customer_id: Annotated[Id, about("The customer who owns the license now.", 1000000042)]


class ClaimsQuery(Query):
    """The licenses to count."""

    policy_id: Annotated[Id | None, about("Only licenses made from this policy.")] = None
    order_id: Annotated[OrderText | None, about("Only licenses of this order.")] = None
    job_id: Annotated[Id | None, about("Only licenses made by this job.")] = None


class ClaimCounts(Struct):
    """The numbers of licenses that exist, were claimed, and were activated."""

    licenses: Annotated[int, about("How many licenses there are.", 1000)]
    claimed: Annotated[
        int, about("How many were claimed by a customer who still owns them or has transferred them.", 640)
    ]
    activated: Annotated[int, about("How many were activated at least once.", 512)]


class NewTransfer(Body):
    """An offer of a license to another customer."""

    email: Annotated[
        Email,
        about("The e-mail address of the other customer, who is created if necessary.", "bob@example.com"),
    ]
    language: Annotated[Language | None, about("The language of a new customer's mails.", "pt-BR")] = None


class Transfer(Struct):
    """An offer of a license from one customer to another, and its outcome."""

    id: Annotated[Id, about("The transfer's ID.", 3)]
    license_id: Annotated[Id, about("The license.", 17)]
    state: Annotated[TransferState, about("The transfer's state.", "offered")]
    from_customer_id: Annotated[Id, about("The customer who offers the license.", 1000000042)]
    to_customer_id: Annotated[Id, about("The customer to whom the license is offered.", 1000000043)]
    offered_at: Annotated[Time, about("When the license was offered.", "2026-11-22T08:54:00Z")]
    expires_at: Annotated[Time, about("When the offer expires.", "2026-11-29T08:54:00Z")]
    accepted_at: Annotated[Time | None, about("When the offer was accepted.", None)]
    ended_at: Annotated[Time | None, about("When the offer was canceled or declined.", None)]
    undone_at: Annotated[Time | None, about("When the transfer was undone.", None)]


def show(transfer: model.Transfer, owner_id: int | None, now: datetime) -> Transfer:
    """A transfer as v3 shows it; ``owner_id`` is the customer who owns the license now."""
    return copy_as(Transfer, transfer, state=state_of(transfer, owner_id, now))


async def claim_license(call: Call, body: NewClaim) -> Answer:
    """Claim a license for a customer.

    Use this for a page of your own that replaces *Add a license key* in the portal. The license must be
    `claimable` and have no customer; an unknown key is refused in the same way as one that cannot be claimed.
    For 14 days, the license gets no new key and cannot be transferred. To undo the claim, set its
    `customer_id` to null.
    """
    command = model.ClaimLicense(
        context=call.context,
        license=body.license_key,
        only_product_id=call.only_product_id,
        customer_id=body.customer_id,
    )

    def write(license: License) -> Answer:
        return ok(Claimed(license.id, body.customer_id), license_id=license.id)

    return await call.change(command, write)


async def count_claims(call: Call, query: ClaimsQuery) -> Answer:
    """Count claimed licenses.

    Counts the licenses of a policy, an order, or a batch that a job created; without a parameter, all
    licenses.
    """
    asked = model.CountClaims(
        policy_id=query.policy_id,
        order_id=query.order_id,
        job_id=query.job_id,
        only_product_id=call.only_product_id,
    )
    return await call.ask(
        asked, lambda found: ok(ClaimCounts(found.licenses, found.claimed, found.activated))
    )


async def list_transfers(call: Call) -> Answer:
    """List the transfers of a license.

    The latest 100, the newest first. Offers that were not accepted are deleted a day after they end.
    """
    query = model.ListTransfers(**call.named("license_id"))

    def write(found: tuple[int | None, list[model.Transfer]]) -> Answer:
        owner_id, transfers = found
        return ok(Page([show(one, owner_id, call.now) for one in transfers], None))

    return await call.ask(query, write)


async def offer_license(call: Call, body: NewTransfer) -> Answer:
    """Offer a license to another customer.

    Makes the offer on behalf of the license's customer, who loses the license once the other one accepts, in
    the portal or through your call. The other customer gets a mail that does not contain the key. An offer is
    valid for 7 days; a customer can make 3 offers a day.
    """
    command = model.OfferLicense(**call.about_license(), email=body.email, language=body.language)

    def write(transfer: model.Transfer) -> Answer:
        shown = show(transfer, transfer.from_customer_id, transfer.offered_at)
        path = f"{call.root}/licenses/{transfer.license_id}/transfers/{transfer.id}"
        return created(shown, path, license_id=transfer.license_id)

    return await call.change(command, write)


async def accept_transfer(call: Call) -> Answer:
    """Accept an offer for the other customer.

    Call this only if you have verified who accepts; the portal requires a verified e-mail address. The
    license gets a new key, all of its places become free, and both customers get a mail.
    """
    return await _decide(call, model.AcceptTransfer)


async def undo_transfer(call: Call) -> Answer:
    """Undo a transfer.

    Returns the license to its previous customer, with another new key and all of its places free.
    """
    return await _decide(call, model.UndoTransfer)


async def cancel_transfer(call: Call) -> Answer:
    """Cancel an offer.

    The customer keeps the license, and can offer it again.
    """
    command = model.CancelTransfer(**call.about_license(), transfer_id=call.path["transfer_id"])
    return await call.change(command, no_content)


async def _decide(call: Call, kind: type[model.TransferCommand]) -> Answer:
    command = kind(**call.about_license(), transfer_id=call.path["transfer_id"])

    def write(transfer: model.Transfer) -> Answer:
        shown = show(transfer, None, call.now)
        return ok(shown, license_id=transfer.license_id)

    return await call.change(command, write)


_ALL = "/licenses/{license_id}/transfers"
_ONE = f"{_ALL}/{{transfer_id}}"
_EXAMPLE = {"license_key": "KEY-1", "customer_id": 1000000042}
ROUTES = (
    Route(
        "POST",
        "/licenses/claim",
        Right.WRITE,
        claim_license,
        gives=Claimed,
        refusals=("not_claimable",),
        example=_EXAMPLE,
    ),
    Route("GET", "/licenses/claims", Right.READ, count_claims, gives=ClaimCounts),
    Route("GET", _ALL, Right.READ, list_transfers, gives=Page[Transfer], refusals=("not_found",)),
    Route(
        "POST",
        _ALL,
        Right.WRITE,
        offer_license,
        gives=Transfer,
        status=201,
        refusals=("not_found", "not_transferable", "transfer_pending", "too_many_requests"),
        example={"email": "bob@example.com"},
    ),
    Route(
        "POST",
        f"{_ONE}/accept",
        Right.WRITE,
        accept_transfer,
        gives=Transfer,
        refusals=("not_found", "not_transferable"),
    ),
    Route(
        "POST",
        f"{_ONE}/undo",
        Right.WRITE,
        undo_transfer,
        gives=Transfer,
        refusals=("not_found", "changed_meanwhile"),
    ),
    Route("DELETE", _ONE, Right.WRITE, cancel_transfer, status=204, refusals=("not_found",)),
)
