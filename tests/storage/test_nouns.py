"""Saved nouns are read back unchanged: the contract of Reading and Writing."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keywright.core import parsing
from keywright.core.errors import RejectedByDatabase, StoreConflict
from keywright.db import Storage
from keywright.engine import idempotency
from keywright.engine.idempotency import IdempotencyRecord
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH
from keywright.licensing.licenses.model import License, LicenseFilter, LicenseSource, Status
from tests.makers import (
    LATER,
    NOW,
    a_deactivated_activation,
    a_license,
    an_activation,
)

DATABASES = ("sqlite",)

ANY = LicenseFilter()
#: A duplicate may have been created by another transaction just now: on PostgreSQL, the caller retries.
TAKEN = (RejectedByDatabase, StoreConflict)
FULL_LICENSE = a_license(
    id=2**62,
    key="Schlüssel/🔑 " + "x" * 200,
    order_id=parsing.MAX_ID,
    product_id=0,
    customer_id=7,
    expires_at=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    valid_for_days=parsing.MAX_COUNT,
    source=LicenseSource.GENERATOR,
    status=Status.DISABLED,
    times_activated=3,
    times_activated_max=parsing.MAX_COUNT,
    created_at=datetime(1, 1, 1, tzinfo=UTC),
    created_by=1,
    updated_at=LATER,
    updated_by=2,
)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=255)
numbers = st.none() | st.integers(0, parsing.MAX_ID)
moments = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0))
any_license = st.builds(
    a_license,
    id=st.integers(1, 2**63 - 1),
    key=texts.filter(bool),
    order_id=numbers,
    product_id=numbers,
    customer_id=numbers,
    expires_at=st.none() | moments,
    valid_for_days=st.none() | st.integers(0, parsing.MAX_COUNT),
    status=st.sampled_from(Status),
    times_activated=st.integers(0, 1),
    times_activated_max=st.none() | st.integers(1, parsing.MAX_COUNT),
    created_at=moments,
)
any_activation = st.builds(
    an_activation,
    label=st.none() | texts,
    user_agent=texts,
    meta_data=st.none() | st.dictionaries(texts, texts, min_size=1, max_size=3),
    created_at=moments,
    updated_at=st.none() | moments,
    deactivated_at=st.none() | moments,
)


@pytest.mark.parametrize("license", [a_license(), FULL_LICENSE])
def test_a_license_is_found_by_its_key_as_it_was_saved(storage: Storage, license: License) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [license])
        for name in (license.key, license.id):
            assert license_store.lock_licenses(tx, [name]) == [license]
    with storage.read() as tx:
        assert license_store.find_licenses(tx, [license.key]) == {license.key: license}
        assert license_store.list_licenses(tx, ANY, after_id=0, limit=10) == [license]


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(any_license, any_activation)
def test_every_license_and_activation_is_found_as_it_was_saved(
    storage: Storage, license: License, activation: Activation
) -> None:
    activation = replace(activation, license_id=license.id)
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [license])
        activation_store.save_new_activations(tx, [activation])
        assert license_store.find_licenses(tx, [license.key]) == {license.key: license}
        assert activation_store.list_activations(tx, [license.id]) == {license.id: [activation]}
        activation_store.delete_licenses(tx, [license.id])


def test_keys_are_compared_byte_for_byte(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(id=1, key="abc"), a_license(id=2, key="ABC")])
        license_store.save_new_licenses(tx, [a_license(id=3, key="e\u0301"), a_license(id=4, key="é")])
        found = license_store.find_licenses(tx, ["abc", "ABC", "Abc", "abc ", "e\u0301", "é"])
    assert {key: license.id for key, license in found.items()} == {"abc": 1, "ABC": 2, "e\u0301": 3, "é": 4}


def test_two_licenses_cannot_have_the_same_key(storage: Storage) -> None:
    with pytest.raises(TAKEN), storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(id=1), a_license(id=2)])
    with storage.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 0


def test_activations_are_listed_by_license_oldest_first(storage: Storage) -> None:
    first = an_activation(
        id=5, token="b" * 40, label="x" * 255, meta_data={"os": "linux"}, user_agent="u" * 512
    )
    second = a_deactivated_activation(id=6, token="a" * 40, ip_address="2001:db8::1")
    other = an_activation(id=7, license_id=2)
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(id=number, key=str(number)) for number in (1, 2, 3)])
        activation_store.save_new_activations(tx, [second, other, first])
    with storage.read() as tx:
        assert activation_store.list_activations(tx, [1, 2, 3]) == {1: [first, second], 2: [other]}
        assert activation_store.list_active(tx, [1, 2, 3]) == {1: [first], 2: [other]}
        assert activation_store.list_activations(tx, []) == {}


def test_a_change_of_an_activation_leaves_the_same_token_of_another_license_alone(storage: Storage) -> None:
    ours, theirs = an_activation(id=1, license_id=1), an_activation(id=2, license_id=2)
    ended = a_deactivated_activation(id=1)
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(id=1, key="1"), a_license(id=2, key="2")])
        activation_store.save_new_activations(tx, [ours, theirs])
        activation_store.save_activations(tx, [(ours, ended)])
        assert activation_store.list_activations(tx, [1, 2]) == {1: [ended], 2: [theirs]}


def test_a_license_has_a_token_once_and_no_activation_is_without_its_license(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    with pytest.raises(TAKEN), storage.write() as tx:
        activation_store.save_new_activations(tx, [an_activation(id=1), an_activation(id=2)])
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        activation_store.save_new_activations(tx, [an_activation(license_id=2)])


def test_licenses_are_listed_oldest_first_piece_by_piece_and_by_page(storage: Storage) -> None:
    licenses = [a_license(id=number, key=str(number)) for number in range(1, 8)]
    with storage.write() as tx:
        license_store.save_new_licenses(tx, licenses[::-1])
    with storage.read() as tx:
        assert license_store.list_licenses(tx, ANY, after_id=0, limit=3) == licenses[:3]
        assert license_store.list_licenses(tx, ANY, after_id=6, limit=3) == licenses[6:]
        assert license_store.list_licenses(tx, ANY, skip=2, limit=2) == licenses[2:4]
        assert license_store.list_licenses(tx, ANY, skip=7, limit=2) == []
        assert license_store.count_licenses(tx, ANY) == 7


@pytest.mark.smoke
@pytest.mark.parametrize("field", ["status", "product_id", "order_id", "customer_id", "external_id"])
def test_a_filter_lets_only_matching_licenses_through(storage: Storage, field: str) -> None:
    value, other = ("a", "A") if field == "external_id" else (4, 5)
    matching = a_license(id=1, key="1", **{field: value})
    others = [a_license(id=2, key="2"), a_license(id=3, key="3", **{field: other})]
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [*others, matching])
    where = replace(LicenseFilter(), **{field: value})
    with storage.read() as tx:
        assert license_store.list_licenses(tx, where, after_id=0, limit=9) == license_store.list_licenses(
            tx, where, skip=0, limit=9
        )
        assert license_store.list_licenses(tx, where, after_id=0, limit=9) == [matching]
        assert license_store.count_licenses(tx, where) == 1


@pytest.mark.smoke
def test_conditions_of_a_filter_hold_together(storage: Storage) -> None:
    licenses = [a_license(id=n, key=str(n), product_id=n % 2, customer_id=n % 3) for n in range(1, 7)]
    with storage.write() as tx:
        license_store.save_new_licenses(tx, licenses)
        found = license_store.list_licenses(
            tx, LicenseFilter(product_id=0, customer_id=1), after_id=0, limit=9
        )
    assert [one.id for one in found] == [4]


def test_a_call_has_one_kept_answer(storage: Storage) -> None:
    def keep(status: int) -> None:
        record = IdempotencyRecord(b"d" * 32, status, b"")
        with storage.write() as tx:
            idempotency.save_idempotency_records(tx, {b"1" * 32: record}, {b"1" * 32: NOW})

    keep(200)
    with pytest.raises(TAKEN):
        keep(404)


def test_a_key_of_the_greatest_length_fits(storage: Storage) -> None:
    key = "🔑" * MAX_KEY_LENGTH
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(key=key)])
    with storage.read() as tx:
        assert list(license_store.find_licenses(tx, [key])) == [key]
