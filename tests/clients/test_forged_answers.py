"""Every client library believes only the answer to its own question; see ``tools.attacks.relay``."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from keywright.identity.model import Permissions
from tests.clients.library import LIBRARIES, Call, Library, build
from tests.clients.test_python_server import Vendor
from tests.makers import issue_api_key
from tests.proving import record
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tools.attacks.relay import Relay, alterations, relay

DATABASES = ("sqlite",)
KEY, OTHER_KEY, OFFLINE = "EDITOR-OWN-KEY", "EDITOR-OTHER-KEY", "unreachable_but_valid_until"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server") / "data", **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def vendor(server: RunningServer) -> Iterator[Vendor]:
    with closing(Vendor(server)) as vendor:
        for key in (KEY, OTHER_KEY):
            vendor.sell(key, next_check_seconds=1)
        yield vendor


@pytest.fixture(scope="module", params=LIBRARIES)
def library(
    request: pytest.FixtureRequest, vendor: Vendor, tmp_path_factory: pytest.TempPathFactory
) -> Library:
    return build(request.param, tmp_path_factory.mktemp("library"), vendor.public_key)


@pytest.fixture(scope="module")
def between(server: RunningServer, vendor: Vendor) -> Iterator[Relay]:
    viewer = vendor.call("POST", "/v3/products", name="Viewer", code="viewer")["id"]
    with server.storage() as storage:
        issued = issue_api_key(storage, "viewers", Permissions.CLIENT, product_id=viewer)
    token = f"kw_{issued.consumer_key[3:]}{issued.consumer_secret[3:]}"
    with relay(server.base_url, alterations(OTHER_KEY, token)) as running_relay:
        yield running_relay


def test_no_answer_to_another_question_changes_what_is_kept(
    library: Library, server: RunningServer, between: Relay, tmp_path: Path
) -> None:
    file = library.file(tmp_path / "first")
    (activated,) = library.run(Call("activate", server.base_url, file, KEY))
    assert activated.valid, activated
    due = time.time() + 1
    wait_until(lambda: time.time() > due, "the moment to ask again")
    kept = library.read(file)
    attacks = [name for name in between.names if name != "unaltered"]
    before = {name: between.signed(name) for name in attacks}
    # A license that is kept, and one that is wanted.
    checks = [Call("check", between.url_of(one), library.copy(file, tmp_path / one)) for one in attacks]
    wishes = [
        Call("activate", between.url_of(one), library.file(tmp_path / f"{one}, wanted"), key)
        for one in attacks
        for key in ["NOT-BOUGHT-KEY" if one == "another license key" else KEY]
    ]
    fair, *made = library.run(Call("check", between.url_of("unaltered"), file), *checks, *wishes)
    assert fair.state == "valid", fair
    checked, wanted = made[: len(attacks)], made[len(attacks) :]
    wrong = [
        (name, told)
        for name, told, call in zip(attacks, checked, checks, strict=True)
        if told.state != OFFLINE or library.read(call.file)["answer"] != kept["answer"]
    ]
    wrong += [
        (name, told)
        for name, told, call in zip(attacks, wanted, wishes, strict=True)
        if told.valid or (call.file.exists() and library.read(call.file).get("answer"))
    ]
    record("R29", library.language, {"forged and foreign answers": len(made), "changes": len(wrong)})
    assert wrong == []
    unsigned = {"an API key of another product", "a wrong API key", "without a signature"}
    assert {name for name in attacks if between.signed(name) == before[name]} == unsigned, between.handed
    assert {status for status, _ in between.handed["an API key of another product"]} == {403}
