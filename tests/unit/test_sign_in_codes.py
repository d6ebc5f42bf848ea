"""The portal's sign-in codes are derived from, and checked with, one secret."""

from keywright.core.crypto import KeyRing
from keywright.identity.passwords import derive_code, derive_link_token, is_code, is_link_token

RING = KeyRing(b"a secret of a test: 32 characters")


def test_a_code_has_eight_digits_and_belongs_to_its_sign_in() -> None:
    code = derive_code(RING, "one")
    assert len(code) == 8
    assert code.isdigit()
    assert is_code(RING, "one", f" {code[:4]} {code[4:]} ")
    assert not is_code(RING, "other", code)


def test_a_link_has_a_token_of_its_own() -> None:
    token = derive_link_token(RING, "one")
    assert is_link_token(RING, "one", token)
    assert not is_link_token(RING, "one", derive_link_token(RING, "other"))
    assert not is_code(RING, "one", token)


def test_a_code_that_was_mailed_before_the_secret_was_rotated_is_good() -> None:
    both = KeyRing(b"another secret of a test: 32 char", b"a secret of a test: 32 characters")
    assert is_code(both, "one", derive_code(RING, "one"))
    assert is_code(both, "one", derive_code(both, "one"))
