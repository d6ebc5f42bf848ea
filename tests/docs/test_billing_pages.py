"""The recipe that bills usage does what its two pages say: a closed period is billed once, also when its
delivery comes again, or Stripe was down.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from keywright.identity.model import Permissions
from tests.docs.test_documents import ROOT
from tests.receiver import Received, Reply, receiving
from tests.server import RunningServer, environment, running, wait_until

pytestmark = pytest.mark.tier("ordinary")
RECIPE = ROOT / "docs" / "recipes" / "bill_usage.py"
NETWORK = "127.0.0.0/8"
METER = {"limit": 100, "per": "month", "overage": "allow"}


class Billing:
    """A server with a customer who has used 130 of 100 exports, and the delivery about that period."""

    def __init__(self, server: RunningServer, folder: Path, body: bytes, token: str) -> None:
        self.server, self.folder, self.body, self.token = server, folder, body, token

    def bill(self, method: str, stripe: str) -> int:
        """Run the recipe; its exit status."""
        more = {"KEYWRIGHT": self.server.base_url, "STRIPE": stripe, "TOKEN": self.token, "STRIPE_KEY": "sk"}
        command = [sys.executable, str(RECIPE), method]
        done = subprocess.run(
            command, check=False, cwd=self.folder, input=self.body, env=environment() | more, timeout=60
        )
        return done.returncode


def call(server: RunningServer, token: str, method: str, path: str, body: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with closing(HTTPConnection(server.base_url.removeprefix("http://"), timeout=60)) as connection:
        connection.request(method, f"/v3{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status < 300, answer.read()
        return json.load(answer)


@pytest.fixture(scope="module")
def billing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Billing]:
    folder = tmp_path_factory.mktemp("billing")
    with receiving() as receiver, running(folder / "data", webhook_networks=NETWORK) as server:
        key, secret = server.api_key(Permissions.READ_WRITE)
        token = f"kw_{key[3:]}{secret[3:]}"
        call(server, token, "POST", "/webhooks", {"url": receiver.url, "events": ["usage.*"]})
        call(server, token, "POST", "/customers", {"id": 7, "external_id": "cus_QxA7"})
        license = {"key": "METER-0001", "terms": {"meters": {"exports": METER}}, "customer": {"id": 7}}
        call(server, token, "POST", "/licenses", license)
        used = {"license_key": "METER-0001", "meter": "exports", "amount": 130}
        call(server, token, "POST", "/usage", used)
        # A meter that is taken away is closed at once; others an hour after their period.
        call(server, token, "PATCH", "/licenses/1", {"terms": {"meters": {"exports": None}}})

        def is_closed(request: Received) -> bool:
            return bool(json.loads(request.body)["type"] == "usage.period_closed")

        wait_until(lambda: any(map(is_closed, receiver.received)), "the delivery")
        [delivery] = filter(is_closed, receiver.received)
        yield Billing(server, folder, delivery.body, token)


def test_a_closed_period_is_billed_once_in_either_way(billing: Billing) -> None:
    usage = json.loads(billing.body)["data"]["details"]
    assert (usage["used"], usage["limit"], usage["overage"], usage["customer_id"]) == (130, 100, 30, 7)
    expected = {
        "meter-event": (
            "/v1/billing/meter_events",
            {"event_name": "exports", "payload[stripe_customer_id]": "cus_QxA7", "payload[value]": "130"},
        ),
        "invoice-item": (
            "/v1/invoiceitems",
            {
                "customer": "cus_QxA7",
                "currency": "eur",
                "amount": "150",
                "description": "30 exports above 100",
            },
        ),
    }
    for method, (path, fields) in expected.items():
        (billing.folder / "billed.db").unlink(missing_ok=True)
        with receiving(lambda _: Reply(503)) as down:
            assert billing.bill(method, f"http://127.0.0.1:{down.port}") != 0
        with receiving() as stripe:
            assert [billing.bill(method, f"http://127.0.0.1:{stripe.port}") for _ in range(2)] == [0, 0]
        [request], [failed] = stripe.received, down.received
        sent = dict(parse_qsl(request.body.decode()))
        assert (request.path, {name: sent[name] for name in fields}) == (path, fields)
        assert request.headers["idempotency-key"] == failed.headers["idempotency-key"]
        assert request.headers["idempotency-key"].startswith("kw-1-exports-")
