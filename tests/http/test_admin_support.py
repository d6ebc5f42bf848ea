"""Why a license's program is refused: the top of the license's page, and the remedies there."""

import re
from datetime import timedelta
from typing import Any

import pytest

from keywright.core.command import Origin
from keywright.licensing.activations.model import Activate, ActivateDevice, Device
from keywright.licensing.licenses.model import License, Status, UpdateLicense
from keywright.licensing.refusals import SaveRefusals
from tests.http.admin_browser import Visitor, asked, decide, said
from tests.http.admin_licenses import activate, found, make, where_to
from tests.server import RunningServer
from tests.unit.test_refusals import a_call


def refuse(server: RunningServer, license: License, *, minutes: int = 3, **fields: Any) -> None:
    """Record that a program was refused this many minutes ago."""
    now = asked()["context"].now
    call = a_call(**{"refused_at": now - timedelta(minutes=minutes)} | fields)
    decide(server, SaveRefusals(**asked(refused={license.key: [call]})))


def top(visitor: Visitor, license: License) -> str:
    """The texts of the license's page."""
    answer = visitor.get(f"/licenses/{license.id}")
    assert answer.status_code == 200, said(answer)
    return said(answer)


def full(server: RunningServer) -> License:
    """A license whose only place is taken."""
    license = make(server, times_activated_max=1)
    activate(server, license, label="desk of Kim")
    return license


@pytest.mark.smoke
def test_a_full_license_says_who_was_refused_and_what_can_be_done(
    server: RunningServer, bob: Visitor, carol: Visitor
) -> None:
    license = full(server)
    refuse(server, license, device_name="jane-desktop", ip_address="203.0.113.7", times=2)
    text = re.sub(r" ?, \d+:\d+\s[AP]M UTC", "", top(bob, license))
    assert "New devices are refused: 1 of 1 places are taken." in text
    assert "Last refused 3 minutes ago · jane-desktop · 203.0.113.7 · 2 times" in text
    assert "Free a device Allow one more device" in text
    assert "Allow one more" not in top(carol, license)


def test_one_more_is_allowed_once_by_each_form(server: RunningServer, bob: Visitor) -> None:
    license = full(server)
    for _ in range(2):
        answer = bob.post(f"/licenses/{license.id}/allow-one-more", once="a" * 32)
        assert where_to(answer) == f"/licenses/{license.id}"
    assert found(server, license).times_activated_max == 2
    assert "New devices are refused" not in top(bob, license)


def test_a_disabled_or_expired_license_says_so_and_offers_what_helps(
    server: RunningServer, bob: Visitor
) -> None:
    disabled, expired = make(server), make(server, expires_at=asked()["context"].now - timedelta(days=2))
    bob.post(f"/licenses/{disabled.id}/disable")
    for license, reason, button in (
        (disabled, "The license was disabled by bob", "Enable"),
        (expired, "The license expired on", "Extend …"),
    ):
        text = top(bob, license)
        assert (f"New devices are refused: {reason}" in text, button in text) == (True, True)


def test_a_refusal_of_the_past_is_told_where_a_device_would_be_let_in_now(
    server: RunningServer, bob: Visitor
) -> None:
    license = make(server)
    refuse(server, license, reason="expired", fingerprint="fingerprint-of-jane")
    text = re.sub(r" ?, \d+:\d+\s[AP]M UTC", "", top(bob, license))
    assert "A new device would be accepted now. Last refused 3 minutes ago · fingerprint-of-jane" in text
    assert "The license had expired." in text


def test_the_terms_say_when_another_new_device_may_come(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    terms = {"new_devices": {"count": 1, "per_days": 2}}
    program = Origin("program", "192.0.2.77", "Studio/4.2")
    device = Device(fingerprint="fingerprint-of-kim", name="desk")
    decide(
        server,
        UpdateLicense(**asked(license=license.id, terms=terms)),
        ActivateDevice(**asked(origin=program, license=license.key, device=device)),
    )
    assert "Another new device is possible in 48 hours." in top(bob, license)


def test_trying_says_what_would_happen_and_changes_nothing(
    server: RunningServer, bob: Visitor, carol: Visitor
) -> None:
    license = make(server, times_activated_max=1)
    device = Device(fingerprint="fingerprint-of-kim", name="desk")

    def tried(visitor: Visitor, fingerprint: str = "") -> str:
        return said(visitor.post(f"/licenses/{license.id}/try", fingerprint=fingerprint))

    assert "It would be accepted as a new device." in tried(carol)
    decide(server, ActivateDevice(**asked(license=license.key, device=device)))
    before = found(server, license)
    assert "It would be refused: 1 of 1 places are taken." in tried(bob)
    assert "It would be accepted: the device already has a place." in tried(bob, "fingerprint-of-kim")
    assert "It would be refused: 1 of 1 places are taken." in tried(bob, "fingerprint-of-jane")
    decide(server, UpdateLicense(**asked(license=license.id, changes={"status": Status.DISABLED})))
    assert "It would be refused: The license was disabled" in tried(bob, "fingerprint-of-kim")
    decide(server, UpdateLicense(**asked(license=license.id, changes={"status": Status.ACTIVE})))
    assert found(server, license).times_activated == before.times_activated
    assert bob.post(f"/licenses/{license.id}/try", fingerprint="x" * 257).status_code == 422


def test_many_devices_are_paged_also_where_one_is_tried(server: RunningServer, carol: Visitor) -> None:
    """Any reader may request it repeatedly, so the page must not grow with the history."""
    license = make(server)
    meta_data = {f"name {number}": "x" * 350 for number in range(10)}
    names = [f"device-{number:03}" for number in range(260)]
    devices = [asked(license=license.id, label=name, meta_data=meta_data) for name in names]
    decide(server, *(Activate(**one) for one in devices))
    answers = [carol.post(f"/licenses/{license.id}/try"), carol.get(f"/licenses/{license.id}")]
    assert all("50 of 260, active first." in said(one) for one in answers)
    assert max(len(one.content) for one in answers) < 200_000
    shown: list[str] = []
    for first in range(0, 300, 50):
        page = carol.get(f"/licenses/{license.id}?device={first}").text
        shown += re.findall(r"device-[0-9]{3}", page)
        assert (f"device={first + 50}" in page) is (first < 250)
    assert sorted(set(shown)) == names
    assert carol.get(f"/licenses/{license.id}?device={'9' * 30}").status_code == 200


def test_a_note_and_tags_are_written_shown_and_filtered_by(
    server: RunningServer, bob: Visitor, carol: Visitor
) -> None:
    license, script = make(server), "<script>alert(1)</script>"
    path = f"/licenses/{license.id}/note"
    assert where_to(bob.post(path, note=f"Calls again {script}", tags="Refund-Wanted, vip")) == path[:-5]
    answer = carol.get(f"/licenses/{license.id}")
    assert "Calls again" in said(answer)
    assert "<script>alert" not in answer.text
    assert '/licenses?tag=refund-wanted"' in answer.text
    assert f"/licenses/{license.id}" in carol.get("/licenses?tag=Refund-Wanted").text
    wrong = bob.post(path, tags="a/b", note="still here")
    assert wrong.status_code == 422
    assert "still here" in wrong.text
    assert carol.post(path, note="x").status_code == 403
