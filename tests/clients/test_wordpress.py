"""The PHP of the how-to, under PHP, and what EDD's clients do with their answers: WordPress alone is stood
in for.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_python_server import Vendor
from tests.clients.test_vectors import run
from tests.deploy.programs import program
from tests.server import NO_LIMITS, running

KEY, ZIP = "PAINT-1", b"PK\x05\x06" + bytes(18)
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "update-wordpress-plugins.md"
SCRIPT = Path(__file__).parent / "drivers" / "wordpress.php"


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendor]:
    with running(tmp_path_factory.mktemp("server"), **NO_LIMITS) as server, closing(Vendor(server)) as vendor:
        vendor.product_id = vendor.call("POST", "/v3/products", name="Paint", code="paint")["id"]
        for version in ("1.0", "1.1"):
            about = {"product_id": vendor.product_id, "version": version, "notes": f"New in {version}. 🎨"}
            release = vendor.call("POST", "/v3/releases", **about)["id"]
            file = vendor.call("POST", f"/v3/releases/{release}/files", name="paint.zip", kind="archive")[
                "id"
            ]
            vendor._client.put(f"/v3/files/{file}/content", content=ZIP).raise_for_status()
            vendor.call("POST", f"/v3/releases/{release}/publish")
        yield vendor


@pytest.mark.tier("rest")
def test_a_site_finds_its_update_with_the_code_of_the_page_and_with_calls_of_edd(
    vendor: Vendor, tmp_path: Path
) -> None:
    path = vendor.sell(KEY, max_activations=1)
    found = re.search(r"<!-- php -->\n```php\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "code.php").write_text(found[1], encoding="utf-8")
    server = str(vendor._client.base_url).rstrip("/")
    printed = run(tmp_path, program("php"), str(SCRIPT), str(tmp_path / "code.php"), server, KEY)
    out: dict[str, Any] = json.loads(printed)
    assert (out["activated"], out["other"], out["zip"]) == (True, None, hashlib.md5(ZIP).hexdigest())  # noqa: S324
    assert "no license" in out["wrong"].lower()
    assert (out["update"]["new_version"], out["update"]["is_newer"]) == ("1.1", True)
    assert (out["current"]["new_version"], out["current"]["is_newer"]) == ("1.1", False)
    # The same site over EDD's calls keeps its one place.
    edd = out["edd"]
    assert (edd["activated"]["license"], edd["activated"]["site_count"]) == ("valid", 1)
    assert [edd["posted"][name] for name in ("new_version", "zip")] == ["1.1", out["zip"]]
    assert edd["got"] == edd["posted"]
    assert "&#x1f3a8;" in edd["posted"]["sections"]["changelog"]
    assert edd["failed"]["new_version"] == ""
    assert edd["deactivated"]["license"] == "deactivated"
    assert vendor._client.get(path).json()["activations"] == 0
