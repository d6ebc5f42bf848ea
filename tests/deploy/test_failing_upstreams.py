"""What was sent to an instance is never sent again, however that instance ends; and who asks is told."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import pytest

from keywright.core.errors.problems import PROBLEMS
from tests.deploy.programs import program
from tests.deploy.proxies import KINDS, Certificate, Proxy, SecureClient, running_proxy
from tests.deploy.upstreams import Upstream, an_upstream
from tests.http.asking import CANARY, Reply, a_key, assert_refused, core, in_query
from tests.server import running, wait_until


class Pair(NamedTuple):
    """A proxy before two instances."""

    proxy: Proxy
    upstreams: tuple[Upstream, Upstream]

    @property
    def targets(self) -> list[str]:
        return [target for upstream in self.upstreams for target in upstream.targets]


@pytest.fixture(params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path: Path, certificate: Certificate) -> Iterator[Pair]:
    with (
        an_upstream() as one,
        an_upstream() as two,
        running_proxy(request.param, tmp_path, certificate, one.port, two.port) as proxy,
    ):
        yield Pair(proxy, (one, two))


def activate(program: SecureClient, key: str, method: str = "GET") -> Reply | None:
    """What the program hears; None when the line is cut."""
    try:
        return program.ask(method, core("activate", key))
    except (OSError, HTTPException):
        program.close()
        return None


def assert_unavailable(reply: Reply) -> None:
    sentence = "The service is not available right now. Please try again."
    assert_refused(reply, sentence, code="service_unavailable", status=503)
    assert reply.header("retry-after") == "1"
    assert reply.header("strict-transport-security") == "max-age=31536000"


def assert_problem(reply: Reply, code: str) -> None:
    """A refusal of the v3 interface, though a proxy has made it."""
    assert reply.header("content-type") == "application/problem+json"
    status, page = PROBLEMS[code].status, PROBLEMS[code]
    assert (reply.status, reply.json["status"], reply.json["code"]) == (status, status, code)
    assert (reply.json["type"], reply.json["title"]) == (f"/problems/{code}", page.title)
    assert reply.json["detail"]
    for name, value in (("cache-control", "no-store"), ("x-content-type-options", "nosniff")):
        assert reply.header(name) == value
    assert reply.header("strict-transport-security") == "max-age=31536000"
    if status == 503:
        assert reply.header("retry-after") == str(reply.json["retry_after_seconds"]) == "1"


@pytest.mark.parametrize("is_gone", [False, True], ids=["breaks off", "takes no connections"])
def test_a_program_of_v3_is_told_in_the_shape_of_v3(pair: Pair, is_gone: bool) -> None:
    for upstream in pair.upstreams:
        if is_gone:
            upstream.close()
        upstream.is_well = False
    with SecureClient(pair.proxy) as program:
        assert_problem(program.post("/v3/validate", json_body={"license_key": "K"}), "fate_unknown")
        other = activate(program, "K")
        assert other is not None
        assert_unavailable(other)
        # A key that only looks like it.
        assert_unavailable(program.get("/other/v3/x"))


def warm_up(pair: Pair, program: SecureClient) -> None:
    """Let the proxy have connections to both, as it has in use."""
    for number in range(20):
        reply = activate(program, f"warm-{number}")
        assert reply is not None
        assert reply.status == 200
    assert all(upstream.requests for upstream in pair.upstreams)


def set_ill(pair: Pair) -> None:
    for upstream in pair.upstreams:
        upstream.is_well = False


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("is_warm", [False, True], ids=["first", "after others"])
def test_a_call_whose_instance_dies_over_it_reaches_no_other_one(
    pair: Pair, method: str, is_warm: bool
) -> None:
    with SecureClient(pair.proxy) as program:
        if is_warm:
            warm_up(pair, program)
        set_ill(pair)
        keys = [f"key-{number}" for number in range(10)]
        replies = [activate(program, key, method) for key in keys]
    for reply in replies:
        if reply is not None:
            assert_unavailable(reply)
    came = [target.rpartition("/")[2] for target in pair.targets if "/key-" in target]
    assert len(came) == len(set(came)), "an instance was asked what another one had been asked"
    assert came


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_client_that_tries_again_by_itself_is_given_no_reason_to(pair: Pair, version: str) -> None:
    curl = [program("curl"), "--silent", version, "--cacert", str(pair.proxy.certificate.chain)]
    address = f"https://localhost:{pair.proxy.port}"
    # One connection, if the proxy lets it be one.
    calls = [part for number in range(6) for part in (f"{address}/key-{number}", "-o", "/dev/null")]
    subprocess.run([*curl, *(f"{address}/warm-{number}" for number in range(4))], check=True)
    set_ill(pair)
    said = subprocess.run([*curl, "-w", "%{http_code} ", *calls], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["503"] * 6
    came = [target for target in pair.targets if "/key-" in target]
    assert came
    assert len(came) == len(set(came))


def test_an_instance_that_dies_while_many_ask_costs_nobody_a_second_place(pair: Pair) -> None:
    """The first answers and keeps its connections; then it ends between request and answer."""
    with SecureClient(pair.proxy) as program:
        warm_up(pair, program)
        pair.upstreams[0].is_well = False
        keys = [f"key-{number}" for number in range(30)]
        replies = {key: activate(program, key) for key in keys}
    came = [target.rpartition("/")[2] for target in pair.targets if "/key-" in target]
    assert len(came) == len(set(came))
    assert [key for key, reply in replies.items() if reply is not None and reply.status == 200]
    # Half of the calls, more or less where chance divides them.
    assert len(pair.upstreams[1].requests) > 10


def test_an_instance_that_takes_no_connections_costs_no_call(pair: Pair) -> None:
    pair.upstreams[0].close()
    with SecureClient(pair.proxy) as program:
        replies = [activate(program, f"key-{number}") for number in range(20)]
    failed = [reply for reply in replies if reply is None or reply.status != 200]
    assert failed == []
    assert len(pair.upstreams[1].requests) == 20


def test_without_any_instance_programs_hear_that_the_service_is_unavailable(pair: Pair) -> None:
    for upstream in pair.upstreams:
        upstream.close()
    with SecureClient(pair.proxy) as program:
        for _ in range(5):
            assert_unavailable(program.validate(a_key()))


def test_no_license_key_and_no_secret_is_in_the_proxys_logs(pair: Pair) -> None:
    secret = in_query((f"ck_{CANARY}", f"cs_{CANARY}"))
    with SecureClient(pair.proxy, (f"ck_{CANARY}", f"cs_{CANARY}")) as program:
        for is_well in (True, False):
            for upstream in pair.upstreams:
                upstream.is_well = is_well
            assert activate(program, a_key()) is not None
            program.get(core("validate", a_key()), query=secret, headers={"Referer": f"https://x/{CANARY}"})
        with suppress(OSError):
            program.get(core("validate", "x" * 200_000 + CANARY))
        program.close()
        for upstream in pair.upstreams:
            upstream.close()
        program.validate(a_key())
    pair.proxy.stop()
    assert pair.proxy.log
    assert CANARY not in pair.proxy.log
    assert "Basic " not in pair.proxy.log


@pytest.mark.parametrize("kind", ["haproxy", "caddy"])
def test_an_instance_that_is_not_ready_is_asked_nothing(
    kind: str, tmp_path: Path, certificate: Certificate
) -> None:
    with (
        running(tmp_path / "data") as ready,
        an_upstream() as other,
        running_proxy(kind, tmp_path, certificate, other.port, ready.port) as proxy,
        SecureClient(proxy) as program,
    ):
        other.is_ready = False
        other.is_well = False
        # Chosen at random, the other one is not lucky that often.
        wait_until(lambda: statuses(program, 30) == [200] * 30, "the check to see it")
        before = len(other.requests)
        assert statuses(program, 20) == [200] * 20
        assert len(other.requests) == before
        other.is_ready = other.is_well = True
        wait_until(lambda: statuses(program, 2) and len(other.requests) > before, "it to be asked again")


def statuses(program: SecureClient, count: int) -> list[int]:
    return [program.get("/healthz").status for _ in range(count)]
