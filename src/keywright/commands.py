"""Requests to change or to read, as they wait at the desk: everything that is known about one call,
read once at the edge (the clock included), so that deciding needs nothing from outside.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from keywright.model import LicenseFilter, Origin


class Retry(msgspec.Struct, frozen=True):
    """The caller may send this call again: ``scope`` names the call (32 bytes), ``request_digest``
    what it asked for, and ``write_answer`` turns an outcome into the status and body to be kept.
    """

    scope: bytes
    request_digest: bytes
    write_answer: Callable[[Any], tuple[int, bytes]]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change something. ``by`` is the number of the API key or user who asks."""

    now: datetime
    origin: Origin
    by: int | None = None
    retry: Retry | None = None


class LicenseCommand(Command, frozen=True, kw_only=True):
    """A request to change the license with this key.

    With ``only_product_id``, licenses of other products do not exist for the caller.
    """

    key: str
    only_product_id: int | None = None


class Activate(LicenseCommand, frozen=True, kw_only=True):
    """Take a new place."""

    label: str | None = None
    meta_data: Mapping[str, str] | None = None


class Reactivate(LicenseCommand, frozen=True, kw_only=True):
    """Take back the place with this token."""

    token: str


class Deactivate(LicenseCommand, frozen=True, kw_only=True):
    """Give up the place with this token."""

    token: str


class DeactivateAll(LicenseCommand, frozen=True, kw_only=True):
    """Give up every place."""


class CreateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Make a license with this key."""

    status: int
    order_id: int | None = None
    product_id: int | None = None
    user_id: int | None = None
    expires_at: datetime | None = None
    valid_for_days: int | None = None
    times_activated_max: int | None = None


class UpdateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``License``."""

    changes: Mapping[str, Any]


class DeleteLicense(LicenseCommand, frozen=True, kw_only=True):
    """Delete the license and its activations."""


class ForgetAnswers(Command, frozen=True, kw_only=True):
    """Delete the answers that were kept for repeated calls before this moment."""

    before: datetime


class CreateGenerator(Command, frozen=True, kw_only=True):
    """Make a generator; ``is_weak_allowed`` lets keys through that could be guessed."""

    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: int | None = None
    separator: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    expires_in_days: int | None = None
    is_weak_allowed: bool = False


class UpdateGenerator(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Generator``."""

    generator_id: int
    changes: Mapping[str, Any]
    is_weak_allowed: bool = False


class DeleteGenerator(Command, frozen=True, kw_only=True):
    """Delete the generator; its licenses stay."""

    generator_id: int


class GenerateLicenses(Command, frozen=True, kw_only=True):
    """Make ``amount`` licenses with the generator, all or none."""

    generator_id: int
    amount: int
    status: int
    order_id: int | None = None
    product_id: int | None = None
    user_id: int | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read."""


class Validate(Query, frozen=True, kw_only=True):
    """Report the license with all its activations, or with the active one that has this token."""

    key: str
    token: str | None = None
    only_product_id: int | None = None


class FindLicenses(Query, frozen=True, kw_only=True):
    """The next ``limit`` matching licenses after this id, oldest first: a list read piece by piece."""

    where: LicenseFilter
    after_id: int
    limit: int


class ListLicenses(Query, frozen=True, kw_only=True):
    """Page ``page`` (from 1) of the matching licenses, oldest first, and how many match."""

    where: LicenseFilter
    page: int
    per_page: int


class GetGenerator(Query, frozen=True, kw_only=True):
    """The generator with this id."""

    generator_id: int


class ListGenerators(Query, frozen=True, kw_only=True):
    """Every generator, oldest first."""


class FindApiKey(Query, frozen=True, kw_only=True):
    """The API key in force with this hashed consumer key, or None."""

    consumer_key_hash: str


class CheckStore(Query, frozen=True, kw_only=True):
    """Whether the database answers."""
