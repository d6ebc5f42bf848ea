"""The pages about webhooks: endpoints, their secrets, and the results of deliveries."""

import re

import httpx

from tests.http.admin_browser import Visitor, decide, said, title
from tests.makers import create_endpoint
from tests.receiver import receiving
from tests.server import wait_until

_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")


def make(ada: Visitor, url: str = "https://crm.example/s3cret", **fields: object) -> httpx.Response:
    usual: dict[str, object] = {"url": url, "events": "license.*\njob.*", "payload": "full"}
    return ada.post("/webhooks/new", **usual | fields)


def newest(ada: Visitor) -> int:
    ((number,),) = ada.server.sql("SELECT max(id) FROM webhook_endpoints")
    return int(number)


def test_a_new_webhook_shows_its_secret_once(ada: Visitor) -> None:
    answer = make(ada, description="CRM of once")
    assert answer.headers["cache-control"] == "no-store"
    (secret,) = set(_SECRET.findall(answer.text))
    number = newest(ada)
    for page in ("/webhooks", f"/webhooks/{number}", f"/webhooks/{number}/edit"):
        assert secret not in ada.get(page).text
    assert "CRM of once" in said(ada.get("/webhooks"))
    assert "license.*, job.*" in said(ada.get(f"/webhooks/{number}"))
    rotated = ada.post(f"/webhooks/{number}/rotate")
    assert set(_SECRET.findall(rotated.text)).isdisjoint({secret})


def test_wrong_fields_are_said_and_kept(ada: Visitor) -> None:
    answer = make(ada, "http://example.com/", events="everything")
    assert "http:// is only for addresses in webhook_networks" in answer.text
    assert "must be an event type" in answer.text
    assert 'value="http://example.com/"' in answer.text


def test_a_webhook_is_changed_disabled_and_deleted(ada: Visitor) -> None:
    make(ada, description="changed")
    number = newest(ada)
    ada.post(f"/webhooks/{number}/edit", url="https://other.example/", events="*", payload="thin")
    assert "https://other.example/" in said(ada.get(f"/webhooks/{number}"))
    ada.post(f"/webhooks/{number}/enabled")
    assert "The webhook was disabled by hand." in said(ada.get(f"/webhooks/{number}"))
    for sending in ("test", "resend"):
        ada.post(f"/webhooks/{number}/{sending}", since="2026-01-01")
        assert "The webhook is disabled: this is sent once it is enabled." in said(
            ada.get(f"/webhooks/{number}")
        )
    ada.post(f"/webhooks/{number}/enabled", enable="yes")
    assert "The webhook was disabled by hand." not in said(ada.get(f"/webhooks/{number}"))
    assert "Delete this webhook?" in said(ada.get(f"/webhooks/{number}/delete"))
    ada.post(f"/webhooks/{number}/delete")
    assert ada.get(f"/webhooks/{number}").status_code == 404


def test_a_delivery_is_shown_and_sent_again(ada: Visitor) -> None:
    with receiving() as receiver:
        answer = make(ada, receiver.url)
        assert "the setting webhook_networks can allow it" in said(answer)
        # An endpoint created while its network was allowed.
        decide(ada.server, create_endpoint(receiver.url))
        number = newest(ada)
        ada.post(f"/webhooks/{number}/test")
        query = "SELECT id FROM webhook_deliveries WHERE endpoint_id = ? AND attempts > 0"
        wait_until(lambda: ada.server.sql(query, number), "the attempt")
        ((delivery,),) = ada.server.sql(query, number)
        waiting = ada.get(f"/webhooks/{number}?state=waiting")
        assert "webhook.tested" in said(waiting)
        assert f'<a href="/admin/webhooks/{number}" title="Remove filter"' in waiting.text
        assert "webhook.tested" not in said(ada.get(f"/webhooks/{number}?state=delivered"))
        shown = ada.get(f"/webhooks/{number}/deliveries/{delivery}")
        assert title(shown) == f"Delivery {delivery}"
        # The tests' server allows no private network.
        assert "is not a public address" in said(shown)
        assert "Failing." in said(ada.get(f"/webhooks/{number}"))
        ada.post(f"/webhooks/{number}/deliveries/{delivery}/resend")
        ada.post(f"/webhooks/{number}/resend", since="2026-01-01")
        assert receiver.connections == 0
    ada.post(f"/webhooks/{number}/delete")
