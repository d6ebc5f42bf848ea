"""Reports, and the versions of a product in use: pages, CSV, v3 and the terminal."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from keywright.db.schema import checkpoints
from keywright.identity.model import Permissions
from keywright.licensing.activations.model import ActivateDevice, Device, SaveLastSeen
from keywright.provisioning.products import CreateProduct, NewProduct
from keywright.search.statistics import CountDevices, SaveCounters
from tests.http.admin_browser import Visitor, asked, decide, make_users, said
from tests.http.admin_licenses import a_key, follow, make
from tests.http.asking import Client
from tests.http.conftest import assert_clean
from tests.server import NO_LIMITS, RunningServer, running

DATABASES = ("sqlite",)
MONTH = f"{datetime.now(UTC):%Y-%m}"


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server, because these tests check figures of all licenses."""
    with running(tmp_path_factory.mktemp("reports") / "data", database, **NO_LIMITS) as server:
        make_users(server)
        fill(server)
        yield server
    assert_clean(server)


def fill(server: RunningServer) -> None:
    """Create three licenses of product 17, one with a refused call, and one shared by many devices; one of
    none.
    """
    decide(server, CreateProduct(**asked(fields=NewProduct(id=17, name="Paint", code="paint"))))
    every = [make(server, product_id=17, customer_id=31, times_activated_max=1) for _ in range(2)]
    every += [make(server, product_id=17), make(server)]
    devices = [Device(f"device-{number}", platform="macOS", app_version="4.1") for number in range(9)]
    calls = [(every[0], devices[0]), *((every[2], one) for one in devices)]
    places = [
        decide(server, ActivateDevice(**asked(license=license.key, device=device)))[0].activation
        for license, device in calls
    ]
    now = int(asked()["context"].now.timestamp())
    seen = {(one.license_id, one.id): now for one in places}
    decide(server, SaveLastSeen(**asked(seen=seen, versions={(places[0].license_id, places[0].id): "4.2"})))
    decide(server, SaveCounters(**asked(refused={every[1].key: 7})))
    follow(server)
    # The server counted the devices of this day when it started.
    names = ("devices_day", "devices_done")
    with server.storage() as storage, storage.write() as tx:
        tx.connection.execute(update(checkpoints).where(checkpoints.c.name.in_(names)).values(last_id=0))
    while decide(server, CountDevices(**asked()))[0]:
        pass


def test_each_figure_of_the_reports_leads_to_its_list(server: RunningServer, carol: Visitor) -> None:
    answer = carol.get("/reports")
    heads = re.findall(r"<thead>(.*?)</thead>", answer.text, re.DOTALL)
    figures = "Made Trials started Trials bought Due Renewed Renewal rate Lapsed Refunded"
    found = [" ".join(re.sub("<.*?>", " ", one).split()) for one in heads[:2]]
    assert found == [f"Month {figures}", f"Product {figures}"]
    shown = said(answer)
    assert f"{datetime.now(UTC):%b %Y} 4 0 0 0 0 — 0 0" in shown
    assert "Paint 3 0 0" in shown
    assert "4.1 macOS Paint 9 9 9 4.2 macOS Paint 1 1 1" in shown
    assert "31 1 7" in shown
    page = carol.get("/reports?product=17").text
    links = {one for one in page.split('"') if one.startswith("/admin/events?counted=")}
    assert links == {f"/admin/events?counted=made%3A{MONTH}..{MONTH}%3A17"}
    listed = carol.get(links.pop().removeprefix("/admin"))
    assert listed.text.count('<td class="said"') == 3
    assert f"Counted in the reports: Made, {datetime.now(UTC):%b %Y}, Paint" in said(listed)
    exported = carol.get(f"/events/export?counted=made:{MONTH}..{MONTH}:0").text
    assert len(exported.splitlines()) == 1 + 4
    # An unknown figure is not a condition.
    assert "Counted" not in said(carol.get("/events?counted=made"))


def test_each_report_is_exported_as_csv(server: RunningServer, carol: Visitor) -> None:
    def rows(name: str) -> list[str]:
        answer = carol.get(f"/reports/{name}.csv")
        assert answer.status_code == 200
        return answer.content.decode("utf-8-sig").splitlines()

    head = "made,trials,bought,expiries,renewed,rate,lapsed,refunded"
    months = rows("months")
    assert (months[0], months[1], len(months)) == (f"month,{head}", f"{MONTH},4,0,0,0,0,,0,0", 13)
    assert rows("products") == [f"product_id,product,{head}", "17,Paint,3,0,0,0,0,,0,0"]
    assert rows("versions")[1:] == ["17,Paint,4.1,macOS,9,9,9", "17,Paint,4.2,macOS,1,1,1"]
    assert rows("customers")[1].startswith("31,,1,7,")
    assert rows("licenses")[0] == "license_id,key,customer_id,product_id,devices,networks,refusals"
    assert carol.get("/reports/nothing.csv").status_code == 404


def test_versions_in_use_are_on_the_products_page_over_v3_and_at_the_terminal(
    server: RunningServer, carol: Visitor
) -> None:
    page = said(carol.get("/products/17"))
    assert "Active devices by version" in page
    assert "4.1 macOS 9 9 9 4.2 macOS 1 1 1" in page
    today = datetime.now(UTC).date().isoformat()
    rows = [
        {"app_version": "4.1", "platform": "macOS", "devices": 9, "seen_1_day": 9, "seen_7_days": 9},
        {"app_version": "4.2", "platform": "macOS", "devices": 1, "seen_1_day": 1, "seen_7_days": 1},
    ]
    days = [{"day": today, "app_version": one["app_version"], "devices": one["devices"]} for one in rows]
    expected = {"counted_on": today, "devices": 10, "versions": rows, "days": days}
    assert json.loads(server.cli("product", "versions", "17", "--json")) == expected
    with Client(server, server.api_key(Permissions.READ)) as client:
        assert client.get("/v3/products/17/versions?days=7").json == expected
        assert client.get("/v3/products/18/versions").status == 404
        assert client.get("/v3/products/17/versions?days=366").status == 400


def test_a_new_version_that_a_program_validates_with_is_kept(server: RunningServer) -> None:
    key, device = a_key(), {"fingerprint": "updated-device", "app_version": "5.0"}
    license = make(server, key=key, product_id=17)
    with Client(server) as client:
        client.post("/v3/activate", json_body={"license_key": key, **device})
        for version in ("5.1", "5.1", None):
            body = {"license_key": key, "fingerprint": "updated-device", "app_version": version}
            assert client.post("/v3/validate", json_body=body).json["code"] == "valid"
    server.stop()
    server.start()
    query = "SELECT app_version FROM activations WHERE license_id = ?"
    assert server.sql(query, license.id) == [("5.1",)]
