"""Decide the command about the brand."""

import base64
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from keywright.core.command import Command
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning import brand as rules
from keywright.provisioning import brand_store
from keywright.provisioning.brand import Brand, SaveBrand


def save_brand(work: UnitOfWork, command: SaveBrand) -> Brand:
    """Save the brand. Raises ``ValueError`` for a file that is no logo."""
    before = brand_store.find_brand(work.tx)
    logo, logo_type = before.logo, before.logo_type
    if command.logo is None:
        logo = logo_type = None
    elif command.logo is not UNSET:
        logo, logo_type = base64.b64encode(command.logo).decode(), rules.find_image_type(command.logo)
    brand = Brand(command.name, command.color, logo, logo_type, command.links)
    if brand != before:
        brand_store.save_brand(work.tx, brand, command.context.now)
        work.record_event("brand.saved", command)
    return brand


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {SaveBrand: save_brand}
