"""``keywright lease …`` and ``keywright usage …``"""

import json
import re
from typing import Any

import pytest

from keywright.cli.installation import InstallationOptions, open_here
from keywright.core.command import Command
from keywright.licensing.leases.model import TakeLease
from keywright.licensing.usage.model import RecordUsage
from tests.cli.conftest import Keywright

DATABASES = ("sqlite",)


def decide(keywright: Keywright, kind: type[Command], **fields: Any) -> None:
    """Let a program do this."""
    with open_here(InstallationOptions(str(keywright.data_dir), None, None), is_made=False) as here:
        here.change(kind(context=here.context, **fields))


@pytest.fixture
def key(keywright: Keywright) -> str:
    """The key of a license with five leases and a meter."""
    terms = ("--max-leases", "5", "--meter", "exports=100/month")
    keywright("policy", "create", "--name", "Floating", *terms)
    return keywright("policy", "generate", "1", "--amount", "1").strip()


@pytest.mark.smoke
def test_a_lease_is_listed_and_ended(keywright: Keywright, key: str) -> None:
    assert keywright.json("lease", "list", key) == []
    decide(keywright, TakeLease, license=key, holder="ada@desk")
    (lease,) = keywright.json("lease", "list", key)
    assert (lease["holder"], lease["activation_id"]) == ("ada@desk", None)
    assert re.search(f"{lease['id']}  *ada@desk .* held", keywright("lease", "list", key))
    assert "Lease released." in keywright("lease", "release", key, lease["id"])
    assert re.search(f"{lease['id']}  *ada@desk .* ended", keywright("lease", "list", key))
    assert "no such lease" in keywright.refused("lease", "release", key, "0" * 32)


def test_usage_is_shown_by_meter(keywright: Keywright, key: str) -> None:
    decide(keywright, RecordUsage, license=key, meter="exports", amount=7)
    exports = keywright.json("usage", "show", key)["exports"]
    assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00Z", exports.pop("resets_at"))
    assert exports == {"used": 7, "limit": 100, "per": "month", "overage": "refuse"}
    assert re.search(r"exports +7 +100 +month +refused", keywright("usage", "show", key))


def test_periods_are_listed_and_exported(keywright: Keywright, key: str) -> None:
    decide(keywright, RecordUsage, license=key, meter="exports", amount=97)
    [period] = keywright.json("usage", "list", key, "--meter", "exports", "--from", "2026-01-01")
    assert period == json.loads(keywright("export", "usage", "--format", "jsonl"))
    assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00Z", period.pop("period_start"))
    assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00Z", period.pop("period_end"))
    of_license = {"license_id": 1, "product_id": None, "customer_id": None, "meter": "exports"}
    assert period == of_license | {"used": 97, "limit": 100, "overage": 0, "closed_at": None}
    assert re.search(r" 1 +exports +\S+ \S+ +\S+ \S+ +97 +100 +0 +no", keywright("usage", "list"))
    assert keywright.json("usage", "list", "--closed") == []
    assert keywright.json("usage", "list", "--to", "2026-01-01") == []
    header = "license_id,product_id,customer_id,meter,period_start,period_end,used,limit,overage,closed_at"
    assert keywright("export", "usage").removeprefix("\ufeff").splitlines()[0] == header
