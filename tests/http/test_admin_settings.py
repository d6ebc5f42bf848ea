"""Settings in the pages: saved, sealed, visible to all servers; pages that need a missing setting say so."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from keywright.db import run_write
from keywright.db.stored_settings import list_stored, save_stored
from keywright.events.model import MailTemplate, QueuedMail
from keywright.events.outbox_store import queue_mail
from keywright.maintenance.tasks import SaveSettings
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from tests.http.admin_browser import Visitor, asked, decide, look_up, opened, said
from tests.http.admin_licenses import followed
from tests.makers import NOW
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.smtp_server import Mailbox, receiving

MAIL: dict[str, Any] = {
    "smtp_host": "127.0.0.1",
    "smtp_encryption": "none",
    "mail_from": "Larch <keys@example.com>",
    "mail_language": "en",
    "keep_mails_days": "30",
}


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with only session hours and, as in all tests, call limits set."""
    folder = tmp_path_factory.mktemp("settings") / "data"
    with running(folder, database, session_hours=4, **NO_LIMITS) as server:
        yield server


def stored(server: RunningServer) -> dict[str, str]:
    found: dict[str, str] = look_up(server, list_stored)
    return found


def test_what_is_not_set_up_is_said_where_it_hurts_with_the_way_to_it(ada: Visitor, bob: Visitor) -> None:
    places = {
        "/portal": ["No customer can sign in by e-mail.", "Mails have no links."],
        "/mails": ["No mail is sent.", "Mails have no links."],
        "/mail-templates": ["No mail is sent.", "Mails have no links."],
        "/mail-templates/expiring?language=en&product=0": ["No mail is sent.", "Mails have no links."],
        "/system": ["No mail is sent.", "Mails have no links.", "No daily backup."],
    }
    for path, titles in places.items():
        answer = ada.get(path)
        assert [one for one in titles if f"<b>{one}</b>" not in answer.text] == [], path
        assert answer.text.count('href="/admin/settings#') >= len(titles), path
    assert "/settings" not in bob.get("/mails").text


def test_a_mail_server_is_set_up_and_tried_in_one_form_and_what_waits_is_sent(
    server: RunningServer, ada: Visitor
) -> None:
    [customer] = decide(server, CreateCustomer(**asked(fields=NewCustomer(email="eva@example.com"))))
    mail = QueuedMail(template=MailTemplate.PAYMENT_FAILED, unique="settings", customer_id=customer.id)
    mailbox = Mailbox()
    with receiving(mailbox) as port:
        with opened(server) as storage:
            run_write(storage, lambda tx: queue_mail(tx, mail, NOW))
        form = MAIL | {"smtp_port": str(port), "test": "yes", "to": "ada@example.org"}
        page = followed(ada, ada.post("/settings/mail", **form))
        assert "127.0.0.1 accepted the test mail to ada@example.org." in page
        assert mailbox.recipients[0] == "ada@example.org"
        wait_until(
            lambda: server.sql("SELECT state FROM mail_outbox")[0][0] != "waiting", "the mail that waits"
        )
    refused = followed(ada, ada.post("/settings/mail", **form))
    assert "The test mail was not sent. The server cannot be reached" in refused
    assert "No mail is sent." not in ada.get("/mails").text


def test_a_password_is_never_shown_and_goes_to_no_other_server(server: RunningServer, ada: Visitor) -> None:
    login = {"smtp_host": "mail.example.com", "smtp_user": "ada@larch", "smtp_encryption": "tls"}
    ada.post("/settings/mail", **MAIL | login, smtp_password="geheim:1")
    url = "smtps://ada%40larch:geheim%3A1@mail.example.com"
    assert stored(server)["smtp_url"] == url
    page = ada.get("/settings").text
    assert "geheim" not in page
    assert 'value="ada@larch"' in page
    followed(ada, ada.post("/settings/mail", **MAIL | login, mail_language_="de"))
    assert (stored(server)["smtp_url"], stored(server)["mail_language"]) == (url, "de")
    for name, value, sentence in (
        ("smtp_host", "mail.example.org", "This field is required."),
        ("smtp_port", "2525", "This field is required."),
        ("smtp_encryption", "none", "This field is required."),
        ("smtp_port", "25@mail.example.org", "with a number as the port."),
    ):
        elsewhere = ada.post("/settings/mail", **MAIL | login | {name: value})
        assert (elsewhere.status_code, sentence in said(elsewhere)) == (422, True), (name, value)
    assert stored(server)["smtp_url"] == url
    events = ada.get("/events").text
    assert "geheim" not in events
    assert "Settings changed" in events
    followed(ada, ada.post("/settings/mail", **MAIL | {"smtp_host": "", "mail_language": "en"}))
    assert stored(server).keys() == {"mail_from"}


def test_a_wrong_value_is_refused_with_what_it_must_be_and_nothing_is_saved(
    server: RunningServer, ada: Visitor
) -> None:
    before = stored(server)
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("address", {"public_url": "keys.example.com"}, "It must be an address such as https://licenses"),
        ("address", {"time_zone": "Mars/Olympus"}, "It must be the name of a time zone"),
        ("mail", MAIL | {"smtp_host": "mail server"}, "It must be a server such as smtp.example.com"),
        ("mail", MAIL | {"smtp_port": "x"}, "It must be a server such as smtp.example.com, with a number"),
        ("mail", MAIL | {"mail_from": ""}, "This field is required."),
        ("mail", MAIL | {"test": "yes", "to": ""}, "This field is required."),
        ("backups", {"backup_daily_at": "3 am", "backup_keep": "14"}, "It must be a time such as 03:30."),
        ("backups", {"backup_keep": "0"}, "It must be an integer from 1 to 1000."),
        ("notices", {"expiry_notice_days": "soon"}, "It must be at most five numbers of days"),
        ("retention", {"keep_events_days": "-1"}, "It must be an integer from 0 to 36500."),
    ]
    found = {}
    for group, fields, sentence in wrong:
        answer = ada.post(f"/settings/{group}", **fields)
        found[sentence] = (answer.status_code, sentence in said(answer))
    assert [one for one, seen in found.items() if seen != (422, True)] == []
    assert stored(server) == before


def test_what_the_environment_sets_wins_and_is_shown_as_such(server: RunningServer, ada: Visitor) -> None:
    assert "Set by KEYWRIGHT_SESSION_HOURS." in said(ada.get("/settings"))
    page = followed(ada, ada.post("/settings/sign-in", session_hours="9", require_second_factor="none"))
    assert "Set by KEYWRIGHT_SESSION_HOURS." in page
    assert "session_hours" not in stored(server)


def test_a_change_by_another_server_is_in_force_within_seconds(server: RunningServer) -> None:
    def portal_status() -> int:
        return httpx.get(f"{server.base_url}/portal/license", follow_redirects=True).status_code

    assert portal_status() == 200
    decide(server, SaveSettings(**asked(changes={"portal": "false"})))
    wait_until(lambda: portal_status() == 404, "the end of the portal")
    decide(server, SaveSettings(**asked(changes={"portal": None})))
    wait_until(lambda: portal_status() == 200, "the portal")


def test_an_empty_field_is_the_default_or_nothing_where_that_is_a_value(
    server: RunningServer, ada: Visitor
) -> None:
    ada.post("/settings/notices", expiry_notice_days="30, 7", expiry_mails="yes")
    assert stored(server) | {"expiry_notice_days": "30, 7", "expiry_mails": "true"} == stored(server)
    ada.post("/settings/notices", expiry_notice_days="")
    assert stored(server).get("expiry_notice_days") == ""
    ada.post("/settings/notices", expiry_notice_days="7, 1")
    ada.post("/settings/backups", backup_daily_at="", backup_keep="")
    assert stored(server).keys() & {"expiry_notice_days", "backup_daily_at", "backup_keep"} == set()


def test_damaged_values_keep_nobody_from_saving_others_and_are_mended_there(
    server: RunningServer, ada: Visitor
) -> None:
    damaged = {"time_zone": "Mars", "mail_from": "x", "smtp_url": "smtp://127.0.0.1", "no_such": "1"}
    with opened(server) as storage:
        run_write(storage, lambda tx: save_stored(tx, damaged, NOW))
    followed(ada, ada.post("/settings/backups", backup_keep="3", backup_daily_at=""))
    followed(ada, ada.post("/settings/mail", **MAIL))
    followed(ada, ada.post("/settings/address", time_zone="Europe/Berlin"))
    mended = {"backup_keep": "3", "mail_from": MAIL["mail_from"], "time_zone": "Europe/Berlin"}
    assert stored(server) | mended == stored(server)
    cleared = dict.fromkeys([*stored(server), *damaged])
    with opened(server) as storage:
        run_write(storage, lambda tx: save_stored(tx, cleared, NOW))
