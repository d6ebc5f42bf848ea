"""Leases, trials and full licenses of every client library, with a real server and with one that lies."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.clients.library import LIBRARIES, Call, Library, build
from tests.clients.signing_server import KEY, SigningServer, signing_server
from tests.clients.test_python_server import Vendor
from tests.server import NO_LIMITS, RunningServer, running, wait_until

DATABASES = ("sqlite",)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server") / "data", **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def vendor(server: RunningServer) -> Iterator[Vendor]:
    with closing(Vendor(server)) as vendor:
        terms = {"trial": True, "valid_for_days": 14, "max_activations": 1, "device": "required"}
        vendor.call("POST", "/v3/policies", name="Try it", product_id=vendor.product_id, terms=terms)
        yield vendor


@pytest.fixture(scope="module")
def lying() -> Iterator[SigningServer]:
    with signing_server(time.time) as server:
        server.next_check_seconds = -1
        yield server


@pytest.fixture(scope="module", params=LIBRARIES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(request.param, tmp_path_factory.mktemp("library"), KEY.x)


@pytest.fixture
def library(built: Library, vendor: Vendor) -> Library:
    """On a device of its own, which has had no trial."""
    return built._replace(public_key=vendor.public_key, device=f"device-of-{built.language}")


def test_a_floating_license_runs_where_a_lease_is_held(
    library: Library, vendor: Vendor, server: RunningServer, tmp_path: Path
) -> None:
    key, file, other = f"TEAM-{library.language}", library.file(tmp_path / "1"), library.file(tmp_path / "2")
    path = vendor.sell(key, max_leases=1)

    def run(call: str, file: Path = file, license_key: str = "", holder: str = "") -> tuple[bool, str]:
        if call in ("check", "lease") and file.exists():
            # As if it were time to ask the server.
            library.edit(file, answer="a.b.c")
        (made,) = library.run(Call(call, server.base_url, file, license_key, holder=holder))
        return made.valid, made.state

    def end_it() -> tuple[bool, str]:
        (held,) = vendor.call("GET", f"{path}/leases")["items"]
        vendor.delete(f"{path}/leases/{held['id']}")
        return run("check")

    rows = [
        ("activated", run("activate", license_key=key), (True, "valid")),
        ("without a lease", run("check"), (False, "no_lease")),
        ("taken, renewed, checked and given back", run("lease"), (True, "valid")),
        ("given back", run("check"), (False, "no_lease")),
        ("taken where nothing was activated", run("take", other, key, "ben"), (True, "held")),
        ("the same holder", run("lease", holder="ben"), (True, "valid")),
        ("never given back", run("take", holder="anna"), (True, "held")),
        ("another holder", run("lease", holder="ben"), (False, "no_free_lease")),
        ("the device's latest", run("check"), (True, "valid")),
        ("ended by the vendor", end_it(), (False, "no_lease")),
        ("a wrong license key", run("take", other, "NO-SUCH-KEY"), (False, "unknown_license")),
    ]
    assert [(name, found) for name, found, _ in rows] == [(name, wanted) for name, _, wanted in rows]
    assert library.read(file)["license_key"] == key


def test_a_device_has_one_trial(
    library: Library, vendor: Vendor, server: RunningServer, tmp_path: Path
) -> None:
    first, again, last = (library.file(tmp_path / name) for name in ("first", "again", "last"))

    def start(file: Path) -> tuple[bool, str]:
        (made,) = library.run(Call("trial", server.base_url, file))
        return made.valid, made.state

    assert start(first) == (True, "valid")
    key = library.read(first)["license_key"]
    assert library.run(Call("check", "http://127.0.0.1:9", first))[0].state == "valid"
    # As after a new installation.
    assert start(again) == (True, "valid")
    assert library.read(again)["license_key"] == key
    (license,) = vendor.call("POST", "/v3/licenses/search", key=key)["items"]
    vendor.call("PATCH", f"/v3/licenses/{license['id']}", expires_at="2020-01-31T00:00:00Z")
    vendor.call("PATCH", f"/v3/licenses/{license['id']}", terms={"grace_days": 0})
    assert start(last) == (False, "expired")
    vendor.delete(f"/v3/licenses/{license['id']}")
    (made,) = library.run(Call("trial", server.base_url, last))
    assert (made.valid, made.state) == (False, "not_activated")
    assert "trial" in made.detail


def test_the_user_of_a_full_license_chooses_the_device_to_remove(
    library: Library, vendor: Vendor, server: RunningServer, tmp_path: Path
) -> None:
    key, file = f"FULL-{library.language}", library.file(tmp_path)
    terms = {"devices_visible": True, "portal_removals": {"count": 1, "per_days": 30}}
    vendor.sell(key, max_activations=1, **terms)
    old = {"license_key": key, "fingerprint": "an old laptop", "name": "Old laptop"}
    place = vendor.call("POST", "/v3/activate", **old)["activation"]
    (made,) = library.run(Call("choose", server.base_url, file, key))
    assert (made.valid, made.state, made.detail) == (True, "limit_reached valid", "Old laptop")
    assert library.run(Call("check", server.base_url, file))[0].state == "valid"
    found = vendor.call("POST", "/v3/validate", license_key=key, token=place["token"])
    assert found["code"] == "not_activated"


def test_a_lease_of_another_holder_or_device_is_refused(
    built: Library, lying: SigningServer, tmp_path: Path
) -> None:
    file = built.file(tmp_path)
    other_device = {"id": 6, "fingerprint": "another-device"}
    wrong = []
    for rule, holder, device in (("question", "ben", None), ("device", None, other_device), ("", None, None)):
        lying.holder, lying.named = holder, device
        (made,) = built.run(Call("take", lying.url, file, holder="anna"))
        if made.valid != (not rule) or rule not in made.detail:
            wrong.append((rule, made))
    lying.holder, lying.named = None, None
    assert wrong == []


def test_check_names_the_lease_that_is_held(built: Library, lying: SigningServer, tmp_path: Path) -> None:
    file, before = built.file(tmp_path), len(lying.requests)
    activate, lease = (Call(one, lying.url, file) for one in ("activate", "lease"))
    made = [built.run(one)[0] for one in (activate, lease, Call("check", lying.url, file))]
    assert [one.state for one in made] == ["valid"] * 3, made
    called = [(path, request.get("lease_id")) for path, request, _ in lying.requests[before:]]
    lease_id = "ab" * 16
    assert called == [
        ("/v3/activate", None),
        ("/v3/leases", None),
        ("/v3/leases/renew", lease_id),
        ("/v3/validate", lease_id),
        ("/v3/leases/release", lease_id),
        ("/v3/validate", None),
    ]


GARBAGE = (
    (200, "text/html", "<html>Sign in to the Wi-Fi. Now. Please.</html>"),
    (200, "application/json", "{}"),
    (200, "application/json", '{"license": 5}'),
    (200, "application/json", '{"license": {"key": null}}'),
    (200, "application/json", "[" * 10_000),
    (200, "application/jwt", "a.b.c"),
    (409, "application/problem+json", '{"code": 5}'),
    (502, "text/html", "Bad gateway"),
)


def test_what_is_no_keywright_server_gives_neither_lease_nor_trial(
    built: Library, lying: SigningServer, tmp_path: Path
) -> None:
    made = []
    for number, lying.always in enumerate(GARBAGE):
        calls = [Call(one, lying.url, built.file(tmp_path / f"{number}{one}")) for one in ("take", "trial")]
        made += built.run(*calls, timeout=2)
    lying.always = None
    assert [one for one in made if one.valid] == []
    kept = [path for path in tmp_path.glob("*/editor.json") if built.read(path).get("answer")]
    assert kept == []


#: PHP runs nothing in the background, and Python has tests of its own.
@pytest.mark.parametrize("built", ["javascript", "go", "csharp"], indirect=True)
def test_a_lease_is_renewed_in_the_background_until_it_is_refused(
    built: Library, lying: SigningServer, tmp_path: Path
) -> None:
    def watch_renewals(number: int) -> None:
        until = lying.calls("/v3/leases/renew") + number
        wait_until(lambda: lying.calls("/v3/leases/renew") >= until or watched.done(), "renewals")

    end = tmp_path / "end"
    call = Call("watch", lying.url, built.file(tmp_path), holder="anna", end=str(end))
    with ThreadPoolExecutor(1) as threads:
        watched = threads.submit(built.run, call)
        try:
            watch_renewals(1)
            lying.problems = [("no_free_lease", 1)] * 100
            # Once the second one is sent, the library knows of the first refusal.
            watch_renewals(2)
        finally:
            end.touch()
        (made,) = watched.result()
    lying.problems = []
    assert (made.valid, made.state) == (False, "lost")
