"""The calls of EDD Software Licensing, as its clients make them: the updater class 1.9.4 and 1.6 (form POST),
the SDK (GET, with its address encoded twice), and programs of vendors.

Recorded from their sources: easy-digital-downloads@37ae0545, awesomemotive/edd-sl-sdk@32c7923d.
"""

import base64
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from keywright.engine.desk import Desk
from tests.http.shape import assert_in_shape_of_edd
from tests.http.test_v3_releases import a_release, add_file, publish, upload
from tests.http.v3_app import App, Reply, open_app
from tests.proving import record, size

DATABASES = ("sqlite",)
KEY = "3f2504e04f8911d39a0c0305e82c3301"
SITE = "https://www.Example.com/blog/"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
AGENT = {"User-Agent": "WordPress/6.8.1; https://example.com/blog"}
TERMS = {"max_activations": 1, "uncounted_hosts": ["*.test", "localhost"], "max_uncounted": 2}
#: What the classes 1.6 to 1.9.4 and the SDK read of get_version, and pass on to WordPress.
TOUCHED: tuple[str, ...] = (
    "new_version",
    "stable_version",
    "name",
    "slug",
    "url",
    "package",
    "download_link",
    "sections",
)
TOUCHED += ("icons", "banners", "requires", "requires_php", "tested", "homepage", "last_updated")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_app(tmp_path, files_dir=str(tmp_path / "files")) as app:
        about = {"icon_1x": "https://a.test/1.png", "description": "Draws *well*.", "n": 1}
        product = {"id": 17, "name": "Paint & Draw", "code": "paint", "channels": ["beta"]}
        product |= {"external_id": "4711", "metadata": about, "url": "https://a.test/paint"}
        assert app.ask("POST", "/products", product).status == 201
        yield app


def sell(app: App, key: str = KEY, **members: Any) -> dict[str, Any]:
    usual = {"key": key, "terms": TERMS, "product_id": 17, "status": "active"}
    made = app.ask("POST", "/licenses", usual | members)
    assert made.status == 201, made.body
    license: dict[str, Any] = made.json
    return license


def release(app: App, version: str, **members: Any) -> int:
    number = a_release(app, version, **members)
    assert upload(app, add_file(app, number, f"paint-{version}.zip", kind="archive")).status == 200
    assert publish(app, number).status == 200
    return number


def post(app: App, action: str, path: str = "/edd", **fields: Any) -> Reply:
    form = {"edd_action": action, "license": KEY, "item_id": "17", "url": SITE} | fields
    body = urlencode({name: one for name, one in form.items() if one is not None}).encode()
    headers = AGENT | FORM
    return app.ask("POST", f"/{path}", body, token=None, headers=headers)


def call(app: App, action: str, path: str = "/edd", **fields: Any) -> dict[str, Any]:
    answer = post(app, action, path, **fields)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    found: dict[str, Any] = answer.json
    return found


def unserialize(text: str) -> dict[str, str]:
    """An array of texts, as PHP reads it: by the lengths in bytes."""
    raw, found = text.encode(), []
    match = re.match(rb"a:(\d+):\{", raw)
    assert match is not None
    at = match.end()
    while raw[at : at + 1] != b"}":
        size = re.match(rb's:(\d+):"', raw[at:])
        assert size is not None
        start = at + size.end()
        found.append(raw[start : start + int(size[1])].decode())
        at = start + int(size[1]) + 2
        assert raw[at - 2 : at] == b'";'
    assert (at + 1, len(found)) == (len(raw), 2 * int(match[1]))
    return dict(zip(found[::2], found[1::2], strict=True))


def test_a_site_is_activated_checked_and_deactivated(app: App) -> None:
    license = sell(app, expires_at="2098-01-31T08:00:00Z", order={"id": "99"})
    assert call(app, "check_license")["license"] == "inactive"
    done = call(app, "activate_license")
    assert len(done.pop("checksum")) == 32
    assert done == {
        **{"success": True, "license": "valid", "item_id": 17, "item_name": "Paint & Draw"},
        **{"license_limit": 1, "site_count": 1, "activations_left": 0, "expires": "2098-01-31 08:00:00"},
        **{"payment_id": 99, "customer_name": "", "customer_email": "", "price_id": False},
    }
    assert call(app, "check_license")["license"] == "valid"
    assert call(app, "activate_license")["site_count"] == 1
    assert call(app, "check_license", url="https://other.com")["license"] == "site_inactive"
    (shown,) = app.ask("GET", f"/licenses/{license['id']}/activations").json["items"]
    assert (shown["fingerprint"], shown["name"]) == ("site:example.com/blog", "example.com/blog")
    freed = call(app, "deactivate_license")
    assert (freed["success"], freed["license"], freed["expires"]) == (True, "deactivated", 4041993600)
    again = call(app, "deactivate_license")
    assert (again["success"], again["license"]) == (False, "failed")
    assert call(app, "check_license")["license"] == "inactive"
    assert [name for name, _ in app.events("license.")][-2:] == ["license.activated", "license.deactivated"]


#: What is asked, the terms, and the answer.
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("activate_license", {"license": "no-such-key"}, {}, "missing"),
    ("activate_license", {}, {"status": "disabled"}, "disabled"),
    ("activate_license", {}, {"status": "inactive"}, "disabled"),
    ("activate_license", {"item_id": "18"}, {"status": "disabled"}, "disabled"),
    ("activate_license", {}, {"expires_at": "2020-01-01T00:00:00Z"}, "expired"),
    ("activate_license", {"item_id": "18"}, {"expires_at": "2020-01-01T00:00:00Z"}, "expired"),
    ("activate_license", {"item_id": "18"}, {}, "invalid_item_id"),
    ("activate_license", {"item_id": None, "item_name": "Other"}, {}, "item_name_mismatch"),
    ("check_license", {"license": "no-such-key"}, {}, "invalid"),
    ("check_license", {}, {"status": "disabled"}, "disabled"),
    ("check_license", {}, {"expires_at": "2020-01-01T00:00:00Z"}, "expired"),
    ("check_license", {"item_id": "18"}, {}, "invalid_item_id"),
    ("check_license", {"item_id": None, "item_name": "Other"}, {}, "item_name_mismatch"),
    ("deactivate_license", {"license": "no-such-key"}, {}, "failed"),
    ("deactivate_license", {}, {"expires_at": "2020-01-01T00:00:00Z"}, "failed"),
    ("deactivate_license", {"item_id": "18"}, {}, "failed"),
]


def test_each_refusal_has_its_word_and_answers_200(app: App) -> None:
    wrong = []
    for number, (action, fields, license, expected) in enumerate(REFUSED):
        key = f"KEY-{number}"
        sell(app, key, **license)
        found = call(app, action, **{"license": key} | fields)
        word = found["error" if action == "activate_license" else "license"]
        is_known = fields.get("license", key) == key
        if (word, found["success"], "site_count" in found) != (
            expected,
            action == "check_license" and is_known,
            is_known,
        ):
            wrong.append((number, action, found))
    assert wrong == []


def test_a_full_license_names_its_limit_and_a_moved_site_keeps_its_place(app: App) -> None:
    license = sell(app)
    assert call(app, "activate_license")["success"]
    full = call(app, "activate_license", url="https://other.com")
    assert (full["error"], full["max_sites"], full["activations_left"]) == ("no_activations_left", 1, 0)
    assert app.counters.refused == {KEY: 1}
    addresses: tuple[str, ...] = (
        "http://example.com/blog",
        "https://example.com:8443/blog/",
        "HTTPS://EXAMPLE.COM/blog",
        "https://example.com",
    )
    addresses += (
        "https%3A%2F%2Fexample.com%2Fshop",
        "staging.test",
        "localhost:8080",
        "http://www.example.com/shop",
    )
    assert [call(app, "activate_license", url=one)["site_count"] for one in addresses] == [1] * len(addresses)
    assert call(app, "activate_license", url="https://staging.test/x")["success"] is False
    found = app.ask("GET", f"/licenses/{license['id']}/activations?is_active=true").json["items"]
    assert {one["name"]: one["is_counted"] for one in found} == {
        "example.com/shop": True,
        "staging.test": False,
        "localhost": False,
    }


def test_a_site_that_takes_no_place_is_local(app: App) -> None:
    sell(app)
    done = call(app, "activate_license", url="http://shop.test:8888/wp")
    assert (done["is_local"], done["site_count"], done["activations_left"]) == (True, 0, 1)
    assert call(app, "check_license", url="https://shop.test/wp/")["license"] == "valid"


def test_every_way_to_call_is_understood(app: App) -> None:
    sell(app)
    fields = {"edd_action": "check_license", "license": KEY, "url": SITE}
    by_id, by_name = (
        urlencode(fields | {"item_id": "4711"}),
        urlencode(fields | {"item_name": "Paint &amp; Draw"}),
    )
    sdk = urlencode({**fields, "item_id": 17, "url": quote(SITE, safe=""), "environment": "production"})
    without_url = urlencode(
        {"edd_action": "check_license", "license": KEY, "item_name": quote("Paint & Draw")}
    )
    paths = [f"{path}?{by_id}" for path in ("/edd", "/edd/", "/", "/index.php", "/edd-sl-api/")]
    paths += [f"/?{by_name}", f"/?{sdk}", f"/?{without_url}"]
    found = {path: app.ask("GET", f"/{path}", token=None, headers=AGENT) for path in paths}
    states = {path: (one.status, one.json["license"]) for path, one in found.items()}
    assert states == dict.fromkeys(paths, (200, "inactive"))
    assert post(app, "check_license", "/").json["license"] == "inactive"
    head = "--xx\r\nContent-Disposition: form-data; name="
    parts = "".join(f'{head}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
    headers = {"Content-Type": "multipart/form-data; boundary=xx"}
    sent = app.ask("POST", "//edd", f"{parts}--xx--\r\n".encode(), token=None, headers=headers)
    assert sent.json["license"] == "inactive"
    assert call(app, "activate_license", url=None)["site_count"] == 1, "the address of the user agent"
    body = urlencode(fields | {"url": "", "edd_action": "activate_license"}).encode()
    unnamed = app.ask("POST", "//edd", body, token=None, headers=FORM | {"User-Agent": "curl/8"})
    assert (unnamed.status, unnamed.json["error"]) == (200, "missing_url")


def test_other_calls_are_none(app: App) -> None:
    for query in ("", "?edd_action=", "?edd_action=add_to_cart"):
        assert app.ask("GET", f"//edd{query}", token=None).status == 404, query
    assert app.ask("GET", "//?edd_action=straight_to_gateway", token=None).status == 404
    assert [post(app, "no_such_action", path).status for path in ("/edd", "/")] == [404, 404]
    fields = [("edd_action", "get_version"), *((f"products[{n}][slug]", "x") for n in range(51))]
    sent = app.ask("POST", "//edd", urlencode(fields).encode(), token=None, headers=FORM)
    assert sent.status == 400


def updater(version: str = "1.0", **fields: Any) -> dict[str, Any]:
    """The fields of EDD_SL_Plugin_Updater 1.9.4."""
    others = {"item_name": "Paint & Draw", "version": version, "slug": "paint-pro", "author": "A", "beta": ""}
    return others | {"php_version": "8.2.7", "wp_version": "6.8.1"} | fields


def test_a_site_gets_the_newest_version_with_all_that_its_client_touches(app: App) -> None:
    sell(app)
    release(app, "1.0", notes="First.")
    about = {"requires": {"wp": "6.0", "php": "8.1"}, "metadata": {"tested": "6.8"}}
    newest = release(app, "1.1", notes="* Faster 🎨\n* <b>no</b>", **about)
    assert call(app, "activate_license")["success"]
    found = call(app, "get_version", **updater())
    assert [name for name in TOUCHED if name not in found] == []
    assert (found["new_version"], found["stable_version"], found["slug"]) == ("1.1", "1.1", "paint-pro")
    assert (found["requires"], found["requires_php"], found["tested"]) == ("6.0", "8.1", "6.8")
    sections = unserialize(found["sections"])
    assert sections["description"] == "<p>Draws <em>well</em>.</p>\n"
    assert "<li>Faster &#x1f3a8;</li>" in sections["changelog"]
    assert "<b>" not in sections["changelog"]
    assert sections["changelog"].index("<h4>1.1</h4>") < sections["changelog"].index("<h4>1.0</h4>")
    assert unserialize(found["icons"]) == {"1x": "https://a.test/1.png"}
    assert unserialize(found["banners"]) == {"high": "", "low": ""}
    assert found["package"] == found["download_link"]
    assert KEY not in found["package"]
    assert found["package"].endswith("/paint-1.1.zip")
    assert app.counters.releases[newest, "offers"] == 1
    path = "/" + found["package"].removeprefix("http://localhost")
    assert app.ask("GET", path, token=None).status == 200
    assert call(app, "get_version", **updater("1.1"))["new_version"] == "1.1"
    assert call(app, "deactivate_license")["success"]
    assert app.ask("GET", path, token=None).status == 403, "the site has given up its place"


def test_what_may_not_be_had_is_shown_without_a_package(app: App) -> None:
    sell(app)
    release(app, "1.1")
    release(app, "2.0", requires={"php": "9"})
    release(app, "3.0-beta1", channel="beta")
    shown = {}
    for name, fields in {
        "not active here": updater(),
        "without a key": updater(license=""),
        "wrong key": updater(license="no-such-key"),
        "other product": updater(item_id="18"),
        "without a site": updater(url="", **{}),
    }.items():
        found = call(app, "get_version", **fields)
        assert found["package"] == "", name
        shown[name] = (found["new_version"], bool(found["msg"]))
    assert shown["not active here"] == ("2.0", True)
    assert shown["without a key"] == ("2.0", True)
    assert shown["wrong key"] == ("", True)
    assert shown["other product"] == ("", True)
    assert call(app, "activate_license")["success"]
    assert call(app, "get_version", **updater("1.1"))["new_version"] == "1.1", "its PHP is too old"
    assert call(app, "get_version", **updater("1.0"))["new_version"] == "1.1"
    beta = call(app, "get_version", **updater("1.0", beta="1"))
    assert beta["new_version"] == "1.1", "its terms have no such channel"


def test_an_expired_license_shows_what_a_renewal_brings(app: App) -> None:
    license = sell(app)
    assert call(app, "activate_license")["success"]
    release(app, "1.1")
    changed = app.ask("PATCH", f"/licenses/{license['id']}", {"expires_at": "2020-01-01T00:00:00Z"})
    assert changed.status == 200
    found = call(app, "get_version", **updater())
    assert (found["new_version"], found["package"]) == ("1.1", "")
    assert "renewed" in found["msg"]


def test_several_products_are_answered_by_their_slugs(app: App) -> None:
    sell(app)
    assert app.ask("POST", "/products", {"id": 18, "name": "Add-on"}).status == 201
    sell(app, "KEY-2", product_id=18)
    release(app, "1.1")
    number = a_release(app, "5.0", product_id=18)
    assert upload(app, add_file(app, number, "add-on.zip", kind="archive")).status == 200
    assert publish(app, number).status == 200
    assert call(app, "activate_license")["success"]
    products = {
        "paint-pro": updater(license=KEY, item_id=17, url=SITE),
        "add-on": updater(license="KEY-2", item_id=18, item_name="Add-on"),
        "other": updater(license="no-such-key", item_id=17),
    }
    fields = {
        f"products[{slug}][{name}]": value for slug, one in products.items() for name, value in one.items()
    }
    found = call(app, "get_version", **{"license": None, "item_id": None} | fields)
    assert {slug: (one["new_version"], one["package"][-8:]) for slug, one in found.items()} == {
        "paint-pro": ("1.1", "-1.1.zip"),
        "add-on": ("5.0", ""),
        "other": ("", ""),
    }


def test_a_link_of_the_old_site_leads_to_the_package_without_the_key(app: App) -> None:
    sell(app)
    release(app, "1.1")
    plain = f"1790000000:{KEY}:17:{'0' * 32}:https@//example.com/blog:0"
    old = "//edd-sl/package_download/" + quote(base64.b64encode(plain.encode()).decode())
    assert app.ask("GET", old, token=None).status == 401
    assert call(app, "activate_license")["success"]
    moved = app.ask("GET", old, token=None)
    assert (moved.status, moved.headers["referrer-policy"]) == (302, "no-referrer")
    assert KEY not in moved.headers["location"]
    target = "/" + moved.headers["location"].removeprefix("http://localhost")
    assert app.ask("GET", target, token=None).status == 200
    assert app.ask("GET", "//edd-sl/package_download/x", token=None).status == 401
    assert app.ask("GET", f"//edd-sl/package_download/{quote('é' * 9)}", token=None).status == 401


def test_keys_are_in_no_log_and_no_event(
    app: App, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    sell(app, expires_at="2098-01-31T08:00:00Z")
    release(app, "1.1")
    query = urlencode({"edd_action": "activate_license", "license": KEY, "item_id": "17", "url": SITE})
    referer = {"Referer": f"https://vendor.example/?{query}"}
    assert app.ask("GET", f"//edd?{query}", token=None, headers=AGENT | referer).json["success"]
    for action in ("check_license", "get_version", "deactivate_license", "no_such_action"):
        post(app, action)
        post(app, action, license="0123456789abcdef0123456789abcdef")
    written = capfd.readouterr()
    assert "find_update" in written.err
    for key in (KEY, "0123456789abcdef0123456789abcdef"):
        assert key not in written.err + written.out
        assert key not in json.dumps(app.events("license."))


def test_wrong_keys_are_limited_also_in_calls_about_several_products(tmp_path: Path) -> None:
    with open_app(tmp_path, unknown_key_limit=3) as app:

        async def guess(client: Any) -> list[int]:
            many = {f"products[{n}][license]": f"GUESS-{n}" for n in range(50)}
            many |= {f"products[{n}][item_id]": "17" for n in range(50)}
            body = urlencode({"edd_action": "get_version"} | many)
            answers = [await client.post("/edd", content=body, headers=FORM) for _ in range(5)]
            more = [
                await client.get(f"/edd?edd_action=check_license&license=K-{n}&url=a.com") for n in range(9)
            ]
            return [one.status_code for one in (*answers, *more)]

        statuses = app.run(guess)
        assert statuses.count(429) >= 9


def test_a_call_about_many_products_takes_one_place_in_the_queue(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else forty such calls of one stranger would fill it, and others be refused."""
    release(app, "1.1")
    running, most, query = [0], [0], Desk.query

    async def observe(self: Desk, *given: Any) -> Any:
        running[0] += 1
        most[0] = max(most[0], running[0])
        try:
            return await query(self, *given)
        finally:
            running[0] -= 1

    monkeypatch.setattr(Desk, "query", observe)
    many = {f"products[p{number}][item_id]": "17" for number in range(50)}
    assert len(call(app, "get_version", **many)) == 50
    assert most == [1]


#: What a malicious client sends as any parameter.
ODD = [
    "",
    "0",
    "false",
    "-1",
    "9" * 40,
    "9" * 5000,
    "\0",
    "\ud800",
    "%",
    "%00",
    "%25" * 9,
    "💥" * 99,
    "a" * 3000,
]
ODD += ["' OR 1=1 --", "site:localhost", "../../etc/passwd", "<script>", "{}", "[]", "1e309", "é%C3", ":::"]
ODD += ["a" * 3000, "[::1", "//", "@", "\r\nX: y"]
NAMES = "edd_action license item_id item_name url version slug beta php_version wp_version name".split()
NAMES += ["products", "products[a][license]", "products[a][url]", "products[][]", "products[a]", "rest_route"]
UPDATES = (
    "wordpress.json latest.yml RELEASES releases.win.json appcast.xml tauri/darwin/aarch64/1.0 x".split()
)
ACTIONS = ["activate_license", "deactivate_license", "check_license", "get_version", "package_download", "x"]


def is_in_shape(status: int, body: bytes) -> bool:
    try:
        # An address with dots may be that of a page, and ``/?rest_route=/`` is that of v2's index.
        if body != b"a page" and not (status == 200 and "namespaces" in json.loads(body)):
            assert_in_shape_of_edd(status, body)
    except (AssertionError, ValueError, LookupError, TypeError):
        return False
    return True


def test_no_address_of_an_update_framework_is_a_fault(app: App) -> None:
    """R14 over ``/u``: every answer is below 500, and a refusal states its reason."""
    license = sell(app)
    release(app, "1.1")
    token = app.ask("POST", f"/licenses/{license['id']}/update-tokens", {}).json["token"]
    draw = random.Random(random.random())

    async def attack(client: Any) -> list[tuple[int, bytes]]:
        found = []
        for _ in range(size(200, 20_000)):
            words = [draw.choice([token, "open", "x"]), draw.choice(["paint", "17", *ODD])]
            words += [draw.choice([*UPDATES, *ODD]), *draw.choices(ODD, k=draw.randrange(3))]
            path = "/".join(quote(one, safe="/", errors="replace") for one in words)
            pairs = [(draw.choice(["php", "installed_version", "arch"]), draw.choice(ODD)) for _ in range(2)]
            answer = await client.get(f"/u/{path[:7000]}?{urlencode(pairs, errors='surrogatepass')}")
            found.append((answer.status_code, answer.content))
        return found

    answers = app.run(attack)
    odd = [(status, body) for status, body in answers if status >= 500 or (status >= 400 and not body)]
    faults = sum(status >= 500 for status, _ in answers)
    record("R14", "/u", {"cases": len(answers), "answers 5xx": faults, "answers out of shape": len(odd)})
    assert odd == []
    assert {200, 403} <= {status for status, _ in answers}


def test_no_call_is_a_fault_and_no_limit_is_passed(app: App) -> None:
    """R14 and R1 over these routes: every answer is in its shape, and below 500."""
    license = sell(app)
    release(app, "1.1")
    draw = random.Random(random.random())

    def fields() -> dict[str, str]:
        usual = {"edd_action": draw.choice(ACTIONS), "license": KEY, "item_id": "17", "url": draw.choice(ODD)}
        return usual | {draw.choice(NAMES): draw.choice(ODD) for _ in range(draw.randrange(4))}

    async def attack(client: Any) -> list[tuple[int, bytes]]:
        found = []
        for _ in range(size(400, 40_000)):
            text = urlencode(fields(), errors="surrogatepass")
            package = f"/edd-sl/package_download/{quote(draw.choice(ODD), safe='', errors='replace')}"
            path = draw.choice(["/edd", "/", "/edd-sl-api", package])
            if draw.random() < 0.5:
                answer = await client.get(f"{path}?{text[:7000]}", headers=AGENT)
            else:
                answer = await client.post(path, content=text, headers=FORM)
            found.append((answer.status_code, answer.content))
        return found

    answers = app.run(attack)
    odd = [one for one in answers if not is_in_shape(*one)]
    faults = sum(status >= 500 for status, _ in answers)
    record("R14", "/edd", {"cases": len(answers), "answers 5xx": faults, "answers out of shape": len(odd)})
    assert odd == []
    now = app.ask("GET", f"/licenses/{license['id']}").json
    held = app.ask("GET", f"/licenses/{license['id']}/activations?is_active=true&limit=100").json["items"]
    assert now["activations"] == sum(one["is_counted"] for one in held) <= 1
    assert sum(not one["is_counted"] for one in held) <= 2


def test_a_version_that_no_database_keeps_is_not_remembered(app: App) -> None:
    """It would be saved together with what hundreds of other licenses were seen, and spoil all of it."""
    sell(app)
    release(app, "1.1")
    call(app, "activate_license")
    remembered = {}
    for version in ("2\0", "\0", "2.0"):
        assert call(app, "get_version", version=version)["new_version"] == "1.1"
        remembered[version] = [
            one for some in app.counters.last_seen.take() for one in some.versions.values()
        ]
    assert remembered == {"2\0": [], "\0": [], "2.0": ["2.0"]}


def test_one_document_serves_plugin_update_checker_and_wordpress_itself(app: App) -> None:
    license = sell(app)
    release(app, "1.0")
    release(app, "1.1", notes="Faster.", requires={"php": "8.1"}, metadata={"tested": "6.8"})
    made = app.ask("POST", f"/licenses/{license['id']}/update-tokens", {})
    address = f"//u/{made.json['token']}/paint/wordpress.json"

    def fetch(query: str, path: str = address) -> Reply:
        return app.ask("GET", f"{path}?{query}", token=None, headers={"Accept": "application/json"})

    # As requestMetadata() of v5p7 asks.
    found = fetch("installed_version=1.0&php=8.2.7&locale=en_US&checking_for_updates=1").json
    assert (found["name"], found["version"], found["new_version"]) == ("Paint & Draw", "1.1", "1.1")
    assert found["download_url"] == found["package"]
    assert (found["requires_php"], found["tested"], found["homepage"]) == (
        "8.1",
        "6.8",
        "https://a.test/paint",
    )
    assert "<p>Faster.</p>" in found["sections"]["changelog"]
    assert (found["icons"], found["banners"], found["translations"]) == (
        {"1x": "https://a.test/1.png"},
        {},
        [],
    )
    assert app.ask("GET", "/" + found["package"].removeprefix("http://localhost"), token=None).status == 200
    assert fetch("installed_version=1.1").json["version"] == "1.1", (
        "so that automatic updates can be turned on"
    )
    old = fetch("installed_version=1.0&php=7.4").json
    assert (old["version"], "download_url" in old) == ("1.0", False), "1.1 needs a newer PHP"
    assert fetch("&".join("a=b" for _ in range(200))).json["version"] == "1.1"
    app.ask("PATCH", f"/licenses/{license['id']}", {"expires_at": "2020-01-01T00:00:00Z"})
    lapsed = fetch("installed_version=1.0")
    assert (lapsed.json["version"], "download_url" in lapsed.json, lapsed.json["package"]) == (
        "1.1",
        False,
        "",
    )
    assert (lapsed.status, lapsed.headers["keywright-update"]) == (200, "newer_not_covered, expired")
    assert "renewed" in lapsed.json["upgrade_notice"]
    assert fetch("", "//u/upd_wrong/paint/wordpress.json").status == 403
    assert app.ask("PATCH", "/products/17", {"updates": "open"}).status == 200
    assert fetch("installed_version=1.0", "//u/open/paint/wordpress.json").json["version"] == "1.1"
