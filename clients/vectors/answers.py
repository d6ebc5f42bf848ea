"""Cases of what a token says, of license files, and of key sets."""

from collections.abc import Iterator
from itertools import pairwise

from clients.vectors.pieces import (
    BEGIN,
    BODY,
    BUILT_AT,
    DAY,
    END,
    FINGERPRINT,
    GOOD,
    ISSUER,
    KEYS_TYP,
    LICENSE_KEY,
    NONCE,
    NOW,
    STRANGER,
    A,
    B,
    C,
    Case,
    Key,
    armour,
    case,
    claims,
    key_hash,
    question,
    refusal,
)


def bindings() -> Iterator[Case]:
    """Who may use it: product, license key, device, nonce, issuer."""
    yield case("the issuer that was named", GOOD, issuer=ISSUER)
    yield case("another issuer", GOOD, "issuer", issuer="keywright:ffff")
    yield case("no issuer where one was named", A.sign(claims("iss")), "issuer", issuer=ISSUER)
    yield case("any issuer where none was named", A.sign(claims(iss="keywright:ffff")))
    yield case("another product", A.sign(claims(aud="viewer")), "audience")
    yield case("no product where one is expected", A.sign(claims("aud")), "audience")
    yield case("the product in a list", A.sign(claims(aud=["editor"])), "audience")
    yield case("the product in capital letters", A.sign(claims(aud="EDITOR")), "audience")
    yield case("a product where the program names none", GOOD, product=None)
    yield case("no product where the program names none", A.sign(claims("aud")), product=None)
    yield case("another license key", GOOD, "license_key", license_key="EDTR-7QKX-M2VD-9RTB")
    yield case("the license key in small letters", GOOD, "license_key", license_key=LICENSE_KEY.lower())
    russian = claims(license={**claims()["license"], "key_hash": key_hash("КЛЮЧ-🔑")})
    yield case("a license key outside ASCII", A.sign(russian), license_key="КЛЮЧ-🔑")
    yield case("no license in an answer that says yes", A.sign(claims(license=None)), "license_key")
    bare = {name: value for name, value in claims()["license"].items() if name != "key_hash"}
    yield case("no key_hash in an answer that says yes", A.sign(claims(license=bare)), "license_key")
    yield case("any license key where none is expected", GOOD, license_key=None)
    yield case("another device", GOOD, "device", fingerprint="another-device")
    yield case("no device in an answer that says yes", A.sign(claims("activation")), "device")
    yield case("null for a device in an answer that says yes", A.sign(claims(activation=None)), "device")
    nameless = claims(activation={"id": 5, "fingerprint": None})
    yield case("a device without a fingerprint in an answer that says yes", A.sign(nameless), "device")
    yield case("any device where none is expected", GOOD, fingerprint=None)
    yield case("no device where none is expected", A.sign(claims("activation")), fingerprint=None)
    yield from _builds()
    yield case("another nonce", GOOD, "nonce", nonce="another-nonce-of-the-tests")
    yield case("no nonce where one was sent", A.sign(claims("nonce")), "nonce")
    yield case("null for a nonce where one was sent", A.sign(claims(nonce=None)), "nonce")
    yield case("any nonce where none was sent", GOOD, nonce=None)
    yield case("no nonce where none was sent", A.sign(claims(nonce=None)), nonce=None)
    yield from _refusals()


def _builds() -> Iterator[Case]:
    for_build = A.sign(claims(built_at=BUILT_AT))
    yield case("the build that was named", for_build, built_at=BUILT_AT)
    yield case("another build", for_build, "build", built_at="2027-01-10T00:00:00Z")
    yield case("a build, where the program names none", for_build, "build")
    yield case(
        "the same moment, written in another way", for_build, "build", built_at="2026-11-22T09:54:00+01:00"
    )
    yield case("any build where an answer names none", GOOD, built_at=BUILT_AT)
    yield case("null for a build", A.sign(claims(built_at=None)), built_at=BUILT_AT)
    yield case("a build that is no text", A.sign(claims(built_at=[BUILT_AT])), "build", built_at=BUILT_AT)
    both = A.sign(claims(built_at=BUILT_AT, nonce="another-nonce-of-the-tests"))
    yield case("the build comes before the nonce", both, "build")


def _refusals() -> Iterator[Case]:
    unknown = refusal("unknown_license", "sub", "activation", license=None)
    yield case("no: an unknown license key", A.sign(unknown), valid=False, state="not_activated")
    without_place = A.sign(refusal("not_activated", "activation"))
    yield case("no: a device without a place", without_place, valid=False, state="not_activated")
    yield case("no: a disabled license", A.sign(refusal("disabled")), valid=False, state="disabled")
    yield case("no, to another nonce", A.sign(refusal("disabled", nonce="of-another-day-0000")), "nonce")
    yield case(
        "no, to another device",
        A.sign(refusal("disabled", activation={"id": 6, "fingerprint": "another-device"})),
        "device",
    )
    other = {**claims()["license"], "key_hash": key_hash("ANOTHER")}
    yield case("no, to another license key", A.sign(refusal("disabled", license=other)), "license_key")
    yield case("no, to another build", A.sign(refusal("expired", built_at=BUILT_AT)), "build")
    yield case("no, that has ended", A.sign(refusal("disabled") | {"exp": NOW}), "expired")


#: The state that each code leads to where it is the first of those that say no.
_STATE_OF_CODE = {
    "product_mismatch": "not_activated",
    "key_rotated": "not_activated",
    "fingerprint_required": "not_activated",
    "entitlement_missing": "not_activated",
    "a_code_of_tomorrow": "not_activated",
    "inactive": "disabled",
    "expired": "expired",
    "version_not_covered": "expired",
    "limit_reached": "limit_reached",
    "too_many_new_devices": "limit_reached",
    "no_removal_left": "limit_reached",
    "lease_lost": "no_lease",
    "lease_required": "no_lease",
}


def states() -> Iterator[Case]:
    """The state that a good answer leads to by itself."""
    for code, state in _STATE_OF_CODE.items():
        yield case(f"no, with {code}", A.sign(refusal(code)), valid=False, state=state)
    for codes, state in (
        (["lease_required", "entitlement_missing"], "no_lease"),
        (["lease_lost", "usage_exceeded", "grace"], "no_lease"),
        (["not_activated", "lease_required"], "not_activated"),
        (["disabled", "lease_required"], "disabled"),
        (["expired", "version_not_covered", "lease_required"], "expired"),
    ):
        no = A.sign(refusal(codes[0]) | {"codes": codes})
        yield case(f"no, with {' and '.join(codes)}", no, valid=False, state=state)
    without_device = A.sign(refusal("lease_required", "activation"))
    yield case("no lease, and no device", without_device, valid=False, state="no_lease")
    for odd in (None, ["lease_required"], 7, "constructor"):
        no = A.sign(refusal("expired") | {"code": odd, "codes": None})
        yield case(f"no, with {odd!r} for a code", no, valid=False, state="not_activated")
    good: tuple[tuple[list[object] | None, str], ...] = (
        (["grace"], "grace"),
        (["over_limit", "grace"], "grace"),
        (["expired_allowed"], "valid"),
        (["over_limit", "usage_exceeded"], "valid"),
        ([], "valid"),
        (None, "valid"),
        ([7, "grace"], "grace"),
    )
    for given, state in good:
        yes = A.sign(claims(code=given[0] if given else "valid", codes=given))
        yield case(f"yes, with {given!r} for codes", yes, state=state)
    lease = {"id": "ab" * 16, "holder": "anna", "expires_at": "2027-01-15T08:10:00Z"}
    yield case("yes, with a lease", A.sign(claims(lease=lease, exp=NOW + 600)))
    yield case("yes, with a lease that has ended", A.sign(claims(lease=lease, exp=NOW)), "expired")


def questions() -> Iterator[Case]:
    """What was asked: an answer to another question, with the right nonce."""
    unknown = refusal("unknown_license", "sub", "activation", license=None)
    for name, operation, body in (
        ("another license key", "validate", BODY.replace(LICENSE_KEY, "EDTR-7QKX-M2VD-9RTB")),
        ("another device", "validate", BODY.replace(FINGERPRINT, "another-device")),
        ("an entitlement", "validate", BODY.replace("{", '{"entitlements":["print"],')),
        ("another product", "validate", BODY.replace("editor", "viewer")),
        ("another operation", "activate", BODY),
        ("an operation below another", "leases/validate", BODY),
        ("the same in another order", "validate", BODY.replace("{", "{ ")),
        (
            "the same as a form",
            "validate",
            f"license_key={LICENSE_KEY}&fingerprint={FINGERPRINT}&nonce={NONCE}",
        ),
        ("nothing", "validate", ""),
    ):
        other = question(operation, body)
        yield case(f"no, asked about {name}", A.sign(unknown | {"asked": other}), "question")
        yield case(f"yes, asked about {name}", A.sign(claims(asked=other)), "question")
    yield case("no, whatever was asked", A.sign({**unknown, "asked": None}), "question")
    yield case("no, without what was asked", A.sign(refusal("disabled", "asked")), "question")
    yield case("yes, without what was asked", A.sign(claims("asked")), "question")
    yield case("what was asked, with padding", A.sign(claims(asked=f"{question()}=")), "question")
    yield case("what was asked, in a list", A.sign(claims(asked=[question()])), "question")
    yield case(
        "a nonce that was sent with a question that is not named", GOOD, "question", operation=None, body=None
    )
    for operation in ("activate", "leases", "leases/renew", "updates"):
        answer = A.sign(claims(asked=question(operation)))
        yield case(f"an answer to {operation}", answer, operation=operation)
    body = BODY.replace("editor", "Zoë’s éditeur 🔑 \\u00e9")
    yield case("a question outside ASCII", A.sign(claims(asked=question(body=body))), body=body)
    yield case("any question where no nonce was sent", A.sign(claims(asked="x")), nonce=None)
    yield case("no question where no nonce was sent", A.sign(claims("asked")), nonce=None)
    both = A.sign(claims(asked="x", nonce="another-nonce-of-the-tests"))
    yield case("the nonce comes before the question", both, "nonce")


def times() -> Iterator[Case]:
    """From nbf, which may lie 300 s ahead, up to exp, which may not be reached."""
    yield case("the last second", A.sign(claims(exp=NOW + 1)))
    yield case("the second in which it ends", A.sign(claims(exp=NOW)), "expired")
    yield case("a second after its end", A.sign(claims(exp=NOW - 1)), "expired")
    yield case("an end in 1970", A.sign(claims(exp=0)), "expired")
    yield case("an end below zero", A.sign(claims(exp=-1)), "expired")
    yield case("an end in the year 9999", A.sign(claims(exp=253_402_300_799)))
    yield case("nbf is now", A.sign(claims(nbf=NOW)))
    yield case("nbf is 300 s ahead", A.sign(claims(nbf=NOW + 300)))
    yield case("nbf is 301 s ahead", A.sign(claims(nbf=NOW + 301)), "not_yet_valid")
    yield case("the clock was set back a month", GOOD, "not_yet_valid", now=NOW - 30 * DAY)
    yield case("the clock was set forward a month", GOOD, "expired", now=NOW + 30 * DAY)
    yield case("kept for thirteen days", GOOD, now=NOW + 13 * DAY)


def files() -> Iterator[Case]:
    """License files: the token between two lines."""
    file = armour(GOOD)
    body = file.removeprefix(f"{BEGIN}\n").removesuffix(f"{END}\n")
    yield case("a license file", file, nonce=None)
    yield case("lines that end with CR LF", armour(GOOD, "\r\n"), nonce=None)
    yield case("spaces after each line", armour(GOOD, " \t\n"), nonce=None)
    yield case("no line end after the last line", file.rstrip(), nonce=None)
    yield case(
        "text outside the armour", f"Lizenz für:\n  Zoë & Co.\n\n{file}\nKeep this file.\n", nonce=None
    )
    yield case("a byte order mark", f"\ufeff{file}", nonce=None)
    yield case("the token in one line", f"{BEGIN}\n{GOOD}\n{END}\n", nonce=None)
    yield case("empty lines within the armour", f"{BEGIN}\n\n{GOOD}\n\n{END}\n", nonce=None)
    yield case("only the first of two files counts", file + armour(STRANGER.sign(claims())), nonce=None)
    yield case(
        "a stranger's file before the good one", armour(STRANGER.sign(claims())) + file, "header", nonce=None
    )
    yield case("no last line", f"{BEGIN}\n{body}", "armour", nonce=None)
    yield case("the last line stands first", f"{END}\n{BEGIN}\n{body}", "armour", nonce=None)
    yield case("the first line is missing", f"{body}{END}\n", "header", nonce=None)
    yield case("nothing within the armour", f"{BEGIN}\n{END}\n", "not_three_parts", nonce=None)
    yield case("a quoted file", "".join(f"> {line}\n" for line in file.splitlines()), "header", nonce=None)
    yield case("a comment within the armour", f"{BEGIN}\nVersion: 1\n{body}{END}\n", "header", nonce=None)
    lines = body.splitlines()
    shuffled = "\n".join([*lines[:3], lines[4], lines[3], *lines[5:]])
    yield case("two lines are exchanged", f"{BEGIN}\n{shuffled}\n{END}\n", "signature", nonce=None)
    yield case(
        "a space within a line",
        file.replace(lines[4], f"{lines[4][:9]} {lines[4][9:]}"),
        "base64url",
        nonce=None,
    )
    yield case("a file for another device", file, "device", nonce=None, fingerprint="another-device")
    for_build = armour(A.sign(claims(built_at=BUILT_AT)))
    yield case("a file for another build", for_build, "build", nonce=None, built_at="2027-01-10T00:00:00Z")
    yield case("a file that has ended", file, "expired", nonce=None, now=NOW + 14 * DAY)
    yield case("more than 64 KiB with the text outside", file, "too_large", nonce=None, pad_to=65_537)


def key_sets() -> Iterator[Case]:
    """Keys that follow those that are pinned."""
    by_b, by_c = B.sign(claims()), C.sign(claims())
    a_to_b = A.key_set(B, iat=NOW - 9 * DAY)
    b_to_c = B.key_set(C, iat=NOW - 5 * DAY)
    yield case("a key that a pinned key names", by_b, key_sets=[a_to_b])
    yield case("a chain of two", by_c, key_sets=[a_to_b, b_to_c])
    yield case("a chain of two in the other order", by_c, key_sets=[b_to_c, a_to_b])
    yield case("the newest key, named by each older one", by_c, key_sets=[A.key_set(C), B.key_set(C)])
    ends = [Key("A"), *(Key(f"link {number}") for number in range(20)), C]
    pairs = pairwise(ends)
    chain = [one.key_set(other, iat=NOW - DAY + number) for number, (one, other) in enumerate(pairs)]
    yield case("a chain of twenty-one", by_c, key_sets=chain)
    yield case("a chain with a gap", by_c, "header", key_sets=[b_to_c])
    yield case("both keys of a set", by_b, key_sets=[A.key_set(C, B)])
    yield case("the pinned key, which the set still names", GOOD, key_sets=[A.key_set(B, A)])
    yield case("the pinned key, which the set no longer names", GOOD, "header", key_sets=[a_to_b])
    yield case(
        "a set is signed by a stranger",
        STRANGER.sign(claims()),
        "header",
        key_sets=[STRANGER.key_set(STRANGER)],
    )
    forged = STRANGER.sign({"iat": NOW, "exp": NOW + DAY, "keys": [STRANGER.jwk]}, A.header(KEYS_TYP))
    yield case(
        "a stranger signs a set in the name of the pinned key",
        STRANGER.sign(claims()),
        "header",
        key_sets=[forged],
    )
    yield case("a bad set changes nothing", GOOD, key_sets=[forged, "", "a.b.c", a_to_b[:-9]])
    yield case("a bad set hides no good one", by_b, key_sets=[forged, a_to_b])
    yield case(
        "the typ of a license on a set",
        by_b,
        "header",
        key_sets=[A.sign({"iat": NOW, "exp": NOW + DAY, "keys": [B.jwk]})],
    )
    yield case(
        "a set whose alg is Ed25519",
        by_b,
        key_sets=[A.sign({"iat": NOW, "exp": NOW + DAY, "keys": [B.jwk]}, A.header(KEYS_TYP, "Ed25519"))],
    )
    yield case("a set that has ended", by_b, "header", key_sets=[A.key_set(B, exp=NOW)])
    yield case("a set in a license's place", a_to_b, "header")
    newer = A.key_set(B, iat=NOW - DAY)
    yield case("the newer of two sets counts", by_b, key_sets=[A.key_set(C, iat=NOW - 2 * DAY), newer])
    yield case(
        "the older of two sets does not count",
        by_c,
        "header",
        key_sets=[newer, A.key_set(C, iat=NOW - 2 * DAY)],
    )
    yield case(
        "an older set does not follow a newer one",
        by_c,
        "header",
        key_sets=[newer, B.key_set(C, iat=NOW - 3 * DAY)],
    )
    yield case(
        "a withdrawn key names no other",
        STRANGER.sign(claims()),
        "header",
        key_sets=[A.key_set(B, iat=NOW - 2 * DAY), A.key_set(STRANGER, iat=NOW - 3 * DAY)],
    )
    foreign = [
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        B.jwk,
    ]
    yield case("keys of other kinds in a set are ignored", by_b, key_sets=[A.key_set(keys=foreign)])
    yield case("a set without keys", GOOD, key_sets=[A.key_set()])
    lying = [{**B.jwk, "kid": STRANGER.kid}]
    yield case("a set's kid does not count, its x does", by_b, key_sets=[A.key_set(keys=lying)])
