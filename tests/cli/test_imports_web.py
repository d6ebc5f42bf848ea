"""``keywright import lmfwc --url``: a shop moves in over its v2 interface, which has its faults."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keywright.core.errors import SourceUnusable
from keywright.provisioning.importers.lmfwc_client import Limits, LmfwcClient
from keywright.provisioning.importers.run import Report
from keywright_converter.web import WebShop
from tests.cli.conftest import Keywright
from tests.plugin import CREDENTIALS, Plugin, expected, plugin
from tests.shop import EXPECTED
from tests.smtp_server import make_certificate
from tests.tables import each_row

DATABASES = ("sqlite",)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEY, SECRET = CREDENTIALS


@pytest.fixture
def shop() -> Iterator[Plugin]:
    with plugin(*expected(EXPECTED)) as server:
        yield server


def options(shop: Plugin, *, secret: str = SECRET) -> list[str]:
    return ["import", "lmfwc", "--url", shop.url, "--consumer-key", KEY, "--consumer-secret", secret]


def load(shop: Plugin, limits: Limits = Limits(delays=(0, 0)), address: str | None = None) -> int:  # noqa: B008
    """The number of licenses that are read."""
    client = LmfwcClient(address or shop.url, *CREDENTIALS, limits, pause=lambda _: None)
    source = WebShop(client, Report(), now=NOW)
    try:
        source.load()
        return source.total
    finally:
        source.close()


def licenses(amount: int) -> list[dict[str, Any]]:
    made = {"status": 3, "createdAt": "2026-01-02 03:04:05", "activationData": []}
    return [{"id": number, "licenseKey": f"KEY-{number}"} | made for number in range(1, amount + 1)]


def test_a_shop_is_brought_with_all_that_its_interface_has_and_brought_again(
    keywright: Keywright, shop: Plugin
) -> None:
    new = {"license": {"new": 22}, "activation": {"new": 34}, "generator": {"new": 2}}
    same = {kind: {"same": amounts["new"]} for kind, amounts in new.items()}
    dry, first, again = (keywright.json(*options(shop), *one) for one in (["--dry-run"], [], []))
    assert [one["records"] for one in (dry, first, again)] == [new, new, same]
    assert {one["code"]: one["amount"] for one in first["odd"]} == {"key_weak": 4, "counter_wrong": 1}
    for old, here in zip(shop.licenses, keywright.json("license", "list"), strict=True):
        names = "id licenseKey expiresAt validFor status orderId productId userId activationData createdAt"
        assert {name: here[name] for name in names.split()} == {name: old[name] for name in names.split()}
    assert "no problems found" in keywright("doctor")


def test_the_report_names_licenses_by_number_and_shows_no_whole_key(
    keywright: Keywright, shop: Plugin
) -> None:
    said = keywright(*options(shop))
    assert "\n  license 22 (…BUG): 1 there, 3 active records\n" in said
    assert not [one["licenseKey"] for one in shop.licenses if one["licenseKey"] in said]


@pytest.mark.parametrize("has_pages", [False, True])
def test_a_long_list_comes_whole_with_pages_and_without(shop: Plugin, *, has_pages: bool) -> None:
    shop.licenses, shop.has_pages = licenses(1_203), has_pages
    assert load(shop) == 1_203


def test_the_secret_may_come_from_a_file_or_the_environment(
    keywright: Keywright, shop: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret.txt"
    file.write_text(f"{SECRET}\n")
    assert "22 new" in keywright(*options(shop, secret=str(file)), "--dry-run")
    without = options(shop)[:-2]
    assert "--consumer-secret FILE" in keywright.refused(*without, status=2)
    monkeypatch.setenv("LMFWC_CONSUMER_SECRET", SECRET)
    assert "22 new" in keywright(*without, "--dry-run")


def test_a_wrong_secret_is_a_sentence(keywright: Keywright, shop: Plugin) -> None:
    said = keywright.refused(*options(shop, secret="cs_wrong"))
    assert "refused the request: Consumer secret is invalid. Create an API key with read permission" in said


@each_row(
    ("fault", "sentence", "limits"),
    [
        ("500", "it answered with status 500", {}),
        ("html", "it answered with status 200 and a web page", {}),
        ("warning", "it answered with status 200 and a web page", {}),
        ("broken off", "it answered with status 200 and no data of the plugin", {}),
        ("redirect", "it redirects to https://www.shop.example: give that address", {}),
        ("no route", "Check that the plugin is active in the shop", {}),
        ("errors inside", "has no licenses", {}),
        ("drip", "Nothing was imported", {"idle": 5, "total": 0.2, "delays": ()}),
        (None, "its answer is too large", {"size": 1_000}),
        ("silence", "it has not answered for", {"idle": 0.1, "delays": ()}),
    ],
)
def test_an_answer_that_is_none_is_a_sentence(
    shop: Plugin, fault: str | None, sentence: str, limits: dict[str, Any]
) -> None:
    if fault == "silence":
        shop.may_answer.clear()
    else:
        shop.fault = fault
    with pytest.raises(SourceUnusable) as refused:
        load(shop, Limits(**{"delays": (0, 0)} | limits))
    assert sentence in str(refused.value)
    assert "Nothing was imported" in str(refused.value)


@each_row("fault", ["500", "html", "broken off"])
def test_a_fault_that_passes_costs_another_attempt(shop: Plugin, fault: str) -> None:
    shop.fault, shop.faults_left = fault, 2
    shop.requests.clear()
    assert load(shop) == 22
    assert len(shop.requests) == 5


def test_generators_that_are_refused_are_in_the_report_and_none_are_no_oddity(
    keywright: Keywright, shop: Plugin
) -> None:
    shop.has_generators = False
    report = keywright.json(*options(shop))
    assert report["records"]["license"] == {"new": 22}
    assert [one["amount"] for one in report["odd"] if one["code"] == "list_refused"] == [1]
    shop.has_generators, shop.generators = True, []
    assert "list_refused" not in {one["code"] for one in keywright.json(*options(shop))["odd"]}


def test_a_certificate_that_nothing_vouches_for_is_refused(
    shop: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, context = make_certificate(tmp_path)
    shop.secure(context)
    address = shop.url.replace("http://", "https://")
    with pytest.raises(SourceUnusable, match="its certificate cannot be verified"):
        load(shop, address=address)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    assert load(shop, address=address) == 22


def test_credentials_do_not_go_over_plain_http(keywright: Keywright, shop: Plugin) -> None:
    given = options(shop)
    given[3] = "http://shop.example.com"
    assert "--url must begin with https://" in keywright.refused(*given)


def test_a_file_and_a_shop_do_not_go_together(keywright: Keywright, shop: Plugin) -> None:
    for given in (["import", "lmfwc"], [*options(shop), "shop.sql"]):
        done = keywright.run(*given, "--data-dir", str(keywright.data_dir))
        assert (done.status, "a shop" in done.err) == (2, True)
