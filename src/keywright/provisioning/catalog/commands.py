"""Commands about names of products and customers."""

from keywright.core.command import Command
from keywright.provisioning.catalog.model import NameKind


class SaveName(Command, frozen=True, kw_only=True):
    """Store the name of a number in the vendor's shop; None deletes it."""

    kind: NameKind
    number: int
    name: str | None
