"""Commands of the catalog."""

from keywright.core.command import Command
from keywright.provisioning.catalog.model import NameKind


class SaveName(Command, frozen=True, kw_only=True):
    """Call a number of the vendor's shop by this name; None takes the name away."""

    kind: NameKind
    number: int
    name: str | None
