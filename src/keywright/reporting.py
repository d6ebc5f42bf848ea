"""What each question is answered. Nothing here changes anything."""

from collections.abc import Callable, Sequence
from typing import Any

from keywright import commands as c
from keywright import rules
from keywright.errors import UnknownLicense
from keywright.generating import get_generator
from keywright.model import Activation, ApiKey, Generator, License, LicensePage, LicenseRecord
from keywright.storage import Reading


class Readset:
    """What a batch of questions is about: loaded once for all of them."""

    def __init__(self, tx: Reading, queries: Sequence[c.Query]) -> None:
        """Load what the validations among these need."""
        self.tx = tx
        asked = [one for one in queries if type(one) is c.Validate]
        whole = {one.key for one in asked if one.token is None}
        named = {(one.key, one.token) for one in asked if one.token is not None}
        self._licenses, self._records = tx.find_records(whole, named) if asked else ({}, {})

    def get_license(self, query: c.Validate) -> License:
        """The license that the question is about. Raises ``UnknownLicense``."""
        license = self._licenses.get(query.key)
        only = query.only_product_id
        if license is None or (only is not None and license.product_id != only):
            raise UnknownLicense(query.key)
        return license

    def records(self, license: License) -> Sequence[Activation]:
        """The license's records: all, or those that a question named."""
        return self._records.get(license.id, ())


def validate(read: Readset, query: c.Validate) -> LicenseRecord:
    """Report a license; never looks at status or expiry."""
    license = read.get_license(query)
    return LicenseRecord(license, rules.validate(read.records(license), query.token))


def find_licenses(read: Readset, query: c.FindLicenses) -> tuple[LicenseRecord, ...]:
    """The next matching licenses, with all their activations."""
    found = read.tx.list_licenses(query.where, after_id=query.after_id, limit=query.limit)
    return _with_activations(read.tx, found)


def list_licenses(read: Readset, query: c.ListLicenses) -> LicensePage:
    """One page of the matching licenses, with all their activations."""
    skip = (query.page - 1) * query.per_page
    total = read.tx.count_licenses(query.where)
    found = read.tx.list_license_page(query.where, skip=skip, limit=query.per_page) if skip < total else []
    return LicensePage(_with_activations(read.tx, found), total)


def find_generator(read: Readset, query: c.GetGenerator) -> Generator:
    """One generator. Raises ``UnknownGenerator``."""
    return get_generator(read.tx, query.generator_id)


def list_generators(read: Readset, _query: c.ListGenerators) -> tuple[Generator, ...]:
    """Every generator."""
    return tuple(read.tx.list_generators())


def find_api_key(read: Readset, query: c.FindApiKey) -> ApiKey | None:
    """The API key in force with this hashed consumer key."""
    return read.tx.find_api_key(query.consumer_key_hash)


def check(read: Readset, _query: c.CheckStore) -> None:
    """The database answers."""
    read.tx.list_generators()


def _with_activations(tx: Reading, licenses: Sequence[License]) -> tuple[LicenseRecord, ...]:
    records = tx.list_activations([one.id for one in licenses])
    return tuple(LicenseRecord(one, tuple(records.get(one.id, ()))) for one in licenses)


#: Answered by one statement, which sees one moment of the database by itself.
SINGLE = frozenset({c.Validate, c.GetGenerator, c.ListGenerators, c.FindApiKey, c.CheckStore})
#: Which function answers which question.
ANSWERS: dict[type[c.Query], Callable[[Readset, Any], Any]] = {
    c.Validate: validate,
    c.FindLicenses: find_licenses,
    c.ListLicenses: list_licenses,
    c.GetGenerator: find_generator,
    c.ListGenerators: list_generators,
    c.FindApiKey: find_api_key,
    c.CheckStore: check,
}
