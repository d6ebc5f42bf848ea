"""Sources of parameters: query, form, multipart, JSON; the body has precedence; unknown ones are ignored."""

from typing import Any

import pytest

from keywright.http.v2.parameters import GENERATOR_PARAMETERS
from tests.http.asking import Client, a_key, assert_invalid, assert_refused, core, license_path
from tests.tables import each_row

DATABASES = ("sqlite",)

WAYS = ["query", "form", "multipart", "json_body"]
JSON = {"Content-Type": "application/json"}


def way_to_send(way: str, **parameters: str) -> dict[str, Any]:
    return {way: parameters}


@each_row("method", ["GET", "POST"])
@each_row("way", WAYS)
def test_a_core_call_takes_parameters_in_every_way(
    vendor: Client, program: Client, method: str, way: str
) -> None:
    key = vendor.license()
    program.activate(key)
    sent = way_to_send(way, label="Büro 🔑 & more")
    activation = program.ask(method, core("activate", key), **sent).data["activationData"]
    assert activation["label"] == "Büro 🔑 & more"
    token = way_to_send(way, token=activation["token"])
    validated = program.ask(method, core("validate", key), **token).data["activationData"]
    assert [one["token"] for one in validated] == [activation["token"]]
    for call in ("deactivate", "activate"):
        changed = program.ask(method, core(call, key), **token).data["activationData"]
        assert changed["token"] == activation["token"]
    assert len(vendor.get("licenses", **way_to_send(way, per_page="1", page="1")).data) == 1


@pytest.mark.parametrize("way", WAYS)
def test_create_takes_parameters_in_every_way(vendor: Client, way: str) -> None:
    key = a_key("ü +&%")
    sent = way_to_send(way, license_key=key, order_id="7", status="Sold", times_activated_max="3")
    license = vendor.post("licenses", **sent).data
    assert license["licenseKey"] == key
    assert (license["orderId"], license["status"], license["timesActivatedMax"]) == (7, 1, 3)


@each_row("method", ["PUT", "PATCH", "POST"])
@each_row("way", WAYS)
def test_update_takes_parameters_in_every_way(vendor: Client, method: str, way: str) -> None:
    path = license_path(vendor.license())
    license = vendor.ask(method, path, **way_to_send(way, order_id="7", status="Sold")).data
    assert (license["orderId"], license["status"]) == (7, 1)


@pytest.mark.parametrize("way", ["form", "multipart", "json_body"])
def test_the_body_wins(vendor: Client, program: Client, way: str) -> None:
    key = vendor.license()
    sent = way_to_send(way, label="body") | {"query": "label=query&meta[a]=b"}
    for method in ("GET", "POST"):
        activation = program.ask(method, core("activate", key), **sent).data["activationData"]
        assert (activation["label"], activation["meta_data"]) == ("body", {"a": "b"})
    numbers = way_to_send(way, order_id="2")
    updated = vendor.put(license_path(key), **numbers | {"query": "order_id=1&user_id=5"}).data
    assert (updated["orderId"], updated["userId"]) == (2, 5)
    created = vendor.post("licenses", **way_to_send(way, license_key=a_key()) | {"query": "license_key=no"})
    assert created.data["licenseKey"] != "no"


def test_a_body_that_does_not_say_what_it_is_counts_for_a_post_only(vendor: Client) -> None:
    path = license_path(vendor.license())
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
        assert vendor.ask(method, path, body=b"{", headers=JSON).status == 400
    for method in ("GET", "DELETE"):
        assert vendor.ask(method, path, body=b"{").status == 200


#: Tokens given as a list or repeatedly, which must not count as missing.
LISTS = [
    {"query": "token[]={token}"},
    {"query": "token%5B%5D={token}"},
    {"query": "token[0]={token}"},
    {"query": "token[a][b]={token}"},
    {"query": "token[={token}"},
    {"query": "token={token}&token={token}"},
    {"query": "token={token}&token[]={token}"},
    {"form": "token[]={token}"},
    {"form": "token[0]={token}"},
    {"form": "token={token}&token="},
    {"multipart": {"token[]": "{token}"}},
    {"json": '{"token": ["{token}"]}'},
    {"json": '{"token": {"0": "{token}"}}'},
    {"json": '{"token": []}'},
    {"json": '{"token": {}}'},
    *({"json": f'{{"token": {other}}}'} for other in ("5", "1.5", "true")),
]


@each_row("method", ["GET", "POST"])
@each_row("call", ["activate", "validate", "deactivate"])
@each_row("way", LISTS, ids=str)
def test_a_token_that_comes_as_a_list_or_twice_is_refused(
    vendor: Client, program: Client, method: str, call: str, way: dict[str, Any]
) -> None:
    key = vendor.license()
    token = program.activated(key)
    assert_invalid(program.ask(method, core(call, key), **filled(way, token)), "token")
    assert program.counter(key) == 1


def filled(way: dict[str, Any], token: str) -> dict[str, Any]:
    """Insert a token into the parameters."""
    (name, value) = next(iter(way.items()))
    if name == "json":
        return {"body": value.replace("{token}", token).encode(), "headers": JSON}
    if isinstance(value, dict):
        return {name: {one: text.replace("{token}", token) for one, text in value.items()}}
    return {name: value.replace("{token}", token)}


def test_a_token_that_comes_as_a_file_is_refused(vendor: Client, program: Client) -> None:
    key = vendor.license()
    part = f'name="token"; filename="x"\r\n\r\n{program.activated(key)}'
    body = f"--BB\r\nContent-Disposition: form-data; {part}\r\n--BB--\r\n".encode()
    kind = {"Content-Type": "multipart/form-data; boundary=BB"}
    assert_invalid(program.post(core("deactivate", key), body=body, headers=kind), "token")
    assert program.counter(key) == 1


@each_row("method", ["GET", "POST"])
@each_row("call", ["activate", "validate", "deactivate"])
@each_row("body", [b'[{"token":"T"}]', b'"T"', b"7", b"true", b'["token"]', b"[[]]", b'""'])
def test_json_that_is_no_object_is_refused(
    vendor: Client, program: Client, method: str, call: str, body: bytes
) -> None:
    key = vendor.license()
    program.activated(key)
    assert_invalid(program.ask(method, core(call, key), body=body, headers=JSON), "body")
    assert program.counter(key) == 1


@pytest.mark.parametrize("kind", ["", "application/x-www-form-urlencoded"])
def test_a_json_list_that_is_not_called_json_is_refused(vendor: Client, program: Client, kind: str) -> None:
    key = vendor.license()
    program.activated(key)
    headers = {"Content-Type": kind} if kind else {}
    assert_invalid(program.post(core("deactivate", key), body=b'[{"token":"T"}]', headers=headers), "body")
    assert program.counter(key) == 1


def test_json_that_is_no_object_is_refused_by_management_calls(vendor: Client) -> None:
    for method, path in (
        ("POST", "licenses"),
        ("GET", "licenses"),
        ("GET", license_path(vendor.license())),
        ("DELETE", license_path(vendor.license())),
        ("POST", "generators"),
        ("POST", "generators/1/generate"),
    ):
        assert_invalid(vendor.ask(method, path, body=b'["x"]', headers=JSON), "body")


@each_row("method", ["GET", "POST"])
@each_row("body", [b"", b" ", b"{}", b"[]", b"null"])
def test_an_empty_body_carries_no_parameters(
    vendor: Client, program: Client, method: str, body: bytes
) -> None:
    key = vendor.license()
    assert program.ask(method, core("activate", key), body=body, headers=JSON).data["timesActivated"] == 1
    given_up = program.ask(method, core("deactivate", key), body=body, headers=JSON)
    assert len(given_up.data["activationData"]) == 1


@each_row("field", ["license_key", "order_id", "status", "expires_at", "times_activated_max"])
@each_row("value", ["[]", "[1]", "{}", '{"a": 1}'])
def test_a_field_that_comes_as_a_list_or_a_map_is_refused(vendor: Client, field: str, value: str) -> None:
    body = f'{{"license_key": "{a_key()}", "{field}": {value}}}'.encode()
    assert_invalid(vendor.post("licenses", body=body, headers=JSON), field)
    path = license_path(vendor.license())
    assert_invalid(vendor.put(path, body=f'{{"{field}": {value}}}'.encode(), headers=JSON), field)


def test_a_field_of_a_generator_that_comes_as_a_list_or_a_map_is_refused(vendor: Client) -> None:
    sent = {"name": "g", "charset": "ABCDEFGH01234567", "chunks": 4, "chunk_length": 8}
    path = f"generators/{vendor.post('generators', json_body=sent).data['id']}"
    for name in GENERATOR_PARAMETERS:
        assert_invalid(vendor.post("generators", json_body=sent | {name: ["1"]}), name)
        assert_invalid(vendor.put(path, json_body={name: {"x": "y"}}), name)


def test_other_parameters_may_be_lists_and_come_twice(vendor: Client, program: Client) -> None:
    query = "x[]=1&x[]=2&y=1&y=2&z[a]=b&license_key[]=n"
    assert program.get(core("activate", vendor.license()), query=query).status == 200


def test_filters_of_a_list_that_come_as_lists_are_refused(vendor: Client) -> None:
    reply = vendor.get("licenses", query="page=1&order_id[]=7&status=sold&status=active")
    assert sorted(reply.json["data"]["params"]) == ["order_id", "status"]


@pytest.mark.parametrize(
    "query", ["meta[a]=b&meta[a]=c", "meta=x&meta[a]=b", "meta[a]=b&meta=x", "meta[a][b]=c"]
)
def test_meta_that_comes_in_two_forms_is_refused(vendor: Client, program: Client, query: str) -> None:
    assert_invalid(program.get(core("activate", vendor.license()), query=query), "meta")


def test_spaces_around_a_token_are_trimmed_and_nothing_else_is_no_token(
    vendor: Client, program: Client
) -> None:
    key = vendor.license()
    token = program.activated(key)
    program.activated(key)
    for spaces in ("%20{}", "{}%20%20", "%09{}%0A"):
        query = f"token={spaces.format(token)}"
        assert program.get(core("deactivate", key), query=query).data["activationData"]["token"] == token
        program.activate(key, token)
    assert program.get(core("deactivate", key), query="token=%20").status == 404
    assert program.counter(key) == 2


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


@each_row("call", ["activate", "validate", "deactivate"])
@each_row("method", ["GET", "POST"])
@each_row("way", WAYS)
def test_a_license_key_elsewhere_never_replaces_the_one_in_the_path(
    vendor: Client, program: Client, call: str, method: str, way: str
) -> None:
    mine, other = vendor.license(), vendor.license()
    for key in (mine, other):
        program.activate(key)
    reply = program.ask(method, core(call, mine), **way_to_send(way, license_key=other, key=other))
    assert reply.data["licenseKey"] == mine
    assert program.counter(other) == 1
    unknown = program.ask(method, core(call, f"{mine}-no"), **way_to_send(way, license_key=mine))
    assert unknown.status == 404


@each_row("given", [
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
    [{"query": "token="}, {"query": "token"}, {"json_body": {"token": None}}, {"json_body": {"token": ""}}],
)
def test_an_empty_token_is_no_token(vendor: Client, program: Client, given: dict[str, Any]) -> None:
    key = vendor.license()
    assert program.post(core("activate", key), **given).data["timesActivated"] == 1
    assert isinstance(program.post(core("validate", key), **given).data["activationData"], list)
    assert program.post(core("deactivate", key), **given).data["timesActivated"] == 0


def test_a_reactivation_keeps_its_label(vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activate(key, query={"label": "first"}).data["activationData"]["token"]
    program.deactivate(key, token)
    again = program.activate(key, query={"token": token, "label": "second", "meta[a]": "b"})
    assert again.data["activationData"]["label"] == "first"
    assert again.data["activationData"]["meta_data"] is None
