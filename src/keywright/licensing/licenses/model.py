"""The nouns. All of them are frozen: a change makes a new one.

Times are aware datetimes in UTC, in whole seconds. Numbers that come from the vendor's shop (orders,
products, users) are kept as they came and never looked up.
"""

import re
from datetime import datetime
from enum import IntEnum

import msgspec

from keywright.core.errors import InvalidStatus


class Status(IntEnum):
    """The decision of a person or a shop about a license. The numbers are the wire format's."""

    SOLD = 1
    DELIVERED = 2
    ACTIVE = 3
    INACTIVE = 4
    DISABLED = 5


class LicenseSource(IntEnum):
    """The origin of a license. The numbers are the wire format's."""

    GENERATOR = 1
    IMPORT = 2
    API = 3
    MIGRATION = 4


class License(msgspec.Struct, frozen=True, gc=False):
    """The right to run a program in ``times_activated_max`` places; None is no limit.

    ``times_activated`` counts its active records, ``deactivated_count`` those that were given up and are
    still kept. ``metadata`` is the text of a JSON object.
    """

    id: int
    key: str
    order_id: int | None
    product_id: int | None
    customer_id: int | None
    expires_at: datetime | None
    valid_for_days: int | None
    source: int
    status: int
    times_activated: int
    times_activated_max: int | None
    created_at: datetime
    created_by: int | None
    updated_at: datetime
    updated_by: int | None
    deactivated_count: int = 0
    metadata: str | None = None


class LicenseFilter(msgspec.Struct, frozen=True):
    """Which licenses a list is about; None is any."""

    status: int | None = None
    product_id: int | None = None
    order_id: int | None = None
    customer_id: int | None = None


def parse_status(value: object) -> Status:
    """A status by its name in any case or its number. Raises ``InvalidStatus``."""
    text = str(value).strip() if isinstance(value, str | int) and str(value).isascii() else ""
    if re.fullmatch(r"[1-5]", text):
        return Status(int(text))
    try:
        return Status[text.upper()]
    except KeyError:
        raise InvalidStatus from None
