"""Keep refused calls, and forget old ones."""

from collections.abc import Mapping, Sequence

from keywright.core.command import Command, Cost
from keywright.licensing.refusals.model import RefusedCall


class SaveRefusals(Command, frozen=True, kw_only=True):
    """Store refused calls, by the license key that they named."""

    cost = Cost.ALONE
    is_internal = True

    refused: Mapping[str, Sequence[RefusedCall]]
