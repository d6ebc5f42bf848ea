"""Temporary installations with many licenses."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.databases import Database
from keywright.config.installation import open_installation
from keywright.core.command import Context, Origin
from keywright.db import Storage, WriteTransaction
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.http.v2 import wire
from keywright.identity.api_keys import new_secrets
from keywright.identity.model import IssueApiKey, Permissions
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activation, ActivationSource, LicenseRecord, Validate
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, LicenseSource, Status
from keywright.registry import open_executor

ACTIVATIONS = 3
_ORIGIN = Origin("benchmark", "", "")
#: Never reached, but compared with in each activation.
_LIMIT = 1_000_000
_LICENSES_PER_TRANSACTION = 2_000
_MAX_PLACES = 20_000
_YEAR = 365 * 86_400
_AGENTS = (
    "PhotoDesk/4.2.1 (Windows NT 10.0; Win64; x64)",
    "PhotoDesk/4.1.0 (Macintosh; Intel Mac OS X 14_5)",
    "python-requests/2.32.3",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36",
)
_LABELS = ("Office laptop", "Build server 2", "Anna's desktop", "Studio left", None)
_META = ({"os": "windows", "version": "4.2.1"}, {"os": "macos", "version": "4.1.0"}, None)


class Filled(NamedTuple):
    """An installation, and what requests need to know about it."""

    data_dir: Path
    database: Database
    licenses: int
    consumer_key: str
    consumer_secret: str
    #: Lines of ``key token``, active places in random order, because the order of licenses would be
    #: unrealistically fast.
    places_file: Path
    places: int
    #: A key, and a file with the response to validating it, which has the median length.
    constant_key: str
    constant_file: Path


def key_of(index: int) -> str:
    """The license key with this index, from 0, as in ``requests.lua``."""
    return f"BENCH-{index:08d}-A1B2-C3D4"


@contextmanager
def opened(data_dir: Path, database: Database) -> Iterator[Storage]:
    """Open the storage of the installation in this directory, which is created if missing."""
    storage = open_installation(database.settings(data_dir))
    try:
        yield storage
    finally:
        storage.close()


def fill(folder: Path, database: Database, licenses: int, say: Callable[[str], None]) -> Filled:
    """Create an installation in the folder, with this many licenses of three activations each."""
    data_dir = folder / f"{licenses}-licenses"
    say(f"making {licenses:,} licenses with {ACTIVATIONS} activations each …")
    now = datetime.now(UTC).replace(microsecond=0)
    chance = random.Random(licenses)
    database.prepare(data_dir)
    with opened(data_dir, database) as storage:
        issued = new_secrets()
        issue = IssueApiKey(
            context=Context(now, _ORIGIN),
            name="benchmark",
            permissions=Permissions.READ_WRITE,
            **issued.hash_fields(),
        )
        open_executor(storage).execute([issue])
        for start in range(0, licenses, _LICENSES_PER_TRANSACTION):
            some = range(start, min(licenses, start + _LICENSES_PER_TRANSACTION))
            moments = [now - timedelta(seconds=_YEAR * (licenses - i) // licenses) for i in some]
            with storage.write() as tx:
                _insert(tx, list(zip(some, moments, strict=True)), now, chance)
        places = _write_places(storage, licenses, folder / f"{licenses}-places", chance)
        constant_file = folder / f"{licenses}-constant.json"
        constant_key = _write_constant(storage, chance.sample(range(licenses), 101), constant_file)
    database.settle(data_dir)
    return Filled(
        data_dir,
        database,
        licenses,
        issued.consumer_key,
        issued.consumer_secret,
        folder / f"{licenses}-places",
        places,
        constant_key,
        constant_file,
    )


@contextmanager
def copied(filled: Filled, name: str = "copy") -> Iterator[Filled]:
    """Copy the installation to another directory, which is removed afterwards."""
    copy = filled.data_dir.with_name(f"{filled.data_dir.name}-{name}")
    try:
        filled.database.copy(filled.data_dir, copy)
        yield filled._replace(data_dir=copy)
    finally:
        filled.database.remove(copy)


def read_through(filled: Filled) -> None:
    """Read the database into the operating system's cache, where a busy server's database is."""
    for file in filled.data_dir.glob("*.db"):
        with file.open("rb", buffering=0) as opened_file:
            while opened_file.read(1 << 20):
                pass


def insert_limited(storage: Storage, keys: Sequence[str], limit: int) -> None:
    """Insert licenses without activations, with this limit."""
    now = datetime.now(UTC).replace(microsecond=0)
    with storage.write() as tx:
        license_store.save_new_licenses(
            tx, [_license(tx.ids.next("license"), key, now, now, taken=0, limit=limit) for key in keys]
        )
        tx.ids.save()


def _insert(
    tx: WriteTransaction, created: list[tuple[int, datetime]], now: datetime, chance: random.Random
) -> None:
    licenses, activations, events = [], [], []
    for index, at in created:
        id = tx.ids.next("license")
        seconds = int((now - at).total_seconds())
        taken_at = sorted(at + timedelta(seconds=chance.randrange(seconds)) for _ in range(ACTIVATIONS))
        licenses.append(_license(id, key_of(index), at, taken_at[-1], taken=ACTIVATIONS, limit=_LIMIT))
        events.append(Event(at, "license.created", id, None, "api_key:1", "127.0.0.1"))
        for moment in taken_at:
            one = _activation(tx.ids.next("activation"), id, moment, now, chance)
            activations.append(one)
            events.append(Event(moment, "license.activated", id, one.id, "program", one.ip_address))
    license_store.save_new_licenses(tx, licenses)
    activation_store.save_new_activations(tx, activations)
    event_store.save_events(tx, events)
    tx.ids.save()


def _license(
    id: int, key: str, created_at: datetime, updated_at: datetime, *, taken: int, limit: int
) -> License:
    return License(
        id=id,
        key=key,
        order_id=70_000 + id,
        product_id=id % 40 + 1,
        customer_id=id % 50_000 + 1,
        expires_at=created_at + timedelta(days=730),
        valid_for_days=None,
        source=LicenseSource.API,
        status=Status.ACTIVE,
        times_activated=taken,
        times_activated_max=limit,
        created_at=created_at,
        created_by=1,
        updated_at=updated_at,
        updated_by=None,
    )


def _activation(id: int, license_id: int, at: datetime, now: datetime, chance: random.Random) -> Activation:
    return Activation(
        id=id,
        token=chance.randbytes(20).hex(),
        license_id=license_id,
        label=chance.choice(_LABELS),
        source=ActivationSource.API,
        ip_address=f"203.0.113.{id % 254 + 1}",
        user_agent=chance.choice(_AGENTS),
        meta_data=chance.choice(_META),
        created_at=at,
        updated_at=None,
        deactivated_at=None,
        # As if the device had called today: the first response of a day costs a commit.
        offline_until=now + timedelta(days=60),
    )


def _write_places(storage: Storage, licenses: int, file: Path, chance: random.Random) -> int:
    """Write some active places to a file, and return their number."""
    keys = [key_of(index) for index in chance.sample(range(licenses), min(licenses, _MAX_PLACES))]
    with storage.read() as tx:
        key_by_id = {one.id: key for key, one in license_store.find_licenses(tx, keys).items()}
        records = [
            one for found in activation_store.list_activations(tx, key_by_id).values() for one in found
        ]
    chance.shuffle(records)
    lines = [f"{key_by_id[one.license_id]} {one.token}\n" for one in records[:_MAX_PLACES]]
    file.write_text("".join(lines))
    return len(lines)


def _write_constant(storage: Storage, indexes: Sequence[int], file: Path) -> str:
    """Write the validation response of median length for these licenses, and return its license key."""
    asked = [Validate(key=key_of(index)) for index in indexes]
    outcomes: list[LicenseRecord] = open_executor(storage).query(asked)
    answers = sorted((wire.validation(one), one.license.key) for one in outcomes)
    answer, key = sorted(answers, key=lambda pair: len(pair[0]))[len(answers) // 2]
    file.write_bytes(answer)
    return key
