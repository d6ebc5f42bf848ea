"""The pages about connections to shops, and about sales that wait for a decision."""

import re
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update

from keywright.db import Storage
from keywright.db.schema import shop_events
from keywright.registry import open_executor
from tests.connections import a_sale, an_event, store, work
from tests.databases import KINDS
from tests.http.admin_browser import Visitor, decide, opened, said, title
from tests.http.admin_licenses import followed
from tests.makers import create_policy

DATABASES = ("sqlite",)

_SECRET = re.compile(r'id="secret">(whsec_[^<]+)<')


def policy(ada: Visitor, name: str) -> int:
    (made,) = decide(ada.server, create_policy(name=name))
    return int(made.id)


def add(ada: Visitor, name: str, **fields: str) -> int:
    assert ada.post("/connections/new", shop="generic", name=name, **fields).status_code == 200
    ((number,),) = ada.server.sql("SELECT id FROM connections WHERE name = ?", name)
    return int(number)


def edit(ada: Visitor, number: int, **fields: object) -> str:
    usual: dict[str, object] = {"name": "Edited", "mode": "live", "product": "", "policy": "0"}
    answer = ada.post(f"/connections/{number}/edit", **usual | {"quantity": "keys"} | fields)
    return followed(ada, answer)


def test_a_new_connection_shows_its_address_and_its_secret_once(ada: Visitor) -> None:
    answer = ada.post("/connections/new", shop="generic", name="Shown once")
    assert title(answer) == "Connection Shown once added"
    ((secret,),) = [_SECRET.findall(answer.text)]
    assert answer.headers["cache-control"] == "no-store"
    ((number,),) = ada.server.sql("SELECT id FROM connections WHERE name = 'Shown once'")
    address = f"{ada.server.base_url}/in/generic/{number}"
    assert address in answer.text
    page = ada.get(f"/connections/{number}").text
    assert address in page
    assert secret not in page
    assert secret not in ada.get("/connections").text
    given = ada.post("/connections/new", shop="stripe", name="Given", secret="whsec_of-the-shop")
    assert "whsec_of-the-shop" not in given.text


def test_the_mapping_names_policies(ada: Visitor) -> None:
    number, made = add(ada, "Mapped"), policy(ada, "Pro of shops")
    assert "The mapping is empty" in said(ada.get(f"/connections/{number}"))
    rows = {"product": ["price_1", "", "*"], "policy": [str(made), "0", "0"]}
    rows["quantity"] = ["devices", "keys", "keys"]
    shown = edit(ada, number, **rows)
    assert "The connection Edited was saved." in shown
    for words in ("price_1", "Pro of shops", "more devices", "any other", "no license"):
        assert words in shown
    form = ada.get(f"/connections/{number}/edit").text
    assert form.count('name="product"') == 5
    other = policy(ada, "Of a bundle")
    shown = edit(ada, number, **rows, more=[str(other), "", ""])
    assert "Pro of shops, Of a bundle" in shown
    assert f'value="{other}"' in ada.get(f"/connections/{number}/edit").text
    names = {"external_id_name": "user", "metadata_names": "campaign, of gift"}
    edit(ada, number, **rows, **names, on_cancel="at_once")
    form = ada.get(f"/connections/{number}/edit").text
    assert 'value="user"' in form
    assert '<option value="at_once" selected>at once</option>' in form
    assert 'value="campaign, of gift"' in form
    assert f'<option value="{made}" selected>Pro of shops</option>' in form


def test_what_cannot_be_is_said_beside_the_field(ada: Visitor) -> None:
    number, twice = add(ada, "Wrong"), {"product": ["a", "a"], "policy": ["0", "0"], "quantity": ["keys"] * 2}
    wrong: list[tuple[dict[str, Any], str]] = [
        (twice, "each product once"),
        ({"product": "a", "policy": "x"}, "Choose a policy for each product."),
        ({"secret": "whsec_not base64"}, "secret must"),
        ({"url": "nowhere"}, "url "),
        ({"name": ""}, "This field is required."),
    ]
    assert [text for fields, text in wrong if text not in edit(ada, number, **fields)] == []


@pytest.mark.databases(*KINDS)
def test_a_sale_that_waits_is_listed_and_tried_again(ada: Visitor, bob: Visitor) -> None:
    number = add(ada, "Waiting")
    with opened(ada.server) as storage:
        sell(storage, number)
    listed = ada.get("/connections")
    assert "Sales waiting for a decision" in said(listed)
    assert "The mapping does not contain the product." in said(listed)
    edit(ada, number, name="Waiting", product="pro-of-pages", policy=str(policy(ada, "Of pages")))
    ((event,),) = ada.server.sql("SELECT id FROM shop_events WHERE connection_id = ?", number)
    done = bob.post(f"/connections/{number}/events/{event}/retry", **{"from": "list"})
    assert "The event will be tried again in a moment." in followed(bob, done)
    assert "order-of-pages" in said(bob.get(f"/connections/{number}"))
    assert "No events" in said(bob.get(f"/connections/{number}?state=ignored"))


def test_what_was_changed_by_hand_can_be_applied_anyway(ada: Visitor, bob: Visitor) -> None:
    number = add(ada, "By hand")
    with opened(ada.server) as storage:
        sell(storage, number)
        by_hand = update(shop_events).where(shop_events.c.connection_id == number)
        with storage.write() as tx:
            tx.connection.execute(by_hand.values(reason="changed_by_hand"))
    assert "Apply anyway" in said(bob.get(f"/connections/{number}"))
    ((event,),) = ada.server.sql("SELECT id FROM shop_events WHERE connection_id = ?", number)
    bob.post(f"/connections/{number}/events/{event}/retry", overwrite="yes")
    ((is_forced,),) = ada.server.sql("SELECT is_forced FROM shop_events WHERE id = ?", event)
    assert is_forced == 1


def sell(storage: Storage, number: int) -> None:
    with closing(open_executor(storage.clone())) as executor:
        sale = a_sale("order-of-pages", product="pro-of-pages")
        # Recent times, because the server purges old events.
        row_id = store(executor, an_event(sale), number, now=datetime.now(UTC))
        assert row_id is not None
        work(executor, row_id)


@pytest.mark.databases(*KINDS)
def test_a_connection_is_removed_after_a_question(ada: Visitor) -> None:
    number = add(ada, "Removed")
    assert "The licenses that it sold remain." in said(ada.get(f"/connections/{number}/remove"))
    assert "The connection Removed was removed." in followed(ada, ada.post(f"/connections/{number}/remove"))
    assert ada.get(f"/connections/{number}").status_code == 404


def test_what_a_removed_connection_has_sold_is_taken_over(ada: Visitor, bob: Visitor) -> None:
    policy_id = str(policy(ada, "Taken over"))
    before = add(ada, "Before")
    edit(ada, before, product="pro-of-pages", policy=policy_id)
    with opened(ada.server) as storage:
        sell(storage, before)
    ada.post(f"/connections/{before}/remove")
    after = add(ada, "After")
    said_first = f"Connection {before}, which was removed, has sold licenses (1)."
    assert said_first in said(ada.get(f"/connections/{after}"))
    assert bob.post(f"/connections/{after}/take-over", removed=str(before)).status_code == 403
    done = followed(ada, ada.post(f"/connections/{after}/take-over", removed=str(before)))
    assert "1 license was taken over." in done
    assert said_first not in done
