"""Retried calls: one effect and one answer, however often and however late."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from keywright.background.clean_up import ANSWERS_KEPT
from keywright.identity.model import Permissions
from tests.http.asking import (
    Client,
    Reply,
    a_key,
    assert_common_headers,
    assert_invalid,
    assert_refused,
    assert_success,
    core,
    license_path,
)
from tests.server import NO_LIMITS, RunningServer, running
from tests.tables import each_row

REUSED = "This Idempotency-Key was used before with other parameters. Use a new one."


def once(name: str | None = None) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": name or str(uuid4())}}


def assert_first(reply: Reply) -> None:
    assert reply.header("idempotency-replayed") is None


def assert_replayed(reply: Reply, first: Reply) -> None:
    assert (reply.status, reply.body) == (first.status, first.body)
    assert reply.header("idempotency-replayed") == "true"
    assert_common_headers(reply)


def assert_reused(reply: Reply) -> None:
    assert_refused(reply, REUSED, code="idempotency_key_reused", status=422)
    assert_first(reply)


@pytest.mark.parametrize(
    ("first_method", "second_method"), [("GET", "GET"), ("POST", "POST"), ("GET", "POST"), ("POST", "GET")]
)
def test_a_repeated_activation_gets_the_first_answer_and_takes_no_place(
    vendor: Client, program: Client, first_method: str, second_method: str
) -> None:
    key = vendor.license()
    again = once()
    first = program.ask(first_method, core("activate", key), query="label=a", **again)
    assert first.data["timesActivated"] == 1
    assert_first(first)
    for _ in range(3):
        assert_replayed(program.ask(second_method, core("activate", key), query="label=a", **again), first)
    assert program.counter(key) == 1
    assert program.activate(key).data["timesActivated"] == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_repeated_deactivations_and_reactivations_change_nothing_more(
    vendor: Client, program: Client, method: str
) -> None:
    key = vendor.license()
    token: dict[str, Any] = {"query": {"token": program.activated(key)}}
    program.activate(key)
    for call, count in (("deactivate", 1), ("activate", 2)):
        again = once()
        first = program.ask(method, core(call, key), **token, **again)
        assert first.data["timesActivated"] == count
        assert_replayed(program.ask(method, core(call, key), **token, **again), first)
        assert program.counter(key) == count
    again = once()
    everything = program.ask(method, core("deactivate", key), **again)
    assert len(everything.data["activationData"]) == 2
    program.activate(key)
    assert_replayed(program.ask(method, core("deactivate", key), **again), everything)
    assert program.counter(key) == 1


def test_a_refusal_of_a_vendor_is_kept_like_any_outcome(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    token = program.activated(key)
    again = once()
    first = vendor.activate(key, **again)
    assert_refused(first, f"License Key: {key} reached maximum activation count.")
    program.deactivate(key, token)
    assert_replayed(vendor.activate(key, **again), first)
    assert program.counter(key) == 0
    assert vendor.activate(key, **once()).status == 200


@pytest.mark.parametrize("permissions", [None, Permissions.CLIENT, Permissions.READ])
def test_refusals_of_other_callers_are_decided_again_and_leave_nothing(
    server: RunningServer, vendor: Client, permissions: Permissions | None
) -> None:
    key = vendor.license(times_activated_max=1)
    token = vendor.activated(key)
    kept = server.count("idempotency_records")
    with Client(server, None if permissions is None else server.api_key(permissions)) as stranger:
        again = once()
        for refused in (stranger.activate(key, **again), stranger.activate(a_key(), **again)):
            assert refused.status == 404
        for _ in range(20):
            stranger.deactivate(key, "f" * 40, **once())
        assert server.count("idempotency_records") == kept
        vendor.deactivate(key, token)
        first = stranger.activate(key, **again)
        assert_first(first)
        assert_replayed(stranger.activate(key, **again), first)
        assert server.count("idempotency_records") == kept + 1


def test_an_answer_is_kept_as_it_went_out(vendor: Client, program: Client) -> None:
    key = vendor.license()
    again = once()
    first = program.activate(key, **again)
    vendor.put(license_path(key), json_body={"order_id": 9})
    vendor.delete(license_path(key))
    assert_replayed(program.activate(key, **again), first)


def test_the_same_key_with_other_parameters_is_refused(vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activated(key)
    again = once()
    program.activate(key, query="label=a&meta[os]=linux", **again)
    for other in ("", "label=b&meta[os]=linux", "label=a&meta[os]=mac", "label=a", f"token={token}"):
        assert_reused(program.activate(key, query=other, **again))
    assert_reused(program.deactivate(key, **again))
    assert_reused(program.deactivate(key, token, **again))
    assert program.counter(key) == 2


def test_parameters_that_are_ignored_are_no_other_parameters(vendor: Client, program: Client) -> None:
    key = vendor.license()
    again = once()
    first = program.activate(key, query="_=1700000000", **again)
    assert_replayed(program.activate(key, query="_=1700000001&location=x", **again), first)


def management_calls(vendor: Client) -> dict[str, tuple[Callable[..., Reply], Callable[..., Reply], str]]:
    """Every management call that changes something, the same with other parameters, and what it changes."""
    key, gone, other = vendor.license(), vendor.license(), vendor.license()
    recipe = {"name": "g", "charset": "ABCDEF0123456789", "chunks": 4, "chunk_length": 8, "prefix": "CANARY"}
    generator, old, older = (
        f"generators/{vendor.post('generators', json_body=recipe).data['id']}" for _ in range(3)
    )
    new, newer = a_key(), a_key()
    # Other licenses of the server expire meanwhile.
    changes = "events WHERE name = 'license.updated'"

    def call(method: str, path: str, body: Any = None) -> Callable[..., Reply]:
        return lambda **given: vendor.ask(method, path, json_body=body, **given)

    return {
        "create": (
            call("POST", "licenses", {"license_key": new}),
            call("POST", "licenses", {"license_key": newer}),
            "licenses",
        ),
        "update": (
            call("PUT", license_path(key), {"order_id": 1}),
            call("PUT", license_path(key), {"order_id": 2}),
            changes,
        ),
        "delete": (
            call("DELETE", license_path(gone)),
            call("PUT", license_path(gone), {"order_id": 2}),
            "licenses",
        ),
        "create generator": (
            call("POST", "generators", recipe),
            call("POST", "generators", {**recipe, "name": "other"}),
            "policies",
        ),
        "update generator": (
            call("PUT", generator, {"name": "new"}),
            call("PUT", generator, {"name": "newer"}),
            "policies",
        ),
        "delete generator": (call("DELETE", old), call("DELETE", older), "policies"),
        "generate": (
            call("POST", f"{generator}/generate", {"amount": 3}),
            call("POST", f"{generator}/generate", {"amount": 4}),
            "licenses",
        ),
        "update by POST": (
            call("POST", license_path(other), {"status": "sold", "expires_at": "2050-01-01"}),
            call("POST", license_path(other), {"status": "sold", "expires_at": "2050-01-02"}),
            changes,
        ),
    }


def test_every_management_call_can_be_repeated(server: RunningServer, vendor: Client) -> None:
    for name, (call, other, table) in management_calls(vendor).items():
        again = once()
        first = call(**again)
        assert (first.status, first.json["success"]) == (200, True), name
        assert_first(first)
        counted = server.count(table)
        assert_replayed(call(**again), first)
        assert_reused(other(**again))
        assert server.count(table) == counted, name


def test_what_one_caller_keeps_no_other_gets(server: RunningServer, vendor: Client, program: Client) -> None:
    key = vendor.license()
    again = once()
    first = program.activate(key, **again)
    other = vendor.activate(key, **again)
    assert (first.data["timesActivated"], other.data["timesActivated"]) == (1, 2)
    with Client(server, server.api_key()) as somebody:
        assert_first(somebody.activate(key, **again))
    assert_replayed(program.activate(key, **again), first)


def test_programs_of_two_customers_do_not_meet(vendor: Client, program: Client) -> None:
    one, two = vendor.license(), vendor.license()
    again = once()
    assert program.activate(one, **again).data["licenseKey"] == one
    assert program.activate(two, **again).data["licenseKey"] == two


def test_calls_that_change_nothing_ignore_it(vendor: Client, program: Client) -> None:
    key = vendor.license()
    again = once()
    before = program.validate(key, **again)
    program.activate(key, **again)
    after = program.validate(key, **again)
    assert (before.data["timesActivated"], after.data["timesActivated"]) == (0, 1)
    assert_first(after)
    assert vendor.get(license_path(key), **again).status == 200


GOOD = ["x", "!", "~", "#\"'{}", "x" * 255, "550e8400-e29b-41d4-a716-446655440000"]


@each_row("name", GOOD)
def test_1_to_255_visible_characters_are_good(vendor: Client, program: Client, name: str) -> None:
    key = vendor.license()
    first = program.activate(key, **once(name))
    assert_replayed(program.activate(key, **once(name)), first)


@each_row("name", ["", "x" * 256, "a b", "a\tb", "ü", "\xff", "a\x80b"])
def test_anything_else_is_refused(vendor: Client, program: Client, name: str) -> None:
    key = vendor.license()
    headers: dict[str, Any] = {"headers": {"Idempotency-Key": name}}
    assert_invalid(program.activate(key, **headers), "Idempotency-Key")
    assert_invalid(vendor.post("licenses", json_body={"license_key": a_key()}, **headers), "Idempotency-Key")
    assert program.counter(key) == 0


def test_a_call_with_wrong_parameters_keeps_nothing(vendor: Client, program: Client) -> None:
    key = vendor.license()
    again = once()
    assert program.activate(key, query={"label": "x" * 256}, **again).status == 400
    assert_first(program.activate(key, query={"label": "x"}, **again))
    assert program.counter(key) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_hundred_at_once_have_one_effect_and_one_answer(
    server: RunningServer, vendor: Client, program: Client, method: str
) -> None:
    key = vendor.license()
    again = once()
    together = Barrier(100)

    def call(_: int) -> Reply:
        with Client(server) as client:
            client._opened().connect()
            together.wait()
            return client.ask(method, core("activate", key), **again)

    with ThreadPoolExecutor(100) as pool:
        replies = list(pool.map(call, range(100)))
    successes = [reply for reply in replies if reply.status == 200]
    busy = [reply for reply in replies if reply.status != 200]
    assert len({reply.body for reply in successes}) == 1
    assert sum(reply.header("idempotency-replayed") is None for reply in successes) == 1
    for reply in busy:
        assert_busy(reply)
    assert program.counter(key) == 1
    assert len(program.validate(key).data["activationData"]) == 1


def assert_busy(reply: Reply) -> None:
    assert_refused(reply, reply.message, code="idempotency_key_busy", status=409)
    assert int(reply.header("retry-after") or 0) >= 1


def test_while_the_first_is_still_running_the_others_are_told_to_wait(
    server: RunningServer, vendor: Client, program: Client
) -> None:
    key = vendor.license()
    again = once()

    def call() -> Reply:
        with Client(server) as client:
            return client.activate(key, **again)

    with ThreadPoolExecutor(2) as pool:
        with server.holding_changes():
            calls = [pool.submit(call) for _ in range(2)]
            told, running_still = wait(calls, return_when=FIRST_COMPLETED)
            assert_busy(told.pop().result())
        first = running_still.pop().result()
    assert first.data["timesActivated"] == 1
    assert_replayed(program.activate(key, **again), first)


def test_answers_survive_a_restart(tmp_path: Path, database: str) -> None:
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        credentials = server.api_key()
        again = once()
        with Client(server, credentials) as vendor, Client(server) as program:
            key, full = vendor.license(), vendor.license(times_activated_max=1)
            program.activate(full)
            first = program.activate(key, **again)
            refused = vendor.activate(full, **again)
            created = vendor.post("licenses", json_body={"license_key": a_key()}, **again)
        for end in (server.stop, server.kill):
            end()
            server.start()
            with Client(server, credentials) as vendor, Client(server) as program:
                assert_replayed(program.activate(key, **again), first)
                assert_replayed(vendor.activate(full, **again), refused)
                same = {"license_key": created.data["licenseKey"]}
                assert_replayed(vendor.post("licenses", json_body=same, **again), created)
                assert program.counter(key) == 1
        assert_success(created, created.data)


def test_answers_are_kept_for_a_day_at_least() -> None:
    assert timedelta(hours=24) <= ANSWERS_KEPT


def test_idempotency_records_are_sealed(server: RunningServer, vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activate(key, **once()).data["activationData"]["token"]
    kept = [bytes(body) for (body,) in server.sql("SELECT sealed_body FROM idempotency_records")]
    assert kept
    assert not any(text.encode() in body for text in (key, token) for body in kept)
