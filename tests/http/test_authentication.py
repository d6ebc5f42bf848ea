"""Authorization: all routes for all kinds of callers, with credentials in the query and by Basic."""

import base64
import re
from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any, NamedTuple

import pytest

from keywright.http.middleware.authentication import LIFETIME
from keywright.http.v2 import routes
from keywright.identity.model import Permissions
from tests.http.asking import (
    Client,
    Reply,
    a_key,
    assert_invalid,
    assert_refused,
    basic,
    core,
    in_query,
    license_path,
)
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.tables import each_row

DATABASES = ("sqlite",)

PRODUCT, OTHER_PRODUCT = 31, 32
MISSING = "Consumer key or secret is missing."
INVALID = "Consumer key or secret is invalid."
UNKNOWN = "unknown"
NO_READ = "The API key provided does not have read permissions."
NO_WRITE = "The API key provided does not have write permissions."


class Route(NamedTuple):
    """An address with a method, and the right that it requires: core, one license, read or write."""

    method: str
    path: str
    needs: str
    fields: Mapping[str, Any] | None = None


ROUTES = [
    *(Route(method, f"licenses/{call}/{{key}}", "core")
      for call in ("activate", "validate", "deactivate") for method in ("GET", "POST")),
    Route("HEAD", "licenses/validate/{key}", "core"),
    Route("GET", "licenses", "read"),
    Route("HEAD", "licenses", "read"),
    Route("POST", "licenses", "write", {"license_key": ""}),
    *(Route(method, "licenses/{key}", "one") for method in ("GET", "HEAD")),
    *(Route(method, "licenses/{key}", "write", {"order_id": 1}) for method in ("PUT", "PATCH", "POST")),
    Route("DELETE", "licenses/{key}-no", "write"),
    *(Route(method, "generators", "read") for method in ("GET", "HEAD")),
    Route("POST", "generators", "write", {"name": ""}),
    *(Route(method, "generators/1", "read") for method in ("GET", "HEAD")),
    *(Route(method, "generators/0", "write", {"name": "n"}) for method in ("PUT", "PATCH", "POST")),
    Route("DELETE", "generators/0", "write"),
    Route("POST", "generators/0/generate", "write", {"amount": 1}),
]  # fmt: skip

#: The refusal by kind of caller and required right: None for none, UNKNOWN as if there were no license.
CALLERS: dict[str, dict[str, str | None]] = {
    "none": {"core": None, "one": MISSING, "read": MISSING, "write": MISSING},
    "only the key": {"core": MISSING, "one": MISSING, "read": MISSING, "write": MISSING},
    "only the secret": {"core": MISSING, "one": MISSING, "read": MISSING, "write": MISSING},
    "wrong secret": {"core": INVALID, "one": INVALID, "read": INVALID, "write": INVALID},
    "wrong key": {"core": INVALID, "one": INVALID, "read": INVALID, "write": INVALID},
    "another's secret": {"core": INVALID, "one": INVALID, "read": INVALID, "write": INVALID},
    "revoked": {"core": INVALID, "one": INVALID, "read": INVALID, "write": INVALID},
    "read": {"core": None, "one": None, "read": None, "write": NO_WRITE},
    "write": {"core": NO_READ, "one": NO_READ, "read": NO_READ, "write": None},
    "read_write": {"core": None, "one": None, "read": None, "write": None},
    "client": {"core": None, "one": None, "read": NO_READ, "write": NO_WRITE},
    "client of the product": {"core": None, "one": None, "read": NO_READ, "write": NO_WRITE},
    "client of another product": {"core": UNKNOWN, "one": UNKNOWN, "read": NO_READ, "write": NO_WRITE},
}

Keys = dict[str, tuple[str, str] | None]


@pytest.fixture(scope="module")
def keys(server: RunningServer) -> Keys:
    key, secret = server.api_key(Permissions.READ_WRITE)
    revoked = server.api_key(Permissions.READ_WRITE)
    server.revoke(revoked)
    return {
        "none": None,
        "only the key": (key, ""),
        "only the secret": ("", secret),
        "wrong secret": (key, f"cs_{'0' * 40}"),
        "wrong key": (f"ck_{'0' * 40}", secret),
        "another's secret": (key, server.api_key()[1]),
        "revoked": revoked,
        "read": server.api_key(Permissions.READ),
        "write": server.api_key(Permissions.WRITE),
        "read_write": (key, secret),
        "client": server.api_key(Permissions.CLIENT),
        "client of the product": server.api_key(Permissions.CLIENT, PRODUCT),
        "client of another product": server.api_key(Permissions.CLIENT, OTHER_PRODUCT),
    }


@pytest.fixture(scope="module")
def key(vendor: Client) -> str:
    return vendor.license(product_id=PRODUCT)


def sent_in(way: str, credentials: tuple[str, str] | None) -> dict[str, Any]:
    if credentials is None:
        return {}
    if way == "Basic":
        return {"headers": {"Authorization": basic(*credentials)}}
    return {"query": {name: value for name, value in in_query(credentials).items() if value}}


def assert_denied(reply: Reply, message: str, *, is_head: bool = False) -> None:
    if is_head:
        assert (reply.status, reply.body) == (401, b"")
    else:
        assert_refused(reply, message, code="lmfwc_rest_authentication_error", status=401)
    challenge = reply.header("www-authenticate")
    if message in (MISSING, INVALID):
        assert challenge is not None
        assert challenge.startswith('Basic realm="')
    else:
        assert challenge is None


@each_row("way", ["query", "Basic"])
@each_row("caller", CALLERS)
def test_every_route_lets_through_whom_it_should(
    *, vendor: Client, program: Client, keys: Keys, key: str, caller: str, way: str
) -> None:
    for route in ROUTES:
        before = vendor.get(license_path(key)).body
        sent = sent_in(way, keys[caller])
        if route.fields is not None:
            sent["json_body"] = route.fields
        reply = program.ask(route.method, route.path.format(key=key), **sent)
        verdict = CALLERS[caller][route.needs]
        if verdict is None:
            assert reply.status in (200, 400, 404), f"{route}: {reply}"
            continue
        if verdict == UNKNOWN:
            assert_unknown(reply, route, key)
        else:
            assert_denied(reply, verdict, is_head=route.method == "HEAD")
        assert vendor.get(license_path(key)).body == before


def assert_unknown(reply: Reply, route: Route, key: str) -> None:
    assert reply.status == 404
    if route.method != "HEAD":
        more = " or is deactivated" if "deactivate" in route.path else ""
        assert reply.message == f"License Key: {key} could not be found{more}."


def test_every_route_is_among_these() -> None:
    """With all of their methods, including HEAD."""
    served = {
        (method, "/".join(word or "*" for word in address.words))
        for address in routes.ADDRESSES
        for method in address.methods
        if method != "OPTIONS"
    }
    asked = {(one.method, re.sub(r"\{key\}[^/]*|(?<=/)\d+", "*", one.path)) for one in ROUTES}
    assert asked == served


@each_row("call", ["activate", "validate", "deactivate"])
@each_row("with_token", [False, True])
def test_a_client_of_another_product_gets_the_answer_for_an_unknown_key(
    vendor: Client, program: Client, keys: Keys, call: str, with_token: bool
) -> None:
    known, unknown = vendor.license(product_id=PRODUCT), a_key()
    token = program.activated(known)
    query = {"token": token} if with_token else ""
    headers = sent_in("Basic", keys["client of another product"])["headers"]
    answers = [
        program.get(core(call, key), query=query, headers=headers).body.replace(key.encode(), b"K")
        for key in (known, unknown)
    ]
    assert answers[0] == answers[1]
    assert program.counter(known) == 1
    # Likewise a license without a product.
    assert program.get(core("validate", vendor.license()), headers=headers).status == 404


@each_row("path", ["nothing", "licenses/a/b/c", "generators/1/2/3", "licenses/activate/K/L"])
@each_row("method", ["GET", "POST", "DELETE"])
def test_an_unknown_management_address_needs_credentials_first(
    vendor: Client, program: Client, path: str, method: str
) -> None:
    assert_denied(program.ask(method, path), MISSING)
    wrong = program.ask(method, path, query="consumer_key=ck_no&consumer_secret=cs_no")
    assert_denied(wrong, INVALID)
    known = vendor.ask(method, path)
    message = "No route was found matching the URL and request method."
    assert_refused(known, message, code="rest_no_route")


def test_a_wrong_method_of_a_management_address_needs_credentials_first(
    vendor: Client, program: Client
) -> None:
    assert_denied(program.delete("licenses"), MISSING)
    assert vendor.delete("licenses").status == 405
    # The core addresses are public.
    assert program.delete(core("activate", "K")).status == 405


@each_row("header", ["unknown", "Basic !!!", "Basic bm9jb2xvbg==", "Basic Og==", "Bearer x"])
def test_credentials_in_the_query_win_over_whatever_the_header_says(
    vendor: Client, program: Client, keys: Keys, header: str
) -> None:
    good, bad = keys["read"] or ("", ""), keys["wrong secret"] or ("", "")
    sent = {"Authorization": basic(*bad) if header == "unknown" else header}
    given: Any = {"query": in_query(good), "headers": sent}
    assert program.get("generators/0", **given).status == 404
    assert program.get(core("validate", vendor.license()), **given).status == 200
    wrong = program.get("generators/0", query=in_query(bad), headers={"Authorization": basic(*good)})
    assert_denied(wrong, INVALID)


def test_credentials_in_a_body_are_none(program: Client, keys: Keys) -> None:
    good = in_query(keys["read_write"] or ("", ""))
    assert_denied(program.post("licenses", form={"license_key": a_key(), **good}), MISSING)


@each_row(
    "header",
    [
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic bm9jb2xvbg==",
        "Basic Og==",
        "Basic \xff",
        "basic Y2s6",
        "Basic /w==",
        "Basic Y2s6Y3M",
    ],
)
def test_a_basic_header_that_is_none_is_refused_even_on_core_calls(
    vendor: Client, program: Client, header: str
) -> None:
    key = vendor.license()
    for path in (core("activate", key), "licenses"):
        reply = program.get(path, headers={"Authorization": header})
        assert_denied(reply, MISSING if reply.message == MISSING else INVALID)
    assert program.counter(key) == 0


@pytest.mark.parametrize("scheme", ["basic", "BASIC", "Basic "])
def test_the_scheme_may_be_written_in_any_case(program: Client, keys: Keys, scheme: str) -> None:
    encoded = base64.b64encode(":".join(keys["read"] or ()).encode()).decode()
    assert program.get("generators/0", headers={"Authorization": f"{scheme} {encoded}"}).status == 404


@pytest.mark.parametrize("name", ["consumer_key", "consumer_secret"])
def test_credentials_sent_twice_are_refused(program: Client, keys: Keys, name: str) -> None:
    good = in_query(keys["read_write"] or ("", ""))
    query = "&".join(f"{one}={value}" for one, value in [*good.items(), (name, good[name])])
    for written in (query, query.replace("con", "c%6fn")):
        reply = program.get("licenses", query=written)
        assert (reply.status, list(reply.json["data"]["params"])) == (400, [name])


def test_two_authorization_headers_are_refused(program: Client, keys: Keys) -> None:
    good, bad = (basic(*(keys[caller] or ("", ""))) for caller in ("read", "wrong secret"))
    for pair in ((good, bad), (bad, good), (good, good)):
        for path in ("generators", core("validate", "K")):
            reply = program.get(path, headers=[("Authorization", one) for one in pair])
            assert_invalid(reply, "Authorization")


def test_a_key_that_another_process_revokes_is_refused_within_a_second(server: RunningServer) -> None:
    credentials = server.api_key()
    with Client(server, credentials) as client:
        assert client.get("generators/0").status == 404
        server.revoke(credentials)
        revoked_at = monotonic()

        def is_refused() -> bool:
            is_late = monotonic() >= revoked_at + LIFETIME
            status = client.get("generators/0").status
            assert status == 401 or not is_late
            return status == 401

        wait_until(is_refused, "the revoked key to be refused")
        assert_denied(client.get("generators/0"), INVALID)


# --- where the license key is not enough ----------------------------------------------------------


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose core calls need an API key."""
    with running(tmp_path_factory.mktemp("strict") / "data", require_api_key=True, **NO_LIMITS) as server:
        yield server


def test_core_calls_can_be_made_to_need_an_api_key(strict: RunningServer) -> None:
    with Client(strict, strict.api_key()) as vendor, Client(strict) as program:
        key = vendor.license(product_id=PRODUCT)
        for call in ("activate", "validate", "deactivate"):
            for method in ("GET", "POST"):
                assert_denied(program.ask(method, core(call, key)), MISSING)
            assert program.ask("OPTIONS", core(call, key)).status == 200
        client = strict.api_key(Permissions.CLIENT, PRODUCT)
        for way in ("query", "Basic"):
            given = sent_in(way, client)
            assert program.activate(key, **given).status == 200
            assert program.validate(key, **given).status == 200
            assert program.deactivate(key, **given).status == 200
        other = sent_in("Basic", strict.api_key(Permissions.CLIENT, OTHER_PRODUCT))
        assert program.activate(key, **other).status == 404
        assert_denied(program.activate(key, **sent_in("Basic", strict.api_key(Permissions.WRITE))), NO_READ)
