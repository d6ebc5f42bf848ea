"""Claim licenses, hand them on, and read who did."""

from keywright.core.command import Cost, Query
from keywright.licensing.licenses.commands import LicenseCommand


class ClaimLicense(LicenseCommand, frozen=True, kw_only=True):
    """Give the license with this key to a customer, where its terms allow that and it has none."""

    customer_id: int


class OfferLicense(LicenseCommand, frozen=True, kw_only=True):
    """Offer a license, named by its ID, to the customer with this address; a new one, if there is none. With
    ``owner_id``, licenses of other customers do not exist for the caller.
    """

    cost = Cost.ALONE

    email: str
    owner_id: int | None = None
    language: str | None = None


class TransferCommand(LicenseCommand, frozen=True, kw_only=True):
    """A decision about a transfer of a license, named by its ID: of this customer, or of the vendor."""

    cost = Cost.ALONE

    transfer_id: int
    customer_id: int | None = None


class AcceptTransfer(TransferCommand, frozen=True, kw_only=True):
    """Take over the license. It gets a new key, and all of its places are free."""


class CancelTransfer(TransferCommand, frozen=True, kw_only=True):
    """End an offer: its owner takes it back, or the other customer declines it."""


class UndoTransfer(TransferCommand, frozen=True, kw_only=True):
    """Give the license back to the customer who had it, with a third key."""


class ListTransfers(Query, frozen=True, kw_only=True):
    """The transfers of a license, the newest first."""

    license_id: int
    only_product_id: int | None = None


class CountClaims(Query, frozen=True, kw_only=True):
    """How many licenses of a policy, of an order, or made by a job, were claimed and activated."""

    cost = Cost.LIST

    policy_id: int | None = None
    order_id: str | None = None
    job_id: int | None = None
    only_product_id: int | None = None
