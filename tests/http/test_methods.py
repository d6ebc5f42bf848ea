"""Methods: equivalents, refusals with the allowed methods, and calls that must change nothing."""

from itertools import product
from typing import Any

import pytest

from keywright.identity.model import Permissions
from tests.http.asking import (
    Client,
    Reply,
    assert_common_headers,
    assert_invalid,
    assert_refused,
    core,
    license_path,
    raw,
)
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

NO_ROUTE = "No route was found matching the URL and request method."

#: All addresses, and their Allow header.
ADDRESSES = {
    "licenses/activate/{key}": {"GET", "POST", "OPTIONS"},
    "licenses/deactivate/{key}": {"GET", "POST", "OPTIONS"},
    "licenses/validate/{key}": {"GET", "HEAD", "POST", "OPTIONS"},
    "licenses": {"GET", "HEAD", "POST", "OPTIONS"},
    "licenses/{key}": {"GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"},
    "generators": {"GET", "HEAD", "POST", "OPTIONS"},
    "generators/1": {"GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"},
    "generators/1/generate": {"POST", "OPTIONS"},
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "TRACE")
WRONG = [(path, method) for path, allowed in ADDRESSES.items() for method in METHODS if method not in allowed]


def allowed_by(reply: Reply) -> set[str]:
    return set((reply.header("allow") or "").split(", "))


@each_row(("path", "method"), WRONG)
def test_wrong_methods_are_refused_and_told_what_is_allowed(vendor: Client, path: str, method: str) -> None:
    key = vendor.license()
    before = vendor.get(license_path(key)).body
    reply = vendor.ask(method, path.format(key=key))
    assert reply.status == 405
    assert allowed_by(reply) == ADDRESSES[path]
    assert_common_headers(reply)
    if method != "HEAD":
        assert_refused(reply, NO_ROUTE, code="rest_no_route", status=405)
    assert vendor.get(license_path(key)).body == before


def with_places(vendor: Client, call: str) -> tuple[str, str]:
    """The key of a license with an active and a deactivated place, and the token of the place that the call
    can change.
    """
    key = vendor.license(times_activated_max=5)
    active, ended = vendor.activated(key), vendor.activated(key)
    vendor.deactivate(key, ended)
    return key, ended if call == "activate" else active


@each_row("call", ["activate", "deactivate"])
@each_row("with_token", [False, True])
def test_head_changes_nothing(vendor: Client, program: Client, call: str, with_token: bool) -> None:
    key, token = with_places(vendor, call)
    before = vendor.get(license_path(key)).body
    reply = program.ask("HEAD", core(call, key), query={"token": token} if with_token else "")
    assert (reply.status, reply.body) == (405, b"")
    assert "HEAD" not in allowed_by(reply)
    assert vendor.get(license_path(key)).body == before


def test_head_is_get_without_the_body_where_get_only_reads(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for client, path in (
        (program, core("validate", key)),
        (vendor, license_path(key)),
        (vendor, "licenses?page=1"),
    ):
        whole, head = client.get(path), client.ask("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.header("content-length") == str(len(whole.body))
        assert_common_headers(head)
    assert program.ask("HEAD", core("validate", f"{key}-no")).status == 404
    assert vendor.ask("HEAD", "licenses").body == b""


PREFETCHES = [
    {"Sec-Purpose": "prefetch"},
    {"Sec-Purpose": "prefetch;prerender"},
    {"Sec-Purpose": "Prefetch"},
    {"Purpose": "prefetch"},
    {"X-Moz": "prefetch"},
    {"x-moz": "prefetch", "Accept": "text/html"},
]


@each_row("headers", PREFETCHES)
@each_row("call", ["activate", "deactivate"])
@each_row("with_token", [False, True])
def test_a_prefetch_changes_nothing(
    vendor: Client, program: Client, call: str, with_token: bool, headers: dict[str, str]
) -> None:
    key, token = with_places(vendor, call)
    before = vendor.get(license_path(key)).body
    query = {"token": token} if with_token else ""
    reply = program.get(core(call, key), query=query, headers=headers)
    sentence = "A prefetch must not change anything. Send an ordinary request."
    assert_refused(reply, sentence, code="rest_forbidden", status=403)
    assert vendor.get(license_path(key)).body == before
    # A prefetched address can be requested normally.
    assert program.get(core(call, key), query=query).status == 200


def test_other_purposes_are_no_prefetch(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for headers in ({"Purpose": "activation"}, {"Sec-Purpose": ""}, {"X-Moz": "livebookmarks"}):
        assert program.activate(key, headers=headers).status == 200
    assert program.validate(key, headers={"Purpose": "prefetch"}).status == 200


@each_row("path", ADDRESSES)
def test_options_answers_without_looking_at_credentials_or_keys(
    vendor: Client, program: Client, path: str
) -> None:
    key = vendor.license()
    for name, headers in ((key, {}), (key, {"Authorization": "Basic bm86bm8="}), ("no-such-key", {})):
        reply = program.ask("OPTIONS", path.format(key=name), headers=headers)
        assert (reply.status, allowed_by(reply)) == (200, ADDRESSES[path])
        assert reply.json["success"] is True
        assert_common_headers(reply)
    assert program.counter(key) == 0


@pytest.mark.parametrize("method", [b"BREW", b"get", b"G\xc3\x89T", b""])
def test_what_is_no_method_is_no_http(server: RunningServer, method: bytes) -> None:
    reply = raw(server, method + b" /wp-json/lmfwc/v2/licenses HTTP/1.1\r\nHost: x\r\n\r\n")
    assert reply.status in (400, 405)
    assert reply.json["success"] is False
    assert_common_headers(reply)


# --- a POST that means another method -------------------------------------------------------------


def meaning(method: Any, where: str) -> dict[str, Any]:
    """The parameters with which a POST overrides the method."""
    if where == "header":
        return {"headers": {"X-HTTP-Method-Override": method}}
    return {where: {"_method": method}}


WHERE = ["header", "query", "form", "multipart", "json_body"]


@pytest.mark.parametrize("where", WHERE)
def test_a_post_that_means_delete_deletes(vendor: Client, where: str) -> None:
    path = license_path(vendor.license())
    assert vendor.post(path, **meaning("DELETE", where)).data == []
    assert vendor.get(path).status == 404


@each_row("where", ["header", "query"])
@each_row("method", ["PUT", "PATCH", "POST", "put"])
def test_a_post_that_means_an_update_updates(vendor: Client, where: str, method: str) -> None:
    path = license_path(vendor.license())
    updated = vendor.post(path, **meaning(method, where), form={"order_id": "7"})
    assert updated.data["orderId"] == 7


def test_the_method_in_a_body_is_no_field(vendor: Client) -> None:
    path = license_path(vendor.license())
    assert vendor.post(path, json_body={"_method": "PUT", "order_id": 7}).data["orderId"] == 7


@each_row(
    ("where", "method"),
    [
        *product(WHERE, ["GET", "HEAD", "OPTIONS", "TRACE", "", "DELETE,POST"]),
        # Not possible in a header.
        *product(WHERE[1:], [" DELETE", "DELETÉ"]),
        *(("json_body", method) for method in (["DELETE"], {"a": "DELETE"}, 7, None, True)),
    ],
)
def test_a_post_that_means_any_other_method_is_refused(vendor: Client, where: str, method: Any) -> None:
    path = license_path(vendor.license())
    assert_invalid(vendor.post(path, **meaning(method, where)), "_method")
    assert vendor.get(path).status == 200


def test_a_post_that_means_two_methods_is_refused(vendor: Client) -> None:
    path = license_path(vendor.license())
    reply = vendor.post(path, **meaning("PUT", "header"), query="_method=DELETE", form={"order_id": "7"})
    assert_invalid(reply, "_method")
    assert_invalid(vendor.post(path, query="_method=PUT&_method=PUT"), "_method")
    assert vendor.get(path).data["orderId"] is None


@each_row("method", ["GET", "PUT", "PATCH"])
@each_row("where", ["header", "query"])
def test_only_a_post_means_another_method(vendor: Client, method: str, where: str) -> None:
    path = license_path(vendor.license())
    vendor.ask(method, path, **meaning("DELETE", where))
    assert vendor.get(path).status == 200


def test_a_core_call_means_no_other_method(vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activated(key)
    for method in ("DELETE", "PUT", "PATCH"):
        reply = program.post(core("deactivate", key), query=f"token={token}&_method={method}")
        assert_refused(reply, NO_ROUTE, code="rest_no_route", status=405)
    assert program.counter(key) == 1
    assert program.post(core("deactivate", key), query=f"token={token}&_method=POST").status == 200


@pytest.mark.parametrize("permissions", [Permissions.READ, Permissions.CLIENT])
def test_a_post_that_means_delete_needs_the_rights_for_it(
    server: RunningServer, vendor: Client, permissions: Permissions
) -> None:
    path = license_path(vendor.license())
    with Client(server, server.api_key(permissions)) as reader:
        assert reader.post(path, **meaning("DELETE", "query")).status == 401
    assert vendor.get(path).status == 200
