"""Ed25519 signatures (RFC 8032) in Python alone, for where ``cryptography`` is missing.

It verifies and does not sign: it holds no secret, so its timing does not matter.
"""

from __future__ import annotations

import hashlib

P = 2**255 - 19
#: The order of the base point.
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
_SQRT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)
#: A point as (X, Y, Z, T), where x = X/Z, y = Y/Z and xy = T/Z (RFC 8032, 5.1.4).
_Point = tuple[int, int, int, int]
_NEUTRAL: _Point = (0, 1, 1, 0)


def is_valid(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature holds. Strict: S is below L, points are canonical, the key's order is large."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    point = _decode(public_key)
    s = int.from_bytes(signature[32:], "little")
    # For a point of a small order, signatures need no private key.
    if point is None or s >= L or _sum_of_products(8, point, 0, _NEUTRAL)[0] % P == 0:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    x, y, z, t = point
    k = int.from_bytes(digest, "little") % L
    # R = sB - kA; comparing bytes refuses every other encoding of R.
    return _encode(_sum_of_products(s, _BASE, k, (-x, y, z, -t))) == signature[:32]


def _add(p: _Point, q: _Point) -> _Point:
    """The sum, also of a point and itself, and of a point and the neutral one."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _sum_of_products(s: int, p: _Point, k: int, q: _Point) -> _Point:
    """The point sp + kq, bit by bit for both at once."""
    choices = (_NEUTRAL, p, q, _add(p, q))
    result = _NEUTRAL
    for bit in range(max(s.bit_length(), k.bit_length()) - 1, -1, -1):
        result = _add(_add(result, result), choices[s >> bit & 1 | (k >> bit & 1) << 1])
    return result


def _encode(point: _Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decode(encoded: bytes) -> _Point | None:
    """The point; None for bytes that are no point, or not the canonical form of one (RFC 8032, 5.1.3)."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * v**3 * pow(u * v**7, (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * _SQRT_OF_MINUS_1 % P
    if v * x * x % P != u or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


_BASE = _decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little")) or _NEUTRAL
