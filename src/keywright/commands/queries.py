"""Requests to read."""

import msgspec

from keywright.model import LicenseFilter


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read."""


class Validate(Query, frozen=True, kw_only=True):
    """Report the license with all its activations, or with the active one that has this token."""

    key: str
    token: str | None = None
    only_product_id: int | None = None


class ValidateAlone(Validate, frozen=True, kw_only=True):
    """The same, also for a license that has so many records that no other call should wait for it."""


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
