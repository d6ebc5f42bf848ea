"""The server is killed while licenses change hands: each has changed hands whole, or not at all."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from keywright.identity.model import Permissions
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running, wait_until

pytestmark = pytest.mark.timeout(600)
TERMS = {"transferable": "always", "transfer_after_days": 0}
KILLS, LICENSES = 2, 3
_RECEIVED = "template = 'license_received' AND subject"


class Vendor(threading.Thread):
    """Offers, accepts and undoes transfers of one license until the end, whatever becomes of the calls."""

    def __init__(self, server: RunningServer, license_id: int, token: str) -> None:
        super().__init__()
        self.server, self.license_id = server, license_id
        self.headers = {"Authorization": f"Bearer {token}"}
        self.acknowledged: list[tuple[int, str]] = []
        self.is_over = False

    @property
    def path(self) -> str:
        """The address of the transfers; a server that starts again has another port."""
        return f"{self.server.base_url}/v3/licenses/{self.license_id}/transfers"

    def run(self) -> None:
        number = 0
        with httpx.Client(headers=self.headers, timeout=30, verify=False) as http:  # noqa: S501
            while not self.is_over:
                number += 1
                try:
                    self._hand_on(http, number)
                except httpx.TransportError:
                    # No wait for something: the server starts again at a moment that is not known.
                    time.sleep(0.05)

    def _hand_on(self, http: httpx.Client, number: int) -> None:
        """Offer the license, and accept what is offered; undo every other transfer. A customer makes three
        offers a day: each time it gets another one.
        """
        http.post(self.path, json={"email": f"{number}-{id(self)}@example.com"})
        steps = (("accept", "offered"), ("undo", "accepted"))[: 1 + number % 2]
        for step, state in steps:
            for one in http.get(self.path).json()["items"][:1]:
                if one["state"] == state and http.post(f"{self.path}/{one['id']}/{step}").status_code == 200:
                    self.acknowledged.append((one["id"], step))


def count_wrong(server: RunningServer, vendors: dict[int, Vendor]) -> dict[str, int]:
    """How many licenses changed hands in part, and how many acknowledged changes are missing."""
    wrong = {"in part": 0, "missing": 0}
    for number, vendor in vendors.items():
        [(owner,)] = server.sql(f"SELECT customer_id FROM licenses WHERE id = {number}")  # noqa: S608
        query = "SELECT id, from_customer_id, to_customer_id, accepted_at, undone_at FROM license_transfers"
        rows = server.sql(f"{query} WHERE license_id = {number} ORDER BY id")
        changes = sum((one[3] is not None) + (one[4] is not None) for one in rows)
        owners = [one[2] for one in rows if one[3] is not None and one[4] is None] or [rows[0][1]]
        counts: list[Any] = [
            server.sql(f"SELECT COUNT(*) FROM rotated_keys WHERE license_id = {number}"),  # noqa: S608
            server.sql(
                f"SELECT COUNT(*) FROM events WHERE license_id = {number} AND name = 'license.transferred'"  # noqa: S608
            ),
            server.sql(f"SELECT COUNT(*) FROM mail_outbox WHERE {_RECEIVED} LIKE '%[{number}]%'"),  # noqa: S608
        ]
        wrong["in part"] += owner != owners[-1] or {count for [(count,)] in counts} != {changes}
        done = {(one[0], "accept") for one in rows if one[3]} | {(one[0], "undo") for one in rows if one[4]}
        wrong["missing"] += len(set(vendor.acknowledged) - done)
    return wrong


def test_a_license_changes_hands_whole_or_not_at_all(database: str, tmp_path: Path) -> None:
    kills = size(KILLS, 100)
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        key, secret = server.api_key(Permissions.READ_WRITE)
        token = f"kw_{key[3:]}{secret[3:]}"
        http = httpx.Client(
            base_url=f"{server.base_url}/v3",
            headers={"Authorization": f"Bearer {token}"},
            verify=False,  # noqa: S501
        )
        with http:
            policy = http.post("/policies", json={"name": "Desk", "terms": TERMS}).json()["id"]
            bodies = [{"policy_id": policy, "customer": {"id": 1 + i}} for i in range(LICENSES)]
            made = [http.post("/licenses", json=body).json()["id"] for body in bodies]
        vendors = {number: Vendor(server, number, token) for number in made}
        for one in vendors.values():
            one.start()
        for _ in range(kills):
            before = sum(len(one.acknowledged) for one in vendors.values())
            wait_until(
                lambda before=before: sum(len(one.acknowledged) for one in vendors.values()) > before,  # type: ignore[misc]
                "a transfer",
            )
            time.sleep(random.uniform(0, 0.2))
            server.kill()
            server.start()
        for one in vendors.values():
            one.is_over = True
        for one in vendors.values():
            one.join()
        wrong = count_wrong(server, vendors)
        changes = sum(len(one.acknowledged) for one in vendors.values())
        record("R23", f"transfers, {database}", {"kills": kills, "transfers": changes} | wrong)
        server.assert_consistent()
    assert changes
    assert set(wrong.values()) == {0}
