"""Issuing, revoking and finding API keys."""

import pytest

from keywright.core import crypto
from keywright.core.command import Context
from keywright.core.errors import CredentialsInvalid, UnknownApiKey, UnknownUser
from keywright.db import Storage, run_read
from keywright.events import store as event_store
from keywright.identity import api_keys
from keywright.identity import store as identity_store
from keywright.identity.model import (
    Caller,
    CreateUser,
    FindApiKey,
    Permissions,
    Role,
    StartCompanySession,
)
from keywright.registry import open_executor
from tests.makers import LATER, NOW, an_origin, issue_api_key, revoke_api_key

DATABASES = ("sqlite",)


def caller_with(storage: Storage, consumer_key: str, consumer_secret: str) -> Caller:
    """Find the caller with these credentials, as the interface does."""
    query = FindApiKey(consumer_key_hash=crypto.hash_consumer_key(consumer_key))
    return api_keys.caller_of(open_executor(storage).query([query])[0], consumer_secret, NOW)


def test_an_issued_api_key_is_known_by_its_two_halves(storage: Storage) -> None:
    issued = issue_api_key(storage, "shop", Permissions.CLIENT, NOW, product_id=5)
    caller = caller_with(storage, issued.consumer_key, issued.consumer_secret)
    assert caller == Caller(issued.api_key.id, "shop", Permissions.CLIENT, 5)
    assert issued.consumer_key.endswith(issued.api_key.key_suffix)
    assert len(issued.api_key.key_suffix) == 7


def test_a_revoked_api_key_is_no_key_and_stays_in_the_list(storage: Storage) -> None:
    issued = issue_api_key(storage, "shop", Permissions.READ, NOW)
    revoke_api_key(storage, issued.api_key.id, LATER)
    with pytest.raises(CredentialsInvalid):
        caller_with(storage, issued.consumer_key, issued.consumer_secret)
    assert [(one.name, one.revoked_at) for one in run_read(storage, identity_store.list_api_keys)] == [
        ("shop", LATER)
    ]


def test_an_api_key_is_revoked_once(storage: Storage) -> None:
    issued = issue_api_key(storage, "shop", Permissions.READ, NOW)
    revoke_api_key(storage, issued.api_key.id, NOW)
    for number in (issued.api_key.id, 99):
        with pytest.raises(UnknownApiKey):
            revoke_api_key(storage, number, LATER)


def test_who_gave_and_ended_access_is_known_and_no_secret_is(storage: Storage) -> None:
    origin = an_origin(actor="cli:root")
    issued = issue_api_key(storage, "shop", Permissions.CLIENT, NOW, product_id=5, origin=origin)
    revoke_api_key(storage, issued.api_key.id, LATER, origin=origin)
    issue_api_key(storage, "other", Permissions.READ, NOW)
    with storage.read() as tx:
        created, revoked, other = reversed(event_store.list_events(tx, 0, limit=9))
        assert event_store.list_events(tx, 0, limit=1) == [other]
    number = issued.api_key.id
    assert (created.name, created.actor, created.occurred_at) == ("api_key.created", "cli:root", NOW)
    assert created.details == {
        "api_key_id": number,
        "api_key": "shop",
        "permissions": "client",
        "product_id": 5,
    }
    assert (revoked.name, revoked.actor, revoked.occurred_at) == ("api_key.revoked", "cli:root", LATER)
    assert revoked.details == {"api_key_id": number}
    assert other.actor == "program"


def test_no_company_account_signs_in_before_there_is_a_user_with_a_password(storage: Storage) -> None:
    executor, context = open_executor(storage), Context(NOW, an_origin())
    start = StartCompanySession(
        context=context,
        issuer="https://login.example.com",
        subject="eva-1",
        name="eva",
        email=None,
        role=Role.ADMINISTRATOR,
        token_hash=b"t" * 32,
        minutes=60,
    )
    assert type(executor.execute([start])[0]) is UnknownUser
    create = CreateUser(context=context, name="ada", role=Role.ADMINISTRATOR, password_hash="x")
    assert [type(one).__name__ for one in executor.execute([create, start])] == ["User", "Session"]
