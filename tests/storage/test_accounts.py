"""Users, sessions and names: what each command does, and what is found afterwards."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Barrier
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.core.crypto import KeyRing
from keywright.core.errors import (
    InvitationOver,
    LastAdministrator,
    SetupOver,
    UnknownLicense,
    UnknownUser,
    UserExists,
)
from keywright.db import ReadTransaction, Storage, WriteTransaction, run_read, run_write
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.identity.model import AcceptInvitation, InviteUser, Role, Session, User
from keywright.identity.sessions import (
    SETUP_TIME,
    SignedIn,
    find_signed_in,
    hash_session_token,
    is_setup_token,
    list_sessions,
    setup_token,
)
from keywright.identity.store import (
    find_session,
    find_user,
    find_user_by_id,
    has_users,
    list_users,
    save_new_session,
)
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import list_names, names_of
from keywright.registry import open_executor
from tests.makers import (
    KEY,
    LATER,
    NOW,
    TOKEN,
    a_session,
    an_origin,
    change_user,
    create,
    create_user,
    end_session,
    refuse_sign_in,
    save_name,
    see_session,
    show_key,
    start_session,
)
from tests.storage.conftest import EVERY_ISOLATION, Opener

DATABASES = ("sqlite", "serializable")
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def events(storage: Storage) -> list[Event]:
    """What happened that is not about a license, in order."""
    with storage.read() as tx:
        return event_store.list_events(tx, 0, limit=99)[::-1]


def list_facts(storage: Storage) -> list[tuple[str, Any]]:
    return [(one.name, one.details) for one in events(storage)]


def find_session_of(storage: Storage, now: datetime = NOW, token: str = TOKEN) -> SignedIn | None:
    return run_read(storage, lambda tx: find_signed_in(tx, token, now))


def save_sessions(storage: Storage, sessions: list[Session]) -> None:
    def save(tx: WriteTransaction) -> None:
        for one in sessions:
            save_new_session(tx, one)

    run_write(storage, save)


@pytest.fixture
def alice(executor: Executor) -> User:
    """The only administrator."""
    (user,) = executor.execute([create_user("alice")])
    assert isinstance(user, User)
    return user


@pytest.fixture
def bob(alice: User, executor: Executor) -> User:
    """A reader."""
    (user,) = executor.execute([create_user("bob", Role.READER)])
    assert isinstance(user, User)
    return user


# --- users ------------------------------------------------------------------------------------------


def test_a_user_is_found_by_name_and_by_number(storage: Storage, alice: User, bob: User) -> None:
    with storage.read() as tx:
        assert list_users(tx) == [alice, bob]
        assert find_user(tx, "bob") == find_user_by_id(tx, bob.id) == bob
        assert find_user_by_id(tx, 99) is None
        for name in ("Bob", "bo", "", "bob\0", "\udc80"):
            assert find_user(tx, name) is None
    assert (bob.role, bob.created_at, bob.disabled_at, bob.last_signed_in_at) == (
        Role.READER,
        NOW,
        None,
        None,
    )
    assert list_facts(storage)[1] == ("user.created", {"user_id": bob.id, "user": "bob", "role": "reader"})


def test_there_are_users_from_the_first_one_on(storage: Storage, executor: Executor) -> None:
    assert not run_read(storage, has_users)
    (user,) = executor.execute([create_user("bob", Role.READER)])
    assert run_read(storage, has_users)
    executor.execute([change_user(user.id, is_disabled=True)])
    assert run_read(storage, has_users)


def test_a_name_is_given_once(storage: Storage, executor: Executor, alice: User) -> None:
    outcomes = executor.execute([create_user("alice", Role.READER), create_user("bob"), create_user("bob")])
    assert [type(one) for one in outcomes] == [UserExists, User, UserExists]
    assert len(run_read(storage, list_users)) == 2


def test_the_first_administrator_is_made_once(storage: Storage, executor: Executor) -> None:
    first = [create_user(name, only_first=True) for name in ("alice", "bob")]
    outcomes = executor.execute(first)
    assert [type(one) for one in outcomes] == [User, SetupOver]
    assert [one.name for one in run_read(storage, list_users)] == ["alice"]
    assert [name for name, _ in list_facts(storage)] == ["user.created"]


@pytest.mark.databases(*EVERY_ISOLATION)
def test_of_two_first_administrators_at_once_one_is_made(open_again: Opener) -> None:
    storages = [open_again() for _ in range(4)]
    together = Barrier(len(storages))

    def make(number: int) -> Any:
        together.wait()
        return open_executor(storages[number]).execute([create_user(f"user {number}", only_first=True)])[0]

    with ThreadPoolExecutor(len(storages)) as threads:
        outcomes = list(threads.map(make, range(len(storages))))
    assert sorted(type(one).__name__ for one in outcomes) == ["SetupOver"] * 3 + ["User"]
    assert len(run_read(storages[0], list_users)) == 1


def test_what_is_changed_is_changed_and_told_and_nothing_else(
    storage: Storage, executor: Executor, bob: User
) -> None:
    (changed,) = executor.execute([change_user(bob.id, role=Role.SUPPORT, now=LATER)])
    assert isinstance(changed, User)
    assert (changed.role, changed.password_hash, changed.disabled_at) == (Role.SUPPORT, "$argon2id$", None)
    executor.execute([change_user(bob.id, password_hash="$argon2id$ new")])
    executor.execute([change_user(bob.id, is_disabled=True, now=LATER)])
    executor.execute([change_user(bob.id, is_disabled=True), change_user(bob.id, role=Role.SUPPORT)])
    with storage.read() as tx:
        found = find_user_by_id(tx, bob.id)
    assert found is not None
    assert (found.role, found.password_hash, found.disabled_at) == (Role.SUPPORT, "$argon2id$ new", LATER)
    (enabled,) = executor.execute([change_user(bob.id, is_disabled=False)])
    assert isinstance(enabled, User)
    assert enabled.disabled_at is None
    who = {"user_id": bob.id, "user": "bob"}
    assert list_facts(storage)[2:] == [
        ("user.changed", {**who, "role": ["reader", "support"]}),
        ("user.changed", {**who, "is_password_new": True}),
        ("user.changed", {**who, "is_disabled": [False, True]}),
        ("user.changed", {**who, "is_disabled": [True, False]}),
    ]


def test_a_user_who_is_not_there_cannot_be_changed(executor: Executor, alice: User) -> None:
    (outcome,) = executor.execute([change_user(99, role=Role.READER)])
    assert isinstance(outcome, UnknownUser)


@pytest.mark.parametrize("changes", [{"role": Role.SUPPORT}, {"is_disabled": True}])
def test_somebody_who_may_administer_is_left(
    changes: dict[str, Any], storage: Storage, executor: Executor, alice: User, bob: User
) -> None:
    (outcome,) = executor.execute([change_user(alice.id, **changes)])
    assert isinstance(outcome, LastAdministrator)
    # Another one who is disabled does not count, and nor does one who is made a reader in the same batch.
    executor.execute([change_user(bob.id, role=Role.ADMINISTRATOR, is_disabled=True)])
    assert isinstance(executor.execute([change_user(alice.id, **changes)])[0], LastAdministrator)
    executor.execute([change_user(bob.id, is_disabled=False)])
    outcomes = executor.execute([change_user(bob.id, role=Role.READER), change_user(alice.id, **changes)])
    assert [type(one) for one in outcomes] == [User, LastAdministrator]
    executor.execute([change_user(bob.id, role=Role.ADMINISTRATOR)])
    assert isinstance(executor.execute([change_user(alice.id, **changes)])[0], User)
    with storage.read() as tx:
        left = [one.name for one in list_users(tx) if one.role is Role.ADMINISTRATOR]
    assert "bob" in left


def test_the_last_administrator_may_change_the_password_and_others_may_be_changed(
    executor: Executor, alice: User, bob: User
) -> None:
    commands = [
        change_user(alice.id, password_hash="$argon2id$ new"),
        change_user(alice.id, role=Role.ADMINISTRATOR, is_disabled=False),
        change_user(bob.id, is_disabled=True),
    ]
    assert [type(one) for one in executor.execute(commands)] == [User] * 3


@pytest.mark.databases(*EVERY_ISOLATION)
def test_of_two_administrators_who_demote_each_other_at_once_one_is_left(open_again: Opener) -> None:
    storages = [open_again() for _ in range(2)]
    open_executor(storages[0]).execute([create_user("alice"), create_user("bob")])
    for again in range(5):
        together = Barrier(len(storages))

        def demote(number: int, together: Barrier = together) -> Any:
            together.wait()
            return open_executor(storages[number]).execute([change_user(number + 1, role=Role.READER)])[0]

        with ThreadPoolExecutor(len(storages)) as threads:
            outcomes = list(threads.map(demote, range(len(storages))))
        assert sorted(type(one).__name__ for one in outcomes) == ["LastAdministrator", "User"], again
        with storages[0].read() as tx:
            users = list_users(tx)
        assert [one.role for one in users].count(Role.ADMINISTRATOR) == 1
        open_executor(storages[0]).execute([change_user(one.id, role=Role.ADMINISTRATOR) for one in users])


@pytest.mark.smoke
def test_of_many_who_use_an_invitation_at_once_one_sets_the_password(open_again: Opener) -> None:
    storages = [open_again() for _ in range(4)]
    open_executor(storages[0]).execute([create_user("alice"), create_user("bob")])
    for again in range(3):
        token_hash, together = sha256(b"%d" % again).digest(), Barrier(len(storages))
        invite = InviteUser(context=Context(NOW, an_origin()), user_id=2, token_hash=token_hash)
        open_executor(storages[0]).execute([invite])

        def accept(number: int, token_hash: bytes = token_hash, together: Barrier = together) -> Any:
            context = Context(NOW, an_origin(actor="visitor"))
            command = AcceptInvitation(context=context, token_hash=token_hash, password_hash=f"mine {number}")
            together.wait()
            return open_executor(storages[number]).execute([command])[0]

        with ThreadPoolExecutor(len(storages)) as threads:
            outcomes = list(threads.map(accept, range(len(storages))))
        kinds = sorted(type(one).__name__ for one in outcomes)
        assert kinds == ["InvitationOver"] * 3 + ["User"], again
        (winner,) = [number for number, one in enumerate(outcomes) if isinstance(one, User)]
        found = run_read(storages[0], lambda tx: find_user_by_id(tx, 2))
        assert found is not None
        assert found.password_hash == f"mine {winner}"
        # And never again.
        assert isinstance(accept(0, together=Barrier(1)), InvitationOver)


# --- the link for the first administrator -----------------------------------------------------------


def is_good(storage: Storage, token: str, now: datetime) -> bool:
    return run_read(storage, lambda tx: is_setup_token(tx, token, now))


@pytest.fixture
def token(storage: Storage) -> str:
    """A setup token of now."""
    return run_read(storage, lambda tx: setup_token(tx, NOW))


def test_the_link_is_good_for_thirty_minutes(storage: Storage, token: str) -> None:
    for after in (timedelta(), SECOND, SETUP_TIME - SECOND, -MINUTE + SECOND):
        assert is_good(storage, token, NOW + after)
    for after in (SETUP_TIME, timedelta(days=365), -MINUTE):
        assert not is_good(storage, token, NOW + after)


@pytest.mark.smoke
def test_a_forged_link_is_not_good(storage: Storage, token: str, open_again: Opener) -> None:
    issued, _, signature = token.partition(".")
    later = f"{int(issued, 16) + 600:x}"
    forged = [
        "",
        issued,
        signature,
        f"{later}.{signature}",
        f"{issued}.{signature[:-1]}",
        f"{issued}.{signature[::-1]}",
        f"{issued}.{'0' * 64}",
        f"{token}\n",
        f" {token}",
        token.upper(),
        f"{'f' * 13}.{signature}",
        token.replace(issued[0], "٣"),
        "\udc80.\0",
    ]
    assert [one for one in forged if is_good(storage, one, NOW)] == []


def test_another_installation_s_link_is_not_good(storage: Storage) -> None:
    secret = KeyRing(b"another secret, also 32 bytes ok")
    with storage.read() as tx:
        other = setup_token(ReadTransaction(tx.connection, secret), NOW)
    assert not is_good(storage, other, NOW)


def test_the_link_is_good_as_long_as_there_is_no_user(
    storage: Storage, token: str, executor: Executor
) -> None:
    executor.execute([create_user("bob", Role.READER, only_first=True)])
    assert not is_good(storage, token, NOW)
    with pytest.raises(SetupOver):
        run_read(storage, lambda tx: setup_token(tx, NOW))


# --- sessions ---------------------------------------------------------------------------------------


def test_who_signs_in_is_known_by_the_token(storage: Storage, executor: Executor, bob: User) -> None:
    origin = an_origin(actor=f"user:{bob.id}", ip_address="2001:db8::1", user_agent="browser/1.0")
    (session,) = executor.execute([start_session(bob.id, origin=origin, now=LATER)])
    ends_at = LATER + timedelta(hours=10)
    assert session == Session(
        hash_session_token(TOKEN), bob.id, LATER, ends_at, LATER, "2001:db8::1", "browser/1.0"
    )
    found = find_session_of(storage, LATER)
    assert found is not None
    assert found.session == session
    assert (found.user.id, found.user.last_signed_in_at) == (bob.id, LATER)
    assert find_session_of(storage, LATER, token="another") is None
    happened = events(storage)[-1]
    assert (happened.name, happened.actor, happened.ip_address) == (
        "user.signed_in",
        f"user:{bob.id}",
        "2001:db8::1",
    )
    assert happened.details == {"user_id": bob.id, "user": "bob"}


def test_nobody_signs_in_who_is_unknown_or_disabled_or_had_another_password(
    storage: Storage, executor: Executor, bob: User
) -> None:
    outcomes = executor.execute(
        [
            start_session(99),
            start_session(bob.id, password_hash="$argon2id$ of before"),
            change_user(bob.id, is_disabled=True),
            start_session(bob.id),
        ]
    )
    assert [type(one) for one in outcomes] == [UnknownUser, UnknownUser, User, UnknownUser]
    assert find_session_of(storage) is None
    executor.execute([change_user(bob.id, is_disabled=False)])
    assert executor.execute([start_session(bob.id, password_hash=bob.password_hash)]) == [
        a_session(user_id=bob.id, user_agent="program/1.0")
    ]


@pytest.mark.smoke
def test_a_session_ends_after_its_hours_however_often_it_is_used(
    storage: Storage, executor: Executor, alice: User
) -> None:
    executor.execute([start_session(alice.id, hours=2)])
    end = NOW + timedelta(hours=2)
    used_at = NOW + timedelta(hours=1)
    assert executor.execute([see_session(now=used_at)]) == [
        a_session(user_id=alice.id, ends_at=end, last_seen_at=used_at, user_agent="program/1.0")
    ]
    assert find_session_of(storage, end - SECOND) is not None
    assert find_session_of(storage, end) is None
    assert executor.execute([see_session(now=end)]) == [None]


def test_a_session_that_is_not_used_for_long_enough_is_over(
    storage: Storage, executor: Executor, alice: User
) -> None:
    idle = timedelta(minutes=30)
    executor.execute([start_session(alice.id)])
    executor.execute([see_session(now=NOW + MINUTE)])
    for now, is_found in (
        (NOW + idle, True),
        (NOW + MINUTE + idle - SECOND, True),
        (NOW + MINUTE + idle, False),
    ):
        with storage.read() as tx:
            assert (find_signed_in(tx, TOKEN, now, idle) is not None) == is_found
            assert bool(list_sessions(tx, alice.id, now, idle)) == is_found
            # A control: without a limit, it goes on.
            assert find_signed_in(tx, TOKEN, now) is not None


def test_a_session_of_a_clock_that_was_far_ahead_is_over(
    storage: Storage, executor: Executor, alice: User
) -> None:
    executor.execute([start_session(alice.id, now=NOW + timedelta(days=365))])
    assert find_session_of(storage) is None


@pytest.mark.smoke
def test_who_signs_out_is_signed_out_and_nobody_else_is(
    storage: Storage, executor: Executor, alice: User
) -> None:
    executor.execute([start_session(alice.id), start_session(alice.id, "elsewhere")])
    assert executor.execute([end_session(), end_session(), see_session()]) == [None, None, None]
    assert find_session_of(storage) is None
    assert find_session_of(storage, token="elsewhere") is not None
    who = {"user_id": alice.id, "user": "alice"}
    assert list_facts(storage)[1:] == [
        ("user.signed_in", who),
        ("user.signed_in", who),
        ("user.signed_out", who),
    ]


def test_who_signs_in_clears_away_the_sessions_that_are_over(
    storage: Storage, executor: Executor, alice: User
) -> None:
    executor.execute([start_session(alice.id, "old", now=NOW - timedelta(hours=10))])
    sessions = [
        a_session(token_hash=b"1" * 32, ends_at=NOW),
        a_session(token_hash=b"2" * 32, ends_at=NOW + SECOND),
    ]
    save_sessions(storage, sessions)
    executor.execute([start_session(alice.id)])
    with storage.read() as tx:
        there = [find_session(tx, one.token_hash) for one in sessions]
        assert find_session(tx, hash_session_token("old")) is None
    assert there == [None, sessions[1]]


@pytest.mark.parametrize("changes", [{"password_hash": "$argon2id$ new"}, {"is_disabled": True}])
def test_a_new_password_and_being_disabled_end_every_session(
    changes: dict[str, Any], storage: Storage, executor: Executor, alice: User, bob: User
) -> None:
    executor.execute([start_session(bob.id), start_session(bob.id, "elsewhere")])
    executor.execute([start_session(alice.id, "alice")])
    executor.execute([change_user(bob.id, **changes)])
    # Whoever is enabled again does not find the sessions of before.
    executor.execute([change_user(bob.id, is_disabled=False)])
    assert find_session_of(storage) is None
    assert find_session_of(storage, token="elsewhere") is None
    assert find_session_of(storage, token="alice") is not None


def test_who_changes_the_own_password_stays_signed_in_here(
    storage: Storage, executor: Executor, bob: User
) -> None:
    executor.execute([start_session(bob.id), start_session(bob.id, "elsewhere")])
    here = hash_session_token(TOKEN)
    executor.execute([change_user(bob.id, password_hash="$argon2id$ new", but_session=here)])
    assert find_session_of(storage) is not None
    assert find_session_of(storage, token="elsewhere") is None


def test_another_role_holds_at_once_and_ends_no_session(
    storage: Storage, executor: Executor, bob: User
) -> None:
    executor.execute([start_session(bob.id), change_user(bob.id, role=Role.SUPPORT)])
    found = find_session_of(storage)
    assert found is not None
    assert found.user.role is Role.SUPPORT


def test_a_session_of_a_user_who_is_disabled_or_not_there_is_nobodys(
    storage: Storage, executor: Executor, bob: User
) -> None:
    executor.execute([change_user(bob.id, is_disabled=True)])
    sessions = [a_session(user_id=bob.id), a_session(token_hash=hash_session_token("lost"), user_id=99)]
    save_sessions(storage, sessions)
    assert find_session_of(storage) is None
    assert find_session_of(storage, token="lost") is None
    executor.execute([end_session("lost")])
    assert list_facts(storage)[-1] == ("user.signed_out", {"user_id": 99})


def test_a_refused_sign_in_is_told_with_the_name_of_a_user_and_with_no_other_text(
    storage: Storage, executor: Executor, alice: User
) -> None:
    executor.execute([refuse_sign_in("alice"), refuse_sign_in("my password!"), refuse_sign_in("\0\udc80")])
    assert list_facts(storage)[1:] == [
        ("user.sign_in_refused", {"user_id": alice.id, "user": "alice"}),
        ("user.sign_in_refused", None),
        ("user.sign_in_refused", None),
    ]


# --- names and keys ---------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_number_has_the_name_that_was_saved_last(storage: Storage, executor: Executor) -> None:
    product, user = NameKind.PRODUCT, NameKind.CUSTOMER
    executor.execute([save_name(product, number, f"Product {number}") for number in (0, 7, 2**63 - 1)])
    executor.execute([save_name(user, 7, "Anna"), save_name(product, 7, "Writer"), save_name(user, 8, "Bo")])
    executor.execute([save_name(user, 8, None), save_name(user, 9, None), save_name(user, 7, "Anna")])
    with storage.read() as tx:
        assert names_of(tx, product, [7, 0, 7, 5]) == {0: "Product 0", 7: "Writer"}
        assert names_of(tx, user, range(300)) == {7: "Anna"}
        assert names_of(tx, user, []) == {}
        first = list_names(tx, product, after=-1, limit=2)
        assert list(first.items()) == [(0, "Product 0"), (7, "Writer")]
        assert list_names(tx, product, after=7, limit=2) == {2**63 - 1: f"Product {2**63 - 1}"}
    assert list_facts(storage)[3:] == [
        ("name.saved", {"kind": "customer", "number": 7, "name": [None, "Anna"]}),
        ("name.saved", {"kind": "product", "number": 7, "name": ["Product 7", "Writer"]}),
        ("name.saved", {"kind": "customer", "number": 8, "name": [None, "Bo"]}),
        ("name.saved", {"kind": "customer", "number": 8, "name": ["Bo", None]}),
    ]


def test_who_looks_at_a_key_is_told_in_the_story_of_the_license(storage: Storage, executor: Executor) -> None:
    executor.execute([create()])
    license, unknown = executor.execute([show_key(), show_key("unknown")])
    assert isinstance(license, License)
    assert license.key == KEY
    assert isinstance(unknown, UnknownLicense)
    with storage.read() as tx:
        (shown, _) = event_store.list_events(tx, license.id, limit=9)
        assert license_store.find_licenses(tx, [KEY]) == {KEY: license}
    assert (shown.name, shown.details) == ("license.key_shown", None)


# --- what belongs to the storage --------------------------------------------------------------------


@pytest.fixture
def clone(storage: Storage) -> Iterator[Storage]:
    with closing(storage.clone()) as another:
        yield another


def test_another_object_on_the_same_database_sees_what_is_acknowledged(
    storage: Storage, clone: Storage, executor: Executor
) -> None:
    assert run_read(clone, list_users) == []
    (user,) = executor.execute([create_user()])
    assert run_read(clone, list_users) == [user]
    with storage.read() as one, clone.read() as other:
        assert list_users(one) == list_users(other)
    assert open_executor(clone).execute([create_user("bob", only_first=True)])[0].code == "user.setup_over"


def test_another_object_needs_no_right_to_make_tables_and_stays_open_when_the_first_is_closed(
    storage: Storage, clone: Storage, alice: User
) -> None:
    storage.close()
    assert run_read(clone, list_users) == [alice]
