"""Lists: complete and streamed, or paged; filtered; empty."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.http.asking import (
    V2,
    Client,
    Reply,
    assert_common_headers,
    assert_invalid,
    assert_refused,
    in_query,
)
from tests.http.test_generators import new
from tests.server import NO_LIMITS, RunningServer, running
from tests.tables import each_row

MANY = 2345


@pytest.fixture(scope="module")
def shop(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server, because these tests check complete lists."""
    with running(tmp_path_factory.mktemp("shop") / "data", database, **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def empty(shop: RunningServer) -> dict[str, Reply]:
    """The responses of the lists before anything exists."""
    with Client(shop, shop.api_key()) as client:
        asked = ("licenses", "licenses?page=1", "licenses?page=3&per_page=5", "generators")
        return {path: client.get(path) for path in asked}


class Keeper(Client):
    """Knows the order of the licenses, whose IDs may have gaps."""

    def __init__(self, shop: RunningServer, credentials: tuple[str, str]) -> None:
        super().__init__(shop, credentials)
        self._made: dict[int, int] = {}

    def make(self, path: str, **fields: Any) -> None:
        """Generate licenses."""
        for one in self.post(path, json_body=fields).data:
            self._made[one["id"]] = len(self._made) + 1

    def listed(self, reply: Reply) -> list[int]:
        """The licenses in the response, by position: 1 is the first created, and so on."""
        return [self._made[one["id"]] for one in reply.data]


@pytest.fixture(scope="module")
def keeper(shop: RunningServer, empty: dict[str, Reply]) -> Iterator[Keeper]:
    """The API key for very many licenses: of product 1, and the last 100 of product 2."""
    with Keeper(shop, shop.api_key()) as client:
        path = f"{new(client)}/generate"
        client.make(path, amount=MANY - 100, product_id=1, status="sold")
        client.make(path, amount=100, product_id=2, order_id=5, user_id=6)
        yield client


def test_a_list_of_nothing_is_refused(empty: dict[str, Reply]) -> None:
    for path, reply in empty.items():
        noun = "Generators" if path == "generators" else "License Keys"
        assert_refused(reply, f"No {noun} available")


def test_without_parameters_all_licenses_are_listed_oldest_first(keeper: Keeper) -> None:
    reply = keeper.get("licenses")
    assert keeper.listed(reply) == list(range(1, MANY + 1))
    assert len({one["licenseKey"] for one in reply.data}) == MANY
    assert_common_headers(reply)
    # Streamed, so the length is not known in advance.
    assert reply.header("content-length") is None


def test_every_license_of_a_list_has_its_activations(shop: RunningServer, keeper: Keeper) -> None:
    keys = [one["licenseKey"] for one in keeper.get("licenses?page=11&per_page=100").data[:3]]
    with Client(shop) as program:
        for times, key in enumerate(keys, 1):
            for _ in range(times):
                program.activate(key)
    listed = {one["licenseKey"]: one for one in keeper.get("licenses").data}
    for times, key in enumerate(keys, 1):
        assert len(listed[key]["activationData"]) == listed[key]["timesActivated"] == times
        assert listed[key] == keeper.get(f"licenses/{key}").data
    paged = {one["licenseKey"]: one for one in keeper.get("licenses?page=11&per_page=100").data}
    assert all(paged[key] == listed[key] for key in keys)


def test_other_calls_are_answered_while_a_list_is_read_slowly(shop: RunningServer, keeper: Keeper) -> None:
    # An unread response fills its socket, which must not block the server.
    with Client(shop, keeper.credentials) as slow, Client(shop) as program:
        connection = slow._opened()
        credentials = urlencode(in_query(keeper.credentials or ("", "")))
        connection.putrequest("GET", f"{V2}licenses?{credentials}")
        connection.endheaders()
        response = connection.getresponse()
        assert response.read(10) == b'{"success"'
        key = keeper.get("licenses?page=1&per_page=1").data[0]["licenseKey"]
        for _ in range(20):
            assert program.validate(key).status == 200
        rest = json.loads(b'{"success"' + response.read())
        assert len(rest["data"]) == MANY


@each_row(("query", "expected"), [
    ("page=1&per_page=100", range(1, 101)),
    ("page=2&per_page=100", range(101, 201)),
    ("page=24&per_page=100", range(2301, MANY + 1)),
    ("page=1&per_page=1", [1]),
    (f"page={MANY}&per_page=1", [MANY]),
    ("page=3&per_page=1000", range(2001, MANY + 1)),
    ("page=007&per_page=0010", range(61, 71)),
    ("per_page=5", range(1, 6)),
    ("page=4&per_page=1000", []),
    (f"page={2**31 - 1}&per_page=1000", []),
])  # fmt: skip
def test_a_page_holds_its_licenses(keeper: Keeper, query: str, expected: Any) -> None:
    reply = keeper.get("licenses", query=query)
    assert keeper.listed(reply) == list(expected)
    assert reply.header("x-wp-total") == str(MANY)
    per_page = int(dict(parse_qsl(query))["per_page"])
    assert reply.header("x-wp-totalpages") == str(-(-MANY // per_page))
    assert_common_headers(reply)


def test_a_page_has_some_size_when_none_is_given(keeper: Keeper) -> None:
    reply = keeper.get("licenses?page=2")
    size = len(reply.data)
    assert 1 <= size <= 100
    assert keeper.listed(reply) == list(range(size + 1, 2 * size + 1))


@each_row("name", ["page", "per_page", "status", "product_id", "order_id", "user_id"])
@each_row("value", ["-1", "x", "9" * 30, ""])
def test_impossible_pages_and_filters_are_refused(keeper: Keeper, name: str, value: str) -> None:
    for more in ({}, {"per_page": 5, "page": 1}):
        assert_invalid(keeper.get("licenses", query=more | {name: value}), name)


def test_pages_have_bounds(keeper: Keeper) -> None:
    for name, value in (("page", 0), ("per_page", 0), ("per_page", 1001)):
        assert_invalid(keeper.get("licenses", query={name: value}), name)


def links(reply: Reply) -> dict[str, str]:
    header = reply.header("link") or ""
    return {kind: target for target, kind in re.findall(r'<([^>]+)>; rel="(\w+)"', header)}


def test_links_lead_from_page_to_page(keeper: Keeper) -> None:
    found: list[int] = []
    reply = keeper.get("licenses?per_page=500&page=1&status=sold&_=x")
    kinds = [set(links(reply))]
    while True:
        found += keeper.listed(reply)
        following = links(reply).get("next")
        if following is None:
            break
        assert dict(parse_qsl(urlsplit(following).query))["status"] == "sold"
        reply = keeper.get(urlsplit(following).path, query=urlsplit(following).query)
        kinds.append(set(links(reply)))
    assert found == list(range(1, MANY - 100 + 1))
    assert kinds == [{"next"}, *([{"prev", "next"}] * 3), {"prev"}]
    back = urlsplit(links(reply)["prev"])
    assert keeper.listed(keeper.get(back.path, query=back.query)) == found[1500:2000]


def test_links_never_hold_credentials(shop: RunningServer, keeper: Keeper) -> None:
    credentials = in_query(keeper.credentials or ("", ""))
    with Client(shop) as stranger:
        reply = stranger.get("licenses", query={"page": 2, "per_page": 10, **credentials})
    assert set(links(reply)) == {"prev", "next"}
    assert "consumer" not in (reply.header("link") or "")


@each_row(("query", "expected"), [
    ("product_id=2", range(MANY - 99, MANY + 1)),
    ("product_id=1", range(1, MANY - 99)),
    ("order_id=5", range(MANY - 99, MANY + 1)),
    ("user_id=6", range(MANY - 99, MANY + 1)),
    ("status=active", range(MANY - 99, MANY + 1)),
    ("status=3", range(MANY - 99, MANY + 1)),
    ("status=SOLD", range(1, MANY - 99)),
    ("status=1&product_id=1", range(1, MANY - 99)),
    ("order_id=5&user_id=6&product_id=2&status=active", range(MANY - 99, MANY + 1)),
    ("product_id=2&page=2&per_page=30", range(MANY - 69, MANY - 39)),
])  # fmt: skip
def test_filters_narrow_the_list(keeper: Keeper, query: str, expected: Any) -> None:
    assert keeper.listed(keeper.get("licenses", query=query)) == list(expected)


def test_filters_narrow_the_total_too(keeper: Keeper) -> None:
    for per_page, pages in ((30, "4"), (1000, "1")):
        reply = keeper.get(f"licenses?order_id=5&page=1&per_page={per_page}")
        assert (reply.header("x-wp-total"), reply.header("x-wp-totalpages")) == ("100", pages)
    # A single page has no links.
    assert reply.header("link") is None


@each_row("query", ["status=sold&product_id=2", "product_id=3", "status=disabled", "user_id=0"])
@each_row("page", ["", "&page=1"])
def test_a_list_that_the_filter_empties_is_refused(keeper: Keeper, query: str, page: str) -> None:
    assert_refused(keeper.get("licenses", query=query + page), "No License Keys available")


def test_unknown_parameters_do_not_narrow_the_list(keeper: Keeper) -> None:
    assert len(keeper.get("licenses?license_key=x&_=1&search=nothing&per_page=1000").data) == 1000
