"""Exports read everything once, page by page."""

from functools import partial
from typing import Any

import msgspec
import pytest

from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.provisioning import exporters
from keywright.provisioning.customers import CustomerFields, UpdateCustomer
from keywright.provisioning.products import NameKind, SaveName
from tests.makers import _with_context, activate, create

DATABASES = ("sqlite",)


def objects(storage: Storage, export: exporters.Export) -> list[dict[str, Any]]:
    lines = b"".join(exporters.as_json_lines(partial(run_read, storage), export))
    return [msgspec.json.decode(line) for line in lines.splitlines()]


@pytest.mark.smoke
def test_exports_read_everything_once(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporters, "PAGE", 2)
    executor.execute([create(f"K{number}", customer_id=number // 2) for number in range(5)])
    executor.execute([activate("K1"), activate("K1"), activate("K1"), activate("K4")])
    executor.execute([SaveName(**_with_context(kind=NameKind.CUSTOMER, number=9, name="Ann"))])
    assert [one["license_key"] for one in objects(storage, exporters.LICENSES_EXPORT)] == [
        f"K{n}" for n in range(5)
    ]
    executor.execute([UpdateCustomer(**_with_context(id=9, fields=CustomerFields(external_id="crm-9")))])
    with_places = objects(storage, exporters.LICENSES_WITH_ACTIVATIONS)
    assert [len(one["activations"]) for one in with_places] == [0, 3, 0, 0, 1]
    tokens = {(one["license_id"], one["token"]) for one in objects(storage, exporters.ACTIVATIONS_EXPORT)}
    assert tokens == {(one["id"], it["token"]) for one in with_places for it in one["activations"]}
    events = [one["name"] for one in objects(storage, exporters.EVENTS_EXPORT)]
    assert len(events) == 11
    assert objects(storage, exporters.CUSTOMERS_EXPORT) == [
        {"customer_id": 0, "name": None, "licenses": 2, "external_id": None},
        {"customer_id": 1, "name": None, "licenses": 2, "external_id": None},
        {"customer_id": 2, "name": None, "licenses": 1, "external_id": None},
        {"customer_id": 9, "name": "Ann", "licenses": 0, "external_id": "crm-9"},
    ]
