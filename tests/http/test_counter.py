"""The counter as callers see it, and the events of its changes; test_model.py has the rules."""

import pytest

from tests.databases import KINDS
from tests.http.asking import Client, license_path
from tests.server import RunningServer

DATABASES = ("sqlite",)


@pytest.mark.databases(*KINDS)
def test_every_success_counts_by_one_and_says_the_new_value(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=3)
    tokens = []
    for expected in (1, 2, 3):
        license = program.activate(key).data
        assert license["timesActivated"] == expected
        tokens.append(license["activationData"]["token"])
    for token, expected in zip(tokens, (2, 1, 0), strict=True):
        assert program.deactivate(key, token).data["timesActivated"] == expected
    for token, expected in zip(tokens, (1, 2, 3), strict=True):
        assert program.activate(key, token).data["timesActivated"] == expected
    assert len(set(tokens)) == 3


def test_every_change_is_remembered_as_an_event(
    server: RunningServer, vendor: Client, program: Client
) -> None:
    key = vendor.license()
    license_id = vendor.get(license_path(key)).data["id"]
    activation = program.activate(key).data["activationData"]
    program.deactivate(key, activation["token"])
    program.activate(key, activation["token"])
    program.activate(key, activation["token"])
    vendor.put(license_path(key), json_body={"order_id": 5})
    vendor.delete(license_path(key))
    query = "SELECT name, activation_id, ip_address FROM events WHERE license_id = ? ORDER BY id"
    number = activation["id"]
    changes = {"created": None, "activated": number, "deactivated": number, "reactivated": number}
    changes |= {"updated": None, "deleted": None}
    expected = [(f"license.{name}", one, "127.0.0.1") for name, one in changes.items()]
    assert server.sql(query, license_id) == expected
