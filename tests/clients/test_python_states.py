"""Each state that the Python client reports, over real HTTP."""

import json
import shutil
from pathlib import Path

import pytest

from clients.vectors.pieces import DAY, NOW, Key
from tests.clients.conftest import Program, Time
from tests.clients.signing_server import KEY, LICENSE_KEY, NEXT_KEY, STRANGER, SigningServer

MONTH, YEAR = 30 * DAY, 365 * DAY


def kept(program: Program) -> dict[str, object]:
    document: dict[str, object] = json.loads((program.folder / "editor.json").read_text())
    return document


def test_a_program_without_a_license_is_not_activated(program: Program, server: SigningServer) -> None:
    status = program.start().check()
    assert (status.valid, status.state, status.has("export")) == (False, "not_activated", False)
    assert not server.requests


def test_after_a_refusal_the_next_check_says_why(program: Program, server: SigningServer) -> None:
    server.problems = [("limit_reached", 0)]
    keywright = program.start()
    refused = keywright.activate(LICENSE_KEY)
    status = keywright.check()
    assert (refused.state, status.state, status.valid) == ("limit_reached", "not_activated", False)
    assert (status.code, status.detail) == ("limit_reached", refused.detail)
    assert keywright.activate(LICENSE_KEY).valid
    keywright.deactivate()
    assert keywright.check().detail == "No license was activated."


def test_an_activation_is_kept_and_the_server_is_asked_when_it_is_time(
    program: Program, server: SigningServer, time: Time
) -> None:
    status = program.start().activate(LICENSE_KEY, name="Laptop")
    assert (status.valid, status.state, status.code, status.codes) == (True, "valid", "valid", ["valid"])
    assert status.has("export")
    assert not status.has("print")
    assert status.activation == {"id": 5, "fingerprint": "the-first-device"}
    assert status.license is not None
    assert status.checked_at is not None
    assert status.checked_at.timestamp() == NOW
    assert server.devices == {"the-first-device": "Laptop"}
    time.now += DAY - 1
    assert program.start().check().state == "valid"
    assert server.calls("/v3/validate") == 0
    time.now += 1
    status = program.start().check()
    assert (status.state, status.is_offline, server.calls("/v3/validate")) == ("valid", False, 1)


def test_a_changed_version_of_the_program_asks_at_once(program: Program, server: SigningServer) -> None:
    program.start(app_version="3.1").activate(LICENSE_KEY)
    program.start(app_version="3.1").check()
    assert server.calls("/v3/validate") == 0
    program.start(app_version="3.2").check()
    assert server.calls("/v3/validate") == 1
    assert server.requests[-1][1]["app_version"] == "3.2"


def test_an_answer_for_one_build_serves_no_other(program: Program, server: SigningServer, time: Time) -> None:
    old, new = "2026-12-01T00:00:00Z", "2027-01-10T00:00:00Z"
    server.is_for_build = True
    assert program.start(built_at=old).activate(LICENSE_KEY).valid
    assert server.requests[-1][1]["built_at"] == old
    assert program.start(built_at=old, is_online=False).check().state == "valid"
    for build in (new, None):
        status = program.start(built_at=build, is_online=False).check()
        assert (status.valid, status.state, status.code) == (False, "unreachable_too_long", "build")
    # The answer to an older build, on the way to a newer one.
    server.always = (200, "application/jwt", server.given[-1])
    assert not program.start(built_at=new).check().valid
    server.always = None
    assert program.start(built_at=new).check().state == "valid"
    assert server.requests[-1][1]["built_at"] == new
    with pytest.raises(ValueError, match="2026"):
        program.start(built_at="2026-12-01T01:00:00+01:00")


def test_grace_and_expiry(program: Program, server: SigningServer, time: Time) -> None:
    server.expires_at, server.grace_days = NOW + 2 * DAY, 3
    status = program.start().activate(LICENSE_KEY)
    assert status.expires_at is not None
    assert status.grace_until is not None
    assert (status.grace_until - status.expires_at).days == 3
    time.now += 2 * DAY
    assert program.start().check().state == "grace"
    time.now += 3 * DAY
    assert program.start(is_online=False).check().state == "expired"
    assert program.start().check().state == "expired"


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("disabled", "disabled"),
        ("inactive", "disabled"),
        ("key_rotated", "not_activated"),
        ("expired", "expired"),
    ],
)
def test_a_no_that_is_said_twice_is_believed(
    program: Program, server: SigningServer, code: str, state: str
) -> None:
    program.start().activate(LICENSE_KEY)
    server.noes = [code, code]
    status = program.start().check(now=True)
    assert (status.valid, status.state, status.code) == (False, state, code)
    assert program.start(is_online=False).check().state == state
    # It is over as soon as the server says so.
    assert program.start().check().state == "valid"


def test_a_no_that_is_not_said_again_destroys_nothing(program: Program, server: SigningServer) -> None:
    program.start().activate(LICENSE_KEY)
    server.noes = ["disabled"]
    assert program.start().check(now=True).state == "valid"
    assert program.start(is_online=False).check().state == "valid"


def test_a_no_is_asked_again_also_while_the_clock_is_wrong(
    program: Program, server: SigningServer, time: Time
) -> None:
    program.start().activate(LICENSE_KEY)
    server.noes, time.is_off_by = ["disabled"], -DAY
    assert program.start().check().state == "valid"


def test_a_refused_activation_changes_nothing_that_is_kept(program: Program, server: SigningServer) -> None:
    program.start().activate(LICENSE_KEY)
    before = kept(program)
    status = program.start().activate("ANOTHER-KEY")
    assert (status.state, status.code) == ("not_activated", "unknown_license")
    server.devices = {"a": "", "b": ""}
    assert program.start().activate(LICENSE_KEY).state == "limit_reached"
    assert kept(program) == before


def test_an_outage_locks_nobody_before_the_answer_ends(program: Program, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    time.now += 13 * DAY
    status = program.start(is_online=False).check()
    assert (status.valid, status.state, status.is_offline) == (True, "unreachable_but_valid_until", True)
    assert status.valid_until is not None
    assert status.valid_until.timestamp() == NOW + 14 * DAY
    assert status.has("export")


def test_a_server_that_is_away_for_a_month(program: Program, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    time.now += MONTH
    status = program.start(is_online=False).check()
    assert (status.valid, status.state, status.is_offline) == (False, "unreachable_too_long", True)
    assert program.start().check().state == "valid"


@pytest.mark.parametrize(
    "answer",
    [
        (200, "text/html", "<html>Sign in to the Wi-Fi. Now. Please.</html>"),
        (200, "application/json", '{"valid": true, "code": "valid"}'),
        (502, "text/html", "Bad gateway"),
        (404, "text/html", "Not found"),
        (302, "text/html", ""),
        (200, "application/jwt", ""),
    ],
)
def test_what_is_no_signed_answer_is_an_outage(
    program: Program, server: SigningServer, time: Time, answer: tuple[int, str, str]
) -> None:
    program.start().activate(LICENSE_KEY)
    server.always = answer
    assert program.start().activate("ANOTHER").state == "not_activated"
    assert program.start().check(now=True).state == "unreachable_but_valid_until"
    time.now += MONTH
    assert program.start().check().state == "unreachable_too_long"


def test_a_fake_server(program: Program, server: SigningServer, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    server.key = STRANGER
    server.noes = ["disabled", "disabled"]
    # It can neither lock a paying customer nor unlock for another.
    assert program.start().check(now=True).state == "unreachable_but_valid_until"
    time.now += MONTH
    assert program.start().check().state == "tampered"
    shutil.rmtree(program.folder)
    status = program.start().activate(LICENSE_KEY)
    assert (status.valid, status.state, status.code) == (False, "tampered", "header")
    assert (kept(program)["license_key"], kept(program)["answer"]) == ("", "")


def test_a_replayed_answer(program: Program, server: SigningServer, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    server.always = (200, "application/jwt", server.given[-1])
    assert program.start().check(now=True).state == "unreachable_but_valid_until"
    time.now += MONTH
    status = program.start().check()
    assert (status.state, status.code) == ("tampered", "nonce")


def test_a_clock_set_back(program: Program, server: SigningServer, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    time.now += 10 * DAY
    assert program.start(is_online=False).check().valid
    time.is_off_by = -2 * DAY
    status = program.start(is_online=False).check()
    assert (status.valid, status.state) == (False, "clock_moved_back")
    # The server's answer brings the true time along.
    assert program.start().check().state == "valid"
    time.is_off_by = -299
    assert program.start(is_online=False).check().state == "valid"


def test_a_clock_that_once_was_in_2099(program: Program, time: Time) -> None:
    program.start().activate(LICENSE_KEY)
    time.is_off_by = 5 * DAY
    assert program.start(is_online=False).check().valid
    time.is_off_by = 0
    assert program.start(is_online=False).check().state == "clock_moved_back"
    assert program.start().check().state == "valid"
    assert program.start(is_online=False).check().state == "valid"


def test_a_copied_cache(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program.start().activate(LICENSE_KEY)
    monkeypatch.setenv("KEYWRIGHT_FINGERPRINT", "the-second-device")
    status = program.start(is_online=False).check()
    assert (status.valid, status.state, status.code) == (False, "not_activated", "device")
    assert program.start().check().state == "not_activated"


def test_altered_keeping_is_told_and_healed(program: Program) -> None:
    program.start().activate(LICENSE_KEY)
    path, document = program.folder / "editor.json", kept(program)
    answer = str(document["answer"])
    path.write_text(
        json.dumps({**document, "answer": answer[:200] + ("A" if answer[200] != "A" else "B") + answer[201:]})
    )
    status = program.start(is_online=False).check()
    assert (status.valid, status.state) == (False, "tampered")
    assert program.start().check().state == "valid"
    path.write_text("{")
    assert program.start(is_online=False).check().state == "tampered"
    assert program.start().activate(LICENSE_KEY).state == "valid"
    assert program.start(is_online=False).check().state == "valid"


def test_a_license_key_that_was_put_in_by_hand(program: Program) -> None:
    program.start().activate(LICENSE_KEY)
    path = program.folder / "editor.json"
    path.write_text(json.dumps({**kept(program), "license_key": "ANOTHER"}))
    status = program.start(is_online=False).check()
    assert (status.state, status.code) == ("not_activated", "license_key")


def test_a_rotated_key_is_learnt_and_the_old_one_is_refused(
    program: Program, server: SigningServer, time: Time
) -> None:
    program.start().activate(LICENSE_KEY)
    old = program.folder.with_name("old")
    shutil.copytree(program.folder, old)
    server.key, server.key_sets = NEXT_KEY, [KEY.key_set(NEXT_KEY, iat=NOW)]
    assert program.start().check(now=True).state == "valid"
    assert program.start(is_online=False).check().state == "valid"
    # The set lasts, for this program, beyond its end.
    server.key_sets = []
    time.now += 10 * DAY
    assert program.start().check(now=True).state == "valid"
    # Whoever has stolen the old key gets nowhere with it.
    server.key = KEY
    assert program.start().check(now=True).state == "unreachable_but_valid_until"
    Path(program.folder / "editor.json").write_text(
        json.dumps({**json.loads((old / "editor.json").read_text()), "key_sets": kept(program)["key_sets"]})
    )
    assert program.start(is_online=False).check().state == "tampered"


def test_a_program_installed_years_later_finds_the_newest_key(
    program: Program, server: SigningServer, time: Time
) -> None:
    program.start().activate(LICENSE_KEY)
    newest = Key("newest")
    for key, older in ((NEXT_KEY, [KEY]), (newest, [NEXT_KEY, KEY])):
        # Everything that the older keys have signed ends: answers, and sets of keys.
        time.now += 2 * YEAR
        server.key = key
        named = {"iat": int(time.now) - 60, "exp": int(time.now) + DAY}
        server.key_sets = [STRANGER.key_set(STRANGER), *(one.key_set(key, **named) for one in older)]
    assert program.start(is_online=False).check().state == "unreachable_too_long"
    assert program.start().check().state == "valid"
    shutil.rmtree(program.folder)
    assert program.start(is_online=False).activate(LICENSE_KEY).state == "not_activated"
    assert program.start().activate(LICENSE_KEY).state == "valid"
    assert program.start(is_online=False).check().state == "valid"
    # A set that the first key signed years ago leads nowhere any more.
    shutil.rmtree(program.folder)
    server.key_sets = [KEY.key_set(newest, iat=NOW, exp=NOW + 30 * DAY)]
    assert program.start().activate(LICENSE_KEY).code == "header"


def test_deactivation_forgets_the_license(program: Program, server: SigningServer) -> None:
    program.start().activate(LICENSE_KEY)
    program.start().deactivate()
    assert not server.devices
    assert program.start().check().state == "not_activated"
