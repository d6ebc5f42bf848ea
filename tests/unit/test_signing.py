"""Signed answers and license files: their claims, their validity, and their exact bytes."""

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import OKPKey

from keywright.licensing.activations.model import LicenseView, NamedProduct
from keywright.licensing.validation import Code, Findings
from keywright.signing.jws import (
    SIGNATURE_ALGS,
    Signer,
    decode_base64url,
    encode_base64url,
    new_private_key,
    read_signed,
    thumbprint,
    write_jwk,
)
from keywright.signing.model import Claims, TokenType
from keywright.signing.rules import (
    MAX_FILE,
    SignedContent,
    build_claims,
    ends_at,
    hash_key,
    issuer_of,
    read_license_file,
    write_license_file,
)
from tests.makers import (
    NOW,
    a_deactivated_activation,
    a_lease,
    a_license_with,
    an_activation,
)
from tests.tables import each_row

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
VALID = Findings((Code.VALID,), "The license is valid.")
EXPIRED = Findings((Code.EXPIRED, Code.OVER_LIMIT), "The license expired.")
#: RFC 8037, appendix A: a key, its thumbprint, and a signature made with it.
RFC_PRIVATE, RFC_PUBLIC, RFC_KID = (
    "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
)
#: Matches the reasons for refusing a token.
REFUSED = r"is longer|does not have three|was signed with another|was altered|is not base64url"
A_SIGNER = Signer(decode_base64url(RFC_PRIVATE.encode()), "EdDSA")


def said(
    terms: dict[str, Any] | None = None, *, of: dict[str, Any] | None = None, **values: Any
) -> SignedContent:
    """Build an answer about a license with these terms and other fields (``of``)."""
    view = LicenseView(a_license_with(terms or {}, **of or {}), NamedProduct(17, "editor", "Editor"))
    defaults: dict[str, Any] = {"findings": VALID, "now": NOW, "view": view}
    return SignedContent(**defaults | values)


def payload(one: SignedContent) -> Any:
    return json.loads(msgspec.json.encode(build_claims(one, "keywright:1", "id")))


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


# --- claims -------------------------------------------------------------------------------------------


def test_claims_say_what_the_answer_says() -> None:
    lease = a_lease(expires_at=NOW + 600 * SECOND)
    activation = an_activation()
    one = said(
        shown={"id": 1, "key_hash": hash_key("KEY")},
        activation=activation,
        lease=lease,
        entitlements=("export",),
        next_check_at=NOW + DAY,
        nonce="n-1",
    )
    assert payload(one) == {
        "iss": "keywright:1",
        "aud": "editor",
        "sub": f"license:{one.view.license.id if one.view else ''}",
        "jti": "id",
        "iat": seconds(NOW),
        "nbf": seconds(NOW) - 300,
        "exp": seconds(NOW) + 600,
        "valid": True,
        "code": "valid",
        "codes": ["valid"],
        "license": {"id": 1, "key_hash": hash_key("KEY")},
        "activation": {"id": activation.id, "fingerprint": activation.fingerprint},
        "lease": {
            "id": lease.lease_id,
            "holder": lease.holder,
            "expires_at": lease.expires_at.isoformat().replace("+00:00", "Z"),
        },
        "entitlements": ["export"],
        "nonce": "n-1",
        "next_check_at": (NOW + DAY).isoformat().replace("+00:00", "Z"),
    }


def test_an_answer_that_hides_the_license_names_nothing_of_it() -> None:
    unknown = Findings((Code.UNKNOWN_LICENSE,), "No license has this key.")
    claims = payload(SignedContent(findings=unknown, now=NOW, nonce="n-1"))
    absent = {"aud", "sub", "activation", "lease", "removed", "built_at", "update_token", "notices"}
    assert sorted(claims) == sorted(set(Claims.__struct_fields__) - absent)
    assert (claims["valid"], claims["code"], claims["license"], claims["entitlements"]) == (
        False,
        "unknown_license",
        None,
        [],
    )


def test_a_product_without_a_code_is_no_audience_and_a_place_given_up_no_activation() -> None:
    license = a_license_with({})
    for product in (None, NamedProduct(17)):
        one = SignedContent(
            findings=VALID,
            now=NOW,
            view=LicenseView(license, product),
            activation=a_deactivated_activation(),
        )
        assert not {"aud", "activation", "lease"} & payload(one).keys()


@each_row(
    ("terms", "left", "values", "is_bound"),
    [
        ({"after_expiry": "older_versions"}, -DAY, {}, True),
        ({"after_expiry": "older_versions"}, 5 * DAY, {}, True),
        # Until the license expires, the answer is the same for all builds.
        ({"after_expiry": "older_versions"}, 30 * DAY, {}, False),
        ({"after_expiry": "older_versions"}, 5 * DAY, {"days": 3}, False),
        (
            {"after_expiry": "older_versions"},
            5 * DAY,
            {"lease": a_lease(expires_at=NOW + 60 * SECOND)},
            False,
        ),
        ({"after_expiry": "older_versions"}, -DAY, {"findings": EXPIRED}, False),
        ({"after_expiry": "older_versions"}, None, {}, False),
        ({"after_expiry": "older_versions"}, 5 * DAY, {"built_at": NOW + 6 * DAY}, False),
        ({"after_expiry": "allow"}, -DAY, {}, False),
        ({"grace_days": 7}, -DAY, {}, False),
    ],
)
def test_an_answer_that_a_newer_build_would_not_get_names_its_build(
    terms: dict[str, Any], left: timedelta | None, values: dict[str, Any], is_bound: bool
) -> None:
    fields = {"expires_at": None if left is None else NOW + left}
    built_at = NOW - 9 * DAY
    claims = payload(said(terms, of=fields, **{"built_at": built_at} | values))
    assert claims.get("built_at") == (f"{built_at:%Y-%m-%dT%H:%M:%SZ}" if is_bound else None)
    assert "built_at" not in payload(said(terms, of=fields, **values | {"built_at": None}))


def test_a_key_hash_is_that_of_the_contract() -> None:
    # printf keywright-license-key:KEY-1 | openssl dgst -sha256 -binary | basenc --base64url
    assert hash_key("KEY-1") == "dnZ16ZQCt5Z4BM65_syy1GAT2WWxJkY22wA8CwdSM2I"


# --- until when ---------------------------------------------------------------------------------------


@each_row(
    ("one", "life"),
    [
        (said(), 14 * DAY),
        (said(days=3), 3 * DAY),
        (said(days=30), 14 * DAY),
        (said({"offline_days": 0}), 300 * SECOND),
        (said({"offline_days": 0}, days=3), 300 * SECOND),
        (said(findings=EXPIRED), 300 * SECOND),
        (said(of={"expires_at": NOW + 5 * DAY}), 5 * DAY),
        (said({"grace_days": 2}, of={"expires_at": NOW + 5 * DAY}), 7 * DAY),
        (said({"after_expiry": "allow"}, of={"expires_at": NOW + 5 * DAY}), 14 * DAY),
        (said({"after_expiry": "older_versions"}, of={"expires_at": NOW + 5 * DAY}), 5 * DAY),
        (
            said({"after_expiry": "older_versions"}, of={"expires_at": NOW + 5 * DAY}, built_at=NOW),
            14 * DAY,
        ),
        (said(lease=a_lease(expires_at=NOW + 60 * SECOND)), 60 * SECOND),
        (said({"offline_days": 36_500}), 36_500 * DAY),
    ],
)
def test_an_answer_ends_with_what_ends_first(one: SignedContent, life: timedelta) -> None:
    assert ends_at(one) - NOW == life


@given(
    offline=st.integers(0, 36_500),
    asked=st.none() | st.integers(1, 36_500),
    grace=st.integers(0, 1000),
    left=st.none() | st.integers(1, 10**9),
    lease=st.none() | st.integers(1, 10**6),
    findings=st.sampled_from([VALID, EXPIRED]),
)
def test_no_answer_outlives_what_stops_the_license(  # noqa: PLR0917
    offline: int, asked: int | None, grace: int, left: int | None, lease: int | None, findings: Findings
) -> None:
    expires_at = None if left is None else NOW + timedelta(seconds=left)
    one = said(
        {"offline_days": offline, "grace_days": grace},
        of={"expires_at": expires_at},
        findings=findings,
        days=asked,
        lease=None if lease is None else a_lease(expires_at=NOW + timedelta(seconds=lease)),
    )
    ends = ends_at(one)
    assert NOW < ends <= NOW + max(offline * DAY, 300 * SECOND)
    if findings is EXPIRED:
        assert ends == NOW + 300 * SECOND
        return
    if asked is not None:
        assert ends <= NOW + asked * DAY
    if expires_at is not None:
        assert ends <= expires_at + grace * DAY
    if lease is not None:
        assert ends <= NOW + timedelta(seconds=lease)


# --- bytes --------------------------------------------------------------------------------------------


def test_a_key_has_the_thumbprint_of_rfc_8037() -> None:
    assert (A_SIGNER.public_key, A_SIGNER.kid) == (RFC_PUBLIC, RFC_KID)
    assert json.loads(msgspec.json.encode(write_jwk(RFC_PUBLIC))) == {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": RFC_PUBLIC,
        "kid": RFC_KID,
        "use": "sig",
    }


@each_row("alg", SIGNATURE_ALGS)
@each_row("typ", TokenType)
def test_a_header_has_three_members_in_order_and_no_spaces(alg: Any, typ: TokenType) -> None:
    signer = Signer(decode_base64url(RFC_PRIVATE.encode()), alg)
    header, _, _ = signer.sign(b"{}", typ).split(b".")
    assert decode_base64url(header).decode() == f'{{"alg":"{alg}","kid":"{RFC_KID}","typ":"{typ.value}"}}'


# RFC 9864 has a new name for the algorithm; most libraries only support this one.
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@given(content=st.binary(max_size=300))
@pytest.mark.parametrize("alg", SIGNATURE_ALGS)
def test_what_is_signed_is_read_by_another_library(alg: Any, content: bytes) -> None:
    signer = Signer(new_private_key(), alg)
    token = signer.sign(content)
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": signer.public_key})
    assert jws.deserialize_compact(token, key, algorithms=[alg]).payload == content
    assert read_signed(token, signer.public_key) == content


def test_every_altered_bit_of_a_token_is_refused() -> None:
    token = A_SIGNER.sign(b'{"valid":true}')
    for position in range(len(token) * 8):
        altered = bytearray(token)
        altered[position // 8] ^= 1 << position % 8
        with pytest.raises(ValueError, match=REFUSED):
            read_signed(bytes(altered), RFC_PUBLIC)


def test_a_token_of_another_type_or_key_and_one_too_long_are_refused() -> None:
    keys = A_SIGNER.sign(b"{}", TokenType.KEYS)
    assert read_signed(keys, RFC_PUBLIC, TokenType.KEYS) == b"{}"
    other = Signer(new_private_key(), "EdDSA").public_key
    for token, key in (
        (keys, RFC_PUBLIC),
        (A_SIGNER.sign(b"{}"), other),
        (A_SIGNER.sign(b"x" * 64 * 1024), RFC_PUBLIC),
        (b"a.b", RFC_PUBLIC),
    ):
        with pytest.raises(ValueError, match=REFUSED):
            read_signed(token, key)


@each_row("text", [b"YQ==", b"YR", b"Y", b"Y Q", b"Y+Q", b"YQ\n"])
def test_base64url_is_canonical(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not base64url"):
        decode_base64url(text)
    assert decode_base64url(encode_base64url(b"a")) == b"a"


def test_the_issuer_follows_from_the_first_key() -> None:
    assert issuer_of(RFC_KID) == issuer_of(RFC_KID) != issuer_of(thumbprint("other"))
    assert issuer_of(RFC_KID).startswith("keywright:")


# --- files --------------------------------------------------------------------------------------------


def test_a_license_file_has_lines_of_64_and_is_read_whatever_stands_around_it() -> None:
    token = A_SIGNER.sign(b"x" * 200)
    file = write_license_file(token)
    begin, *lines, end, last = file.decode().split("\n")
    assert (begin, end, last) == (
        "-----BEGIN KEYWRIGHT LICENSE-----",
        "-----END KEYWRIGHT LICENSE-----",
        "",
    )
    assert {len(line) for line in lines[:-1]} == {64}
    assert 0 < len(lines[-1]) <= 64
    for content in (file, b"Dear Anna,\r\n> " + file.replace(b"\n", b"\r\n  ") + b"\nYours"):
        assert read_license_file(content) == token


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"-----BEGIN KEYWRIGHT LICENSE-----",
        b"-----END KEYWRIGHT LICENSE-----\n-----BEGIN KEYWRIGHT LICENSE-----",
        write_license_file(b"x" * MAX_FILE),
    ],
)
def test_what_is_no_license_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"has no text|is larger"):
        read_license_file(content)
