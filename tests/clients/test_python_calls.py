"""What the Python client sends, and what it makes of servers that are slow, busy or late."""

import asyncio
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from clients.vectors.pieces import DAY, NOW
from keywright_client import (
    AsyncKeywright,
    Keywright,
    Refused,
    StorageError,
    Unreachable,
    VerificationError,
)
from keywright_client._kept import Kept, Store
from keywright_client.verify import key_id
from tests.clients.conftest import Program, Time
from tests.clients.signing_server import KEY, LICENSE_KEY, SigningServer, closed_address
from tests.server import wait_until
from tools.attacks.bad_servers import bad_servers

CLIENT = Path(__file__).parents[2] / "clients" / "python"


def test_every_question_has_a_new_nonce_and_every_change_one_key_for_all_attempts(
    program: Program, server: SigningServer, waits: list[float]
) -> None:
    server.problems = [("busy", 0), ("too_many_requests", 7)]
    assert program.start().activate(LICENSE_KEY).valid
    program.start().check(now=True)
    assert [path for path, _, _ in server.requests] == ["/v3/activate"] * 3 + ["/v3/validate"]
    keys = [headers["Idempotency-Key"] for _, _, headers in server.requests]
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]
    nonces = [request["nonce"] for _, request, _ in server.requests]
    assert nonces[3] != nonces[0]
    assert len(nonces[0]) >= 32
    assert 0.5 <= waits[0] <= 1.5
    assert waits[1] == 7
    assert "json" not in server.requests[0][2]["Accept"].split(",")[0]


def test_a_server_that_asks_for_more_patience_is_left_alone(
    program: Program, server: SigningServer, time: Time, waits: list[float]
) -> None:
    program.start().activate(LICENSE_KEY)
    server.problems = [("too_many_requests", 400)]
    assert program.start().check(now=True).state == "unreachable_but_valid_until"
    assert not waits
    time.now += DAY - 100
    server.problems = [("too_many_requests", 400)]
    assert program.start().check(now=True).valid
    asked = server.calls("/v3/validate")
    time.now += 399
    assert program.start().check().state == "unreachable_but_valid_until"
    assert server.calls("/v3/validate") == asked
    time.now += 1
    assert program.start().check().state == "valid"


def test_a_redirect_takes_the_license_key_nowhere(program: Program, server: SigningServer) -> None:
    server.always = (307, "text/html", "")
    assert program.start().activate(LICENSE_KEY).code == "unreachable"
    assert len(server.requests) == 3


def test_a_late_reply_does_not_overwrite_a_newer_one(
    program: Program, server: SigningServer, time: Time
) -> None:
    program.start().activate(LICENSE_KEY)
    late = server.sign({"license_key": LICENSE_KEY, "fingerprint": "the-first-device"})
    time.now += 50
    program.start().check(now=True)
    keywright = program.start()
    newer = json.loads((program.folder / "editor.json").read_text())
    claims = keywright._verify(late, LICENSE_KEY, (KEY.x,))
    keywright._keep_answer(late, claims, LICENSE_KEY)
    assert json.loads((program.folder / "editor.json").read_text()) == newer
    # Nor does a reply for a license that another has replaced.
    keywright._keep_answer(late, {**claims, "iat": NOW + 99}, "ANOTHER")
    assert json.loads((program.folder / "editor.json").read_text()) == newer


def test_what_is_kept_is_readable_by_its_user_alone(program: Program) -> None:
    program.start().activate(LICENSE_KEY)
    assert stat.S_IMODE((program.folder / "editor.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(program.folder.stat().st_mode) == 0o700
    assert {path.name for path in program.folder.iterdir()} == {"editor.json", "editor.json.lock"}


def test_without_a_folder_to_write_to_a_program_has_its_lease_and_takes_no_place(
    program: Program, server: SigningServer, tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    keywright = program.start(folder=tmp_path / "a file" / "below", named_by="machine")
    assert keywright.activate(LICENSE_KEY).state == "no_storage"
    assert keywright.load_file("Hello", LICENSE_KEY).state == "no_storage"
    assert not server.requests
    # A lease ends by itself.
    with keywright.lease(license_key=LICENSE_KEY) as lease:
        assert lease.is_held
    assert keywright.check().state == "no_storage"


def test_a_name_that_would_be_another_next_time_is_not_told(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("container", "podman")
    keywright = program.start(folder=tmp_path / "a file" / "below", named_by="machine")
    with pytest.raises(StorageError, match="a file"):
        _ = keywright.fingerprint
    with pytest.raises(StorageError, match="a file"):
        keywright.request_text(LICENSE_KEY)


def test_what_could_not_be_read_or_written_is_found_again(program: Program, server: SigningServer) -> None:
    program.start().activate(LICENSE_KEY)
    kept, aside = program.folder / "editor.json", program.folder / "aside"
    keywright = program.start()
    kept.rename(aside)
    kept.mkdir()
    assert [keywright.check().state, keywright.activate(LICENSE_KEY).state] == ["no_storage"] * 2
    kept.rmdir()
    aside.rename(kept)
    assert keywright.check().state == "no_storage"
    assert keywright.activate(LICENSE_KEY).valid
    assert keywright.check().state == "valid"


def test_a_process_that_is_stopped_with_the_lock_holds_no_other_up(program: Program, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    with (program.folder / "editor.json.lock").open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        keywright = program.start(timeout=0.1)
        assert keywright.check().state == "valid"
        assert keywright.activate(LICENSE_KEY).state == "no_storage"
    assert program.start().activate(LICENSE_KEY).valid


def test_a_call_that_ran_out_of_time_leaves_no_thread_behind(program: Program, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    time.now += DAY
    with bad_servers() as (named, _):
        for name in ("hang", "drip of headers", "drip of chunks", "drip of a handshake", "go on for ever"):
            status = program.start(url=named[name].url, timeout=0.3).check(now=True)
            assert status.state == "unreachable_but_valid_until", name
            # The server would go on.
            wait_until(
                lambda: not [one for one in threading.enumerate() if one.name == "keywright-call"], name
            )


def test_what_is_kept_has_a_folder_for_each_product_wherever_the_server_is(
    server: SigningServer, time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    options: dict[str, Any] = {"public_keys": [KEY.x], "clock": time.local}
    assert Keywright(server.url, product="editor", **options).activate(LICENSE_KEY).valid
    assert (tmp_path / "keywright" / "editor" / "editor.json").is_file()
    # The vendor's server has moved.
    assert Keywright(closed_address(), product="editor", **options).check().valid
    assert Keywright(server.url, product="viewer", **options).check().state == "not_activated"
    assert Keywright(server.url, **options).activate(LICENSE_KEY).valid
    assert (tmp_path / "keywright" / key_id(KEY.x) / "license.json").is_file()


# Twenty interpreters start: several seconds, also on an idle machine.
@pytest.mark.tier("rest")
def test_twenty_processes_share_what_is_kept(program: Program, server: SigningServer, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    time.now += 2 * DAY
    code = (
        "import sys; from keywright_client import Keywright\n"
        "url, key, folder, now = sys.argv[1:]\n"
        "options = {'product': 'editor', 'public_keys': [key], 'clock': lambda: float(now)}\n"
        "keywright = Keywright(url, folder=folder, named_by='environment', **options)\n"
        "sys.stdin.read()\n"
        "print({keywright.check(now=number % 3 == 0).state for number in range(6)})"
    )
    command = [sys.executable, "-c", code, server.url, KEY.x, str(program.folder), str(time.now)]
    path = {**os.environ, "PYTHONPATH": str(CLIENT)}
    with ExitStack() as stack:
        started = [subprocess.Popen(command, env=path, stdin=PIPE, stdout=PIPE, text=True) for _ in range(20)]
        many = [stack.enter_context(one) for one in started]
        said = [one.communicate()[0] for one in many]
    assert said == ["{'valid'}\n"] * 20
    assert program.start(is_online=False).check().state == "valid"
    assert len(list(program.folder.iterdir())) == 2


def test_many_threads_lose_no_change(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "counted")

    def count() -> None:
        for _ in range(25):
            store.change(lambda kept: kept._replace(issued_at=kept.issued_at + 1))

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read() == Kept(issued_at=200)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"answer": 5}', '{"key_sets": "x"}', "\x00", '{"latest": "x"}']
)
def test_what_the_library_did_not_write_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept.json").write_text(text)
    assert Store(str(tmp_path), "kept").read().is_damaged


def test_a_license_file_serves_without_a_network(program: Program, server: SigningServer, time: Time) -> None:
    server.devices["the-first-device"] = ""
    request = program.start().request_text(LICENSE_KEY, "Laptop")
    assert request.startswith("keywright-request:eyJ")
    token = server.sign({"license_key": LICENSE_KEY, "fingerprint": "the-first-device"})
    file = f"For Zoë\n-----BEGIN KEYWRIGHT LICENSE-----\n{token}\n-----END KEYWRIGHT LICENSE-----\n"
    assert program.start(is_online=False).load_file(file, LICENSE_KEY).state == "valid"
    assert program.start(is_online=False).check().state == "valid"
    time.now += 2 * DAY
    assert program.start(is_online=False).check().state == "unreachable_but_valid_until"
    # The same file again does not set the time back, a new one does.
    time.now -= DAY
    assert program.start(is_online=False).load_file(file).state == "clock_moved_back"
    assert program.start(is_online=False).check().state == "clock_moved_back"
    new = server.sign({"license_key": LICENSE_KEY, "fingerprint": "the-first-device"})
    assert program.start(is_online=False).load_file(new).state == "valid"
    assert program.start(is_online=False).check().state == "valid"


def test_a_license_file_that_is_not_good_changes_nothing(
    program: Program, server: SigningServer, time: Time
) -> None:
    program.start().activate(LICENSE_KEY)
    before = (program.folder / "editor.json").read_bytes()
    server.devices["another-device"] = ""
    for_another = server.sign({"license_key": LICENSE_KEY, "fingerprint": "another-device"})
    keywright = program.start(is_online=False)
    assert keywright.load_file(for_another).state == "not_activated"
    assert keywright.load_file(for_another[:-9]).state == "tampered"
    assert keywright.load_file("Hello").state == "tampered"
    time.now += 20 * DAY
    assert keywright.load_file(for_another).state == "expired"
    assert (program.folder / "editor.json").read_bytes() == before


def test_a_lease_is_renewed_and_released(program: Program, server: SigningServer) -> None:
    keywright = program.start()
    keywright.activate(LICENSE_KEY)
    with keywright.lease(seconds=2) as lease:
        assert lease.is_held
        wait_until(lambda: server.calls("/v3/leases/renew") > 1, "two renewals")
        assert lease.is_held
    assert server.calls("/v3/leases/release") == 1
    assert len({request["holder"] for _, request, _ in server.requests if "holder" in request}) == 1


def test_a_lease_that_is_refused_raises(program: Program, server: SigningServer) -> None:
    keywright = program.start()
    keywright.activate(LICENSE_KEY)
    server.problems = [("no_free_lease", 30)]
    with pytest.raises(Refused) as refused, keywright.lease():
        pass
    assert (refused.value.code, refused.value.retry_after) == ("no_free_lease", 30)


def test_a_lease_of_another_holder_or_device_is_refused(program: Program, server: SigningServer) -> None:
    keywright = program.start()
    # Without a place, no device is named.
    with keywright.lease(license_key=LICENSE_KEY) as lease:
        assert lease.is_held
    # Asked in another's name, on the way to the server: one lease would serve them all.
    server.holder = "ben"
    with pytest.raises(VerificationError, match="another question"), keywright.lease("anna", 60, LICENSE_KEY):
        pass
    with keywright.lease("ben", 60, LICENSE_KEY):
        pass
    server.holder, server.named = None, {"id": 6, "fingerprint": "another-device"}
    with pytest.raises(VerificationError, match="another device"), keywright.lease("anna", 60, LICENSE_KEY):
        pass


def test_a_lost_lease_is_taken_again(program: Program, server: SigningServer) -> None:
    keywright = program.start()
    keywright.activate(LICENSE_KEY)
    with keywright.lease(seconds=2) as lease:
        server.problems = [("no_free_lease", 1)]
        wait_until(lambda: not lease.is_held, "the loss of the lease")
        wait_until(lambda: lease.is_held, "a free place")


def test_usage_is_counted_by_the_server(program: Program, server: SigningServer) -> None:
    keywright = program.start()
    keywright.activate(LICENSE_KEY)
    assert keywright.use("pages", 3) == {"meter": "pages", "used": 3}
    server.problems = [("usage_exceeded", 0)]
    with pytest.raises(Refused, match="It is usage_exceeded"):
        keywright.use("pages")
    with pytest.raises(Unreachable):
        program.start(is_online=False).use("pages")
    server.always = (200, "text/html", "<html>")
    with pytest.raises(Unreachable):
        keywright.use("pages")


def test_a_proxy_comes_from_the_environment(
    program: Program, server: SigningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.always = (502, "text/html", "")
    assert program.start(url="http://licenses.invalid").activate(LICENSE_KEY).code == "unreachable"
    assert server.calls("http://licenses.invalid/v3/activate") == 3


def test_asyncio_has_the_same_calls(program: Program, server: SigningServer) -> None:
    async def run() -> None:
        keywright = AsyncKeywright(server.url, product="editor", public_keys=[KEY.x], folder=program.folder)
        keywright._keywright._clock = program.time.local
        assert (await keywright.start_trial(name="Laptop")).valid
        assert (await keywright.activate(LICENSE_KEY)).valid
        assert (await keywright.check()).state == "valid"
        assert (await keywright.use("pages"))["used"] == 1
        assert (await keywright.load_file("Hello")).state == "tampered"
        async with keywright.lease() as lease:
            assert lease.is_held
        await keywright.deactivate()

    asyncio.run(run())
    assert not server.devices


@pytest.mark.parametrize("key", ["", "short", "A" * 42, "A" * 43 + "=", "*" * 43])
def test_a_public_key_that_is_none_is_told_at_once(program: Program, key: str) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        program.start(public_keys=[key])
