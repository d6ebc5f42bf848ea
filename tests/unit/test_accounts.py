"""The rights of users, and the storage of their passwords and tokens."""

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest
from argon2 import PasswordHasher, extract_parameters
from argon2.profiles import RFC_9106_LOW_MEMORY

from keywright.identity import passwords, sessions
from keywright.identity.model import Right, Role, User, may
from tests.makers import NOW, a_cheap_hash, a_session, a_user

PASSWORD = "correct horse battery"
HASH = passwords.hash_password(PASSWORD)


# --- rights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        (Role.READER, {Right.LOOK}),
        (Role.SUPPORT, {Right.LOOK, Right.CHANGE}),
        (Role.ADMINISTRATOR, {Right.LOOK, Right.CHANGE, Right.ADMINISTER}),
    ],
)
def test_each_role_has_its_rights_and_no_others(role: Role, rights: set[Right]) -> None:
    assert {right for right in Right if may(role, right)} == rights


# --- passwords --------------------------------------------------------------------------------------


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the hashes that passwords are compared with."""
    hashes: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, expected: str | bytes, password: str | bytes) -> bool:
        hashes.append(str(expected))
        return verify(self, expected, password)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    return hashes


def test_a_password_of_common_words_sequences_or_the_name_is_easy_to_guess() -> None:
    easy = (
        *(
            "passwordpassword",
            "Password2026!",
            "P@ssw0rd Password",
            "administrator",
            "Welcome12345",
            "changeme1234",
        ),
        *("123456789012", "abcdefghijkl", "210987654321", "qwertyuiop12", "1q2w3e4r5t6y", "1qaz2wsx3edc"),
        *(
            "aaaaaaaaaaaa",
            "abababababab",
            "            ",
            "keywright-2026",
            "alice.example",
            "Alice4Password",
        ),
    )
    good = (
        PASSWORD,
        "horse-password-staple",
        "rT7!kqP2vLx9",
        "zwölf kleine Zeichen",
        "a password for one run",
    )
    assert [one for one in easy if not passwords.is_easy(one, "alice@example.com")] == []
    assert [one for one in good if passwords.is_easy(one, "alice@example.com")] == []
    # Only the user's own name is easy, and no part of it that is in many words.
    assert not passwords.is_easy("alice.example", "bob")
    assert not passwords.is_easy("anatomical chart", "an")


@pytest.mark.usefixtures("cheap_passwords")
def test_a_password_too_long_for_anybody_is_wrong_at_once() -> None:
    costly = "\u0301" * 400_000 + "\u0316" * 400_000
    assert not passwords.check_password(a_user(password_hash=a_cheap_hash(PASSWORD)), costly)
    assert not passwords.check_password(None, costly)
    with pytest.raises(ValueError, match="at most 1,024 characters"):
        passwords.hash_password(costly)
    longest = "x" * 1024
    assert passwords.check_password(a_user(password_hash=passwords.hash_password(longest)), longest)


def test_a_password_is_kept_as_argon2id_with_a_salt_of_its_own() -> None:
    assert HASH.startswith("$argon2id$")
    found = extract_parameters(HASH)
    assert replace(found, parallelism=4) == RFC_9106_LOW_MEMORY
    # Hashing uses one processor.
    assert found.parallelism == 1
    assert passwords.hash_password(PASSWORD) != HASH


def test_only_the_password_lets_its_user_in() -> None:
    alice = a_user(password_hash=a_cheap_hash(PASSWORD))
    assert passwords.check_password(alice, PASSWORD)
    for wrong in ("", "correct horse batter", f"{PASSWORD} ", PASSWORD.upper()):
        assert not passwords.check_password(alice, wrong)
    assert not passwords.check_password(a_user(password_hash="$argon2id$"), PASSWORD), "no hash"


@pytest.mark.parametrize(
    ("user", "password"),
    [
        (None, PASSWORD),
        (a_user(password_hash=HASH), "wrong"),
        (a_user(password_hash=HASH, disabled_at=NOW), PASSWORD),
        (a_user(password_hash=HASH, disabled_at=NOW), "wrong"),
    ],
)
def test_an_unknown_and_a_disabled_user_are_as_much_work_as_a_wrong_password(
    user: User | None, password: str, verified: list[str]
) -> None:
    assert not passwords.check_password(user, password)
    (expected,) = verified
    assert extract_parameters(expected) == extract_parameters(HASH)


@pytest.mark.usefixtures("cheap_passwords")
def test_it_does_not_matter_how_a_keyboard_composes_a_password() -> None:
    alice = a_user(password_hash=passwords.hash_password("Gru\u0308n ﬁndet Ruhe"))
    assert passwords.check_password(alice, "Gr\u00fcn findet Ruhe")


@pytest.mark.usefixtures("cheap_passwords")
def test_a_password_may_be_any_text() -> None:
    odd = "\udc80 and \0 and 🔑"
    assert passwords.check_password(a_user(password_hash=passwords.hash_password(odd)), odd)


# --- sessions ---------------------------------------------------------------------------------------


def test_a_token_has_256_random_bits_and_can_stand_in_a_cookie() -> None:
    tokens = {sessions.new_session_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(one) == 43 and one.replace("-", "").replace("_", "").isalnum() for one in tokens)


def test_a_token_is_kept_as_its_sha_256() -> None:
    assert sessions.hash_session_token("abc") == hashlib.sha256(b"abc").digest()
    assert len(sessions.hash_session_token("\udc80")) == 32


@pytest.mark.parametrize(("seconds", "is_time"), [(0, False), (59, False), (60, True), (-60, True)])
def test_that_somebody_came_by_is_written_down_once_a_minute(seconds: int, is_time: bool) -> None:
    assert sessions.is_to_be_seen(a_session(), NOW + timedelta(seconds=seconds)) is is_time
