"""Signing keys: creating, rotating and withdrawing them; and license files."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from threading import Barrier
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import text

from keywright.core.errors import (
    FingerprintRequired,
    KeyRotated,
    LicenseDisabled,
    LicenseExpired,
    LicenseInactive,
    NotActivated,
    OfflineNotAllowed,
    SigningKeyInUse,
    UnknownSigningKey,
    VersionNotCovered,
)
from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.licenses.model import Status
from keywright.maintenance import doctor
from keywright.registry import open_executor
from keywright.signing import rules
from keywright.signing.commands import BuildKeySets, LoadKeys
from keywright.signing.jws import read_signed
from keywright.signing.model import LoadedKeys, TokenType
from keywright.signing.rules import read_license_file
from tests.makers import (
    KEY,
    NOW,
    activate_device,
    create,
    make_first_key,
    make_license_file,
    rename,
    rotate_key,
    set_terms,
    update,
    withdraw_key,
)
from tests.storage.conftest import EVERY_ISOLATION, Opener

DATABASES = ("sqlite", "serializable")
DAY = timedelta(days=1)
DEVICE = "device-1-of-anna"


def one(executor: Executor, command: Any) -> Any:
    (outcome,) = executor.execute([command])
    return outcome


def load(executor: Executor) -> LoadedKeys:
    (loaded,) = executor.query([LoadKeys()])
    assert isinstance(loaded, LoadedKeys)
    return loaded


def event_names(storage: Storage, license_id: int = 0) -> list[str]:
    events = run_read(storage, lambda tx: event_store.list_events(tx, license_id, limit=99))
    return [event.name for event in events]


def read_sets(executor: Executor, now: Any, public_keys: list[str]) -> dict[str, list[str]]:
    """The keys in each key set, by the key that signed it."""
    (sets,) = executor.query([BuildKeySets(now=now, alg="EdDSA")])
    found = {}
    for token in sets:
        for key in public_keys:
            try:
                payload = read_signed(token, key, TokenType.KEYS)
            except ValueError:
                continue
            found[key] = [jwk["x"] for jwk in msgspec.json.decode(payload)["keys"]]
    assert len(found) == len(sets)
    return found


@pytest.mark.databases(*EVERY_ISOLATION)
def test_servers_that_start_at_once_make_one_key(open_again: Opener, storage: Storage) -> None:
    barrier = Barrier(4)

    def start(_number: int) -> LoadedKeys:
        with closing(open_executor(open_again())) as executor:
            barrier.wait()
            made: LoadedKeys = one(executor, make_first_key())
        return made

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(start, range(4)))
    assert {found.newest.kid for found in made} == {load(open_executor(storage)).newest.kid}
    assert [found.id for found in load(open_executor(storage)).keys] == [1]


def test_a_new_key_signs_at_once_and_the_installation_keeps_its_name(executor: Executor) -> None:
    first = one(executor, make_first_key())
    second = one(executor, rotate_key(now=NOW + DAY))
    assert load(executor) == second
    assert (second.oldest, second.newest.id) == (first.newest, 2)
    assert second.private_key not in repr(second).encode()
    assert one(executor, make_first_key()) == second


def test_a_program_that_knows_any_older_key_finds_the_newest(executor: Executor) -> None:
    assert executor.query([BuildKeySets(now=NOW, alg="EdDSA")]) == [[]]
    a, b, c = (one(executor, command).newest for command in (make_first_key(), rotate_key(), rotate_key()))
    later = NOW + 1000 * DAY
    keys = [found.public_key for found in (a, b, c)]
    # Everything that older keys signed has expired long ago.
    assert read_sets(executor, later, keys) == {a.public_key: [c.public_key], b.public_key: [c.public_key]}


@pytest.mark.smoke
def test_a_key_that_was_withdrawn_signs_nothing_and_is_not_named(
    executor: Executor, storage: Storage
) -> None:
    one(executor, create())
    a = one(executor, make_first_key()).newest
    one(executor, make_license_file())
    b = one(executor, rotate_key()).newest
    keys = [a.public_key, b.public_key]
    assert read_sets(executor, NOW, keys) == {a.public_key: [b.public_key, a.public_key]}
    with pytest.raises(SigningKeyInUse):
        raise one(executor, withdraw_key(b.kid))
    with pytest.raises(UnknownSigningKey):
        raise one(executor, withdraw_key("unknown"))
    for _ in range(2):
        assert one(executor, withdraw_key(a.kid)).withdrawn_at == NOW
    # Programs that know both keys learn from the newest that the other one is no longer trusted.
    assert read_sets(executor, NOW, keys) == {b.public_key: [b.public_key]}
    assert event_names(storage).count("signing_key.withdrawn") == 1
    assert list(doctor.examine(storage, lambda _: None)) == []


def test_a_license_file_says_what_the_license_is(executor: Executor, storage: Storage) -> None:
    one(executor, create())
    one(executor, set_terms({"entitlements": ["export"], "offline_days": 30}))
    activation = one(executor, activate_device(DEVICE)).activation
    made = one(executor, make_license_file(fingerprint=DEVICE, days=7, nonce="n", is_recorded=True))
    key = load(executor).newest
    claims = msgspec.json.decode(read_signed(read_license_file(made.content), key.public_key))
    now = int(NOW.timestamp())
    assert len(claims.pop("jti")) == 22
    assert claims.pop("next_check_at")
    assert claims.pop("license")["id"] == 1
    assert claims == {
        "iss": rules.issuer_of(key.kid),
        "sub": "license:1",
        "iat": now,
        "nbf": now - 300,
        "exp": now + 7 * 86_400,
        "valid": True,
        "code": "valid",
        "codes": ["valid"],
        "activation": {"id": activation.id, "fingerprint": DEVICE},
        "entitlements": ["export"],
        "nonce": "n",
    }
    known_until = replace(activation, offline_until=NOW + 8 * DAY)
    assert (made.ends_at, made.activation) == (NOW + 7 * DAY, known_until)
    assert "license.file_made" in event_names(storage, 1)
    assert key.signed_until >= made.ends_at


def test_an_old_key_verifies_until_what_it_signed_has_ended(executor: Executor) -> None:
    one(executor, create())
    made = one(executor, make_license_file())
    one(executor, rotate_key())
    keys = load(executor).keys
    assert len(rules.published(keys, made.ends_at)) == 2
    assert len(rules.published(keys, made.ends_at + 8 * DAY)) == 1


@pytest.mark.parametrize(
    ("terms", "fields", "asked", "refusal"),
    [
        ({"offline_days": 0}, {}, {}, OfflineNotAllowed),
        ({"max_leases": 2}, {}, {}, OfflineNotAllowed),
        ({}, {"status": Status.DISABLED}, {}, LicenseDisabled),
        ({}, {"status": Status.INACTIVE}, {}, LicenseInactive),
        ({}, {"expires_at": NOW}, {}, LicenseExpired),
        ({"after_expiry": "older_versions"}, {"expires_at": NOW}, {}, VersionNotCovered),
        ({}, {}, {"fingerprint": "another"}, NotActivated),
        ({"device": "required"}, {}, {}, FingerprintRequired),
    ],
)
def test_a_license_that_is_not_valid_has_no_file(
    executor: Executor, terms: dict[str, Any], fields: dict[str, Any], asked: Any, refusal: type[Exception]
) -> None:
    executor.execute([create(**fields), set_terms(terms)])
    assert type(one(executor, make_license_file(**asked))) is refusal


def test_a_key_that_was_replaced_has_no_file(executor: Executor) -> None:
    executor.execute([create(), rename(KEY, "NEW")])
    assert type(one(executor, make_license_file())) is KeyRotated


@pytest.mark.smoke
def test_the_doctor_finds_a_key_that_is_another_one(executor: Executor, storage: Storage) -> None:
    executor.execute([make_first_key(), update(KEY, status=Status.ACTIVE)])
    assert list(doctor.examine(storage, lambda _: None)) == []
    for change in ("public_key = 'x'", "kid = 'x'"):
        with storage.write() as tx:
            tx.connection.execute(text(f"UPDATE signing_keys SET {change}"))  # noqa: S608
        codes = [found.code for found in doctor.examine(storage, lambda _: None)]
        assert codes == ["signing_key.unsound"]
