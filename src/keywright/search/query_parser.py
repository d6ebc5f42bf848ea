"""Interpret the text that a user types into the search box."""

import re
from collections.abc import Iterator

import msgspec

from keywright.core.errors import InvalidLicenseKey
from keywright.core.parsing import MAX_ID, is_storable
from keywright.db import ReadTransaction
from keywright.licensing.licenses import keys
from keywright.licensing.licenses import store as license_store
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_numbers
from keywright.search import scan_store
from keywright.search.filters import Search
from keywright.search.matches import parse_address
from keywright.search.terms_store import address_term, label_term, token_term


class Interpretation(msgspec.Struct, frozen=True):
    """A possible meaning of a text, and the search for it. ``kind`` is ``license_key``, ``token``,
    ``address``, ``order``, ``customer`` (by ID or name), ``product`` (by name), ``license`` (by ID) or
    ``label`` (by its beginning).
    """

    kind: str
    search: Search


def interpret(tx: ReadTransaction, text: str) -> tuple[Interpretation, ...]:
    """Return the meanings of a text that have a match, likeliest first; if it is a license key, only that
    license. Surrounding white space is ignored, and so is case, except in license keys.
    """
    typed = text.strip()
    if not typed or not is_storable(typed):
        return ()
    license_id = _find_by_key(tx, text)
    if license_id is not None:
        return (Interpretation("license_key", Search(license_id=license_id)),)
    # A number may be both the ID and the name of a customer.
    possible = list(dict.fromkeys([*_readings(typed), *_names(tx, typed)]))
    scan_store.set_planner_options(tx)
    found = scan_store.are_there_any(tx, [one.search for one in possible])
    return tuple(one for one, exists in zip(possible, found, strict=True) if exists)


def _find_by_key(tx: ReadTransaction, text: str) -> int | None:
    try:
        key = keys.normalize_key(text)
    except InvalidLicenseKey:
        return None
    found = license_store.find_licenses(tx, [key]).get(key)
    return None if found is None else found.id


def _readings(text: str) -> Iterator[Interpretation]:
    if re.fullmatch("[0-9a-fA-F]{40}", text):
        yield Interpretation("token", Search(term=token_term(text.lower())))
    address = parse_address(text)
    if address is not None:
        yield Interpretation("address", Search(term=address_term(address)))
    if re.fullmatch("[0-9]{1,19}", text) and int(text) <= MAX_ID:
        number = int(text)
        yield Interpretation("order", Search(order_id=number))
        yield Interpretation("customer", Search(customer_id=number))
        yield Interpretation("license", Search(license_id=number))
    yield Interpretation("label", Search(term=label_term(text), is_prefix=True))


def _names(tx: ReadTransaction, text: str) -> Iterator[Interpretation]:
    for number in find_numbers(tx, NameKind.CUSTOMER, text):
        yield Interpretation("customer", Search(customer_id=number))
    for number in find_numbers(tx, NameKind.PRODUCT, text):
        yield Interpretation("product", Search(product_id=number))
