"""Change the vendor's brand."""

from msgspec import UNSET, UnsetType

from keywright.core.command import Command
from keywright.provisioning.brand.model import FooterLink


class SaveBrand(Command, frozen=True, kw_only=True):
    """Save the brand; without ``logo``, the logo stays, and None removes it."""

    name: str | None
    color: str | None
    links: tuple[FooterLink, ...]
    logo: bytes | UnsetType | None = UNSET
