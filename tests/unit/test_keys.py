"""License keys and tokens: blind index, seal, normalize, mask, make."""

import hashlib
import hmac
import math
import re
import sys

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from keywright.core import crypto
from keywright.core.crypto import KeyRing
from keywright.core.errors import InvalidLicenseKey, PolicyTooWeak
from keywright.identity.api_keys import new_secrets
from keywright.licensing.licenses import keys
from keywright.provisioning.policies import rules
from keywright.provisioning.policies.handlers import require_sound
from tests.makers import KEY, KEY_RING, SECRET, a_policy
from tests.tables import each_row

#: Every text that can be stored: no lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PREVIOUS = b"another secret, also 32 bytes ok"
#: What is said of a sealed text that cannot be read.
UNREADABLE = r"\Asealed with another secret, for another place, or damaged\Z"
#: Everything that Python takes for white space; and what of it are control characters for everybody else.
SPACES = [chr(number) for number in range(sys.maxunicode + 1) if chr(number).isspace()]
SEPARATORS = ["\x1c", "\x1d", "\x1e", "\x1f", "\x85"]


def derive(purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(SECRET)


@given(TEXTS, st.integers(1, 2**63 - 1))
def test_a_sealed_key_can_be_read_again(key: str, license_id: int) -> None:
    assert KEY_RING.unseal_key(KEY_RING.seal_key(key, license_id), license_id) == key


def test_a_sealed_key_cannot_be_read_in_another_license() -> None:
    with pytest.raises(ValueError, match=UNREADABLE):
        KEY_RING.unseal_key(KEY_RING.seal_key(KEY, 1), 2)


def test_a_sealed_key_cannot_be_read_with_another_secret() -> None:
    with pytest.raises(ValueError, match=UNREADABLE):
        KeyRing(b"another secret, also 32 bytes ok").unseal_key(KEY_RING.seal_key(KEY, 1), 1)


def test_a_sealed_key_is_bound_to_the_number_of_its_license() -> None:
    # As in every database that there is: with another text, none of their keys could be read.
    assert KEY_RING.unseal(KEY_RING.seal_key(KEY, 7), b"license:7") == KEY.encode()


@given(st.data())
def test_a_sealed_key_with_one_bit_changed_cannot_be_read(data: st.DataObject) -> None:
    sealed = bytearray(KEY_RING.seal_key(KEY, 1))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ValueError, match=UNREADABLE):
        KEY_RING.unseal_key(bytes(sealed), 1)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 27])
def test_what_is_too_short_to_be_sealed_cannot_be_read(length: int) -> None:
    with pytest.raises(ValueError, match=r"damaged|Nonce"):
        KEY_RING.unseal(bytes(length), b"")


def test_sealing_the_same_key_twice_looks_different_and_does_not_show_it() -> None:
    sealed = {KEY_RING.seal_key(KEY, 1) for _ in range(100)}
    assert len(sealed) == 100
    assert not any(KEY.encode() in one for one in sealed)
    assert {len(one) for one in sealed} == {len(KEY) + 28}


def test_the_seal_is_aes_256_gcm_under_a_key_derived_from_the_secret() -> None:
    sealed = KEY_RING.seal(b"plain", b"place")
    opened = AESGCM(derive(b"keywright v1 seal")).decrypt(sealed[:12], sealed[12:], b"place")
    assert opened == b"plain"


def test_the_fingerprint_is_hmac_sha_256_under_a_key_derived_from_the_secret() -> None:
    expected = hmac.digest(derive(b"keywright v1 find a license by its key"), KEY.encode(), "sha256")
    assert KEY_RING.blind_index(KEY) == expected
    assert KEY_RING.blind_index(KEY) != hashlib.sha256(KEY.encode()).digest()


def test_the_id_of_a_secret_is_eight_bytes_derived_from_it() -> None:
    assert KEY_RING.secret_id == derive(b"keywright v1 which secret is this")[:8].hex()


@given(st.sets(TEXTS, min_size=2))
def test_different_keys_have_different_fingerprints(texts: set[str]) -> None:
    assert len({KEY_RING.blind_index(text) for text in texts}) == len(texts)


def test_upper_and_lower_case_are_different_keys() -> None:
    assert KEY_RING.blind_index("abc") != KEY_RING.blind_index("ABC")


def test_a_key_is_found_by_its_start_and_end_and_however_it_is_typed() -> None:
    # As databases hold them already.
    for key in ("ABCDEFGHIJ", "abcd-efgh-ij", "abcd efgh_i.j"):
        assert KEY_RING.key_start(key) == -6370669413507339892
        assert KEY_RING.key_end(key) == -6091801355059390583
        assert KEY_RING.key_folded(key) == 6638678550584887648
    assert KEY_RING.key_start("ABCDEFGH") == -6370669413507339892
    assert KEY_RING.key_end("GHIJ") == -6091801355059390583
    assert [KEY_RING.key_start("ABC-DEFG"), KEY_RING.key_end("G-HI"), KEY_RING.key_folded("--")] == [None] * 3


def test_another_secret_finds_differently_and_has_another_id() -> None:
    other = KeyRing(b"another secret, also 32 bytes ok")
    assert other.blind_index(KEY) != KEY_RING.blind_index(KEY)
    assert other.secret_id != KEY_RING.secret_id
    assert KeyRing(SECRET).secret_id == KEY_RING.secret_id
    assert re.fullmatch("[0-9a-f]{16}", KEY_RING.secret_id)


def test_while_the_secret_is_rotated_what_the_previous_one_sealed_is_found_and_read() -> None:
    both, old = KeyRing(SECRET, PREVIOUS), KeyRing(PREVIOUS)
    assert both.unseal_key(old.seal_key(KEY, 1), 1) == KEY
    assert KEY_RING.unseal_key(both.seal_key(KEY, 1), 1) == KEY
    assert both.blind_indexes(["a", "b"]) == {
        ring.blind_index(text): text for ring in (KEY_RING, old) for text in ("a", "b")
    }
    assert KEY_RING.blind_indexes(["a", "b"]) == {KEY_RING.blind_index(text): text for text in ("a", "b")}
    with pytest.raises(ValueError, match=UNREADABLE):
        both.unseal_key(KeyRing(b"a third secret, unlike the others").seal_key(KEY, 1), 1)


def test_each_secret_is_known_by_its_id_and_alone_reads_only_what_it_sealed() -> None:
    both, old = KeyRing(SECRET, PREVIOUS), KeyRing(PREVIOUS)
    assert both.secret_id == KEY_RING.secret_id
    assert [one.secret_id for one in both.rings] == [KEY_RING.secret_id, old.secret_id]
    assert both.find_ring(old.secret_id) is both.rings[1]
    assert both.find_ring("unknown") is None
    assert both.find_ring(None) is None
    with pytest.raises(ValueError, match=UNREADABLE):
        both.rings[0].unseal_key(old.seal_key(KEY, 1), 1)


def test_the_current_secret_is_no_previous_one() -> None:
    assert [one.secret_id for one in KeyRing(SECRET, SECRET).rings] == [KEY_RING.secret_id]


def test_a_previous_secret_has_at_least_16_bytes() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        KeyRing(SECRET, bytes(15))


def test_a_secret_has_at_least_16_bytes() -> None:
    KeyRing(bytes(16))
    with pytest.raises(ValueError, match=r"\Athe secret must have at least 16 bytes\Z"):
        KeyRing(bytes(15))


@each_row(
    ("text", "key"),
    [
        ("A", "A"),
        ("  A B\t", "A B"),
        ("\u00a0\u2003key\u3000\r\n", "key"),
        ("a" * 255, "a" * 255),
        (" " * 300 + "a" * 255, "a" * 255),
        ("ключ/🔑%2F", "ключ/🔑%2F"),
        ("e\u0301", "e\u0301"),
        ("a\u200bb", "a\u200bb"),
        ("\u00a9", "\u00a9"),
        ("\ue000\uffff", "\ue000\uffff"),
        ("XX-KEY-XX", "XX-KEY-XX"),
    ],
)
def test_a_key_is_trimmed_and_otherwise_kept_exactly(text: str, key: str) -> None:
    assert keys.normalize_key(text) == key


@each_row("space", [one for one in SPACES if one not in SEPARATORS])
def test_every_white_space_is_trimmed_at_both_ends(space: str) -> None:
    assert keys.normalize_key(f"{space}ab{space}") == "ab"


@pytest.mark.parametrize("separator", SEPARATORS)
def test_control_characters_that_python_takes_for_white_space_are_refused(separator: str) -> None:
    for text in (f"{separator}ab", f"ab{separator}"):
        with pytest.raises(InvalidLicenseKey):
            keys.normalize_key(text)


@each_row(
    "text",
    [
        "",
        " ",
        "\t\n",
        "a" * 256,
        "a\x00b",
        "a\nb",
        "a\x1fb",
        "a\x7fb",
        "a\x80b",
        "a\x9fb",
        "a\ud800",
        "\udfffa",
    ],
)
def test_what_cannot_be_a_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidLicenseKey):
        keys.normalize_key(text)


@given(st.text())
def test_normalizing_twice_changes_nothing_more(text: str) -> None:
    try:
        key = keys.normalize_key(text)
    except InvalidLicenseKey:
        return
    assert keys.normalize_key(key) == key
    assert 1 <= len(key) <= keys.MAX_KEY_LENGTH
    assert key.encode().decode() == key


@given(TEXTS)
def test_a_mask_never_shows_more_than_a_quarter_of_a_key(key: str) -> None:
    shown = crypto.mask(key)
    assert shown[0] == "…"
    assert key.endswith(shown[1:]) or set(shown[1:]) == {"?"} or set(shown[1:]) == {"?"}
    assert len(shown) - 1 <= min(4, len(key) / 4)
    assert shown.isprintable()


@each_row(
    ("key", "masked"),
    [
        ("", "…"),
        ("abc", "…"),
        ("abcd", "…d"),
        ("abcdefgh", "…gh"),
        ("a" * 30 + "wxyz", "…wxyz"),
        ("a" * 30 + "x\u202ey", "…????"),
    ],
)
def test_a_mask_shows_the_end_of_a_key(key: str, masked: str) -> None:
    assert crypto.mask(key) == masked


def test_tokens_and_credentials_have_160_random_bits_in_lower_case_hex() -> None:
    assert re.fullmatch("[0-9a-f]{40}", crypto.new_token())
    assert re.fullmatch("ck_[0-9a-f]{40}", new_secrets().consumer_key)
    assert re.fullmatch("cs_[0-9a-f]{40}", new_secrets().consumer_secret)
    assert len({crypto.new_token() for _ in range(1000)}) == 1000


def test_consumer_keys_are_hashed_as_woocommerce_hashes_them() -> None:
    # hash_hmac('sha256', $consumer_key, 'wc-api') in PHP; made here with:
    # printf %s ck_0123456789abcdef0123456789abcdef01234567 | openssl dgst -sha256 -hmac wc-api
    hashed = crypto.hash_consumer_key("ck_0123456789abcdef0123456789abcdef01234567")
    assert hashed == "4ffbd479cad9f24fb43a1516cb436a9dad0e2e23ef491464e29c2d81dae32edd"


def test_consumer_secrets_are_kept_as_sha_256() -> None:
    # FIPS 180-2, appendix B.1.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert crypto.hash_consumer_secret("abc").hex() == expected


def test_a_generated_key_follows_the_recipe() -> None:
    recipe = a_policy(prefix="P.", suffix=".S", separator="-", chunks=3, chunk_length=5)
    for key in [rules.generate_key(recipe) for _ in range(50)]:
        assert re.fullmatch(r"P\.[0-9A-F]{5}-[0-9A-F]{5}-[0-9A-F]{5}\.S", key)
        assert len(key) == rules.key_length(recipe)


def test_a_recipe_without_trimmings_makes_bare_runs() -> None:
    recipe = a_policy(separator=None, chunks=2, chunk_length=3, charset="x")
    assert rules.generate_key(recipe) == "xxxxxx"
    assert rules.key_length(recipe) == 6


def test_every_character_of_the_charset_comes_up() -> None:
    recipe = a_policy(charset="ab", chunks=1, chunk_length=100)
    assert set(rules.generate_key(recipe)) == {"a", "b"}


@each_row(
    ("charset", "chunks", "chunk_length", "bits"),
    [
        ("01", 1, 64, 64.0),
        ("0123456789ABCDEF", 4, 4, 64.0),
        ("aaaa", 10, 10, 0.0),
        ("aab", 1, 8, 8.0),
        ("", 3, 3, 0.0),
        ("abc", 2, 2, 4 * math.log2(3)),
    ],
)
def test_entropy_counts_distinct_characters_only(
    charset: str, chunks: int, chunk_length: int, bits: float
) -> None:
    assert rules.entropy_bits(charset, chunks, chunk_length) == pytest.approx(bits)


def test_keys_that_could_be_guessed_are_those_below_64_bits() -> None:
    bits = a_policy(charset="01", chunks=1, chunk_length=64)
    require_sound(bits, is_weak_allowed=False)
    with pytest.raises(PolicyTooWeak) as refusal:
        require_sound(replace(bits, chunk_length=63), is_weak_allowed=False)
    assert refusal.value.bits == 63


@each_row("field", ["charset", "separator", "prefix", "suffix"])
@each_row("bad", ["\n", "a\x00", "\x9f", "\ud800"])
def test_a_recipe_with_control_characters_makes_no_keys(field: str, bad: str) -> None:
    assert rules.is_drawable(a_policy(**{field: bad})) is False
    assert rules.is_drawable(a_policy(**{field: "é🔑"})) is True


@each_row(
    ("fields", "is_drawable"),
    [
        ({"charset": "a "}, False),
        ({"charset": "a ", "prefix": "P"}, False),
        ({"charset": "a ", "suffix": "S"}, False),
        ({"charset": "a ", "prefix": "P", "suffix": "S"}, True),
        ({"prefix": " P"}, False),
        ({"suffix": "S\u3000"}, False),
        ({"prefix": "P ", "suffix": " S", "separator": " "}, True),
        ({"charset": "", "prefix": "P"}, True),
    ],
)
def test_a_recipe_makes_no_keys_with_white_space_at_an_end(fields: dict[str, str], is_drawable: bool) -> None:
    assert rules.is_drawable(a_policy(**fields)) is is_drawable


parts = st.none() | st.text(st.sampled_from("ab \n\u3000"), max_size=3)


@given(st.text(st.sampled_from("ab \n"), min_size=1, max_size=3), parts, parts, parts, st.integers(1, 3))
def test_what_a_drawable_recipe_makes_is_a_key_as_it_is(
    charset: str, prefix: str | None, suffix: str | None, separator: str | None, chunks: int
) -> None:
    recipe = a_policy(
        charset=charset, prefix=prefix, suffix=suffix, separator=separator, chunks=chunks, chunk_length=2
    )
    made = [rules.generate_key(recipe) for _ in range(10)]
    assert {len(key) for key in made} == {rules.key_length(recipe)}
    if rules.is_drawable(recipe):
        assert [keys.normalize_key(key) for key in made] == made


# --- signing and drawing ----------------------------------------------------------------------------


def test_a_signature_is_of_one_purpose_one_text_and_one_secret() -> None:
    signed = KEY_RING.sign("purpose", "text")
    assert KEY_RING.sign("purpose", "text") == signed
    others = [
        KEY_RING.sign("another", "text"),
        KEY_RING.sign("purpose", "another"),
        KEY_RING.sign("purposetext", ""),
        KeyRing(b"another secret, also 32 bytes ok").sign("purpose", "text"),
        KEY_RING.blind_index("text"),
    ]
    assert signed not in others
    assert len(signed) == 32


def test_a_signature_is_hmac_sha_256_with_a_key_of_the_purpose_s_own() -> None:
    signing = derive(b"keywright v1 sign")
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"purpose").derive(signing)
    assert KEY_RING.sign("purpose", "text\udc80") == hmac.digest(key, b"text\xed\xb2\x80", "sha256")


def test_a_new_license_key_has_150_random_bits_in_letters_and_digits_that_nobody_confuses() -> None:
    drawn = {keys.new_license_key() for _ in range(200)}
    assert len(drawn) == 200
    assert all(re.fullmatch(r"([A-HJ-NP-Z2-9]{5}-){5}[A-HJ-NP-Z2-9]{5}", one) for one in drawn)
    assert set("".join(drawn)) == {*"ABCDEFGHJKLMNPQRSTUVWXYZ23456789-"}


# --- what names a license in a checkout -----------------------------------------------------------


@given(st.integers(1, 2**63 - 1))
def test_a_license_ref_names_its_license_and_is_not_made_elsewhere(license_id: int) -> None:
    ref = keys.make_license_ref(KEY_RING, license_id)
    assert re.fullmatch(r"[A-Za-z0-9_-]{36}", ref)
    assert keys.read_license_ref(KEY_RING, ref) == license_id
    assert keys.read_license_ref(KeyRing(PREVIOUS), ref) is None
    # While the secret is rotated, refs that were made before are good.
    assert keys.read_license_ref(KeyRing(PREVIOUS, SECRET), ref) == license_id
    other = keys.make_license_ref(KEY_RING, license_id - 1)
    assert keys.read_license_ref(KEY_RING, ref[:-4] + other[-4:]) is None


@given(TEXTS)
def test_any_other_text_names_no_license(text: str) -> None:
    assert keys.read_license_ref(KEY_RING, text) is None
    assert keys.read_license_ref(KEY_RING, keys.REF_PREFIX + text) is None
