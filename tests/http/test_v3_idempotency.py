"""Idempotency keys over v3: a repeated call gets the complete first response."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from keywright.db.schema import idempotency_records
from keywright.http.v3.decoding import parse_idempotency_key
from keywright.identity.model import Permissions
from tests.http.v3_app import App, Reply, open_app
from tests.makers import create_policy
from tests.tables import each_row

DATABASES = ("sqlite",)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with open_app(tmp_path_factory.mktemp("v3")) as app:
        yield app


def create(app: App, idempotency_key: str, body: Any, **given: Any) -> Reply:
    return app.ask("POST", "/things", body, headers={"Idempotency-Key": idempotency_key}, **given)


@pytest.mark.parametrize("again", ["the-key", '"the-key"', ' "the-key" '])
def test_a_repeated_call_gets_the_first_answer_with_its_headers(app: App, again: str) -> None:
    first = create(app, "the-key", {"key": "MADE-ONCE", "name": "a"})
    replayed = create(app, again, {"name": "a", "key": "MADE-ONCE"})
    assert first.status == replayed.status == 201
    assert first.body == replayed.body
    for name in ("location", "etag", "content-type"):
        assert replayed.headers[name] == first.headers[name]
    assert first.headers["location"] == f"/v3/things/{first.json['id']}"
    assert replayed.headers["idempotency-replayed"] == "true"


def test_another_body_is_refused(app: App) -> None:
    create(app, "reused", {"key": "FIRST-BODY"})
    reply = create(app, "reused", {"key": "SECOND-BODY"})
    assert (reply.status, reply.code) == (422, "idempotency_key_reused")


def test_a_key_belongs_to_its_caller(app: App) -> None:
    create(app, "of-a-caller", {"key": "OF-ONE"})
    other = app.issue_token(Permissions.READ_WRITE)
    reply = create(app, "of-a-caller", {"key": "OF-ANOTHER"}, token=other)
    assert reply.status == 201
    assert "idempotency-replayed" not in reply.headers


def test_a_kept_refusal_is_a_problem_again(app: App) -> None:
    create(app, "makes-it", {"key": "TAKEN"})
    refused = [create(app, "refused", {"key": "TAKEN"}) for _ in range(2)]
    assert [one.code for one in refused] == ["already_exists"] * 2
    assert [one.headers.get("idempotency-replayed") for one in refused] == [None, "true"]


def test_a_key_is_bare_or_a_quoted_string() -> None:
    assert parse_idempotency_key(b"abc") == parse_idempotency_key(b'"abc"') == "abc"
    assert parse_idempotency_key(rb'"a \"b\\"') == 'a "b\\'


@each_row("header", ["", '""', "with space", '"unended', "a" * 256, "ta\tb", '"a";b=1'])
def test_another_text_is_no_key(app: App, header: str) -> None:
    reply = create(app, header, {"key": "NEVER-MADE"})
    assert (reply.code, reply.places) == ("invalid_parameter", [("Idempotency-Key", "invalid")])


def test_nothing_is_kept_of_a_call_that_changed_nothing(tmp_path: Path) -> None:
    """Otherwise, one license key could fill the disk: a response may have 16 KiB of metadata, stored for a
    day.
    """
    with open_app(tmp_path) as app:
        assert app.ask("POST", "/products", {"id": 17, "code": "editor", "name": "Editor"}).status == 201
        app.do(create_policy(product_id=17, terms={"trial": True}))
        terms = {"max_leases": 1, "max_activations": 1}
        assert app.ask("POST", "/licenses", {"key": "KEPT", "terms": terms}).status == 201
        device = {"license_key": "KEPT", "fingerprint": "f" * 20}
        lease = app.ask("POST", "/leases", device | {"holder": "ada"}, token=None).json["lease"]
        released = {"license_key": "KEPT", "lease_id": lease["id"]}
        for path, body in (
            ("/activate", device),
            ("/license-file", device),
            ("/deactivate", device),
            ("/leases/release", released),
            ("/trials", {"product": "editor", "fingerprint": "f" * 20}),
        ):
            app.ask("POST", path, body, token=None)
            before = rows(app)
            for number in range(2):
                headers = {"Idempotency-Key": f"{path} {number}".replace(" ", "-")}
                reply = app.ask("POST", path, body, token=None, headers=headers)
                assert (reply.status, reply.headers.get("idempotency-replayed")) == (200, None)
            assert rows(app) == before == 0, path


def rows(app: App) -> int:
    with app.storage.read() as tx:
        return int(tx.connection.execute(select(func.count()).select_from(idempotency_records)).scalar_one())
