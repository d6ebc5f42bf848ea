"""Importing a table on the pages: upload, columns, preview, job, and failed lines."""

import re
from typing import Any

import httpx
import pytest

from keywright.jobs.model import Job
from keywright.licensing.licenses.model import Status
from keywright.licensing.licenses.store import find_licenses
from keywright.provisioning.importers.uploads import MAX_UPLOAD
from keywright.provisioning.products import NameKind
from tests.http.admin_browser import Visitor, decide, look_up, said, title
from tests.http.admin_licenses import a_key, a_number, ended_job, where_to
from tests.makers import save_name
from tests.portal import PortalVisitor
from tests.server import RunningServer

DATABASES = ("sqlite",)


def chosen_fields(answer: httpx.Response) -> dict[str, str]:
    """The fields of the form for columns, as shown by the page."""
    found = {}
    for name, options in re.findall(
        r'<select[^>]* name="([\w-]+)"[^>]*>(.*?)</select>', answer.text, re.DOTALL
    ):
        (value,) = re.findall(r'<option value="([^"]*)" selected>', options) or [""]
        found[name] = value
    return found


def upload(visitor: Visitor, content: str, name: str = "list.csv") -> str:
    """Upload a table; return the path of the page about its columns."""
    return where_to(visitor.upload("/licenses/import", name, content))


def do(visitor: Visitor, path: str, fields: dict[str, str], what: str) -> httpx.Response:
    return visitor.post(path, **fields | {"do": what})


def finish(server: RunningServer, answer: httpx.Response) -> Job:
    """Wait for the job that a form started, and return it."""
    return ended_job(server, int(where_to(answer).split("/")[-1]))


def by_key(server: RunningServer, *keys: str) -> list[Any]:
    """The licenses with these keys; None for those that do not exist."""
    found = look_up(server, lambda tx: find_licenses(tx, keys))
    return [found.get(key) for key in keys]


@pytest.mark.smoke
def test_a_table_whose_columns_are_known_is_imported_after_a_look(
    server: RunningServer, bob: Visitor
) -> None:
    first, second = a_key(), a_key()
    path = upload(
        bob, f"Serial;Expiry Date;Devices;metadata.reseller\n{first};2031-12-31;3;North\n{second};;;\n"
    )
    page = bob.get(path)
    assert title(page) == "Import list.csv"
    assert chosen_fields(page) == {
        "preset": "",
        "zone": "UTC",
        "column-0": "key",
        "column-1": "expires_at",
        "column-2": "times_activated_max",
        "column-3": "as_metadata",
    }
    assert first not in page.text
    assert "Dec 31, 2031" in said(page), said(page)
    assert by_key(server, first, second) == [None, None]
    answer = do(bob, path, chosen_fields(page), "start")
    job = finish(server, answer)
    assert (job.done, job.total, job.refused) == (2, 2, 0)
    brought, other = by_key(server, first, second)
    assert (brought.times_activated_max, brought.metadata) == (3, '{"reseller":"North"}')
    assert other.times_activated_max is None
    shown = bob.get(f"/jobs/{job.id}")
    assert title(shown) == "Import list.csv"
    assert "Licenses: 2 new." in said(shown)
    assert "Download" not in said(shown)
    # The form is sent again, for example after "back".
    assert where_to(do(bob, path, chosen_fields(page), "start")) == f"/jobs/{job.id}"
    again = bob.get(upload(bob, f"Key\n{first}\n{a_key()}\n"))
    assert re.findall(r'data-label="Exists">(?:<a href="([^"]*)">)?(yes|no)', again.text) == [
        (f"/admin/licenses/{brought.id}", "yes"),
        ("", "no"),
    ]
    names = [name for (name,) in server.sql("SELECT name FROM events WHERE license_id = ?", brought.id)]
    assert names == ["license.imported"]


def test_products_are_named_and_a_column_of_orders_is_known_where_it_has_ids(
    server: RunningServer, bob: Visitor
) -> None:
    number = a_number()
    decide(server, save_name(NameKind.PRODUCT, number, "Lumen Cinema"))
    for product, order, field in ((number, a_number(), "order_id"), ("lumen cinema", "WEB-7", "")):
        page = bob.get(upload(bob, f"Key,Product,Order\n{a_key()},{product},{order}\n"))
        fields = chosen_fields(page)
        assert (fields["column-1"], fields["column-2"]) == ("product_id", field)
        assert f"Lumen Cinema ({number})" in said(page)
    page = bob.get(upload(bob, f"Key,Product\n{a_key()},Lumen Theatre\n"))
    assert chosen_fields(page)["column-1"] == "product_id"
    assert "must be a product's ID or code, or a name that only one product has" in said(page)


def test_columns_are_chosen_by_hand(server: RunningServer, bob: Visitor) -> None:
    key = a_key()
    path = upload(bob, f"Nummer,Plätze,Notiz\n{key},4,<b>x</b>\n")
    page = bob.get(path)
    assert "Choose the column that contains the license key." in said(page)
    assert do(bob, path, chosen_fields(page), "start").status_code == 422
    fields = {"column-0": "key", "column-1": "times_activated_max", "column-2": "as_metadata"}
    shown = do(bob, path, fields, "show")
    assert shown.status_code == 200
    assert chosen_fields(shown) == {"preset": "", "zone": "UTC"} | fields
    assert "<b>x</b>" not in shown.text
    finish(server, do(bob, path, fields, "start"))
    (license,) = by_key(server, key)
    assert (license.times_activated_max, license.metadata) == (4, '{"Notiz":"<b>x</b>"}')


def test_two_columns_cannot_be_one_field(bob: Visitor) -> None:
    path = upload(bob, "a,b\nA-KEY,B-KEY\n")
    answer = do(bob, path, {"column-0": "key", "column-1": "key"}, "show")
    assert answer.status_code == 422
    assert "Two columns cannot both be “license key”." in said(answer)
    assert do(bob, path, {"column-0": "key", "column-1": "odd"}, "show").status_code == 400
    path = upload(bob, "a,b,c\nA-KEY,B,C\n")
    fields = {"column-0": "key", "column-1": "metadata.50%", "column-2": "metadata.50%"}
    assert "Two columns cannot both be “metadata: 50%”." in said(do(bob, path, fields, "show"))


def test_a_preset_knows_the_columns_and_words_of_a_shop(server: RunningServer, bob: Visitor) -> None:
    key = a_key()
    path = upload(bob, f"key,status,activation_limit,user_email\n{key},expired,2,a@example.com\n")
    guessed = bob.post(path, preset="lemonsqueezy", do="guess")
    fields = chosen_fields(guessed)
    assert (fields["preset"], fields["column-3"]) == ("lemonsqueezy", "customer_email")
    finish(server, do(bob, path, fields, "start"))
    (license,) = by_key(server, key)
    [(email,)] = server.sql("SELECT email FROM customers WHERE id = ?", license.customer_id)
    assert (license.status, license.metadata, email) == (Status.ACTIVE, None, "a@example.com")


def test_a_spreadsheet_brings_its_customers_who_sign_in_to_the_portal(
    server: RunningServer, bob: Visitor
) -> None:
    """Three steps: open *Import*, choose the file, press *Import*. Dates are in the browser's time zone."""
    bob.http.cookies.set("keywright_zone", "Europe/Berlin", domain="127.0.0.1", path="/admin")
    ann, zoe, again = a_key(), a_key(), a_key()
    table = (
        "Customer;E-Mail;Language;License;Expires;Created\n"
        f"Ann Lee;Ann@sheet.example;de;{ann};2031-12-31;2019-05-06\n"
        f"Zoë;zoe@sheet.example;;{zoe};;2019-05-07\n"
        f"A. Lee;ann@SHEET.example;;{again};2031-06-30;2019-05-07\n"
    )
    page = bob.get(upload(bob, table, "kunden.csv"))
    fields = chosen_fields(page)
    chosen = ["customer_name", "customer_email", "customer_language", "key", "expires_at", "created_at"]
    assert [fields[f"column-{place}"] for place in range(6)] == chosen
    assert fields["zone"] == "Europe/Berlin"
    assert "Ann Lee" in said(page)
    job = finish(server, do(bob, page.url.path.removeprefix("/admin"), fields, "start"))
    bob.http.cookies.delete("keywright_zone", domain="127.0.0.1", path="/admin")
    assert "Customers: 2 new." in said(bob.get(f"/jobs/{job.id}"))
    licenses = by_key(server, ann, zoe, again)
    assert licenses[0].customer_id == licenses[2].customer_id != licenses[1].customer_id
    assert licenses[0].expires_at.isoformat() == "2031-12-31T23:00:00+00:00"
    assert licenses[0].created_at.isoformat() == "2019-05-05T22:00:00+00:00"
    with PortalVisitor(server) as visitor:
        visitor.sign_in("ann@sheet.example", licenses[0].customer_id)
        shown = visitor.get("/account")
        assert 'lang="de"' in shown.text
        assert "Ann Lee" in shown.text
        assert visitor.get(f"/licenses/{licenses[2].id}").status_code == 200


def test_lines_that_fail_are_shown_first_and_offered_as_a_file(server: RunningServer, bob: Visitor) -> None:
    good, bad = a_key(), a_key()
    path = upload(bob, f"Key,Expires\n{good},2031-01-01\n{bad},31.12.2031\n")
    page = bob.get(path)
    assert "3 expires_at: It must be " in said(page)
    job = finish(server, do(bob, path, chosen_fields(page), "start"))
    assert (job.done, job.refused) == (2, 1)
    shown = said(bob.get(f"/jobs/{job.id}"))
    assert "Licenses: 1 new, 1 left out." in shown
    assert "Line 3: expires_at" in shown
    file = bob.post(f"/jobs/{job.id}/file")
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    head, line = file.content.decode("utf-8-sig").splitlines()
    assert head == "Key,Expires,error"
    assert line.startswith(f"{bad},31.12.2031,")
    again = upload(bob, file.content.decode().replace("31.12.2031", "2031-12-31"))
    finish(server, do(bob, again, chosen_fields(bob.get(again)), "start"))
    assert None not in by_key(server, good, bad)


def test_json_lines_are_imported_with_their_activations(server: RunningServer, bob: Visitor) -> None:
    key, token = a_key(), "0123456789" * 4
    path = upload(bob, f'{{"license_key":"{key}","activations":[{{"token":"{token}"}}]}}\n', "list.jsonl")
    job = finish(server, do(bob, path, chosen_fields(bob.get(path)), "start"))
    assert "Activations: 1 new." in said(bob.get(f"/jobs/{job.id}"))
    (license,) = by_key(server, key)
    assert license.times_activated == 1


def test_a_file_that_cannot_be_a_table_is_refused(bob: Visitor) -> None:
    for content, reason in ((b"", "Choose a file."), (b"\xff\xfe\x00", "this is not text in UTF-8")):
        answer = bob.upload("/licenses/import", "a.csv", content)
        assert (answer.status_code, reason in said(answer)) == (422, True)


def test_a_file_has_a_largest_size(bob: Visitor) -> None:
    line = "K" * 99 + "\n"
    largest = "Key\n" + line * ((MAX_UPLOAD - 4) // len(line))
    assert bob.upload("/licenses/import", "a.csv", largest).status_code == 303
    refused = bob.upload("/licenses/import", "a.csv", largest + line * 1000)
    assert refused.status_code == 413
    assert '<a class="button primary" href="/admin/licenses/import">' in refused.text


def test_a_table_is_seen_by_the_user_who_uploaded_it(ada: Visitor, bob: Visitor, carol: Visitor) -> None:
    path = upload(bob, "Key\nANY-KEY\n")
    assert bob.get(path).status_code == 200
    assert ada.get(path).status_code == 404
    assert ada.post(path, do="start", **{"column-0": "key"}).status_code == 404
    assert bob.get(path.replace("licenses/import", "jobs")).status_code == 404
    assert "Import" not in said(carol.get("/licenses"))


def test_an_upload_without_the_forms_token_is_not_taken(bob: Visitor) -> None:
    answer = bob.upload("/licenses/import", "a.csv", "Key\nANY-KEY\n", csrf_token="wrong")
    assert answer.status_code == 403
