"""Where parameters come from: query, form, multipart, JSON; the body wins; what is unknown is ignored."""

from typing import Any

import pytest

from tests.http.asking import Client, a_key, assert_refused, core, license_path

WAYS = ["query", "form", "multipart", "json_body"]


def way_to_send(way: str, **parameters: str) -> dict[str, Any]:
    return {way: parameters}


@pytest.mark.parametrize("way", WAYS)
def test_a_core_call_takes_parameters_in_every_way(vendor: Client, program: Client, way: str) -> None:
    key = vendor.license()
    sent = way_to_send(way, label="Büro 🔑 & more")
    activation = program.post(core("activate", key), **sent).data["activationData"]
    assert activation["label"] == "Büro 🔑 & more"
    token = way_to_send(way, token=activation["token"])
    validated = program.post(core("validate", key), **token).data["activationData"]
    assert [one["token"] for one in validated] == [activation["token"]]
    assert (
        program.post(core("deactivate", key), **token).data["activationData"]["token"] == activation["token"]
    )
    assert program.post(core("activate", key), **token).data["activationData"]["token"] == activation["token"]


@pytest.mark.parametrize("way", WAYS)
def test_create_takes_parameters_in_every_way(vendor: Client, way: str) -> None:
    key = a_key("ü +&%")
    sent = way_to_send(way, license_key=key, order_id="7", status="Sold", times_activated_max="3")
    license = vendor.post("licenses", **sent).data
    assert license["licenseKey"] == key
    assert (license["orderId"], license["status"], license["timesActivatedMax"]) == (7, 1, 3)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
@pytest.mark.parametrize("way", WAYS)
def test_update_takes_parameters_in_every_way(vendor: Client, method: str, way: str) -> None:
    path = license_path(vendor.license())
    license = vendor.ask(method, path, **way_to_send(way, order_id="7", status="Sold")).data
    assert (license["orderId"], license["status"]) == (7, 1)


@pytest.mark.parametrize("way", ["form", "multipart", "json_body"])
def test_the_body_wins(vendor: Client, program: Client, way: str) -> None:
    key = vendor.license()
    sent = way_to_send(way, label="body")
    activation = program.post(core("activate", key), **sent | {"query": "label=query&meta[a]=b"}).data
    assert activation["activationData"]["label"] == "body"
    assert activation["activationData"]["meta_data"] == {"a": "b"}
    numbers = way_to_send(way, order_id="2")
    updated = vendor.put(license_path(key), **numbers | {"query": "order_id=1&user_id=5"}).data
    assert (updated["orderId"], updated["userId"]) == (2, 5)
    created = vendor.post("licenses", **way_to_send(way, license_key=a_key()) | {"query": "license_key=no"})
    assert created.data["licenseKey"] != "no"


def test_the_body_of_a_get_is_no_matter(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for body in (b"label=x", b"{", b'{"label": "x"}'):
        reply = program.get(core("activate", key), body=body, headers={"Content-Type": "application/json"})
        assert reply.data["activationData"]["label"] is None


@pytest.mark.parametrize(
    "kind",
    ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json", "text/plain", ""],
)
def test_an_object_is_read_whatever_it_is_called(vendor: Client, kind: str) -> None:
    key = a_key()
    headers = {"Content-Type": kind} if kind else {}
    reply = vendor.post("licenses", body=b'{"license_key": "%b"}' % key.encode(), headers=headers)
    assert reply.data["licenseKey"] == key


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "text/html", ""])
def test_a_post_without_a_body_has_no_parameters(vendor: Client, program: Client, kind: str) -> None:
    key = vendor.license()
    headers = {"Content-Type": kind} if kind else {}
    assert program.post(core("activate", key), headers=headers).data["activationData"]["label"] is None
    assert program.post(core("activate", key), body=b"", headers=headers).status == 200


def test_a_form_may_come_in_raw_utf_8(vendor: Client, program: Client) -> None:
    key = vendor.license()
    reply = program.post(core("activate", key), form="label=Büro+🔑")
    assert reply.data["activationData"]["label"] == "Büro 🔑"


@pytest.mark.parametrize("way", WAYS)
def test_unknown_parameters_are_ignored(vendor: Client, program: Client, way: str) -> None:
    key = vendor.license()
    unknown = way_to_send(way, _="1700000000", location="x", slug="y", activation_limit="z", id="1")
    for call in ("activate", "validate", "deactivate"):
        assert program.post(core(call, key), **unknown).status == 200
    assert program.get(core("activate", key), query="_=1&location=&slug&=&&x").status == 200
    created = vendor.post(
        "licenses", **unknown | ({"query": f"license_key={a_key()}"} if way != "query" else {})
    )
    assert created.status == (404 if way == "query" else 200)


def test_unknown_parameters_in_the_address_of_an_update_are_ignored(vendor: Client) -> None:
    path = license_path(vendor.license())
    assert vendor.put(path, query="_=1&location=x", json_body={"order_id": 4}).data["orderId"] == 4
    assert_refused(vendor.put(path, query="_=1"), "No parameters were provided.")


@pytest.mark.parametrize("call", ["activate", "validate", "deactivate"])
@pytest.mark.parametrize("way", WAYS)
def test_a_license_key_elsewhere_never_replaces_the_one_in_the_path(
    vendor: Client, program: Client, call: str, way: str
) -> None:
    mine, other = vendor.license(), vendor.license()
    for key in (mine, other):
        program.activate(key)
    reply = program.post(core(call, mine), **way_to_send(way, license_key=other, key=other))
    assert reply.data["licenseKey"] == mine
    assert program.counter(other) == 1
    unknown = program.post(core(call, f"{mine}-no"), **way_to_send(way, license_key=mine))
    assert unknown.status == 404


def test_a_license_key_in_the_query_never_replaces_the_one_in_the_path(
    vendor: Client, program: Client
) -> None:
    mine, other = vendor.license(), vendor.license()
    for call in ("activate", "validate", "deactivate"):
        reply = program.get(core(call, mine), query={"license_key": other})
        assert reply.data["licenseKey"] == mine
    assert program.validate(other).data["activationData"] == []


@pytest.mark.parametrize("given", [
    {"query": "meta[os]=linux&meta[cpu]=x86"},
    {"query": "meta%5Bos%5D=linux&meta%5Bcpu%5D=x86"},
    {"query": {"meta": '{"os": "linux", "cpu": "x86"}'}},
    {"form": {"meta[os]": "linux", "meta[cpu]": "x86"}},
    {"form": {"meta": '{"os": "linux", "cpu": "x86"}'}},
    {"multipart": {"meta[os]": "linux", "meta[cpu]": "x86"}},
    {"multipart": {"meta": '{"os": "linux", "cpu": "x86"}'}},
    {"json_body": {"meta": {"os": "linux", "cpu": "x86"}}},
    {"json_body": {"meta": '{"os": "linux", "cpu": "x86"}'}},
])  # fmt: skip
def test_meta_is_an_object_of_texts_however_it_comes(
    vendor: Client, program: Client, given: dict[str, Any]
) -> None:
    key = vendor.license()
    activation = program.post(core("activate", key), **given).data["activationData"]
    assert activation["meta_data"] == {"os": "linux", "cpu": "x86"}
    records = program.validate(key).data["activationData"]
    assert [one["meta_data"] for one in records] == [{"os": "linux", "cpu": "x86"}]


@pytest.mark.parametrize(
    "given",
    [
        {"query": "meta="},
        {"json_body": {"meta": None}},
        {"json_body": {"meta": {}}},
        {"query": "label="},
        {"json_body": {"label": None}},
    ],
)
def test_empty_is_none(vendor: Client, program: Client, given: dict[str, Any]) -> None:
    activation = program.post(core("activate", vendor.license()), **given).data["activationData"]
    assert (activation["label"], activation["meta_data"]) == (None, None)


@pytest.mark.parametrize(
    "given",
    [{"query": "token="}, {"query": "token"}, {"json_body": {"token": None}}, {"json_body": {"token": ""}}],
)
def test_an_empty_token_is_no_token(vendor: Client, program: Client, given: dict[str, Any]) -> None:
    key = vendor.license()
    assert program.post(core("activate", key), **given).data["timesActivated"] == 1
    assert isinstance(program.post(core("validate", key), **given).data["activationData"], list)
    assert program.post(core("deactivate", key), **given).data["timesActivated"] == 0


@pytest.mark.parametrize("token", [5, True, ["a"], {"a": "b"}, 1.5])
@pytest.mark.parametrize("call", ["activate", "validate", "deactivate"])
def test_a_token_that_is_no_text_is_refused(
    vendor: Client, program: Client, call: str, token: object
) -> None:
    key = vendor.license()
    program.activate(key)
    reply = program.post(core(call, key), json_body={"token": token})
    assert (reply.status, reply.json["code"]) == (400, "rest_invalid_param")
    assert list(reply.json["data"]["params"]) == ["token"]
    assert program.counter(key) == 1


def test_a_reactivation_keeps_its_label(vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activate(key, query={"label": "first"}).data["activationData"]["token"]
    program.deactivate(key, token)
    again = program.activate(key, query={"token": token, "label": "second", "meta[a]": "b"})
    assert again.data["activationData"]["label"] == "first"
    assert again.data["activationData"]["meta_data"] is None
