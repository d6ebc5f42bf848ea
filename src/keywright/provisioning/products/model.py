"""Products."""

from datetime import datetime

import msgspec


class Feature(msgspec.Struct, frozen=True, omit_defaults=True):
    """A feature that licenses of the product may entitle to, by its code."""

    code: str
    name: str | None = None
    description: str | None = None


class Product(msgspec.Struct, frozen=True):
    """What licenses are for. ``id`` is the shop's number, or one of Keywright's own; ``code`` is unique, and
    so is ``external_id``, the ID of another system of the vendor; ``metadata`` is the text of a JSON object.
    Customers renew at ``renew_url``, which may contain ``{license_ref}``.
    """

    id: int
    code: str | None
    name: str
    url: str | None
    features: tuple[Feature, ...]
    metadata: str | None
    created_at: datetime
    updated_at: datetime
    external_id: str | None = None
    renew_url: str | None = None
