"""Conventions of all calls of v3: paths, bodies, parameters, headers, credentials."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from keywright.http.v3.answers import etag_of
from keywright.identity.model import Permissions
from tests.http.v3_app import App, Thing, open_app
from tests.tables import each_row

DATABASES = ("sqlite",)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with open_app(tmp_path_factory.mktemp("v3"), allowed_origins="https://shop.example") as app:
        yield app


# --- paths and methods ------------------------------------------------------------------------------


def test_the_index_needs_no_credentials_and_names_the_routes_and_documents(app: App) -> None:
    index = app.ask("GET", "", token=None)
    assert index.status == 200
    assert "POST /v3/check" not in index.json["faces"]["client"]  # It is the tests' own.
    management = index.json["faces"]["management"]
    assert {"GET /v3/me", "DELETE /v3/licenses/{license_id}/leases/{lease_id}"} <= set(management)
    assert index.json["documents"]["openapi"] == "/openapi/v3.json"
    assert app.ask("GET", "/", token=None).json == index.json


def test_a_key_is_told_what_it_may_do(app: App) -> None:
    expires_at = datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)
    token = app.issue_token(Permissions.CLIENT, product_id=17, expires_at=expires_at)
    me = app.ask("GET", "/me", token=token)
    assert me.json == {
        "id": me.json["id"],
        "name": "a shop",
        "permissions": "client",
        "product_id": 17,
        "expires_at": "2040-01-02T03:04:05Z",
    }
    assert me.headers["cache-control"] == "no-store"


def test_the_root_is_a_setting(tmp_path: Any) -> None:
    with open_app(tmp_path, v3_root="api/licenses") as app:
        assert app.ask("GET", "//api/licenses/me").status == 200
        assert app.ask("GET", "/me").body == b"a page"


def test_other_paths_are_for_the_pages_and_v2_is_answered_beside_it(app: App) -> None:
    for path in ("", "/v3x", "/v33/me", "/v"):
        assert app.ask("GET", f"//x{path}").body == b"a page"
    over_v2 = app.ask("GET", "//wp-json/lmfwc/v2/licenses", token=None)
    assert over_v2.json["code"] == "lmfwc_rest_authentication_error"


@each_row(
    "path", ["/nothing", "/things/17/nothing", "/things/x", "/things/0", "/things/-1", "/things/1.0", "/me/"]
)
@each_row("token", ["", None])
def test_an_unknown_path_is_not_found_also_without_credentials(
    app: App, path: str, token: str | None
) -> None:
    assert app.ask("GET", path, token=token).code == "not_found"


def test_an_id_is_at_most_a_64_bit_integer(app: App) -> None:
    assert app.ask("DELETE", f"/things/{2**63 - 1}").status == 204
    assert app.ask("DELETE", f"/things/{2**63}").code == "not_found"


def test_another_method_is_told_which_there_are(app: App) -> None:
    reply = app.ask("PUT", "/things/17", {})
    assert reply.code == "method_not_allowed"
    assert reply.headers["allow"] == "PATCH, DELETE, OPTIONS"
    assert reply.json["detail"] == "The address supports only PATCH, DELETE, OPTIONS."


def test_head_is_get_without_a_body_and_options_tells_the_methods(app: App) -> None:
    assert app.ask("HEAD", "/me").status == 200
    assert app.ask("HEAD", "/check", token=None).status == 405
    reply = app.ask("OPTIONS", "/things", token=None)
    assert (reply.status, reply.headers["allow"]) == (200, "POST, GET, HEAD, OPTIONS")


def test_delete_answers_without_a_body(app: App) -> None:
    reply = app.ask("DELETE", "/things/17")
    assert (reply.status, reply.body, reply.headers.get("content-type")) == (204, b"", None)
    assert reply.headers["cache-control"] == "no-store"


# --- bodies -----------------------------------------------------------------------------------------

GOOD = {"key": "KEY-OF-A-THING"}


@each_row("body", [None, b"", b"{", b"nonsense", b"\xff{}", b'{"key":"\xff"}', b"[" * 50_000])
def test_a_body_that_is_not_json_is_malformed(app: App, body: bytes | None) -> None:
    assert app.ask("POST", "/things", body).code == "malformed_body"


def test_a_body_that_is_no_object_is_invalid_as_a_whole(app: App) -> None:
    assert app.ask("POST", "/things", b"[1]").places == [("", "wrong_type")]


def test_all_errors_of_a_body_are_told_with_their_pointers(app: App) -> None:
    reply = app.ask(
        "POST",
        "/things",
        {
            "nam": "x",
            "color": "green",
            "max_things": 9,
            "expires_at": "2026-01-01T00:00:00",
            "order": {"lines": [1, 0, "x"], "lin/e~": 1},
            "metadata": 5,
        },
    )
    assert reply.code == "invalid"
    assert reply.places == [
        ("/nam", "unknown"),
        ("/color", "invalid"),
        ("/max_things", "too_large"),
        ("/expires_at", "invalid"),
        ("/order/lines/1", "too_small"),
        ("/order/lines/2", "wrong_type"),
        ("/order/lin~1e~0", "unknown"),
        ("/order/id", "missing"),
        ("/metadata", "wrong_type"),
        ("/key", "missing"),
    ]
    details = {one["pointer"]: one["detail"] for one in reply.json["errors"]}
    assert details["/nam"] == "is unknown; the nearest known name is name"
    assert details["/color"] == "must be one of blue, red"
    assert details["/max_things"] == "must be an integer from 1 to 5 or null"
    assert details["/expires_at"] == "must be a time such as 2026-11-22T08:54:00Z or null"
    assert reply.json["detail"] == (
        "Invalid body: /nam is unknown; the nearest known name is name, and 9 more."
    )


def test_a_value_that_its_parser_refuses_is_told_like_the_others(app: App) -> None:
    reply = app.ask("POST", "/things", {"key": "a\x01b", "name": "  ", "order": {"id": "nul\0l"}})
    assert reply.places == [
        ("/key", "invalid"),
        ("/name", "invalid"),
        ("/order/id", "invalid"),
    ]


def test_no_more_than_a_hundred_errors_are_told(app: App) -> None:
    reply = app.ask("POST", "/things", {f"unknown{number}": 1 for number in range(2000)})
    assert len(reply.json["errors"]) <= 101


def test_null_and_not_sent_are_different_in_a_patch(app: App) -> None:
    assert app.ask("PATCH", "/things/17", {"name": None}).json == {"name": None}
    assert app.ask("PATCH", "/things/17", {}).json == {}


def test_a_client_call_ignores_unknown_members_and_parameters(app: App) -> None:
    made = app.ask("POST", "/things", {"key": "FOR-A-CLIENT"})
    assert made.status == 201
    body = {"license_key": " FOR-A-CLIENT ", "from_the_future": 1, "fingerprint": "12345678"}
    reply = app.ask("POST", "/check?new=1", body, token=None)
    assert reply.json == {"fingerprint": "12345678"}


def test_a_client_call_may_be_a_form(app: App) -> None:
    app.ask("POST", "/things", {"key": "FOR-A-FORM"})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"license_key=FOR-A-FORM&fingerprint=a+b%2Bcdefg&entitlements=%5B%22a%22%5D&extra=1"
    assert app.ask("POST", "/check", body, headers=form, token=None).json == {"fingerprint": "a b+cdefg"}
    null = app.ask("POST", "/check", b"license_key=A&built_at=null&fingerprint=x", headers=form, token=None)
    assert [pointer for pointer, _ in null.places] == ["/fingerprint"]
    short = app.ask("POST", "/check", b"license_key=A&license_key=B&fingerprint=x", headers=form, token=None)
    assert short.places == [("/license_key", "invalid"), ("/fingerprint", "too_short")]
    # curl's default content type.
    as_json = app.ask("POST", "/check", b'{"license_key":"FOR-A-FORM"}', headers=form, token=None)
    assert as_json.status == 200


@each_row(
    ("method", "path", "kind", "is_taken"),
    [
        ("POST", "/things", "application/json; charset=UTF-8", True),
        ("POST", "/things", "Application/JSON", True),
        ("POST", "/things", "application/json; charset=latin-1", False),
        ("POST", "/things", "application/x-www-form-urlencoded", False),
        ("POST", "/things", "text/plain", False),
        ("POST", "/things", "application/merge-patch+json", False),
        ("PATCH", "/things/17", "application/merge-patch+json", True),
        ("POST", "/check", "multipart/form-data; boundary=x", False),
    ],
)
def test_a_body_has_one_of_the_routes_media_types(
    app: App, method: str, path: str, kind: str, is_taken: bool
) -> None:
    reply = app.ask(method, path, b'{"no such member": 1}', headers={"Content-Type": kind})
    assert reply.code == ("invalid" if is_taken else "unsupported_media_type")


def test_a_compressed_body_is_refused(app: App) -> None:
    reply = app.ask("POST", "/things", GOOD, headers={"Content-Encoding": "gzip"})
    assert reply.code == "unsupported_media_type"


def test_a_body_has_at_most_64_kib(app: App) -> None:
    assert app.ask("POST", "/things", b" " * 65_536).code == "malformed_body"
    assert app.ask("POST", "/things", b" " * 65_537).code == "body_too_large"


@each_row(
    ("accept", "is_admitted"),
    [
        ("*/*", True),
        ("application/*;q=0.1, text/html", True),
        ("text/html, application/json", True),
        ("text/html", False),
        ("application/json;q=0, */*", False),
        ("application/jwt", False),
    ],
)
def test_accept_must_admit_json(app: App, accept: str, is_admitted: bool) -> None:
    assert app.ask("GET", "/me", headers={"Accept": accept}).status == (200 if is_admitted else 406)


# --- query parameters -------------------------------------------------------------------------------


def test_an_unknown_query_parameter_is_refused_with_the_nearest_known_one(app: App) -> None:
    reply = app.ask("GET", "/things?colour=red&limit=2")
    assert reply.code == "unknown_parameter"
    assert reply.json["errors"] == [
        {
            "parameter": "colour",
            "code": "unknown",
            "detail": "is unknown; the nearest known name is color",
        }
    ]
    assert app.ask("GET", "/me?limit=1").code == "unknown_parameter"


def test_a_query_parameter_of_a_wrong_value_is_named(app: App) -> None:
    reply = app.ask("GET", "/things?limit=201&color=green&count=maybe&sort=id&sort=id")
    assert reply.code == "invalid_parameter"
    assert reply.places == [
        ("sort", "invalid"),
        ("limit", "too_large"),
        ("color", "invalid"),
        ("count", "wrong_type"),
    ]


def test_a_query_that_cannot_be_read_is_refused_as_a_whole(app: App) -> None:
    for query, detail in (("%ff=1", "must be UTF-8"), ("a=1&" * 1000, "must have at most 1000 parameters")):
        reply = app.ask("GET", f"/things?{query}")
        assert (reply.code, reply.places[0][0]) == ("invalid_parameter", "")
        assert reply.json["detail"] == f"Invalid request: the query {detail}."


def test_a_list_goes_on_where_its_cursor_says(app: App) -> None:
    first = app.ask("GET", "/things?limit=3&color=red&count=true")
    assert [one["id"] for one in first.json["items"]] == [1, 2, 3]
    assert first.json["total"] == 7
    link = first.headers["link"]
    assert link.startswith("</v3/things?limit=3&color=red&count=true&cursor=")
    assert link.endswith('>; rel="next"')
    second = app.ask("GET", link[4 : link.index(">")])
    assert [one["id"] for one in second.json["items"]] == [4, 5, 6]
    last = app.ask("GET", f"/things?color=red&cursor={second.json['next_cursor']}")
    assert last.json == {"items": [{"id": 7, "name": None, "seen_at": None}], "next_cursor": None}
    assert "link" not in last.headers


def test_a_cursor_of_another_list_is_refused(app: App) -> None:
    cursor = app.ask("GET", "/things?limit=3&color=red").json["next_cursor"]
    forged = base64.urlsafe_b64encode(b'["x", 1]').decode()
    for query in (f"color=blue&cursor={cursor}", f"cursor={cursor}", "cursor=x", f"cursor={forged}"):
        reply = app.ask("GET", f"/things?{query}")
        assert (reply.code, reply.places) == ("invalid_parameter", [("cursor", "invalid")])


# --- credentials ------------------------------------------------------------------------------------


def test_an_api_key_is_a_bearer_token_or_comes_with_basic(app: App) -> None:
    token = app.issue_token(Permissions.READ)
    basic = base64.b64encode(":".join(app.consumer).encode()).decode()
    for header in (f"Bearer {token}", f"bearer {token}", f"Basic {basic}"):
        assert app.ask("GET", "/me", headers={"Authorization": header}).status == 200


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (f"Bearer kw_{'0' * 80}", "credentials_invalid"),
        ("Bearer nonsense", "credentials_invalid"),
        ("Basic nonsense", "credentials_invalid"),
        ("Digest x", "credentials_missing"),
        (None, "credentials_missing"),
    ],
)
def test_wrong_credentials_are_challenged(app: App, header: str | None, code: str) -> None:
    headers = {"Authorization": header} if header else {}
    reply = app.ask("GET", "/me", token=None, headers=headers)
    assert (reply.status, reply.code) == (401, code)
    assert reply.headers["www-authenticate"].startswith('Bearer realm="Keywright", Basic')


def test_credentials_in_the_query_are_not_read(app: App) -> None:
    key, secret = app.consumer
    reply = app.ask("GET", f"/me?consumer_key={key}&consumer_secret={secret}", token=None)
    assert reply.code == "credentials_missing"


def test_client_calls_can_need_an_api_key(tmp_path: Any) -> None:
    with open_app(tmp_path, require_api_key=True) as app:
        reply = app.ask("POST", "/check", {"license_key": "A"}, token=None)
        assert reply.code == "credentials_missing"


# --- headers ----------------------------------------------------------------------------------------


def test_any_site_may_make_client_calls_and_named_ones_the_others(app: App) -> None:
    origin = {"Origin": "https://any.example"}
    checked = app.ask("POST", "/check", {}, token=None, headers=origin)
    assert checked.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in app.ask("GET", "/me", headers=origin).headers
    allowed = app.ask("OPTIONS", "/things/1", token=None, headers={"Origin": "https://shop.example"}).headers
    assert allowed["access-control-allow-origin"] == "https://shop.example"
    assert "If-Match" in allowed["access-control-allow-headers"]
    assert "RateLimit" in allowed["access-control-expose-headers"]


def test_if_match_is_obeyed(app: App) -> None:
    def patch(match: str) -> Any:
        return app.ask("PATCH", "/things/17", {"name": "x"}, headers={"If-Match": match})

    assert patch('"other"').code == "changed_meanwhile"
    assert patch('W/"x"').status == 412
    assert patch("*").status == 200


def test_a_fault_is_a_problem_too(app: App, caplog: pytest.LogCaptureFixture) -> None:
    reply = app.ask("GET", "/fail")
    assert reply.code == "internal_error"
    assert "ZeroDivisionError" in caplog.text
    assert "ZeroDivisionError" not in reply.json["detail"]


def check(app: App, *keys: Any) -> list[httpx.Response]:
    """Make client calls with these keys sequentially; return the responses."""

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        return [await client.post("/v3/check", json={"license_key": one}) for one in keys]

    return list(app.run(scenario))


def test_wrong_license_keys_are_limited(tmp_path: Any) -> None:
    with open_app(tmp_path, unknown_key_limit=2) as app:
        *first, last = check(app, "KEY-0", "KEY-1", "KEY-2")
        assert [one.status_code for one in first] == [404, 404]
        assert (last.status_code, last.json()["code"]) == (429, "too_many_requests")
        assert last.json()["retry_after_seconds"] == int(last.headers["retry-after"]) > 0


def test_answers_tell_the_limits_and_what_is_left(tmp_path: Any) -> None:
    limits = {"unknown_key_limit": 6, "bad_request_limit": 60, "bad_credentials_limit": 0}
    with open_app(tmp_path, **limits) as app:
        whole = app.ask("POST", "/check", {}, token=None)
        assert whole.headers["ratelimit-policy"] == '"unknown-keys";q=6;w=60, "malformed-requests";q=60;w=60'
        *_, last = check(app, "KEY-0", "KEY-1")
        assert last.headers["ratelimit"] == '"unknown-keys";r=4;t=20, "malformed-requests";r=60;t=0'
        assert app.ask("GET", "/me").headers["ratelimit"] == '"malformed-requests";r=60;t=0'
        assert "ratelimit" not in app.ask("GET", "//wp-json/lmfwc/v2/licenses").headers


def test_malformed_calls_are_limited(tmp_path: Any) -> None:
    with open_app(tmp_path, bad_request_limit=2) as app:
        assert [one.status_code for one in check(app, 1, 1, 1)] == [422, 422, 429]


def test_an_entity_tag_changes_with_what_is_shown_but_not_with_volatile_members() -> None:
    seen = Thing(1, "a", datetime(2026, 1, 1, tzinfo=UTC))
    assert etag_of(seen, seen_at=None) == etag_of(Thing(1, "a"))
    assert etag_of(Thing(1, "a")) != etag_of(Thing(1, "b"))
