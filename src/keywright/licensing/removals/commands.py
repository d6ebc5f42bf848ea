"""Free devices in the portal."""

from keywright.licensing.activations.commands import ReleaseActivation


class RemoveByCustomer(ReleaseActivation, frozen=True, kw_only=True):
    """Give up the place of a device for a customer, as often as the terms allow. With ``customer_id``,
    licenses of others do not exist for the caller.
    """

    customer_id: int | None = None
