"""License files for all: confirmed in the pages, ordered over v3, downloaded."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from keywright.identity.model import Permissions
from keywright.jobs.making_files import StoredFile
from keywright.licensing.activations.model import ActivateDevice, Device
from keywright.licensing.licenses.model import Status
from tests.http.admin_browser import Visitor, asked, decide, said, title
from tests.http.admin_licenses import make
from tests.http.test_v3_updates import a_license
from tests.http.v3_app import open_app
from tests.makers import NOW, create_product
from tests.portal import make_customer
from tests.server import wait_until

DATABASES = ("sqlite",)
PATH = "/signing-keys/license-files"


def sell(ada: Visitor) -> None:
    """Create three licenses of product 57: with a device and an owner with an address; with neither;
    disabled.
    """
    decide(ada.server, create_product(57))
    make_customer(ada.server, "fay@example.com", id=5701, name="Fay")
    about: tuple[dict[str, Any], ...] = ({"customer_id": 5701}, {}, {"status": Status.DISABLED})
    for number, more in enumerate(about):
        make(ada.server, key=f"FILED-{number}", product_id=57, **more)
    device = Device("device-fay", name="Fay's laptop")
    decide(ada.server, ActivateDevice(**asked(license="FILED-0", device=device)))


def test_an_administrator_makes_and_mails_license_files(ada: Visitor) -> None:
    """The confirmation shows a preview; pressing twice starts one job; its file contains what it made."""
    sell(ada)
    assert "License files for all" in said(ada.get("/signing-keys"))
    assert title(ada.get(PATH)) == "License files for all"
    assert "This day is in the past." in said(ada.post(PATH, ends_at="2020-01-01"))
    order = {"product_id": "57", "ends_at": "2126-12-31", "mail": "yes"}
    question = said(ada.post(PATH, **order))
    assert "Make and mail the license files?" in question
    assert "2 licenses are in force. 1 device holds a place. 1 customer has an e-mail address." in question
    assert "Licenses without a customer: 1." in question
    assert "Make the license files?" in said(ada.post(PATH, **order | {"mail": "no"}))
    sure = order | {"is_sure": "yes", "once": "f" * 43}
    address = ada.post(PATH, **sure).headers["location"]
    assert ada.post(PATH, **sure).headers["location"] == address, "pressed twice"
    page = address.removeprefix("/admin")
    wait_until(lambda: "done" in said(ada.get(page)), "the job")
    shown = said(ada.get(page))
    assert title(ada.get(page)) == "Make license files, and mail them"
    assert "3 licenses done. 1 of them was skipped." in shown
    counted = "Files: 2. Mails: 1. Licenses without a customer: 1. Customers without an e-mail address: 0."
    for text in (counted, "it is disabled", "The file is deleted 14 days after the job ends."):
        assert text in shown
    answer = ada.post(f"{page}/file")
    assert "license-files-" in answer.headers["content-disposition"]
    files = msgspec.json.Decoder(StoredFile).decode_lines(answer.content)
    made = [(one.license_key, one.device) for one in files]
    assert made == [("FILED-0", "Fay's laptop"), ("FILED-1", None)]
    assert {one.valid_until for one in files} == {files[0].valid_until}
    assert files[0].valid_until is not None
    assert files[0].valid_until > NOW + timedelta(days=36_000)
    assert "License files" in said(ada.get("/mails"))


def test_files_are_counted_and_ordered_over_v3(tmp_path: Path) -> None:
    """With an API key for one product, only for that product."""
    with open_app(tmp_path) as app:
        for number in (17, 18):
            assert app.ask("POST", "/products", {"id": number, "name": f"P{number}"}).status == 201
            a_license(app, key=f"KEY-{number}", product_id=number)
        token = app.issue_token(Permissions.READ_WRITE, product_id=17)

        def count(token: str | None = None, **members: Any) -> int:
            more = {} if token is None else {"token": token}
            answer = app.ask("POST", "/license-files", {"dry_run": True, **members}, **more)
            assert answer.status == 200, answer.body
            found: int = answer.json["preview"]["licenses"]
            return found

        assert [count(), count(product_id=18), count(token), count(token, product_id=18)] == [2, 1, 1, 1]
        refused = app.ask("POST", "/license-files", {"ends_at": "2020-01-01T00:00:00Z"})
        assert (refused.status, refused.json["code"]) == (422, "invalid")
        made = app.ask("POST", "/license-files", {"ends_at": "2046-12-31T00:00:00Z"}, token=token)
        assert (made.status, made.json["job"]["kind"]) == (202, "make_files")
        path = f"/jobs/{made.json['job']['id']}"
        assert app.ask("GET", path, token=token).json["state"] == "waiting"
        others = app.issue_token(Permissions.READ_WRITE, product_id=18)
        assert app.ask("GET", path, token=others).status == 404
