"""Cases that schemathesis generates from the OpenAPI document of v3, and the checks of their answers."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any

import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests import PreparedRequest
from schemathesis import GenerationMode

from keywright.core.errors.problems import PROBLEMS
from keywright.http.openapi.update_frameworks import build_paths
from keywright.http.v3.routes import ROUTES
from tests.http.asking import CANARY, Client, Json, Reply
from tests.http.cases import CHECKS, AnyCase, schema_of
from tests.http.shape import Answers
from tests.proving import IS_LONG, size
from tests.server import RunningServer

#: These begin a job over all licenses, of which a server takes so many at a time; how long to wait for one to
#: end, in seconds. They come first, while there are few licenses.
_JOBS, _PATIENCE = ("/license-files",), 60
OPERATIONS = sorted(
    [*((one.public_path, one.method) for one in ROUTES), *((one, "GET") for one in build_paths())],
    key=lambda one: one[0] not in _JOBS,
)
#: Number of cases of an operation on each database: with valid data, and with invalid data.
VALID, INVALID = size(8, 1_000), size(6, 600)
_FINGERPRINT = "device-7f3a9c0e12b4"
_TERMS = {
    "max_activations": 3,
    "max_leases": 3,
    "entitlements": ["export"],
    "meters": {"pages": {"limit": 9, "per": "day", "overage": "refuse"}},
    "trial": True,
    "claimable": True,
}
#: The most licenses of one case: the 1,000 that are allowed would take too long.
_MAX_QUANTITY = 3
_numbers = count(1)


#: Signed answers, and license files.
SIGNED = ("application/jwt", "text/plain")
#: These take nothing that could be invalid.
WITHOUT_PARAMETERS = ("/", "/signing-keys")


def planned(path: str) -> tuple[int, int]:
    """The number of cases with valid and with invalid data."""
    return VALID, 0 if path in WITHOUT_PARAMETERS else INVALID


def assert_in_shape(reply: Reply) -> None:
    """What every answer of v3 is, whatever was asked."""
    assert reply.status < 500, reply.body
    assert (reply.header("cache-control"), reply.header("x-content-type-options")) == ("no-store", "nosniff")
    if reply.status == 204:
        assert reply.body == b""
        return
    is_success = reply.status < 300
    media_types = ("application/json", *SIGNED) if is_success else ("application/problem+json",)
    assert (reply.header("content-type") or "").partition(";")[0] in media_types
    if not is_success:
        problem = PROBLEMS[reply.json["code"]]
        assert (reply.json["status"], reply.status) == (reply.status, problem.status)
        assert reply.json["title"] == problem.title


def assert_feed_in_shape(reply: Reply) -> None:
    """What every answer to an update framework is."""
    assert reply.status < 500, reply.body
    names = ("cache-control", "x-content-type-options", "referrer-policy")
    assert [reply.header(one) for one in names] == ["no-store", "nosniff", "no-referrer"]
    if reply.status >= 400:
        assert (reply.header("content-type") or "").partition(";")[0] == "text/plain"


class V3CaseRunner:
    """Makes the calls of cases with a bearer token, and compares the answers with the document."""

    def __init__(self, server: RunningServer, shop: Client) -> None:
        self.schema = schema_of(shop.get("/openapi/v3.json").json, open_records=("Problem", "Metadata"))
        self.answers = Answers(assert_in_shape)
        #: Those to update frameworks, of which most are not JSON.
        self.feeds = Answers(assert_feed_in_shape)
        self.statuses: Counter[int] = Counter()
        self._shop = shop
        self._base_url = f"{server.base_url}/v3"
        self._session = requests.Session()
        self._session.auth = _bearer(*shop.credentials) if shop.credentials else None
        self._product = self._make("products")
        self._policy = self._make("policies", product_id=self._product, terms=_TERMS)

    def close(self) -> None:
        self._session.close()

    def run(self, path: str, method: str) -> None:
        """Run all cases of an operation. Raises the failures of schemathesis, or ``AssertionError``."""
        self.statuses.clear()
        valid, invalid = planned(path)
        self._run(path, method, GenerationMode.POSITIVE, valid)
        if invalid:
            self._run(path, method, GenerationMode.NEGATIVE, invalid)

    def _run(self, path: str, method: str, mode: GenerationMode, cases: int) -> None:
        @settings(
            max_examples=cases,
            derandomize=not IS_LONG,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(
            self.schema[path][method].as_strategy(generation_mode=mode), st.sampled_from([True, True, False])
        )
        def run_case(case: AnyCase, is_known: bool) -> None:
            if is_known:
                self._put_in(case, is_valid=mode is GenerationMode.POSITIVE)
            self._check(case)

        run_case()

    def _check(self, case: AnyCase) -> None:
        if str((case.query or {}).get("wait_seconds", "")).isdecimal():
            # An answer waits for events so long.
            case.query["wait_seconds"] = 0
        is_feed = case.path.startswith("/u/")
        base_url = self._base_url.removesuffix("/v3") if is_feed else self._base_url
        response = case.call(base_url=base_url, session=self._session)
        end = time.monotonic() + _PATIENCE
        while case.path in _JOBS and '"code":"busy"' in response.text and time.monotonic() < end:
            # Too many jobs are waiting: what cases before this one began. No other 503 is meant.
            time.sleep(0.2)
            response = case.call(base_url=base_url, session=self._session)
        self.statuses[response.status_code] += 1
        headers = [(name.lower(), values[0]) for name, values in response.headers.items()]
        reply = Reply(response.status_code, headers, response.content)
        answers = self.feeds if is_feed else self.answers
        problem = answers.problem_of(reply)
        found = answers.found["answers out of shape"]
        answers.found["answers out of shape"] += problem is None
        case.validate_response(response, checks=CHECKS)
        if reply.status >= 400 and not is_feed:
            documented = case.operation.definition.raw["responses"][str(reply.status)]["content"]
            assert reply.json["code"] in documented["application/problem+json"]["examples"], reply
        answers.found["answers out of shape"] = found
        assert problem is None, problem

    def _put_in(self, case: AnyCase, *, is_valid: bool) -> None:
        """Let the case be about records that exist. Only a case with valid data gets all of them."""
        case.headers.pop("If-Match", None)
        known = self._make_records(case.path)
        for name in known.keys() & (case.path_parameters or {}).keys():
            case.path_parameters[name] = known[name]
        if not isinstance(case.body, dict):
            return
        names = case.body.keys() & known.keys() if is_valid else {"license_key"} & case.body.keys()
        case.body = case.body | {name: known[name] for name in names}
        if isinstance(quantity := case.body.get("quantity"), int):
            case.body["quantity"] = min(quantity, _MAX_QUANTITY)

    def _make_records(self, path: str) -> dict[str, Any]:
        """The numbers of new records, by the names that they have in paths and bodies."""
        if path.startswith(("/products", "/policies", "/customers")):
            noun = path.split("/")[1]
            number = self._make(noun)
            return {f"{noun.removesuffix('s').replace('policie', 'policy')}_id": number, "product_id": number}
        if path.startswith("/webhooks"):
            # There are 100 at most.
            endpoint = {"url": "https://crm.example/", "events": ["*"]}
            there = self._shop.get("/v3/webhooks").json["items"]
            return {"webhook_id": there[0]["id"] if there else self._send("webhooks", endpoint)["id"]}
        if path.startswith("/connections"):
            # There are 200 at most.
            there = self._shop.get("/v3/connections").json["items"]
            connection = there[0]["id"] if there else self._make("connections", shop="generic")
            return {"connection_id": connection, "policy_id": self._policy}
        if path.startswith("/u/"):
            token, product = self._ship()
            return {"token": token, "product": str(product), "name": "latest.yml"}
        key = f"{CANARY}-{next(_numbers)}-{self._policy}"
        license = self._send("licenses", {"key": key, "policy_id": self._policy, "product_id": self._product})
        device = {"license_key": key, "fingerprint": _FINGERPRINT}
        activation = self._send("activate", device)["activation"]
        lease = self._send("leases", device | {"holder": "anna"})["lease"]
        return device | {
            "license_id": license["id"],
            "activation_id": activation["id"],
            "lease_id": lease["id"],
            "token": activation["token"],
            "meter": "pages",
            "entitlements": ["export"],
            "product": self._product,
            "product_id": self._product,
            "policy": self._policy,
            "policy_id": self._policy,
        }

    @cache  # noqa: B019
    def _ship(self) -> tuple[str, int]:
        """Publish a release of a new product with a feed and a signed file; return the update token of a
        license, and the product.
        """
        product = self._make("products")
        release = self._send("releases", {"product_id": product, "version": "2.0.0"})["id"]
        for name, kind in (("latest.yml", "feed"), ("paint.tar.gz", "archive")):
            named = {"name": name, "kind": kind, "signature": "a signature"}
            file = self._send(f"releases/{release}/files", named)["id"]
            content = self._shop.ask("PUT", f"/v3/files/{file}/content", body=b"version: 2.0.0")
            assert content.status == 200, content
        self._send(f"releases/{release}/publish", {})
        key = f"{CANARY}-{next(_numbers)}-{self._policy}"
        license = self._send("licenses", {"key": key, "product_id": product})
        return str(self._send(f"licenses/{license['id']}/update-tokens", {})["token"]), product

    def _make(self, noun: str, **fields: Any) -> int:
        return int(self._send(noun, {"name": "A test"} | fields)["id"])

    def _send(self, path: str, body: Json) -> Json:
        reply = self._shop.post(f"/v3/{path}", json_body=body)
        assert reply.status in (200, 201), reply
        return reply.json


def _bearer(consumer_key: str, consumer_secret: str) -> Callable[[PreparedRequest], PreparedRequest]:
    """Sends the token of this API key with every request."""
    token = re.sub("c[ks]_", "", consumer_key + consumer_secret)

    def authorize(request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer kw_{token}"
        return request

    return authorize


@contextmanager
def v3_case_runner(server: RunningServer, part: str) -> Iterator[V3CaseRunner]:
    """Run cases on this server; at the end, record the findings."""
    with Client(server, server.api_key()) as shop:
        runner = V3CaseRunner(server, shop)
        try:
            yield runner
        finally:
            runner.close()
            runner.answers.record(part)
            runner.feeds.record(f"{part}, update frameworks")
