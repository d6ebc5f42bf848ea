"""The pages about jobs: orders, progress and files."""

import csv
import io
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from typing import Any

import httpx
import pytest

from keywright.core.command import Origin
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.model import Job, JobState
from keywright.jobs.orders import Export, Order
from keywright.licensing.licenses.model import CreateLicense
from keywright.provisioning.products import NameKind
from keywright.search.filters import Search
from tests.databases import KINDS
from tests.http.admin_browser import (
    Visitor,
    asked,
    decide,
    look_up,
    make_users,
    said,
    title,
    wait_for_job,
)
from tests.jobs import ALL, a_change, a_generation
from tests.makers import create_policy, save_name
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.tables import each_row

DATABASES = ("sqlite",)

KEYS = [f"CANARY-{number:04d}" for number in range(600)]
_MADE = re.compile(r'href="/admin([^"]*)">(?:(?!</a>).)*Show \d+ licenses?</a>', re.DOTALL)
HOSTILE = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, database: str) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("jobs") / "data", database, **NO_LIMITS) as server:
        make_users(server)
        for first in range(0, len(KEYS), 100):
            decide(server, *(CreateLicense(**asked(key=key, status=3)) for key in KEYS[first : first + 100]))
        decide(server, create_policy(name=HOSTILE), save_name(NameKind.PRODUCT, 7, HOSTILE))
        yield server
    assert "CANARY" not in server.log


def order(server: RunningServer, order: Order, total: int | None = None, name: str = "ada") -> int:
    """Order a job as Ada, or another user; return its ID."""
    ((number,),) = server.sql("SELECT id FROM users WHERE name = ?", name)
    origin = Origin(f"user:{number}", "192.0.2.1", "")
    (job,) = decide(server, orders.start_command(order, total=total, **asked(by=number, origin=origin)))
    return int(job.id)


def job(server: RunningServer, number: int) -> Job:
    found = look_up(server, lambda tx: job_store.find_job(tx, number))
    assert isinstance(found, Job)
    return found


def ended(server: RunningServer, order_: Order, **fields: Any) -> int:
    number = order(server, order_, **fields)
    wait_for_job(server, number)
    return number


def test_a_job_is_listed_and_has_a_page_that_says_what_was_done(server: RunningServer, bob: Visitor) -> None:
    number = ended(server, a_change("raise_limit", 2, search=Search(status=3)), total=600)
    listed = bob.get("/jobs")
    assert f'href="/admin/jobs/{number}"' in listed.text
    assert "Allow 2 more places Licenses: active done 600 600 ada" in said(listed)
    page = bob.get(f"/jobs/{number}")
    assert title(page) == "Allow 2 more places"
    assert "600 licenses done. 600 of them were skipped." in said(page)
    assert "License 1: it has no limit. License 2: it has no limit." in said(page)
    assert "… and more." in said(page)
    assert "Cancel the job" not in page.text
    assert "data-refresh" not in page.text


def test_a_job_that_left_all_as_they_were_does_not_look_like_one_that_did_something(
    server: RunningServer, bob: Visitor
) -> None:
    in_vain = ended(server, a_change("extend", 30, license_ids=(1, 2)))
    assert 'class="badge warn' in bob.get(f"/jobs/{in_vain}/progress").text
    useful = ended(server, a_change("set_limit", 3, license_ids=(999_999, 5)))
    assert 'class="badge good' in bob.get(f"/jobs/{useful}/progress").text


def test_a_job_that_has_made_licenses_leads_to_them(server: RunningServer, bob: Visitor) -> None:
    number = ended(server, a_generation(3, product_id=71, order_id=90))
    page = bob.get(f"/jobs/{number}").text
    (address,) = _MADE.findall(page)
    assert "3 licenses" in said(bob.get(unescape(address)))
    assert address == f"/licenses?job={number}"
    # Only its own licenses, even if others have the same product and order.
    again = ended(server, a_generation(2, product_id=71, order_id=90))
    assert "2 licenses" in said(bob.get(f"/licenses?job={again}"))
    assert not _MADE.findall(bob.get(f"/jobs/{ended(server, Export(search=ALL))}").text)


def test_the_keys_that_a_job_made_are_downloaded_once_by_who_ordered_it(
    server: RunningServer, ada: Visitor, bob: Visitor
) -> None:
    number = ended(server, a_generation(30, product_id=72))
    assert "Download 30 keys (CSV)" in said(ada.get(f"/jobs/{number}"))
    assert "Download" not in said(bob.get(f"/jobs/{number}"))
    assert bob.post(f"/jobs/{number}/keys", format="txt").status_code == 403
    # A failed download does not count.
    form = f"csrf_token={ada.form_token}&format=txt"
    with closing(socket.create_connection(("127.0.0.1", server.port))) as connection:
        connection.sendall(
            f"POST /admin/jobs/{number}/keys HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Origin: {server.base_url}\r\nSec-Fetch-Site: same-origin\r\nCookie: keywright={ada.token}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(form)}\r\n\r\n{form}".encode()
        )
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 505 ")
    answer = ada.post(f"/jobs/{number}/keys", format="txt")
    made = server.sql("SELECT license_id FROM job_licenses WHERE job_id = ?", number)
    assert len(set(answer.text.split())) == len(made) == 30
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert f"license-keys-{number}-" in answer.headers["content-disposition"]
    assert "Download" not in said(ada.get(f"/jobs/{number}"))
    assert ada.post(f"/jobs/{number}/keys", format="csv").status_code == 409


def test_a_job_is_taken_back_with_a_job(server: RunningServer, ada: Visitor, bob: Visitor) -> None:
    wanted = Search(product_id=73)
    made = ended(server, a_generation(40, product_id=73))
    changed = ended(server, a_change("set_limit", 5, search=wanted), name="bob")
    assert "Take this back: 40 licenses" in said(bob.get(f"/jobs/{changed}"))
    back = bob.post(f"/jobs/{changed}/take-back")
    number = int(str(back.headers["location"]).rpartition("/")[2])
    wait_for_job(server, number)
    assert title(bob.get(f"/jobs/{number}")) == f"Take back job {changed}"
    assert f'href="/admin/jobs/{number}"' in bob.get(f"/jobs/{changed}").text
    limits = server.sql("SELECT DISTINCT times_activated_max FROM licenses WHERE product_id = 73")
    assert limits == [(None,)]
    bob.post(f"/jobs/{changed}/take-back")
    assert "was undone before" in said(bob.get(f"/jobs/{changed}"))
    # Undoing a generation deletes licenses, and is offered only to administrators. So is undoing an undo,
    # which may have restored deleted licenses, and undoing an administrator's job.
    assert "Take this back: 40 licenses" in said(ada.get(f"/jobs/{made}"))
    for one in (made, number, ended(server, a_change("disable", search=wanted))):
        assert "Take this back" not in said(bob.get(f"/jobs/{one}"))
        bob.post(f"/jobs/{one}/take-back")
        assert "Only administrators may undo this." in said(bob.get(f"/jobs/{one}"))


def test_a_running_job_shows_its_progress_until_it_is_canceled(server: RunningServer, bob: Visitor) -> None:
    number = order(server, a_generation(1_000_000, product_id=7, customer_id=8, order_id=9))
    wait_until(lambda: job(server, number).done, "a step")
    page = bob.get(f"/jobs/{number}")
    assert title(page) == f"Make 1,000,000 licenses with {HOSTILE}"
    assert f"For: product {HOSTILE} (7), customer 8, order 9" in said(page)
    assert HOSTILE not in page.text
    assert f'data-refresh="/admin/jobs/{number}/progress"' in page.text
    piece = bob.get(f"/jobs/{number}/progress", **{"X-Requested-With": "keywright"})
    assert "of 1,000,000" in said(piece)
    assert "<html" not in piece.text
    assert "data-done" not in piece.text
    answer = bob.post(f"/jobs/{number}/cancel")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/admin/jobs/{number}")
    assert job(server, number).state is JobState.CANCELED
    assert "data-done" in bob.get(f"/jobs/{number}/progress").text
    assert "The job has already ended." in said(bob.post(f"/jobs/{number}/cancel"))
    ((actor,),) = server.sql("SELECT actor FROM events WHERE name = 'job.canceled'")
    ((bobs_number,),) = server.sql("SELECT id FROM users WHERE name = 'bob'")
    assert actor == f"user:{bobs_number}"


def test_a_job_that_was_stopped_says_why_in_the_list_and_on_its_page(
    server: RunningServer, ada: Visitor
) -> None:
    # A reader, who may not change licenses.
    make_users(server, HOSTILE)
    number = order(server, a_generation(1), name=HOSTILE)
    wait_for_job(server, number)
    reason = f"{HOSTILE} may no longer change licenses."
    assert f"stopped {reason}" in said(ada.get("/jobs"))
    page = ada.get(f"/jobs/{number}")
    assert f"stopped {reason} The changes made so far remain." in said(page)
    assert HOSTILE not in page.text
    assert f"Job {number} stopped: {reason}" in said(ada.get("/events"))


@pytest.mark.smoke
def test_a_file_is_fetched_and_that_is_written_down(server: RunningServer, bob: Visitor) -> None:
    number = ended(server, Export(search=ALL))
    page = bob.get(f"/jobs/{number}").text
    assert "Download" in page
    # Otherwise, admin.js would send it only once.
    assert re.search(rf'<form [^>]*action="/admin/jobs/{number}/file" data-download>', page)
    answer = bob.post(f"/jobs/{number}/file")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith("attachment; filename*=UTF-8''licenses-all-2")
    assert answer.headers["cache-control"] == "no-store"
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))
    assert {row["license_key"] for row in rows} >= set(KEYS)
    events = server.sql("SELECT details FROM events WHERE name = 'job.file_fetched' ORDER BY id")
    assert len(events) == 1


def test_who_may_only_look_sees_the_jobs_and_no_button(server: RunningServer, carol: Visitor) -> None:
    page = carol.get(f"/jobs/{ended(server, Export(search=Search(product_id=99)))}")
    assert (page.status_code, "Download" in page.text) == (200, False)
    assert "deleted 90 days after they finish" in said(carol.get("/jobs"))


@pytest.mark.databases(*KINDS)
def test_a_job_without_a_file_has_none_and_odd_places_are_the_first_page(
    server: RunningServer, bob: Visitor
) -> None:
    number = ended(server, a_change("disable", license_ids=(999_999,)))
    assert bob.post(f"/jobs/{number}/file").status_code == 404
    for odd in ("x", 2**63 - 1, 2**63, 10**30, "9" * 3_000):
        assert bob.get(f"/jobs?before={odd}&after={odd}").status_code == 200


def test_one_goes_back_through_the_pages_of_jobs_as_one_came(server: RunningServer, ada: Visitor) -> None:
    numbers = [order(server, a_change("disable", license_ids=(1,))) for _ in range(80)][::-1]
    wait_for_job(server, numbers[0])
    forth = [ada.get("/jobs")]
    for _ in range(2):
        forth.append(ada.get(way(forth[-1], "next")))
    assert [shown(one) for one in forth] == [numbers[:25], numbers[25:50], numbers[50:75]]
    back = [ada.get(way(forth[2], "prev"))]
    back.append(ada.get(way(back[0], "prev")))
    assert [shown(one) for one in back] == [numbers[25:50], numbers[:25]]
    assert 'rel="prev"' not in forth[0].text
    assert 'rel="prev"' not in back[1].text
    assert shown(ada.get(way(back[0], "next"))) == numbers[50:75]
    assert shown(ada.get("/jobs?before=1")) == numbers[:25]
    # The newer ones would not fill a page.
    assert shown(ada.get(f"/jobs?after={numbers[3]}")) == numbers[:25]


def way(page: httpx.Response, rel: str) -> str:
    """The target of the list's link of this kind."""
    (href,) = re.findall(rf'href="/admin([^"]*)" rel="{rel}"', page.text)
    return unescape(href)


def shown(page: httpx.Response) -> list[int]:
    """The IDs of the listed jobs."""
    return [int(number) for number in re.findall(r'href="/admin/jobs/(\d+)"', page.text)]


@each_row(
    ("what", "words"),
    [
        (a_change("extend", 1, license_ids=(999_999,)), "Extend by 1 day"),
        (a_change("extend", 30, is_from_now=True, license_ids=(999_999,)), "Extend by 30 days from now"),
        (a_change("set_limit", 5, license_ids=(999_999,)), "Set the limit to 5 places"),
        (a_change("set_limit", license_ids=(999_999,)), "Remove the limit"),
        (a_change("enable", license_ids=(999_999,)), "Enable"),
        (a_change("set_status", 2, license_ids=(999_999,)), "Set the status to delivered"),
        (a_change("deactivate_all", license_ids=(999_999,)), "Free all places"),
        (a_change("delete", license_ids=(999_999,)), "Delete"),
        (Export(search=Search(product_id=98, is_full=True)), "Export to a file"),
    ],
)
def test_every_job_is_called_what_it_does(
    server: RunningServer, ada: Visitor, what: Order, words: str
) -> None:
    assert title(ada.get(f"/jobs/{ended(server, what)}")) == words
