"""Signed answers and license files: Ed25519 keys, JWS (RFC 7515, RFC 8037), JWKS."""
