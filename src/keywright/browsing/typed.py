"""What somebody typed into the search box, and what it may mean."""

import ipaddress
import re
from collections.abc import Iterator

import msgspec

from keywright import keys
from keywright.errors import InvalidLicenseKey
from keywright.fields import MAX_ID, is_storable
from keywright.model import NameKind
from keywright.storage import Reading, finding, license_store, people
from keywright.storage.following import address_term, label_term, token_term
from keywright.storage.searching import Search


class Interpretation(msgspec.Struct, frozen=True):
    """What a text may mean, and the search for that. ``kind`` is ``license_key``, ``token``, ``address``,
    ``order``, ``customer`` (by number or name), ``product`` (by name), ``license`` (its number) or ``label``
    (its beginning).
    """

    kind: str
    search: Search


def interpret(tx: Reading, text: str) -> tuple[Interpretation, ...]:
    """What a typed text may mean, likeliest first: only what there is, and nothing else where it is a license
    key. White space around it and, but for license keys, upper and lower case make no difference.
    """
    typed = text.strip()
    if not typed or not is_storable(typed):
        return ()
    license_id = _find_by_key(tx, text)
    if license_id is not None:
        return (Interpretation("license_key", Search(license_id=license_id)),)
    # A customer's number may be their name, too.
    possible = list(dict.fromkeys([*_readings(typed), *_names(tx, typed)]))
    finding.steer(tx)
    found = finding.exist_each(tx, [one.search for one in possible])
    return tuple(one for one, exists in zip(possible, found, strict=True) if exists)


def _find_by_key(tx: Reading, text: str) -> int | None:
    try:
        key = keys.normalize_key(text)
    except InvalidLicenseKey:
        return None
    found = license_store.find_licenses(tx, [key]).get(key)
    return None if found is None else found.id


def _readings(text: str) -> Iterator[Interpretation]:
    if re.fullmatch("[0-9a-fA-F]{40}", text):
        yield Interpretation("token", Search(term=token_term(text.lower())))
    address = _address(text)
    if address is not None:
        yield Interpretation("address", Search(term=address_term(address)))
    if re.fullmatch("[0-9]{1,19}", text) and int(text) <= MAX_ID:
        number = int(text)
        yield Interpretation("order", Search(order_id=number))
        yield Interpretation("customer", Search(user_id=number))
        yield Interpretation("license", Search(license_id=number))
    yield Interpretation("label", Search(term=label_term(text), is_prefix=True))


def _names(tx: Reading, text: str) -> Iterator[Interpretation]:
    """Who, and what, is called so."""
    for number in people.find_numbers(tx, NameKind.USER, text):
        yield Interpretation("customer", Search(user_id=number))
    for number in people.find_numbers(tx, NameKind.PRODUCT, text):
        yield Interpretation("product", Search(product_id=number))


def _address(text: str) -> str | None:
    """An IP address as activations have it: an IPv4 address as such, also where it is written as IPv6."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
