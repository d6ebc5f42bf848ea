"""Customers."""

from datetime import datetime

import msgspec


class Customer(msgspec.Struct, frozen=True):
    """A person or a company that has licenses. ``id`` is the shop's number, or one of Keywright's own;
    ``email`` is unique in any case, ``external_id`` is the unique ID of another system of the vendor, and
    ``metadata`` the text of a JSON object. ``language`` (``de``,
    ``pt-BR``) is that of mails and the portal; with ``unsubscribed_at``, there are no reminders.
    """

    id: int
    email: str | None
    email_verified_at: datetime | None
    name: str | None
    metadata: str | None
    created_at: datetime
    updated_at: datetime
    language: str | None = None
    erasure_requested_at: datetime | None = None
    unsubscribed_at: datetime | None = None
    external_id: str | None = None
