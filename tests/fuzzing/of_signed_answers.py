"""Signed answers, license files and key sets, as a shipped program reads them."""

from clients.vectors.pieces import BUILT_AT, FINGERPRINT, GOOD, LICENSE_KEY, NOW, A, B, armour, claims
from keywright_client.errors import VerificationError
from keywright_client.verify import Trust, follow_key_sets, unarmour, verify
from tests.fuzzing.pieces import pieces

TOKENS = {A.x: GOOD, B.x: B.sign(claims(nonce=None))}
KEY_SET = A.key_set(B)
SEEDS = tuple(
    text.encode()
    for text in (
        GOOD,
        armour(GOOD),
        f"For Zoë\n{armour(GOOD)}\nKeep it.",
        f"{TOKENS[B.x]}\x1e{KEY_SET}",
        f"{GOOD}\x1e{KEY_SET}",
        A.sign(claims(exp=NOW)),
        A.sign(claims(aud=["editor"])),
        A.sign(claims(built_at=BUILT_AT)),
        A.sign(b"[]"),
    )
)


def signed_answers(data: bytes) -> None:
    """Nothing is believed but the tokens that were signed, each with its key, and the one key set."""
    given, *key_sets = (piece.decode(errors="replace") for piece in pieces(data, 3))
    trust = follow_key_sets(Trust((A.x,)), key_sets, NOW)
    assert trust.keys == ((B.x,) if KEY_SET in key_sets else (A.x,))
    try:
        verify(
            given,
            public_keys=trust.keys,
            now=NOW,
            product="editor",
            license_key=LICENSE_KEY,
            fingerprint=FINGERPRINT,
        )
    except VerificationError:
        return
    assert unarmour(given) == TOKENS[trust.keys[0]]
