"""Browsers: CORS on all addresses, and security headers on all responses."""

from collections.abc import Iterator

import pytest

from tests.http.asking import Client, Reply, assert_common_headers, core, in_query, license_path, raw
from tests.server import NO_LIMITS, RunningServer, running
from tests.tables import each_row

SHOP = "https://shop.example"
EVIL = "https://evil.example"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that allows management calls from a web site."""
    origins = f"{SHOP},http://localhost:3000"
    with running(tmp_path_factory.mktemp("web") / "data", allowed_origins=origins, **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def site(web: RunningServer) -> Iterator[Client]:
    with Client(web, web.api_key()) as client:
        yield client


@pytest.fixture(scope="module")
def key(site: Client) -> str:
    return site.license()


def allowed(reply: Reply) -> str | None:
    # Never with cookies.
    assert reply.header("access-control-allow-credentials") is None
    return reply.header("access-control-allow-origin")


@each_row("origin", [SHOP, EVIL, "null", "app://program"])
@each_row("call", ["activate", "validate", "deactivate"])
def test_core_calls_may_come_from_any_origin(web: RunningServer, key: str, call: str, origin: str) -> None:
    headers = {"Origin": origin}
    with Client(web) as program:
        for method in ("GET", "POST"):
            assert allowed(program.ask(method, core(call, key), headers=headers)) == "*"
        assert allowed(program.get(core(call, "no such key"), headers=headers)) == "*"
        assert allowed(program.get(core(call, key))) == "*"
        assert allowed(program.ask("DELETE", core(call, key), headers=headers)) == "*"
        wrong = {**headers, "Authorization": "Basic bm86bm8="}
        denied = program.get(core(call, key), headers=wrong)
        assert (denied.status, allowed(denied)) == (401, "*")


@each_row(
    ("path", "origin"),
    [
        *((f"licenses/{call}/K", EVIL) for call in ("activate", "validate", "deactivate")),
        *((path, SHOP) for path in ("licenses", "licenses/K", "generators")),
    ],
)
def test_calls_may_be_asked_about_first_from_where_they_may_come(
    web: RunningServer, path: str, origin: str
) -> None:
    wanted = {"content-type", "idempotency-key", "authorization"}
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ", ".join(wanted),
    }
    with Client(web) as browser:
        reply = browser.ask("OPTIONS", path, headers={**asked, "Origin": origin})
        evil = browser.ask("OPTIONS", path, headers={**asked, "Origin": EVIL})
    assert (reply.status, allowed(reply)) == (200, "*" if origin == EVIL else SHOP)
    assert "POST" in (reply.header("access-control-allow-methods") or "").split(", ")
    assert wanted <= {*(reply.header("access-control-allow-headers") or "").lower().split(", ")}
    if origin == SHOP:
        assert (allowed(evil), evil.header("access-control-allow-methods")) == (None, None)


def test_a_site_sees_denials_and_the_headers_of_answers(web: RunningServer, site: Client, key: str) -> None:
    def exposed(reply: Reply) -> set[str]:
        return {*(reply.header("access-control-expose-headers") or "").split(", ")}

    with Client(web) as program:
        assert {"Idempotency-Replayed", "Retry-After"} <= exposed(program.validate(key))
        denied = program.get("licenses", headers={"Origin": SHOP})
    assert (denied.status, allowed(denied)) == (401, SHOP)
    page = site.get("licenses?page=1", headers={"Origin": SHOP})
    assert {"Link", "X-WP-Total", "X-WP-TotalPages"} <= exposed(page)


@pytest.mark.parametrize("path", ["licenses", "licenses/{key}", "generators", "generators/1", "nothing"])
def test_management_calls_may_come_from_configured_origins_only(site: Client, key: str, path: str) -> None:
    path = path.format(key=key)
    for origin in (SHOP, "http://localhost:3000"):
        reply = site.get(path, headers={"Origin": origin})
        assert (allowed(reply), reply.header("vary")) == (origin, "Origin")
    others = ("https://shop.example.evil", "http://shop.example", "https://shop.example:444")
    for origin in (EVIL, "null", *others):
        reply = site.get(path, headers={"Origin": origin})
        assert (allowed(reply), reply.header("vary")) == (None, "Origin")
    assert allowed(site.get(path)) is None


def test_no_origin_may_manage_when_none_is_configured(vendor: Client) -> None:
    key = vendor.license()
    for origin in (SHOP, EVIL, "null", "*"):
        assert allowed(vendor.get(license_path(key), headers={"Origin": origin})) is None
        assert allowed(vendor.ask("OPTIONS", "licenses", headers={"Origin": origin})) is None
        assert allowed(vendor.validate(key, headers={"Origin": origin})) == "*"


# --- on every answer ------------------------------------------------------------------------------


def test_every_answer_says_that_it_is_json_and_not_to_be_kept(
    server: RunningServer, vendor: Client, program: Client
) -> None:
    key = vendor.license()
    replies = {
        "activate": program.activate(key),
        "validate": program.validate(key),
        "deactivate": program.deactivate(key),
        "refusal": program.deactivate(key),
        "unknown key": program.validate("no such key"),
        "list": vendor.get("licenses"),
        "page": vendor.get("licenses?page=1"),
        "get": vendor.get(license_path(key)),
        "update": vendor.put(license_path(key), json_body={"order_id": 1}),
        "delete": vendor.delete(license_path(key)),
        "no credentials": program.get("licenses"),
        "wrong credentials": program.get("licenses", query=in_query(("ck_no", "cs_no"))),
        "wrong method": vendor.delete("licenses"),
        "no route": vendor.get("nothing"),
        "outside": program.get("/nothing"),
        "options": program.ask("OPTIONS", "licenses"),
        "prefetch": program.activate(key, headers={"Purpose": "prefetch"}),
        "malformed": vendor.post("licenses", body=b"{", headers={"Content-Type": "application/json"}),
        "too long": program.get("licenses/validate/" + "x" * 9000),
        "too long outside": program.get("/" + "x" * 9000),
        "headers too large": program.get("licenses", headers={"X": "x" * 33000}),
        "compressed": vendor.post("licenses", body=b"x", headers={"Content-Encoding": "gzip"}),
        "no http": raw(server, b"nonsense\r\n\r\n"),
        "healthz": program.get("/healthz"),
        "readyz": program.get("/readyz"),
    }
    for name, reply in replies.items():
        assert isinstance(reply.json, dict), name
        try:
            assert_common_headers(reply)
        except AssertionError as problem:
            raise AssertionError(f"{name}: {reply}") from problem
        assert reply.header("server") is None, name
        assert reply.header("set-cookie") is None, name
