"""What each question is answered. Nothing here changes anything."""

from collections.abc import Callable, Sequence
from typing import Any

from keywright import commands as c
from keywright import rules
from keywright.errors import UnknownLicense
from keywright.generating import get_generator
from keywright.model import ApiKey, Generator, LicensePage, LicenseRecord, RecordLimits
from keywright.storage import Reading, records


class Readset:
    """What a batch of questions is about: loaded once for all of them."""

    def __init__(self, tx: Reading, queries: Sequence[c.Query], limits: RecordLimits) -> None:
        """Load what the validations among these need."""
        self.tx = tx
        self.limits = limits
        asked = [one for one in queries if type(one) is c.Validate]
        whole = {one.key for one in asked if one.token is None}
        named = {(one.key, one.token) for one in asked if one.token is not None}
        self._whole = records.find_records(tx, whole, limits.listed) if whole else {}
        self._named = records.find_named(tx, named) if named else {}

    def get_record(self, query: c.Validate) -> LicenseRecord:
        """The license that the question is about, with the records that the answer lists, or with the one
        that the question names. Raises ``UnknownLicense``.
        """
        if query.token is None:
            found = self._whole.get(query.key)
        else:
            found = self._named.get((query.key, query.token))
        only = query.only_product_id
        if found is None or (only is not None and found.license.product_id != only):
            raise UnknownLicense(query.key)
        return found


def validate(read: Readset, query: c.Validate) -> LicenseRecord:
    """Report a license; never looks at status or expiry."""
    found = read.get_record(query)
    return LicenseRecord(found.license, rules.validate(found.activations, query.token))


def find_licenses(read: Readset, query: c.FindLicenses) -> tuple[LicenseRecord, ...]:
    """The next matching licenses, with some of their activations."""
    found = read.tx.list_licenses(query.where, after_id=query.after_id, limit=query.limit)
    return tuple(records.list_records(read.tx, found, read.limits.listed))


def list_licenses(read: Readset, query: c.ListLicenses) -> LicensePage:
    """One page of the matching licenses, with some of their activations."""
    skip = (query.page - 1) * query.per_page
    total = read.tx.count_licenses(query.where)
    found = read.tx.list_license_page(query.where, skip=skip, limit=query.per_page) if skip < total else []
    return LicensePage(tuple(records.list_records(read.tx, found, read.limits.listed)), total)


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


#: Answered by statements each of which sees one moment of the database, all that an answer needs.
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
