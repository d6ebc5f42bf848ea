"""Customers."""

from datetime import datetime
from typing import Any

import msgspec


class Customer(msgspec.Struct, frozen=True):
    """A person or a company that has licenses. ``id`` is the shop's number, or one of Keywright's own;
    ``email`` is unique in any case, and ``external_id`` is the unique ID of another system of the vendor.
    ``language`` (``de``, ``pt-BR``) is that of mails and the portal; with ``unsubscribed_at``, there are no
    reminders.
    """

    id: int
    email: str | None
    email_verified_at: datetime | None
    name: str | None
    language: str | None
    external_id: str | None
    metadata: dict[str, Any]
    erasure_requested_at: datetime | None
    unsubscribed_at: datetime | None
    created_at: datetime
    updated_at: datetime
