"""The pages about API keys: creating and revoking them; their secrets are shown once."""

import re
from html import unescape

import httpx
import pytest

from keywright.http.pages.formats import write_day
from keywright.provisioning.products import NameKind
from keywright.search.statistics import SaveCounters
from tests.databases import KINDS
from tests.http.admin_browser import Visitor, asked, decide, said, title
from tests.http.admin_licenses import last_event
from tests.makers import save_name
from tests.tables import each_row

DATABASES = ("sqlite",)

_SECRETS = re.compile(r"c[ks]_[0-9a-f]{40}")


def make(ada: Visitor, name: str, permissions: str = "read_write", **fields: object) -> httpx.Response:
    return ada.post("/api-keys/new", name=name, permissions=permissions, **fields)


def id_of(ada: Visitor, name: str) -> int:
    ((number,),) = ada.server.sql("SELECT id FROM api_keys WHERE name = ?", name)
    return int(number)


def licenses(ada: Visitor, answer: httpx.Response) -> int:
    """The status of a call with the credentials in the response."""
    key, secret = dict.fromkeys(_SECRETS.findall(answer.text))
    url = f"{ada.server.base_url}/wp-json/lmfwc/v2/generators"
    return httpx.get(url, auth=(key, secret)).status_code


@pytest.mark.databases(*KINDS)
def test_the_secrets_of_a_new_api_key_are_shown_once_and_work(ada: Visitor) -> None:
    answer = make(ada, "shop of once")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert title(answer) == "API key shop of once created"
    assert licenses(ada, answer) in (200, 404)
    key, secret = dict.fromkeys(_SECRETS.findall(answer.text))
    assert f'id="consumer-key">{key}<' in answer.text
    assert f'id="consumer-secret">{secret}<' in answer.text
    assert f'id="token">kw_{key[3:]}{secret[3:]}<' in answer.text
    assert 'data-copy="#consumer-key"' in answer.text
    assert 'data-copy="#consumer-secret"' in answer.text
    for one in (key, secret):
        assert one not in ada.get("/api-keys").text
        assert one not in str(answer.headers)
        assert one not in last_event(ada, "api_key.created")
    assert f"…{key[-7:]}" in said(ada.get("/api-keys"))


def test_a_call_to_try_is_shown_with_them(ada: Visitor) -> None:
    assert "checked" not in ada.get("/api-keys/new").text
    for permissions, call in (
        ("read", "curl -sS -u {} {}/licenses; echo"),
        ("read_write", "curl -sS -u {} {}/licenses; echo"),
        ("write", "curl -sS -u {} -d license_key=A-NEW-KEY -d status=active {}/licenses; echo"),
        ("client", "curl -sS -u {} {}/licenses/validate/LICENSE-KEY; echo"),
    ):
        text = unescape(make(ada, f"to try {permissions}", permissions).text)
        key, secret = dict.fromkeys(_SECRETS.findall(text))
        assert call.format(f"{key}:{secret}", f"{ada.server.base_url}/wp-json/lmfwc/v2") in text


def test_an_api_key_for_programs_can_be_for_one_product(ada: Visitor) -> None:
    decide(ada.server, save_name(NameKind.PRODUCT, 4711, "Lumen for apps"))
    assert '<option value="Lumen for apps">4711</option>' in ada.get("/api-keys/new").text
    assert make(ada, "an app", "client", product_id="Lumen for apps").status_code == 200
    assert "Customers' programs, Lumen for apps (4711)" in said(ada.get("/api-keys"))
    assert '"product_id":4711' in last_event(ada, "api_key.created")


def test_an_api_key_can_expire(ada: Visitor) -> None:
    assert make(ada, "a key of then", expires_at="2001-02-03").status_code == 200
    assert make(ada, "a key of later", expires_at="2101-02-03").status_code == 200
    page = said(ada.get("/api-keys"))
    assert "a key of then expired" in page
    assert "expires Feb 4, 2101" in page


@each_row(
    ("fields", "complaint"),
    [
        ({"name": "", "permissions": "read"}, "This field is required."),
        ({"name": "x", "permissions": "everything"}, "It must be one of these."),
        ({"name": "x", "permissions": "client", "product_id": "one"}, "It is neither an ID nor"),
        ({"name": "x", "permissions": "read", "expires_at": "soon"}, "It must be YYYY-MM-DD"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(
    ada: Visitor, fields: dict[str, str], complaint: str
) -> None:
    before = ada.server.count("api_keys")
    answer = ada.post("/api-keys/new", **fields)
    assert answer.status_code == 422
    assert complaint in said(answer)
    assert ada.server.count("api_keys") == before


@pytest.mark.databases(*KINDS)
def test_a_revoked_api_key_is_refused_from_then_on(ada: Visitor) -> None:
    answer = make(ada, "shop of old")
    number = id_of(ada, "shop of old")
    confirm = ada.get(f"/api-keys/{number}/revoke")
    assert title(confirm) == "Revoke the API key shop of old?"
    assert "This key was never used." in said(confirm)
    assert licenses(ada, answer) != 401
    assert ada.post(f"/api-keys/{number}/revoke").headers["location"] == "/admin/api-keys"
    page = said(ada.get("/api-keys"))
    assert "The API key shop of old was revoked." in page
    assert "shop of old revoked" in page
    assert licenses(ada, answer) == 401
    assert last_event(ada, "api_key.revoked") == f'{{"api_key_id":{number}}}'
    assert ada.get(f"/api-keys/{number}/revoke").status_code == 404
    assert ada.post(f"/api-keys/{number}/revoke").status_code == 404


def test_it_is_said_when_an_api_key_was_used_last(ada: Visitor) -> None:
    make(ada, "shop of use")
    number = id_of(ada, "shop of use")
    used = SaveCounters(**asked(used_api_keys={number: asked()["context"].now}))
    decide(ada.server, used)
    moment = write_day(asked()["context"].now.date())
    assert f"This key was last used on {moment}" in said(ada.get(f"/api-keys/{number}/revoke"))
