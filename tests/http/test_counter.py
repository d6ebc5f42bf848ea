"""The rules of the counter, as one who calls sees them."""

import pytest

from tests.databases import KINDS
from tests.http.asking import Client, assert_refused, license_path
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


def test_no_activation_is_allowed_at_the_limit(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    program.activate(key)
    assert_refused(program.activate(key), f"License Key: {key} reached maximum activation count.")
    assert program.counter(key) == 1


def test_no_reactivation_is_allowed_at_the_limit(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    token = program.activated(key)
    program.deactivate(key, token)
    program.activate(key)
    reply = program.activate(key, token)
    assert_refused(reply, f"License Key: {key} reached maximum activation count.")
    assert program.counter(key) == 1


def test_a_place_that_was_given_up_can_be_taken_again(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    token = program.activated(key)
    for _ in range(3):
        assert program.deactivate(key, token).data["timesActivated"] == 0
        reply = program.activate(key, token).data
        assert (reply["timesActivated"], reply["activationData"]["token"]) == (1, token)
    assert len(program.validate(key).data["activationData"]) == 1


def test_validation_changes_nothing(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=2, valid_for=10)
    before = vendor.get(license_path(key)).body
    for _ in range(3):
        program.validate(key)
    assert vendor.get(license_path(key)).body == before
    token = program.activated(key)
    before = vendor.get(license_path(key)).body
    program.validate(key, token)
    assert vendor.get(license_path(key)).body == before


@pytest.mark.databases(*KINDS)
def test_deactivate_all_sets_the_counter_to_zero_and_frees_every_place(
    vendor: Client, program: Client
) -> None:
    key = vendor.license(times_activated_max=3)
    tokens = [program.activated(key) for _ in range(3)]
    assert program.deactivate(key).data["timesActivated"] == 0
    records = program.validate(key).data["activationData"]
    assert [one["token"] for one in records if one["deactivated_at"]] == tokens
    assert [program.activate(key, token).data["timesActivated"] for token in tokens] == [1, 2, 3]


def test_a_token_of_another_license_is_unknown(vendor: Client, program: Client) -> None:
    mine, other = vendor.license(), vendor.license()
    token = program.activated(other)
    program.activate(mine)
    gone = f"Activation Token: {token} could not be found or is deactivated."
    assert_refused(program.validate(mine, token), gone)
    assert_refused(program.deactivate(mine, token), gone)
    assert_refused(program.activate(mine, token), f"Activation Token: {token} could not be found.")
    program.deactivate(other, token)
    assert_refused(program.activate(mine, token), f"Activation Token: {token} could not be found.")
    assert (program.counter(mine), program.counter(other)) == (1, 0)


@pytest.mark.parametrize("status", ["sold", "delivered", "active"])
def test_these_statuses_allow_everything(vendor: Client, program: Client, status: str) -> None:
    key = vendor.license(status=status)
    token = program.activated(key)
    assert program.validate(key, token).status == 200
    assert program.deactivate(key, token).status == 200
    assert program.activate(key, token).status == 200


@pytest.mark.parametrize("fields", [{"status": 4}, {"status": 5}, {"expires_at": "2020-01-01"}])
def test_a_license_that_is_not_usable_can_be_validated_and_deactivated(
    vendor: Client, program: Client, fields: dict[str, object]
) -> None:
    key = vendor.license()
    tokens = [program.activated(key) for _ in range(3)]
    vendor.put(license_path(key), json_body=fields)
    assert program.validate(key).data["timesActivated"] == 3
    assert program.validate(key, tokens[0]).status == 200
    assert program.deactivate(key, tokens[0]).data["timesActivated"] == 2
    assert program.activate(key, tokens[0]).status == 404
    assert program.activate(key).status == 404
    assert program.deactivate(key).data["timesActivated"] == 0


def test_lowering_the_limit_below_what_is_taken_ends_no_activation(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=3)
    tokens = [program.activated(key) for _ in range(3)]
    vendor.put(license_path(key), json_body={"times_activated_max": 1})
    license = program.validate(key).data
    assert (license["timesActivated"], license["remainingActivations"]) == (3, -2)
    for token in tokens[:2]:
        assert program.activate(key).status == 404
        program.deactivate(key, token)
    assert program.activate(key).status == 404
    program.deactivate(key, tokens[2])
    assert program.activate(key).data["timesActivated"] == 1


def test_raising_the_limit_frees_places(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    program.activate(key)
    vendor.put(license_path(key), json_body={"times_activated_max": None})
    assert [program.activate(key).data["timesActivated"] for _ in range(3)] == [2, 3, 4]


def test_a_refused_call_leaves_no_record(server: RunningServer, vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    token = program.activated(key)
    before = vendor.get(license_path(key)).body
    program.activate(key)
    program.activate(key, token)
    program.activate(key, "0" * 40)
    program.deactivate(key, "0" * 40)
    assert vendor.get(license_path(key)).body == before


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
    assert server.sql(query, license_id) == [
        ("license.created", None, "127.0.0.1"),
        ("license.activated", number, "127.0.0.1"),
        ("license.deactivated", number, "127.0.0.1"),
        ("license.reactivated", number, "127.0.0.1"),
        ("license.updated", None, "127.0.0.1"),
        ("license.deleted", None, "127.0.0.1"),
    ]


@pytest.mark.databases(*KINDS)
def test_a_deleted_license_takes_its_activations_with_it(
    server: RunningServer, vendor: Client, program: Client
) -> None:
    key = vendor.license()
    token = program.activated(key)
    vendor.delete(license_path(key))
    assert_refused(program.validate(key), f"License Key: {key} could not be found.")
    assert server.sql("SELECT count(*) FROM activations WHERE token = ?", token) == [(0,)]
    vendor.post("licenses", json_body={"license_key": key})
    assert program.validate(key).data["activationData"] == []
