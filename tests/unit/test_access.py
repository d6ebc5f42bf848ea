"""Who is calling, and what each kind of API key allows."""

from datetime import timedelta

import pytest

from keywright.core import crypto
from keywright.core.errors import CredentialsInvalid
from keywright.identity import api_keys
from keywright.identity.model import Caller, Permissions
from tests.makers import LATER, NOW, an_api_key

CONSUMER_SECRET = "cs_" + "0" * 40


def test_the_right_secret_makes_the_caller() -> None:
    api_key = an_api_key(
        id=7,
        name="shop",
        permissions=Permissions.CLIENT,
        product_id=3,
        secret_hash=crypto.hash_consumer_secret(CONSUMER_SECRET),
    )
    caller = api_keys.caller_of(api_key, CONSUMER_SECRET, NOW)
    assert caller == Caller(api_key_id=7, name="shop", permissions=Permissions.CLIENT, product_id=3)


@pytest.mark.parametrize("sent", ["", CONSUMER_SECRET[:-1], CONSUMER_SECRET + "0", CONSUMER_SECRET.upper()])
def test_another_secret_is_invalid(sent: str) -> None:
    api_key = an_api_key(secret_hash=crypto.hash_consumer_secret(CONSUMER_SECRET))
    with pytest.raises(CredentialsInvalid):
        api_keys.caller_of(api_key, sent, NOW)


def test_an_api_key_is_good_up_to_its_expiry() -> None:
    secret_hash = crypto.hash_consumer_secret(CONSUMER_SECRET)
    api_key = an_api_key(secret_hash=secret_hash, expires_at=LATER)
    assert api_keys.caller_of(api_key, CONSUMER_SECRET, LATER - timedelta(seconds=1)).expires_at == LATER
    with pytest.raises(CredentialsInvalid):
        api_keys.caller_of(api_key, CONSUMER_SECRET, LATER)


def test_no_secret_fits_an_unknown_api_key() -> None:
    with pytest.raises(CredentialsInvalid):
        api_keys.caller_of(None, CONSUMER_SECRET, NOW)


@pytest.mark.parametrize(
    ("permissions", "read", "write", "core"),
    [
        (Permissions.READ, True, False, True),
        (Permissions.WRITE, False, True, False),
        (Permissions.READ_WRITE, True, True, True),
        (Permissions.CLIENT, False, False, True),
    ],
)
def test_permissions_allow_what_the_contract_says(
    permissions: Permissions, read: bool, write: bool, core: bool
) -> None:
    assert api_keys.may_read(permissions) is read
    assert api_keys.may_write(permissions) is write
    assert api_keys.may_call_core(permissions) is core
