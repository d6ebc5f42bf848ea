"""Trials: licenses that a program starts on its own, one for each device and product. Pure."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from keywright.core.command import Command, Cost, Query
from keywright.core.errors import InvalidParameters, PolicyArchived, TrialNotOffered
from keywright.licensing.activations.model import Activation, Device, LicenseView
from keywright.provisioning.policies.model import Policy


class Trial(msgspec.Struct, frozen=True):
    """The license of a device's trial, which may have been deleted. ``email`` is what the device sent: it
    belongs to no customer until a sign-in has proved it.
    """

    product_id: int
    license_id: int
    email: str | None
    created_at: datetime


class StartedTrial(msgspec.Struct, frozen=True):
    """The license of a trial and the device's activation, None if another device has taken its place."""

    view: LicenseView
    activation: Activation | None
    is_new: bool


def choose_policy(policies: Iterable[Policy], policy_id: int | None) -> Policy:
    """Choose the policy for a product's trials from those of the product: the named one, or the only one.

    Raises ``TrialNotOffered``, ``PolicyArchived``, and ``InvalidParameters`` if one of several must be named.
    """
    offered = [one for one in policies if one.terms.trial and policy_id in (None, one.id)]
    if not offered:
        raise TrialNotOffered
    usable = [one for one in offered if one.archived_at is None]
    if not usable:
        raise PolicyArchived(offered[0].id)
    if len(usable) > 1:
        raise InvalidParameters({"policy": "is required: the product has several policies for trials"})
    return usable[0]


class StartTrial(Command, frozen=True, kw_only=True):
    """Start the trial of a product (ID or code) for the device with this fingerprint, or return the one that
    it has had. ``policy_id`` is needed if the product has several policies for trials.
    """

    # It makes a license, and most of its statements cannot be combined with those of other commands.
    cost = Cost.ALONE

    product: int | str
    fingerprint: str
    device: Device
    policy_id: int | None = None
    email: str | None = None
    built_at: datetime | None = None
    only_product_id: int | None = None


class HasTrial(Query, frozen=True, kw_only=True):
    """Whether the device with this fingerprint has had its trial of a product (ID or code)."""

    product: int | str
    fingerprint: str
    only_product_id: int | None = None
