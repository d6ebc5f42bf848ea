"""A shop is imported while a server runs: programs get the plugin's responses, with corrected counters, and
the shop's API keys work.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests import forking
from tests.http.asking import Client
from tests.server import NO_LIMITS, RunningServer, environment, running
from tests.shop import DEFUSE, DUMP, EXPECTED, SECRET

OLD: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
READS = ("ck_ro00000000000000000000000000000000000000", "cs_ro00000000000000000000000000000000000000")


@pytest.fixture(scope="module")
def shop(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("shop") / "data", database, **NO_LIMITS) as server:
        secrets = ("--defuse", str(DEFUSE), "--secret", str(SECRET))
        command = [forking.command(), "import", "lmfwc", str(DUMP), *secrets]
        command += ["--data-dir", str(server.data_dir)]
        subprocess.run(command, check=True, capture_output=True, env=environment(**server.settings))
        yield server
        server.assert_consistent()


def as_here(old: dict[str, Any]) -> dict[str, Any]:
    """Adapt the plugin's response to the contract of v2: counters are the numbers of active records, and the
    update time of an unchanged license is its creation time.
    """
    active = sum(one["deactivated_at"] is None for one in old["activationData"])
    limit = old["timesActivatedMax"] or None
    return old | {
        "timesActivated": active,
        "timesActivatedMax": limit,
        "remainingActivations": None if limit is None else limit - active,
        "updatedAt": old["updatedAt"] or old["createdAt"],
        "createdBy": old["createdBy"] or 0,
    }


def test_validate_answers_for_every_key_as_the_plugin_did(shop: RunningServer) -> None:
    with Client(shop) as program:
        for old in OLD["licenses"]:
            reply = program.get(f"licenses/validate/{quote(old['licenseKey'], safe='')}")
            assert reply.data == as_here(old)


def test_generators_and_api_keys_work_as_before(shop: RunningServer) -> None:
    with Client(shop, READS) as vendor:
        for old, new in zip(OLD["generators"], vendor.get("generators").data, strict=True):
            empty_as_none = {name: old[name] or None for name in ("suffix", "prefix")}
            assert new == old | empty_as_none | {"updatedAt": old["updatedAt"] or old["createdAt"]}


def test_the_server_goes_on_with_what_came(shop: RunningServer) -> None:
    with Client(shop) as program:
        data = program.get("licenses/activate/LIFE-UNLIMITED-0001").data
        assert data["timesActivated"] == 3
        assert data["activationData"]["id"] > 34
        full = program.get("licenses/activate/FULL-TWO-OF-TWO")
        assert "maximum activation count" in full.message
