"""A form that is sent twice has one effect, and redirects to the same page both times."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest

from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import UpdateLicense
from tests.http.admin_browser import Visitor, asked, decide, said
from tests.http.admin_licenses import (
    a_key,
    a_number,
    activate,
    found,
    is_there,
    make,
    names_of,
    where_to,
)
from tests.makers import create_policy
from tests.server import RunningServer, wait_until

DATABASES = ("sqlite",)

_ONCE = re.compile(r'name="once" value="([^"]+)"')


def values(answer: httpx.Response) -> list[str]:
    """The idempotency values of the page's forms."""
    return _ONCE.findall(answer.text)


def value(answer: httpx.Response) -> str:
    """The idempotency value of the page's only form."""
    (found,) = values(answer)
    return str(found)


def is_taken(server: RunningServer, place: Activation) -> bool:
    """Whether the place is still taken."""
    return server.sql("SELECT deactivated_at FROM activations WHERE id = ?", place.id) == [(None,)]


# --- orders ---------------------------------------------------------------------------------------


def a_policy(server: RunningServer) -> int:
    return int(decide(server, create_policy(chunk_length=5))[0].id)


def test_a_form_that_is_sent_twice_makes_one_thing_and_without_a_value_two(
    server: RunningServer, ada: Visitor
) -> None:
    order, generate = str(a_number()), f"/policies/{a_policy(server)}/generate"
    license = make(server, order_id=int(order))
    page = values(ada.get(f"/licenses?order={order}"))
    assert len(set(page)) == 2
    all_of_order = {"scope": "all", "order": order}
    shown = value(ada.post("/licenses/bulk", **all_of_order, what="disable"))
    policy = {"name": "Once", "charset": "ABCDEFGHJKLMNPQR", "chunks": "4", "chunk_length": "5"}
    # Jobs also create licenses: wait for them.
    wait_until(
        lambda: server.sql("SELECT id FROM jobs WHERE state IN ('waiting', 'running')") == [], "the jobs"
    )
    forms: list[tuple[str, str, str, dict[str, str]]] = [
        (
            *("licenses", "/licenses/new", value(ada.get("/licenses/new"))),
            {"key": a_key(), "status": "active", "unlimited": "yes"},
        ),
        ("products", "/products/new", value(ada.get("/products/new")), {"name": "Own"}),
        ("customers", "/customers/new", value(ada.get("/customers/new")), {"name": "Own"}),
        ("policies", "/policies/new", value(ada.get("/policies/new")), policy | {"max_activations": "1"}),
        ("jobs", "/licenses/bulk/start", shown, all_of_order | {"what": "disable"}),
        ("jobs", "/licenses/bulk", page[0], all_of_order | {"what": "export"}),
        ("jobs", "/licenses/bulk", page[1], {"id": str(license.id), "what": "export"}),
        ("jobs", generate, value(ada.get(generate)), {"amount": "3", "status": "active"}),
    ]
    for table, path, once, fields in forms:
        before = server.count(table)
        assert len({where_to(ada.post(path, **fields, once=once)) for _ in range(2)}) == 1, path
        assert server.count(table) == before + 1, path
    before = server.count("jobs")
    for _ in range(2):
        where_to(ada.post(generate, amount="1", status="active"))
    assert server.count("jobs") == before + 2


def test_an_order_with_other_texts_is_another_order(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=1)
    form = bob.post("/licenses/bulk", id=str(license.id), what="raise_limit")
    fields = {"id": str(license.id), "what": "raise_limit", "once": value(form)}
    ways = [
        where_to(bob.post("/licenses/bulk/start", **fields, amount=amount)) for amount in ("1", "2", "1", "2")
    ]
    assert ways[:2] == ways[2:]
    assert ways[0] != ways[1]


def test_the_same_value_from_somebody_else_is_another_order(
    server: RunningServer, ada: Visitor, bob: Visitor
) -> None:
    path = f"/policies/{a_policy(server)}/generate"
    fields = {"amount": "1", "status": "active", "once": value(bob.get(path))}
    assert where_to(bob.post(path, **fields)) != where_to(ada.post(path, **fields))


# --- one license ----------------------------------------------------------------------------------


def test_a_license_is_extended_once_by_a_form_that_is_sent_twice(server: RunningServer, bob: Visitor) -> None:
    end = asked()["context"].now + timedelta(days=10)
    license = make(server, expires_at=end)
    path = f"/licenses/{license.id}"
    fields = {"days": "30", "begin": "expiry", "once": value(bob.get(f"{path}/extend"))}
    for _ in range(3):
        assert where_to(bob.post(f"{path}/extend", **fields)) == path
        assert "The license is valid until" in said(bob.get(path))
    assert found(server, license).expires_at == end + timedelta(days=30)
    extended = ["updated", "renewed"]
    assert names_of(server, license) == ["created", *extended]
    where_to(bob.post(f"{path}/extend", **fields | {"once": value(bob.get(f"{path}/extend"))}))
    assert names_of(server, license) == ["created", *extended, *extended]


def test_what_was_refused_is_asked_anew_and_then_done_once(server: RunningServer, bob: Visitor) -> None:
    license = make(server, expires_at=asked()["context"].now + timedelta(days=100))
    path = f"/licenses/{license.id}"
    fields = {"days": "30", "begin": "now", "once": value(bob.get(f"{path}/extend"))}
    for _ in range(2):
        answer = bob.post(f"{path}/extend", **fields)
        assert answer.status_code == 422
        assert "valid for longer" in said(answer)
        assert value(answer) == fields["once"]
    earlier = {"expires_at": asked()["context"].now + timedelta(days=1)}
    decide(server, UpdateLicense(**asked(license=license.id, changes=earlier)))
    for _ in range(3):
        assert where_to(bob.post(f"{path}/extend", **fields)) == path
    assert names_of(server, license) == ["created", "updated", "updated", "renewed"]


def test_places_that_were_taken_after_all_were_given_up_stay_taken(
    server: RunningServer, bob: Visitor
) -> None:
    license = make(server)
    path = f"/licenses/{license.id}"
    activate(server, license)
    fields = {"once": value(bob.get(f"{path}/deactivate-all"))}
    assert where_to(bob.post(f"{path}/deactivate-all", **fields)) == path
    place = activate(server, license)
    assert where_to(bob.post(f"{path}/deactivate-all", **fields)) == path
    assert "All places are free again." in said(bob.get(path))
    assert is_taken(server, place)


def test_a_license_is_not_deleted_with_places_of_which_nothing_was_said(
    server: RunningServer, bob: Visitor
) -> None:
    license = make(server)
    path = f"/licenses/{license.id}/delete"
    (seen,) = re.findall(r'name="places" value="([^"]+)"', bob.get(path).text)
    place = activate(server, license)
    answer = bob.post(path, places=seen)
    assert "The activations have just changed" in said(answer)
    assert "1 activation is deleted with it (active: 1)." in said(answer)
    assert is_taken(server, place)
    (seen,) = re.findall(r'name="places" value="([^"]+)"', answer.text)
    assert where_to(bob.post(path, places=seen)) == "/licenses"
    assert not is_there(server, license)


# --- at the same time -----------------------------------------------------------------------------


def test_every_form_has_a_value_of_its_own_which_it_keeps(bob: Visitor, server: RunningServer) -> None:
    license = make(server, expires_at=asked()["context"].now)
    shown = [value(bob.get(path)) for path in (f"/licenses/{license.id}/extend", "/licenses/new") * 5]
    assert len(set(shown)) == len(shown)
    form = bob.post("/licenses/bulk", id=str(license.id), what="extend", once=shown[0])
    assert value(form) != shown[0]
    fields = {"id": str(license.id), "what": "extend", "amount": "x", "once": value(form)}
    assert value(bob.post("/licenses/bulk/start", **fields)) == value(form)


def sent_together(visitors: list[Visitor], path: str, fields: dict[str, Any]) -> set[str]:
    """Send the same form from all of them at the same time; return the redirects."""
    for visitor in visitors:
        assert visitor.form_token
    with ThreadPoolExecutor(len(visitors)) as pool:
        return set(pool.map(lambda one: where_to(one.post(path, **fields)), visitors))


def in_another_window(visitor: Visitor, server: RunningServer) -> Visitor:
    """The same browser, with another connection."""
    other = Visitor(server)
    other.http.cookies.update(visitor.http.cookies)
    return other


@pytest.mark.smoke
def test_forms_that_come_at_the_same_time_have_one_effect(server: RunningServer, bob: Visitor) -> None:
    path = f"/policies/{a_policy(server)}/generate"
    windows = [in_another_window(bob, server) for _ in range(6)]
    for _ in range(5):
        before = server.count("jobs")
        fields = {"amount": "1", "status": "active", "once": value(bob.get(path))}
        assert len(sent_together(windows, path, fields)) == 1
        assert server.count("jobs") == before + 1
    for window in windows:
        window.http.close()
