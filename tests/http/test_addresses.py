"""Lenient addresses: doubled slashes, trailing slashes, sites without pretty permalinks."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.http.asking import (
    A_SENTENCE,
    V2,
    Client,
    assert_common_headers,
    assert_refused,
    basic,
    core,
    in_query,
    license_path,
    raw,
)
from tests.server import NO_LIMITS, RunningServer, running
from tests.tables import each_row

DATABASES = ("sqlite",)

MISSING = "Consumer key or secret is missing."
NO_ROUTE = "No route was found matching the URL and request method."


@pytest.fixture(scope="module")
def key(vendor: Client) -> str:
    return vendor.license()


@each_row(
    "path",
    [
        "/wp-json/lmfwc/v2/licenses/validate/{key}/",
        "/wp-json/lmfwc/v2/licenses/validate/{key}///",
        "//wp-json/lmfwc/v2/licenses/validate/{key}",
        "/wp-json//lmfwc/v2/licenses/validate/{key}",
        "/wp-json/lmfwc//v2/licenses/validate/{key}",
        "/wp-json/lmfwc/v2//licenses/validate/{key}",
        "/wp-json/lmfwc/v2/licenses//validate/{key}",
        "/wp-json/lmfwc/v2/licenses/validate//{key}",
        "///wp-json///lmfwc//v2///licenses//validate////{key}//",
        "/wp%2Djson/lmfwc/v2/lic%65nses/validate/{key}",
    ],
)
def test_slashes_too_many_are_ignored(program: Client, key: str, path: str) -> None:
    plain = program.validate(key)
    assert program.get(path.format(key=key)).body == plain.body
    activated = program.get(path.replace("validate", "activate").format(key=key))
    assert activated.data["licenseKey"] == key


def test_slashes_too_many_are_ignored_in_management_calls_too(
    vendor: Client, program: Client, key: str
) -> None:
    for path in ("licenses/", "/wp-json/lmfwc/v2//licenses", f"licenses//{key}", f"licenses/{key}/"):
        assert vendor.get(path, query="per_page=1").status == 200
        assert_refused(program.get(path), MISSING, code="lmfwc_rest_authentication_error", status=401)


ROUTE = "/lmfwc/v2/licenses/{call}/{key}"
#: How ``rest_route`` is encoded in an address.
PLAIN, ENCODED = "plain", "encoded"


def rest_route(path: str, how: str) -> str:
    return "rest_route=" + (quote(path, safe="") if how == ENCODED else path)


@each_row("site", ["/", "/index.php", "//index.php", "/index.php/"])
@each_row("how", [PLAIN, ENCODED])
def test_rest_route_is_the_path_of_sites_without_pretty_permalinks(
    program: Client, vendor: Client, site: str, how: str
) -> None:
    key = vendor.license(times_activated_max=2)

    def ask(call: str, more: str = "", method: str = "GET") -> int:
        query = rest_route(ROUTE.format(call=call, key=key), how) + more
        reply = program.ask(method, site, query=query)
        assert reply.status == 200, reply.body
        return int(reply.data["timesActivated"])

    assert ask("activate") == 1
    assert ask("activate", method="POST") == 2
    token = program.validate(key).data["activationData"][0]["token"]
    assert ask("deactivate", f"&token={token}") == 1
    assert ask("activate", f"&token={token}") == 2
    assert ask("validate", f"&token={token}") == 2
    assert ask("deactivate") == 0
    query = rest_route(ROUTE.format(call="validate", key=key), how)
    assert program.get(site, query=query).body == program.validate(key).body
    assert program.get(site, query=f"a=b&{query}&c=d").body == program.validate(key).body


@each_row(
    "value",
    ["/lmfwc/v2/licenses//validate/{}/", "//lmfwc//v2/licenses/validate/{}", "lmfwc/v2/licenses/validate/{}"],
)
@each_row("how", [PLAIN, ENCODED])
def test_slashes_too_many_are_ignored_in_rest_route(program: Client, key: str, value: str, how: str) -> None:
    reply = program.get("/", query=rest_route(value.format(key), how))
    assert reply.body == program.validate(key).body


@each_row("how", [PLAIN, ENCODED])
@each_row("odd", ["A/B", "A B", "A+B", "A&B", "A%2FB", "A%41", "ключ", "A=B#C?D", "A/B/C"])
def test_keys_in_rest_route_are_decoded_once(vendor: Client, program: Client, how: str, odd: str) -> None:
    key = vendor.license(license_key=f"CANARY-{odd}-{how}")
    below = "/lmfwc/v2/licenses/validate/"
    # Encoded as a whole, the value is decoded once; as a path, its segments are.
    value = quote(below + key, safe="") if how == ENCODED else below + quote(key, safe="")
    reply = program.get("/", query=f"rest_route={value}")
    assert reply.data["licenseKey"] == key


@each_row("site", ["/", "/index.php"])
@each_row("how", [PLAIN, ENCODED])
def test_rest_route_has_the_same_authentication(
    *, vendor: Client, program: Client, key: str, site: str, how: str
) -> None:
    key_, secret = credentials = vendor.credentials or ("", "")
    for path, query in (("licenses", "per_page=1"), (license_path(key), ""), ("nothing/at/all", "")):
        route = rest_route(f"/lmfwc/v2/{path}", how)
        asked = f"{route}&{query}".rstrip("&")
        bare = program.get(site, query=asked)
        assert_refused(bare, MISSING, code="lmfwc_rest_authentication_error", status=401)
        assert "Basic" in (bare.header("www-authenticate") or "")
        by_header = program.get(site, query=asked, headers={"Authorization": basic(*credentials)})
        by_query = program.get(site, query=f"{asked}&consumer_key={key_}&consumer_secret={secret}")
        plain = vendor.get(path, query=query)
        assert by_header.body == by_query.body == plain.body
        assert by_header.status == by_query.status == plain.status
        wrong = f"{asked}&consumer_key={key_}&consumer_secret=cs_no"
        assert program.get(site, query=wrong).status == 401


def test_rest_route_takes_every_method(vendor: Client) -> None:
    key = vendor.license()
    for how in (PLAIN, ENCODED):
        query = rest_route(f"/lmfwc/v2/licenses/{key}", how)
        for method in ("PUT", "PATCH", "POST"):
            reply = vendor.ask(method, "/", query=query, json_body={"order_id": 77})
            assert reply.data["orderId"] == 77
    assert vendor.delete("/index.php", query=query).data == []


def test_pathinfo_permalinks_are_the_same_addresses(program: Client, vendor: Client, key: str) -> None:
    path = f"/index.php{V2}licenses"
    assert program.get(f"{path}/validate/{key}").body == program.validate(key).body
    assert program.post(f"/{path}//activate/{key}/").status == 200
    assert program.get(f"{path}/{key}").status == 401
    assert vendor.get(f"{path}/{key}").body == vendor.get(license_path(key)).body
    assert vendor.put(f"{path}/{key}", json_body={"order_id": 78}).data["orderId"] == 78


INDEX = {
    "/lmfwc/v2": ["GET"],
    "/lmfwc/v2/licenses/activate/(?P<license_key>[^/]+)": ["GET", "POST"],
    "/lmfwc/v2/licenses/validate/(?P<license_key>[^/]+)": ["GET", "POST"],
    "/lmfwc/v2/licenses/deactivate/(?P<license_key>[^/]+)": ["GET", "POST"],
    "/lmfwc/v2/licenses": ["GET", "POST"],
    "/lmfwc/v2/licenses/(?P<license_key>[^/]+)": ["GET", "PUT", "PATCH", "POST", "DELETE"],
    "/lmfwc/v2/generators": ["GET", "POST"],
    "/lmfwc/v2/generators/(?P<generator_id>[^/]+)": ["GET", "PUT", "PATCH", "POST", "DELETE"],
    "/lmfwc/v2/generators/(?P<generator_id>[^/]+)/generate": ["POST"],
}


@each_row(
    "path",
    [
        "/wp-json",
        "/wp-json/",
        "/wp-json/lmfwc/v2",
        "/wp-json/lmfwc/v2/",
        "/index.php/wp-json/",
        "/?rest_route=/",
        "/?rest_route=%2F",
        "/index.php?rest_route=/lmfwc/v2",
    ],
)
def test_the_index_names_the_namespace_and_the_routes_with_their_methods(
    vendor: Client, program: Client, path: str
) -> None:
    reply = program.get(path)
    assert reply.status == 200
    assert reply.json["name"] == "Keywright"
    assert reply.json["namespaces"] == ["lmfwc/v2"]
    assert {route: one["methods"] for route, one in reply.json["routes"].items()} == INDEX
    assert {one["namespace"] for one in reply.json["routes"].values()} == {"lmfwc/v2"}
    assert_common_headers(reply)
    assert reply.header("access-control-allow-origin") == "*"
    assert vendor.get(path).body == reply.body
    assert program.ask("HEAD", path).status == 200
    wrong = program.get(path, headers={"Authorization": basic(f"ck_{'0' * 40}", f"cs_{'0' * 40}")})
    assert wrong.status == 401
    assert_refused(program.post(path), NO_ROUTE, code="rest_no_route", status=405)


@each_row("path", ["/index.php", "/wp-login.php", "/index.php/lmfwc/v2/licenses"])
@each_row("query", ["", "rest_route=/wp/v2/posts", "route=/lmfwc/v2/licenses"])
def test_other_addresses_are_nowhere(program: Client, path: str, query: str) -> None:
    assert_refused(program.get(path, query=query), NO_ROUTE, code="rest_no_route")


@each_row("site", ["/", "/index.php"])
@each_row("route", ["", "/wp/v2/posts", "/lmfwc", "/lmfwc/v3/licenses", "/wp-json/lmfwc/v2/licenses"])
def test_other_routes_are_nowhere(program: Client, site: str, route: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        for how in (PLAIN, ENCODED):
            reply = program.ask(method, site, query=rest_route(route, how))
            if site == "/" and method != "GET":
                assert (reply.status, reply.json["code"]) in ((404, "rest_no_route"), (405, "rest_no_route"))
            else:
                assert_refused(reply, NO_ROUTE, code="rest_no_route")


def test_rest_route_elsewhere_than_at_the_site_is_an_ordinary_parameter(program: Client, key: str) -> None:
    reply = program.get(core("validate", key), query="rest_route=/lmfwc/v2/licenses")
    assert reply.data["licenseKey"] == key


def test_dots_lead_nowhere(program: Client, key: str) -> None:
    for dots, name in (("..", ".."), (".", "."), ("%2e%2e", ".."), ("%2E", ".")):
        assert program.get(f"licenses/validate/x/{dots}/{key}").status in (401, 404)
        assert program.get(f"{V2}{dots}/licenses").status in (401, 404)
        reply = program.get(f"licenses/validate/{dots}")
        assert_refused(reply, f"License Key: {name} could not be found.")


@pytest.mark.parametrize("target", ["licenses/validate/ключ", "licenses/validate/K?label=ü"])
def test_an_address_in_raw_utf_8_is_no_http(server: RunningServer, target: str) -> None:
    reply = raw(server, b"GET " + f"{V2}{target}".encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert_refused(reply, A_SENTENCE, code="bad_request", status=400)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a different root and namespace."""
    data_dir: Path = tmp_path_factory.mktemp("elsewhere") / "data"
    with running(data_dir, api_root="api/json", namespace="shop", **NO_LIMITS) as server:
        yield server


def test_root_and_namespace_are_settings(elsewhere: RunningServer) -> None:
    credentials = elsewhere.api_key()
    with Client(elsewhere, credentials, root="/api/json/shop/v2/") as vendor, Client(elsewhere) as program:
        key = vendor.license()
        for root in ("/api/json/shop/v2", "//api//json/shop/v2/"):
            assert program.get(f"{root}/licenses/validate/{key}").data["licenseKey"] == key
        for how in (PLAIN, ENCODED):
            query = rest_route(f"/shop/v2/licenses/validate/{key}", how)
            assert program.get("/", query=query).data["licenseKey"] == key
        assert program.get(V2 + core("validate", key)).status == 404
        assert program.get("/", query=f"rest_route=/lmfwc/v2/licenses/validate/{key}").status == 404
        for path in ("/api/json", "/api/json/shop/v2"):
            assert program.get(path).json["namespaces"] == ["shop/v2"]
        assert program.get("/wp-json").status == 404
        assert program.get("/api/json/shop/v2/licenses").status == 401
        in_address = in_query(credentials)
        assert program.get("/api/json/shop/v2/licenses", query=in_address).data[0]["licenseKey"] == key
