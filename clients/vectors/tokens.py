"""Cases of what a token looks like: its parts, its header, its signature."""

import json
from collections.abc import Iterator

from clients.vectors.pieces import (
    DAY,
    GOOD,
    HEADER,
    LICENSE_TYP,
    NOW,
    PAYLOAD,
    SIGNATURE,
    STRANGER,
    A,
    B,
    Case,
    L,
    case,
    claims,
    decode,
    encode,
    to_json,
)


def formats() -> Iterator[Case]:
    """What a token and its three parts look like."""
    yield case("a good answer", GOOD)
    yield case("spaces and line ends around a token are ignored", f" \t\r\n{GOOD}\r\n")
    yield case("no text", "", "not_three_parts")
    yield case("a text that is no token", "Thank you. Keep it. Bye", "header")
    yield case("two parts", f"{HEADER}.{PAYLOAD}", "not_three_parts")
    yield case("four parts", f"{GOOD}.{SIGNATURE}", "not_three_parts")
    yield case("a token with a dot at its end", f"{GOOD}.", "not_three_parts")
    yield case("five parts, as an encrypted token has", f"{GOOD}..", "not_three_parts")
    yield case("JSON in place of the compact form", json.dumps({"payload": PAYLOAD}), "not_three_parts")
    yield case("64 KiB with the spaces after it", GOOD, pad_to=65_536)
    yield case("one byte above 64 KiB", GOOD, "too_large", pad_to=65_537)
    yield case("size comes before everything else", "nothing", "too_large", pad_to=70_000)
    yield from _base64url()
    yield case("the payload is not JSON", A.sign(b"{valid: true}"), "payload")
    yield case("the payload is no object", A.sign([claims()]), "payload")
    yield case("the payload is null", A.sign(None), "payload")
    yield case("the payload is not UTF-8", A.sign(b'{"a":"\xff"}'), "payload")
    yield case("the payload is empty", A.sign(b""), "payload")
    yield case("the payload has something after it", A.sign(to_json(claims()) + b"{}"), "payload")
    for name in ("iat", "nbf", "exp", "valid"):
        yield case(f"no {name}", A.sign(claims(name)), "payload")
        yield case(f"{name} is a text", A.sign(claims(**{name: "1800086400"})), "payload")
    yield case("exp is true", A.sign(claims(exp=True)), "payload")
    yield case("exp is null", A.sign(claims(exp=None)), "payload")
    yield case("valid is a number", A.sign(claims(valid=1)), "payload")
    yield case("claims of a later version are ignored", A.sign(claims(color={"deep": ["er"]})))


def _base64url() -> Iterator[Case]:
    yield case("padding after the payload", A.sign(b"{}").replace(".e30.", ".e30=."), "base64url")
    yield case("padding after the signature", f"{GOOD}==", "base64url")
    # 64 bytes leave four bits of the last character unused, and a payload of 3n + 1 bytes too.
    last = SIGNATURE[-1]
    other = chr(ord(last) + 1)
    assert last in "AQgw"
    yield case("unused bits of the signature are set", f"{GOOD[:-1]}{other}", "base64url")
    yield case(
        "unused bits of the payload are set", A.sign(b"{} \n").replace(".e30gCg.", ".e30gCh."), "base64url"
    )
    yield case(
        "a payload of 4n + 1 characters",
        f"{HEADER}.{PAYLOAD[: len(PAYLOAD) // 4 * 4 + 1]}.{SIGNATURE}",
        "base64url",
    )
    yield case("the other alphabet of base64", f"{HEADER}.{PAYLOAD}.{'+/' + SIGNATURE[2:]}", "base64url")
    yield case("a space within the payload", f"{HEADER}.{PAYLOAD[:8]} {PAYLOAD[8:]}.{SIGNATURE}", "base64url")
    yield case("a line end within the signature", f"{GOOD[:-8]}\n{GOOD[-8:]}", "base64url")
    yield case("a letter outside ASCII", f"{HEADER}.{PAYLOAD[:-1]}é.{SIGNATURE}", "base64url")


def headers() -> Iterator[Case]:
    """Only the header that belongs to a pinned key, byte for byte."""
    yield case("alg is Ed25519, as RFC 9864 says", A.sign(claims(), A.header(alg="Ed25519")))
    for alg in ("none", "HS256", "ES256", "eddsa", "Ed448", ""):
        yield case(f"alg is {alg or 'empty'}", A.sign(claims(), A.header(alg=alg)), "header")
    for typ in ("JWT", "keywright-keys+jwt", "KEYWRIGHT-LICENSE+JWT", "application/keywright-license+jwt"):
        yield case(f"typ is {typ}", A.sign(claims(), A.header(typ=typ)), "header")
    whole = {"alg": "EdDSA", "kid": A.kid, "typ": LICENSE_TYP}
    yield case(
        "kid before alg", A.sign(claims(), to_json(dict(sorted(whole.items(), reverse=True)))), "header"
    )
    yield case("spaces in the header", A.sign(claims(), json.dumps(whole).encode()), "header")
    yield case("a line end after the header", A.sign(claims(), A.header() + b"\n"), "header")
    for name in whole:
        rest = {other: value for other, value in whole.items() if other != name}
        yield case(f"no {name} in the header", A.sign(claims(), to_json(rest)), "header")
    yield case("an empty header", A.sign(claims(), b"{}"), "header")
    yield case("the header is missing", f".{PAYLOAD}.{SIGNATURE}", "header")
    yield case("padding after the header", f"{HEADER}=.{PAYLOAD}.{SIGNATURE}", "header")
    yield case(
        "a letter of the header is escaped",
        A.sign(claims(), A.header().replace(b"E", rb"\u0045", 1)),
        "header",
    )
    twice = A.header().replace(b'{"alg"', b'{"alg":"none","alg"')
    yield case("alg stands twice, the good one last", A.sign(claims(), twice), "header")
    twice = A.header().replace(b'","kid"', b'","alg":"none","kid"')
    yield case("alg stands twice, the good one first", A.sign(claims(), twice), "header")
    yield case("the kid of no pinned key", STRANGER.sign(claims()), "header")
    yield case(
        "a stranger signs with the kid of the pinned key", STRANGER.sign(claims(), A.header()), "signature"
    )
    stranger = {**STRANGER.jwk, "kid": STRANGER.kid}
    for name, value in {
        "jwk": stranger,
        "jku": "https://example.com/jwks.json",
        "x5c": ["MIIB"],
        "x5u": "https://example.com/chain.pem",
        "crit": ["exp"],
        "b64": False,
    }.items():
        yield case(
            f"{name} in the header", STRANGER.sign(claims(), to_json({**whole, name: value})), "header"
        )
        yield case(
            f"{name} in the header, signed by the pinned key",
            A.sign(claims(), to_json({**whole, name: value})),
            "header",
        )
    yield case("the second of two pinned keys", B.sign(claims()), public_keys=[A.x, B.x])
    yield case("no key is pinned", GOOD, "header", public_keys=[])


def signatures() -> Iterator[Case]:
    """Strict RFC 8032."""
    raw = decode(SIGNATURE)

    def signed(name: str, signature: bytes, result: str = "signature") -> Case:
        return case(name, f"{HEADER}.{PAYLOAD}.{encode(signature)}", result)

    s = int.from_bytes(raw[32:], "little")
    yield signed("S is L too large", raw[:32] + (s + L).to_bytes(32, "little"))
    yield signed("S has its highest bit set", raw[:-1] + bytes([raw[-1] | 0x80]))
    yield signed("S is 0", raw[:32] + bytes(32))
    yield signed("R and S are 0", bytes(64))
    yield signed("R is the neutral point and S is 0", b"\x01" + bytes(63))
    yield signed("R is not canonical", b"\xee" + b"\xff" * 30 + b"\x7f" + raw[32:])
    yield signed("R has the other sign", raw[:31] + bytes([raw[31] ^ 0x80]) + raw[32:])
    yield signed("R and S are exchanged", raw[32:] + raw[:32])
    yield signed("63 bytes", raw[:63])
    yield signed("65 bytes", raw + b"\x00")
    yield case("no signature", f"{HEADER}.{PAYLOAD}.", "signature")
    yield case("no signature and no payload", f"{HEADER}..", "signature")
    for at in (0, 31, 32, 63):
        altered = bytearray(raw)
        altered[at] ^= 1
        yield signed(f"one bit of byte {at} of the signature is altered", bytes(altered))
    yield case(
        "the payload of another answer",
        f"{HEADER}.{encode(to_json(claims(exp=NOW + 900 * DAY)))}.{SIGNATURE}",
        "signature",
    )
    renamed = encode(A.header(alg="Ed25519"))
    yield case(
        "the other name of the algorithm, which was not signed",
        f"{renamed}.{PAYLOAD}.{SIGNATURE}",
        "signature",
    )
    yield case(
        "the signature comes before what is signed", f"{HEADER}.{encode(b'{')}.{SIGNATURE}", "signature"
    )
    expired = A.sign(claims(exp=NOW - DAY))
    yield case("the signature comes before the end", f"{expired.rpartition('.')[0]}.{SIGNATURE}", "signature")
