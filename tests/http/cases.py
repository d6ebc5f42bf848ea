"""Cases that schemathesis generates from the OpenAPI document, and the checks of their answers."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import psutil
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import BaseSchema, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from tests.http.asking import Client, Reply, license_path
from tests.http.shape import Answers
from tests.proving import IS_LONG, size
from tests.server import RunningServer
from tests.v2_document import ACTIONS, Document

AnyCase = Case[Any]

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
#: Number of cases of an operation on each database: with valid data, and with invalid data.
VALID, INVALID = size(14, 1_400), size(20, 1_000)
VALID_HEAD, INVALID_HEAD = size(5, 100), size(5, 100)
OPERATIONS = list(ACTIONS)
#: Growth of the server's memory during all cases, in MiB: most of it is the database's cache.
MAX_GROWTH = 64
#: Cases in one run of hypothesis, which keeps them in memory.
_BATCH = 250
#: Licenses that a case generates at most: the 10,000 that are allowed would take too long.
_MAX_GENERATED = 5


def planned(method: str) -> tuple[int, int]:
    """The number of cases with valid and with invalid data; OPTIONS has no data."""
    if method == "OPTIONS":
        return 1, 0
    return (VALID_HEAD, INVALID_HEAD) if method == "HEAD" else (VALID, INVALID)


class CaseRunner:
    """Makes the calls of cases, and compares the answers with the document and the contract."""

    def __init__(self, server: RunningServer, document: Document, shop: Client) -> None:
        """``shop`` creates the licenses and generators of the cases."""
        self.schema = schema_of(document)
        self.answers = Answers()
        self.statuses: Counter[int] = Counter()
        self._shop = shop
        self._base_url = server.base_url + self.schema.base_path
        self._session = requests.Session()
        self._session.auth = shop.credentials

    def close(self) -> None:
        self._session.close()

    def run(self, path: str, method: str, *, times: int = 1) -> None:
        """Run all cases of an operation, or so many times as many. Raises the failures of schemathesis, or
        ``AssertionError``.
        """
        self.statuses.clear()
        for mode, cases in zip(
            (GenerationMode.POSITIVE, GenerationMode.NEGATIVE), planned(method), strict=True
        ):
            for done in range(0, cases * times, _BATCH):
                if IS_LONG and path in ("/licenses", "/generators"):
                    self._clear(path)
                self._run(path, method, mode, min(_BATCH, cases * times - done))

    def _run(self, path: str, method: str, mode: GenerationMode, cases: int) -> None:
        @settings(
            max_examples=cases,
            derandomize=not IS_LONG,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(self.schema[path][method].as_strategy(generation_mode=mode), st.sampled_from(_known(path)))
        def run_case(case: AnyCase, known: Callable[[Client], dict[str, Any]]) -> None:
            _put_in(case, known(self._shop))
            self._check(case)

        run_case()

    def _check(self, case: AnyCase) -> None:
        response = case.call(base_url=self._base_url, session=self._session)
        self.statuses[response.status_code] += 1
        headers = [(name.lower(), values[0]) for name, values in response.headers.items()]
        reply = Reply(response.status_code, headers, response.content)
        problem = self.answers.problem_of(reply, has_body=case.method != "HEAD")
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup:
            self.answers.found["answers out of shape"] += problem is None
            raise
        assert problem is None, problem

    def _clear(self, path: str) -> None:
        """Delete the records of other cases: lists would grow and grow."""
        found = self._shop.get(path.lstrip("/"), query={"per_page": 1000})
        while found.status == 200:
            for one in found.data:
                address = (
                    license_path(one["licenseKey"]) if "licenseKey" in one else f"generators/{one['id']}"
                )
                assert self._shop.delete(address).status == 200
            found = self._shop.get(path.lstrip("/"), query={"per_page": 1000})


def schema_of(document: Document, *, open_records: Collection[str] = ()) -> BaseSchema:
    """The document, read strictly: an answer has no other fields, but for these records."""
    strict = deepcopy(document)
    for name, one in strict["components"]["schemas"].items():
        if name not in open_records:
            one["additionalProperties"] = False
    return schemathesis.openapi.from_dict(strict)


@contextmanager
def case_runner(server: RunningServer, part: str) -> Iterator[CaseRunner]:
    """Run cases on this server; at the end, record the findings and the growth of its memory."""
    with Client(server, server.api_key()) as shop:
        document = shop.get("/openapi/v2.json").json
        runner = CaseRunner(server, document, shop)
        process = psutil.Process(server.pid)
        before = process.memory_info().rss
        try:
            yield runner
        finally:
            runner.close()
            grown = (process.memory_info().rss - before) / 2**20
            runner.answers.record(part, server_memory_growth_MiB=grown)
        assert grown < MAX_GROWTH


# --- what a case finds --------------------------------------------------------


def _nothing(_shop: Client) -> dict[str, Any]:
    return {}


def _a_license(shop: Client) -> dict[str, Any]:
    return {"key": shop.license(), "token": None}


def _a_full_license(shop: Client) -> dict[str, Any]:
    key = shop.license(times_activated_max=1)
    shop.activated(key)
    return {"key": key}


def _an_expired_license(shop: Client) -> dict[str, Any]:
    return {"key": shop.license(expires_at="2020-01-01")}


def _a_disabled_license(shop: Client) -> dict[str, Any]:
    return {"key": shop.license(status="disabled")}


def _an_activation(shop: Client) -> dict[str, Any]:
    key = shop.license()
    return {"key": key, "token": shop.activated(key)}


def _a_deactivated_activation(shop: Client) -> dict[str, Any]:
    key = shop.license()
    token = shop.activated(key)
    assert shop.deactivate(key, token).status == 200
    return {"key": key, "token": token}


def _a_generator(shop: Client) -> dict[str, Any]:
    fields = {"name": "a test", "charset": "ABCDEFGH23456789", "chunks": 4, "chunk_length": 6}
    return {"id": shop.post("generators", json_body=fields).data["id"]}


# hypothesis takes the first ones most often.
_LICENSES = (_a_license, _a_full_license, _an_expired_license, _a_disabled_license, _nothing)
_ACTIVATIONS = (_a_deactivated_activation, _an_activation)


def _known(path: str) -> tuple[Callable[[Client], dict[str, Any]], ...]:
    """What a case at this path may find."""
    if path.startswith("/generators"):
        return (_a_generator, _nothing)
    return _LICENSES if path in ("/licenses", "/licenses/{key}") else _ACTIVATIONS + _LICENSES


def _put_in(case: AnyCase, known: dict[str, Any]) -> None:
    """Let the case be about these records."""
    for name in case.path_parameters or {}:
        if name in known:
            case.path_parameters = {name: known[name]}
    if "token" in known:
        token = {} if known["token"] is None else {"token": known["token"]}
        case.query = _without_token(case.query or {}) | token
        if isinstance(case.body, dict):
            case.body = _without_token(case.body) | token
    for holder in (case.query, case.body):
        if isinstance(holder, dict) and str(holder.get("amount", "")).isdecimal():
            holder["amount"] = min(int(str(holder["amount"])), _MAX_GENERATED)


def _without_token(sent: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sent.items() if name != "token"}
