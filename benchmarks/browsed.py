"""Create an installation for the administration pages: licenses of all kinds, activations with labels and
addresses, and complete projections of the events (search terms, daily counts, refusals).
"""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.databases import Database
from benchmarks.installations import key_of, opened
from keywright.db import Storage, WriteTransaction
from keywright.db.bulk import Values, bulk_insert
from keywright.db.schema import customers, daily_counts, limit_refusals, name_terms, products, search_terms
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activation, ActivationSource
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, LicenseSource, Status
from keywright.provisioning.customers import fold_email
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import terms_of_row

_AT_ONCE = 2_000
_DAYS = 3 * 365
_DAY = timedelta(days=1)
#: A customer that owns one license in twenty, and an IP address with one activation in twenty.
RESELLER, OFFICE = 999_999_999, "198.51.100.7"
PRODUCTS = 100
#: One label in five begins with the first, one in a hundred with the second.
FREQUENT_LABEL, RARE_LABEL = "laptop", "render farm"
#: The index of the license with the most activations, and their number.
BUSY_INDEX, _BUSY = 7, 20_000
_ORDER = '{"source":"shop","id":"WEB-%d","line":"1"}'
#: The number of additional licenses, whose keys have unusual last characters.
_WITH_OTHER_ENDS = 200
_LIMITS = (1, 1, 1, 2, 3, 5, None)
_NAMES = ("Office", "Studio", "Anna", "Build server", "Reception", "Home", "Lab", "Édouard", "工作站")

#: The parts of customer names: a first and a last name, or a last name and a kind of company.
FIRST_NAMES = (
    "Anna Maria James Olga Wei Fatima John Ingrid Pedro Aisha Liam Chloé Yuki Noah Emma Lucas Mia Hugo Zoë "
    "Ivan Priya Omar Elena Jonas Sofia Diego Nina Karl Lea Tom Amara Rosa Paul Ada Max Ida Leo Eva Ben Ute"
).split()
LAST_NAMES = (
    "Smith Müller García Ivanova Chen Nakamura Okafor Larsen Silva Rossi Novák Kowalski Dubois Jensen "
    "Popescu Haddad Singh Kim Nguyen Brown Weber Fischer Lopez Martin Bauer Hansen Costa Moreau Murphy Walker"
).split()
_COMPANIES = (
    "Clinic",
    "Studio GmbH",
    "Press Ltd",
    "Labs",
    "University",
    "& Sons",
    "Architects",
    "Consulting",
)
_PROVIDERS = ("gmail.com", "outlook.com", "yahoo.com", "example.org")

_INSERT_TERMS = bulk_insert(search_terms)
_INSERT_CUSTOMERS = bulk_insert(customers)
_INSERT_PRODUCTS = bulk_insert(products)
_INSERT_NAME_TERMS = bulk_insert(name_terms)
_INSERT_COUNTS = bulk_insert(daily_counts)
_INSERT_REFUSALS = bulk_insert(limit_refusals)


class Browsed(NamedTuple):
    """An installation, and values to search for."""

    data_dir: Path
    database: Database
    licenses: int
    activations: int
    #: Some existing license IDs, tokens and addresses.
    some_ids: list[int]
    some_tokens: list[str]
    some_addresses: list[str]
    #: The ID of the license with the most activations.
    busy_id: int
    #: The keys of some licenses with unusual last characters.
    some_keys: list[str]


class _Told(NamedTuple):
    """Rows of some licenses."""

    licenses: list[License]
    activations: list[Activation]
    events: list[Event]
    search_terms: list[Values]


def fill(folder: Path, database: Database, licenses: int, say: Callable[[str], None]) -> Browsed:
    """Create an installation in the folder, with about three activations for five licenses."""
    data_dir = folder / f"{licenses}-browsed"
    say(f"creating {licenses:,} licenses, their activations and search terms …")
    now = datetime.now(UTC).replace(microsecond=0)
    chance = random.Random(licenses)
    database.prepare(data_dir)
    some: list[Activation] = []
    activations = busy_id = 0
    with opened(data_dir, database) as storage:
        for start in range(0, licenses, _AT_ONCE):
            with storage.write() as tx:
                told = _tell(tx, range(start, min(licenses, start + _AT_ONCE)), licenses, now, chance)
                _save(tx, told)
            activations += len(told.activations)
            some += chance.sample(told.activations, 2)
            if start <= BUSY_INDEX < start + _AT_ONCE:
                busy_id = told.licenses[BUSY_INDEX - start].id
        with storage.write() as tx:
            others = _tell(tx, range(licenses, licenses + _WITH_OTHER_ENDS), licenses, now, chance)
            _save(tx, others)
            _save_counts(tx, licenses, now, chance)
        _save_names(storage, licenses // 3, now, chance)
    database.settle(data_dir)
    return Browsed(
        data_dir,
        database,
        licenses,
        activations,
        [one.license_id for one in some],
        [one.token for one in some],
        [one.ip_address for one in some],
        busy_id,
        [one.key for one in others.licenses],
    )


def _tell(tx: WriteTransaction, indexes: range, amount: int, now: datetime, chance: random.Random) -> _Told:
    told = _Told([], [], [], [])
    for index in indexes:
        license = _license(tx.ids.next("license"), index, amount, now, chance)
        taken = _places(license, index, amount, chance)
        records = [_activation(tx.ids.next("activation"), license, now, chance) for _ in range(taken)]
        license = replace(license, times_activated=taken)
        told.licenses.append(license)
        told.activations.extend(records)
        told.events.extend(_events(license, records))
        told.search_terms.extend(_terms(license, records))
    return told


def _license(id: int, index: int, amount: int, now: datetime, chance: random.Random) -> License:
    created_at = now - timedelta(seconds=_DAYS * 86_400 * (amount - index) // amount)
    terms = chance.choice((365, 365, 730, None, None))
    number = chance.choice((None, 70_000 + index // 2))
    # One order in ten is from a shop whose orders have text IDs.
    is_named = index % 10 == 0
    end = chance.randbytes(4).hex().upper()
    return License(
        id=id,
        key=key_of(index) if index < amount else f"ENDS-{index:08d}-{end}",
        order_id=None if is_named else number,
        order_details=_ORDER % index if is_named else None,
        # Product 1 sells best, product 100 hardly at all.
        product_id=int(PRODUCTS ** chance.random()) if chance.random() < 0.98 else None,
        customer_id=RESELLER if chance.random() < 0.05 else chance.randrange(1, amount // 3),
        expires_at=None if terms is None else created_at + timedelta(days=terms),
        valid_for_days=None,
        source=LicenseSource.API,
        status=_status(index, amount, chance),
        times_activated=0,
        times_activated_max=None if index == BUSY_INDEX else chance.choice(_LIMITS),
        created_at=created_at,
        created_by=1,
        updated_at=created_at,
        updated_by=None,
    )


def _status(index: int, amount: int, chance: random.Random) -> Status:
    """Half of the newest licenses are only sold, some of the oldest are disabled."""
    if index > amount * 9 // 10 and chance.random() < 0.5:
        return Status.SOLD
    if index < amount // 10 and chance.random() < 0.2:
        return Status.DISABLED
    return chance.choices((Status.ACTIVE, Status.DELIVERED, Status.INACTIVE), (85, 12, 3))[0]


def _places(license: License, index: int, amount: int, chance: random.Random) -> int:
    if index == BUSY_INDEX:
        return min(_BUSY, amount // 50)
    limit, taken = license.times_activated_max, chance.choice((0, 0, 0, 0, 0, 1, 1, 1, 1, 3))
    return taken if limit is None else min(limit, taken)


def _activation(id: int, license: License, now: datetime, chance: random.Random) -> Activation:
    seconds = int((now - license.created_at).total_seconds())
    return Activation(
        id=id,
        token=chance.randbytes(20).hex(),
        license_id=license.id,
        label=_label(chance),
        source=ActivationSource.API,
        ip_address=_address(chance),
        user_agent="PhotoDesk/4.2.1 (Windows NT 10.0; Win64; x64)",
        meta_data=None,
        created_at=license.created_at + timedelta(seconds=chance.randrange(max(1, seconds))),
        updated_at=None,
        deactivated_at=None,
    )


def _label(chance: random.Random) -> str | None:
    draw = chance.random()
    if draw < 0.01:
        return f"Render Farm {chance.randrange(1_000)}"
    if draw < 0.2:
        return f"Laptop {chance.randrange(5_000)}"
    return None if draw < 0.4 else f"{chance.choice(_NAMES)} {chance.randrange(500)}"


def _address(chance: random.Random) -> str:
    if chance.random() < 0.05:
        return OFFICE
    if chance.random() < 0.2:
        return f"2001:db8:{chance.randrange(1, 65_536):x}::{chance.randrange(1, 65_536):x}"
    return f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"


def _events(license: License, records: list[Activation]) -> Iterator[Event]:
    yield Event(license.created_at, "license.created", license.id, None, "api_key:1", "127.0.0.1")
    for one in records:
        yield Event(one.created_at, "license.activated", license.id, one.id, "program", one.ip_address)


def _terms(license: License, records: list[Activation]) -> Iterator[Values]:
    if license.times_activated_max is not None and license.times_activated >= license.times_activated_max:
        yield _term("full", license.id, 0)
    if not records:
        yield _term("unused", license.id, 0)
    for one in records:
        yield _term(f"t{one.token}", license.id, one.id)
        yield _term(f"i{one.ip_address}", license.id, one.id)
        if one.label is not None:
            yield _term(f"l{one.label.lower()}", license.id, one.id)


def _term(term: str, license_id: int, activation_id: int) -> Values:
    return {"term": term, "license_id": license_id, "activation_id": activation_id}


def _save(tx: WriteTransaction, told: _Told) -> None:
    license_store.save_new_licenses(tx, told.licenses)
    activation_store.save_new_activations(tx, told.activations)
    event_store.save_events(tx, told.events)
    tx.ids.save()
    _INSERT_TERMS.execute(tx.connection, told.search_terms)


def _save_names(storage: Storage, amount: int, now: datetime, chance: random.Random) -> None:
    """Create the customers and products that licenses refer to."""
    moment = int(now.timestamp())
    for start in range(1, amount, _AT_ONCE):
        rows = [_customer(number, moment, chance) for number in range(start, min(amount, start + _AT_ONCE))]
        with storage.write() as tx:
            _INSERT_CUSTOMERS.execute(tx.connection, rows)
            _save_name_terms(tx, NameKind.CUSTOMER, rows, "email")
    made: list[Values] = [
        {"id": number, "name": f"{chance.choice(LAST_NAMES)} Suite {number}", "code": f"suite-{number}"}
        | {"url": None, "features": "[]", "metadata": None, "created_at": moment, "updated_at": moment}
        | {"updates": "licensed", "channels": "[]", "public_keys": "[]", "version_scheme": "loose"}
        for number in range(1, PRODUCTS + 1)
    ]
    with storage.write() as tx:
        _INSERT_PRODUCTS.execute(tx.connection, made)
        _save_name_terms(tx, NameKind.PRODUCT, made, "code")


def _customer(number: int, moment: int, chance: random.Random) -> Values:
    first, last = chance.choice(FIRST_NAMES), chance.choice(LAST_NAMES)
    is_company = chance.random() < 0.4
    name = f"{last} {chance.choice(_COMPANIES)}" if is_company else f"{first} {last}"
    domain = f"{last}-{number % 9_973}.example" if is_company else chance.choice(_PROVIDERS)
    email = f"{first}.{last}{number}@{domain}"
    return {
        "id": number,
        "email": email,
        "email_folded": fold_email(email),
        "email_verified_at": None,
        "name": name,
        "metadata": None,
        "created_at": moment,
        "updated_at": moment,
    }


def _save_name_terms(tx: WriteTransaction, kind: NameKind, rows: list[Values], other: str) -> None:
    terms = [(term, row["id"]) for row in rows for term in terms_of_row(kind, row["name"], row[other])]
    values: list[Values] = [{"term": term, "number": number} for term, number in sorted(terms)]
    _INSERT_NAME_TERMS.execute(tx.connection, values)


def _save_counts(tx: WriteTransaction, licenses: int, now: datetime, chance: random.Random) -> None:
    today = int(now.timestamp()) // 86_400
    counts: list[Values] = [
        {"day": today - days, "name": name, "amount": chance.randrange(licenses)}
        for days in range(60)
        for name in ("license.activated", "license.validated", "license.deactivated")
    ]
    refusals: list[Values] = [
        {
            "license_id": number,
            "refusals": chance.randrange(1, 50),
            "last_refused_at": int(now.timestamp()) - number,
        }
        for number in range(1, licenses, 100)
    ]
    _INSERT_COUNTS.execute(tx.connection, counts)
    _INSERT_REFUSALS.execute(tx.connection, refusals)
