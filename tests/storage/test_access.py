"""API keys and users, as they are issued, revoked and found."""

import pytest
from argon2 import PasswordHasher

from keywright import access, keys
from keywright.batches import Batches
from keywright.commands import FindApiKey
from keywright.errors import CredentialsInvalid, UnknownApiKey, UserExists
from keywright.model import Caller, Permissions, Role
from keywright.storage import Storage
from tests.makers import LATER, NOW


def caller_with(storage: Storage, consumer_key: str, consumer_secret: str) -> Caller:
    """Who calls with these, found as the interface finds them."""
    query = FindApiKey(consumer_key_hash=keys.hash_consumer_key(consumer_key))
    return access.caller_of(Batches(storage).ask([query])[0], consumer_secret)


def test_an_issued_api_key_is_known_by_its_two_halves(storage: Storage) -> None:
    issued = access.issue_api_key(storage, "shop", Permissions.CLIENT, NOW, product_id=5)
    caller = caller_with(storage, issued.consumer_key, issued.consumer_secret)
    assert caller == Caller(issued.api_key.id, "shop", Permissions.CLIENT, 5)
    assert issued.consumer_key.endswith(issued.api_key.hint)
    assert len(issued.api_key.hint) == 7


def test_halves_of_two_api_keys_do_not_fit_together(storage: Storage) -> None:
    one, other = (access.issue_api_key(storage, name, Permissions.READ, NOW) for name in "ab")
    with pytest.raises(CredentialsInvalid):
        caller_with(storage, one.consumer_key, other.consumer_secret)


def test_a_revoked_api_key_is_no_key_and_stays_in_the_list(storage: Storage) -> None:
    issued = access.issue_api_key(storage, "shop", Permissions.READ, NOW)
    access.revoke_api_key(storage, issued.api_key.id, LATER)
    with pytest.raises(CredentialsInvalid):
        caller_with(storage, issued.consumer_key, issued.consumer_secret)
    assert [(one.name, one.revoked_at) for one in access.list_api_keys(storage)] == [("shop", LATER)]


def test_an_api_key_is_revoked_once(storage: Storage) -> None:
    issued = access.issue_api_key(storage, "shop", Permissions.READ, NOW)
    access.revoke_api_key(storage, issued.api_key.id, NOW)
    for number in (issued.api_key.id, 99):
        with pytest.raises(UnknownApiKey):
            access.revoke_api_key(storage, number, LATER)


def test_a_user_has_a_name_alone_and_a_password_that_only_argon2id_knows(storage: Storage) -> None:
    alice = access.create_user(storage, "alice", Role.SUPPORT, "correct horse", NOW)
    with storage.read() as tx:
        assert tx.find_user("alice") == alice
    assert alice.password_hash.startswith("$argon2id$")
    assert PasswordHasher().verify(alice.password_hash, "correct horse")
    with pytest.raises(UserExists):
        access.create_user(storage, "alice", Role.READER, "another", NOW)
