"""The file for WooCommerce sells licenses of a real server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.programs import program
from tests.deploy.proxies import DEPLOY
from tests.http.asking import Client
from tests.server import RunningServer, running

PLUGIN = DEPLOY / "woocommerce" / "keywright.php"
COMPLETED, REFUNDED = "woocommerce_order_status_completed", "woocommerce_order_status_refunded"
GENERATOR = {"name": "Studio", "charset": "0123456789ABCDEF", "chunks": 4, "chunk_length": 4}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("shop") / "data") as started:
        yield started


@pytest.fixture(scope="module")
def credentials(server: RunningServer) -> tuple[str, str]:
    credentials = server.api_key()
    with Client(server, credentials) as vendor:
        assert vendor.post("generators", json_body=GENERATOR).data["id"] == 1
    return credentials


def shop(url: str, credentials: tuple[str, str], *calls: list[Any]) -> list[Any]:
    """What has become of the order after each of these hooks."""
    done = subprocess.run(
        [program("php"), Path(__file__).with_name("shop.php"), PLUGIN, url, *credentials],
        input="\n".join(map(json.dumps, calls)),
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_order_gets_its_keys_once_and_a_refund_disables_them(
    server: RunningServer, credentials: tuple[str, str]
) -> None:
    url = f"{server.base_url}/wp-json/lmfwc/v2"
    bought, again, lost, recovered = shop(
        url, credentials, [COMPLETED, 7001], [COMPLETED, 7001], ["forget the keys"], [COMPLETED, 7001]
    )
    keys = bought["meta"][0]["License key"].split("\n")
    assert len(set(keys)) == 2
    assert lost["meta"] == [[], []]
    assert bought == again == recovered
    with Client(server, credentials) as vendor:
        licenses = vendor.get("licenses", query={"order_id": 7001}).data
        assert sorted(one["licenseKey"] for one in licenses) == sorted(keys)
        assert {(one["productId"], one["status"]) for one in licenses} == {(101, 1)}
        (refunded,) = shop(url, credentials, [COMPLETED, 7001], [REFUNDED, 7001])[1:]
        assert refunded["notes"] == []
        assert {one["status"] for one in vendor.get("licenses", query={"order_id": 7001}).data} == {5}


def test_a_failure_is_noted_in_the_order_and_tried_again_later(
    server: RunningServer, credentials: tuple[str, str]
) -> None:
    (away,) = shop("http://127.0.0.1:9/wp-json/lmfwc/v2", credentials, [COMPLETED, 7001])
    assert away["scheduled"] == [["keywright_issue_again", 7001, 1]]
    assert away["notes"] == [
        "Keywright: no license keys: it cannot be reached: connection refused. Next try in 1 min."
    ]
    url = f"{server.base_url}/wp-json/lmfwc/v2"
    wrong = ("ck_" + "0" * 40, "cs_" + "0" * 40)
    (refused,) = shop(url, wrong, ["keywright_issue_again", 7001, 6])
    assert refused["scheduled"] == []
    assert "it answered 401: " in refused["notes"][0]
    assert refused["notes"][0].endswith('Set the order to "completed" again when it is mended.')
