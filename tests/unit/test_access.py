"""Identification of callers, and the permissions of each kind of API key."""

from datetime import datetime, timedelta

import pytest

from keywright.core import crypto
from keywright.core.errors import CredentialsInvalid
from keywright.identity import api_keys
from keywright.identity.model import ApiKey, Caller, Permissions
from tests.makers import LATER, NOW, an_api_key
from tests.tables import each_row

CONSUMER_SECRET = "cs_" + "0" * 40
API_KEY = an_api_key(
    **{"id": 7, "name": "shop", "permissions": Permissions.CLIENT, "product_id": 3, "expires_at": LATER},
    secret_hash=crypto.hash_consumer_secret(CONSUMER_SECRET),
)


def test_the_right_secret_makes_the_caller_until_the_api_key_expires() -> None:
    caller = api_keys.caller_of(API_KEY, CONSUMER_SECRET, LATER - timedelta(seconds=1))
    assert caller == Caller(7, "shop", Permissions.CLIENT, 3, expires_at=LATER)


@each_row(
    ("api_key", "sent", "now"),
    [
        *(
            (API_KEY, one, NOW)
            for one in ("", CONSUMER_SECRET[:-1], CONSUMER_SECRET + "0", CONSUMER_SECRET.upper())
        ),
        (API_KEY, CONSUMER_SECRET, LATER),
        (None, CONSUMER_SECRET, NOW),
    ],
)
def test_another_secret_is_invalid_as_is_any_of_an_unknown_or_expired_api_key(
    api_key: ApiKey | None, sent: str, now: datetime
) -> None:
    with pytest.raises(CredentialsInvalid):
        api_keys.caller_of(api_key, sent, now)


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
