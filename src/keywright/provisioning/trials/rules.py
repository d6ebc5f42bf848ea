"""The rules of trials. Pure."""

from collections.abc import Iterable

from keywright.core.errors import InvalidParameters, PolicyArchived, TrialNotOffered
from keywright.provisioning.policies.model import Policy


def choose_policy(policies: Iterable[Policy], policy_id: int | None) -> Policy:
    """The policy of a product's trials, of these that are for the product: the named one, or the only one.

    Raises ``TrialNotOffered``, ``PolicyArchived``, and ``InvalidParameters`` where one of several has to be
    named.
    """
    offered = [one for one in policies if one.terms.trial and policy_id in (None, one.id)]
    if not offered:
        raise TrialNotOffered
    usable = [one for one in offered if one.archived_at is None]
    if not usable:
        raise PolicyArchived(offered[0].id)
    if len(usable) > 1:
        raise InvalidParameters({"policy": "must be named: the product has several for trials"})
    return usable[0]
