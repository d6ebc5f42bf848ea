"""Liveness and readiness."""

import pytest

from keywright.signing import jws
from tests.http.asking import Client, assert_common_headers


@pytest.mark.parametrize(("path", "status"), [("/healthz", "alive"), ("/readyz", "ready")])
def test_a_well_server_says_so_and_needs_and_does_nothing_else(
    program: Client, path: str, status: str
) -> None:
    reply = program.get(path)
    assert (reply.status, reply.json) == (200, {"status": status})
    assert_common_headers(reply)
    wrong = {"Authorization": "Basic bm86bm8=", "X-Forwarded-For": "x", "Idempotency-Key": "a b"}
    assert program.get(path, query="consumer_key=x", headers=wrong).status == 200
    head = program.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    for method in ("POST", "PUT", "DELETE"):
        reply = program.ask(method, path)
        assert (reply.status, reply.json["code"]) == (405, "rest_no_route")
        assert "GET" in (reply.header("allow") or "")
        assert_common_headers(reply)


def test_the_public_keys_are_for_everyone_and_can_be_kept_for_an_hour(program: Client) -> None:
    reply = program.get("/.well-known/jwks.json")
    assert (reply.status, reply.header("content-type")) == (200, "application/jwk-set+json")
    assert reply.header("cache-control") == "public, max-age=3600"
    assert reply.header("access-control-allow-origin") == "*"
    [key] = reply.json["keys"]
    kind = {"kty": "OKP", "crv": "Ed25519", "use": "sig"}
    assert key == kind | {"x": key["x"], "kid": jws.thumbprint(key["x"])}
