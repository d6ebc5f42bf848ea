"""The Python client and a real Keywright server."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest

from keywright.registry import open_executor
from keywright_client import Keywright, Refused
from keywright_client.verify import key_id
from tests.makers import rotate_key, withdraw_key
from tests.server import NO_LIMITS, RunningServer, running

LICENSE_KEY, DAY = "EDITOR-1", 86_400


class Vendor:
    """Runs the server: makes licenses over v3, and changes the signing key."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._client = httpx.Client(base_url=server.base_url, auth=server.api_key(), timeout=30)
        self.product_id = self.call("POST", "/v3/products", name="Editor", code="editor")["id"]

    def call(self, method: str, path: str, **body: Any) -> Any:
        return self._client.request(method, path, json=body).raise_for_status().json()

    def delete(self, path: str) -> None:
        self._client.delete(path).raise_for_status()

    def sell(self, key: str = LICENSE_KEY, **terms: Any) -> str:
        """A license of the product ``editor``, with these terms; the path of it."""
        sold = self.call("POST", "/v3/licenses", key=key, product_id=self.product_id, terms=terms)
        return f"/v3/licenses/{sold['id']}"

    def make_file(self, key: str) -> str:
        """A license file for the first device."""
        device = {"license_key": key, "fingerprint": "the-first-device"}
        return str(self._client.post("/v3/license-file", json=device).raise_for_status().text)

    def paste(self, request: str) -> str:
        """The license file that the page for machines without a network gives for a program's request."""
        form = {"request": request, "download": "yes"}
        return str(self._client.post("/offline", data=form).raise_for_status().text)

    @property
    def public_keys(self) -> list[str]:
        return [one["x"] for one in self._client.get("/.well-known/jwks.json").json()["keys"]]

    @property
    def public_key(self) -> str:
        return self.public_keys[0]

    def close(self) -> None:
        self._client.close()

    def end_what_older_keys_signed(self) -> None:
        with self._server.storage() as storage, storage.write() as tx:
            tx.connection.exec_driver_sql(
                "UPDATE signing_keys SET signed_until = 1 WHERE id < (SELECT MAX(id) FROM signing_keys)"
            )

    def change_signing_key(self, command: Any) -> Any:
        with self._server.storage() as storage:
            (outcome,) = open_executor(storage).execute([command])
        assert not isinstance(outcome, Exception), outcome
        return outcome


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("real") / "data", **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def vendor(real: RunningServer) -> Iterator[Vendor]:
    with closing(Vendor(real)) as vendor:
        yield vendor


class Program:
    """A program, started again for each call, with a clock that may be ahead."""

    def __init__(self, server: RunningServer, public_key: str, folder: Path) -> None:
        self.url, self.keys, self.folder = server.base_url, [public_key], folder
        self.ahead = 0.0

    def start(self, **options: Any) -> Keywright:
        return Keywright(
            options.pop("url", self.url),
            **{
                "product": "editor",
                "public_keys": self.keys,
                "folder": self.folder,
                "named_by": "environment",
                **options,
            },
            clock=lambda: time() + self.ahead,
        )

    def start_offline(self, **options: Any) -> Keywright:
        return self.start(url="http://127.0.0.1:1", **options)


@pytest.fixture
def sold(vendor: Vendor, real: RunningServer, tmp_path: Path) -> Program:
    return Program(real, vendor.public_key, tmp_path / "kept")


def test_a_program_is_licensed_and_goes_on_without_the_server(vendor: Vendor, sold: Program) -> None:
    vendor.sell("LIFE-1", max_activations=1, offline_days=10, entitlements=["export"])
    assert sold.start().check().state == "not_activated"
    status = sold.start().activate("LIFE-1", name="Laptop")
    assert (status.state, status.code, status.has("export")) == ("valid", "valid", True)
    assert status.license is not None
    assert status.license["product"]["code"] == "editor"
    assert status.activation is not None
    assert status.activation["fingerprint"] == "the-first-device"
    assert sold.start().check(now=True).state == "valid"
    sold.ahead = 9.9 * DAY
    assert sold.start_offline().check().state == "unreachable_but_valid_until"
    sold.ahead = 10.1 * DAY
    assert sold.start_offline().check().state == "unreachable_too_long"


def test_refusals_and_noes_of_the_server(
    vendor: Vendor, sold: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = vendor.sell("NOES-1", max_activations=1)
    assert sold.start().activate("NO-SUCH-KEY").code == "unknown_license"
    assert sold.start().activate("NOES-1").valid
    vendor.call("PATCH", path, status="disabled")
    status = sold.start().check(now=True)
    assert (status.state, status.code, status.has("export")) == ("disabled", "disabled", False)
    vendor.call("PATCH", path, status="active")
    assert sold.start().check().state == "valid"
    monkeypatch.setenv("KEYWRIGHT_FINGERPRINT", "the-second-device")
    assert sold.start().check().state == "not_activated"
    status = sold.start().activate("NOES-1")
    assert (status.state, status.code) == ("limit_reached", "limit_reached")
    assert "1" in status.detail
    assert sold.start(product="viewer").activate("NOES-1").code == "product_mismatch"


def test_grace_and_expiry(vendor: Vendor, sold: Program) -> None:
    path = vendor.sell("GRACE-1", grace_days=3, offline_days=30)
    sold.start().activate("GRACE-1")
    vendor.call("PATCH", path, expires_at=_moment(-DAY))
    status = sold.start().check(now=True)
    assert (status.valid, status.state) == (True, "grace")
    sold.ahead = 3 * DAY
    assert sold.start_offline().check().state == "expired"
    sold.ahead = 0
    vendor.call("PATCH", path, expires_at=_moment(-9 * DAY))
    assert sold.start().check(now=True).state == "expired"


def test_a_yes_for_an_old_build_serves_no_newer_one(vendor: Vendor, sold: Program) -> None:
    path = vendor.sell("BUILD-1", after_expiry="older_versions")
    vendor.call("PATCH", path, expires_at=_moment(-DAY))
    assert sold.start(built_at=_moment(-9 * DAY)).activate("BUILD-1").codes == ["version_covered"]
    for build in (_moment(0), None):
        assert sold.start_offline(built_at=build).check().code == "build"
        assert sold.start(built_at=build).check().code == "expired"
        sold.start(built_at=_moment(-9 * DAY)).check()
    assert sold.start(built_at=_moment(-9 * DAY)).check().code == "version_covered"


def test_an_answer_that_cannot_be_kept_lasts_five_minutes(vendor: Vendor, sold: Program) -> None:
    vendor.sell("ONLINE-1", offline_days=0)
    assert sold.start().activate("ONLINE-1").valid
    assert sold.start_offline().check().valid
    sold.ahead = 301
    assert sold.start_offline().check().state == "unreachable_too_long"
    assert sold.start().check().state == "valid"


def test_leases_are_taken_renewed_and_released(
    vendor: Vendor, sold: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor.sell("TEAM-1", max_leases=1)
    sold.start().activate("TEAM-1")
    with sold.start().lease(holder="anna") as lease:
        assert lease.is_held
        assert sold.start().check(now=True).state == "valid"
        with pytest.raises(Refused) as refused, sold.start().lease(holder="ben"):
            pass
        assert refused.value.code == "no_free_lease"
        lease.renew()
    with sold.start().lease(holder="ben"):
        pass


def test_usage_and_deactivation(vendor: Vendor, sold: Program) -> None:
    vendor.sell("USE-1", meters={"pages": {"limit": 5, "per": "month", "overage": "refuse"}})
    sold.start().activate("USE-1")
    assert sold.start().use("pages", 3)["used"] == 3
    with pytest.raises(Refused) as refused:
        sold.start().use("pages", 3)
    assert refused.value.code == "usage_exceeded"
    sold.start().deactivate()
    assert sold.start().check().state == "not_activated"


def test_a_license_file_of_the_server_is_good(vendor: Vendor, sold: Program, real: RunningServer) -> None:
    vendor.sell("FILE-1")
    other = Program(real, sold.keys[0], sold.folder.with_name("other"))
    other.start().activate("FILE-1")
    file = vendor.make_file("FILE-1")
    assert file.startswith("-----BEGIN KEYWRIGHT LICENSE-----\n")
    assert sold.start_offline().load_file(file, "FILE-2").code == "license_key"
    assert sold.start_offline().load_file(file, "FILE-1").state == "valid"
    assert sold.start_offline().check().state == "valid"


def test_a_program_that_has_no_network_is_licensed_by_a_request_and_a_file(
    vendor: Vendor, sold: Program
) -> None:
    vendor.sell("GAP-1", max_activations=1, offline_days=90)
    file = vendor.paste(sold.start_offline().request_text("GAP-1", "Studio"))
    status = sold.start_offline().load_file(file, "GAP-1")
    assert (status.state, status.is_offline) == ("valid", False)
    sold.ahead = 89 * DAY
    assert sold.start_offline().check().valid
    sold.ahead = 91 * DAY
    assert sold.start_offline().check().state == "unreachable_too_long"


def test_a_license_file_for_an_old_build_serves_no_newer_one(vendor: Vendor, sold: Program) -> None:
    path = vendor.sell("GAP-2", after_expiry="older_versions")
    vendor.call("PATCH", path, expires_at=_moment(-DAY))
    old, new = {"built_at": _moment(-9 * DAY)}, {"built_at": _moment(0)}
    file = vendor.paste(sold.start_offline(**old).request_text("GAP-2"))
    assert sold.start_offline(**new).load_file(file, "GAP-2").code == "build"
    assert sold.start_offline(**old).load_file(file, "GAP-2").code == "version_covered"
    with pytest.raises(httpx.HTTPStatusError):
        vendor.paste(sold.start_offline(**new).request_text("GAP-2"))


def test_a_pinned_key_leads_to_the_newest_until_it_is_withdrawn(tmp_path: Path) -> None:
    with running(tmp_path / "data", **NO_LIMITS) as server, closing(Vendor(server)) as vendor:
        vendor.sell(max_activations=9)
        first = Program(server, vendor.public_key, tmp_path / "first")
        assert first.start().activate(LICENSE_KEY).valid
        for _ in range(2):
            vendor.change_signing_key(rotate_key(now=_now()))
        # Everything that the older ones have signed has ended.
        vendor.end_what_older_keys_signed()
        server.stop()
        server.start(server.port)
        assert vendor.public_keys == [vendor.public_key]
        assert vendor.public_key not in first.keys
        first.ahead = 30 * DAY
        assert first.start_offline().check().state == "unreachable_too_long"
        first.ahead = 0
        # One that knows the first key, and one that is installed now with it.
        assert first.start().check(now=True).state == "valid"
        assert Program(server, first.keys[0], tmp_path / "later").start().activate(LICENSE_KEY).valid
        # Once it is withdrawn, it leads nowhere, but for the program that has learnt the newer one.
        vendor.change_signing_key(withdraw_key(key_id(first.keys[0]), now=_now()))
        server.stop()
        server.start(server.port)
        assert first.start().check(now=True).state == "valid"
        afresh = Program(server, first.keys[0], tmp_path / "afresh").start().activate(LICENSE_KEY)
        assert (afresh.state, afresh.code) == ("tampered", "header")


def _moment(seconds: float) -> str:
    return (_now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
