"""The pages about mails and templates, and the page for unsubscribing."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from keywright.db import run_write
from keywright.delivery.mail import rules
from keywright.delivery.mail.model import AttemptOutcome, Fate, FinishMail
from keywright.delivery.mail.store import MAILS
from keywright.engine.queue import ClaimItem
from keywright.events.model import MailTemplate, QueuedMail
from keywright.events.outbox_store import HOLD_WAITING, queue_mail
from tests.http.admin_browser import Visitor, asked, decide, opened, said
from tests.http.admin_licenses import followed
from tests.makers import NOW, find_items
from tests.portal import make_customer
from tests.server import NO_LIMITS, RunningServer, running

PATH = "/mail-templates/expiring?language=en&product=0"


def queue(server: RunningServer, unique: str, customer_id: int) -> int:
    mail = QueuedMail(template=MailTemplate.EXPIRED, unique=unique, customer_id=customer_id)
    with opened(server) as storage:
        assert run_write(storage, lambda tx: queue_mail(tx, mail, NOW))
    return int(server.sql("SELECT id FROM mail_outbox WHERE unique_text = ?", unique)[0][0])


def refuse(server: RunningServer, mail_id: int) -> None:
    """Mark this mail, and those before it, as refused."""
    while True:
        with opened(server) as storage:
            item = find_items(storage, MAILS, asked()["context"].now)[0]
        [mail] = decide(server, ClaimItem(**asked(), kind=MAILS, item=item, claimed_by="a test"))
        outcome = AttemptOutcome(Fate.REFUSED, "550 no such user")
        decide(server, FinishMail(**asked(), mail_id=mail.id, claimed_by="a test", outcome=outcome))
        if mail.id == mail_id:
            return


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server without a mail server, so that only the test changes mails."""
    with running(tmp_path_factory.mktemp("mails") / "data", database, **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def customer(server: RunningServer) -> int:
    return make_customer(server, "eva.canary@example.com", name="Eva")


def test_mails_are_seen_with_their_state_and_without_the_whole_address(
    server: RunningServer, ada: Visitor, bob: Visitor, customer: int
) -> None:
    number = queue(server, "seen", customer)
    page = said(ada.get("/mails"))
    assert "No mail is sent. There is no mail server." in page
    assert "Expired e…@example.com waiting" in page
    refuse(server, number)
    assert "given up 550 no such user" in said(bob.get("/mails?state=failed"))
    assert "eva.canary@" not in ada.get("/mails").text + ada.get(f"/mails/{number}").text
    assert "The mail was queued again." in followed(bob, bob.post(f"/mails/{number}/again"))
    assert server.sql("SELECT state, attempts FROM mail_outbox WHERE id = ?", number) == [("waiting", 0)]


def test_mails_are_found_by_person_and_sent_again_from_the_customers_page(
    server: RunningServer, bob: Visitor, carol: Visitor, customer: int
) -> None:
    other = make_customer(server, "fay@example.com", name="Fay")
    number = queue(server, "of fay", other)
    refuse(server, number)
    for who in ("FAY@example.com", "Fay", str(other)):
        page = said(bob.get(f"/mails?to={who}"))
        assert ("f…@example.com" in page, "e…@example.com" in page) == (True, False), who
    filtered = bob.get("/mails?to=Fay&state=failed").text
    assert {f'<a href="/admin/mails?{one}"' in filtered for one in ("state=failed", "to=Fay")} == {True}
    for who in ("nobody@example.com", "Nobody"):
        assert "No mails" in said(bob.get(f"/mails?to={who}"))
    here = bob.get(f"/customers/{other}")
    assert "Expired given up" in said(here)
    assert f'action="/admin/mails/{number}/again#timeline"' in here.text
    assert f'action="/admin/mails/{number}/again#timeline"' not in carol.get(f"/customers/{other}").text
    again = bob.post(f"/mails/{number}/again", customer=str(other))
    assert again.headers["location"] == f"/admin/customers/{other}"
    assert "Expired waiting" in said(bob.get(f"/customers/{other}"))


def test_held_mails_wait_for_a_decision(server: RunningServer, ada: Visitor, customer: int) -> None:
    number = queue(server, "held", customer)
    with opened(server) as storage:
        run_write(storage, lambda tx: tx.connection.exec_driver_sql(HOLD_WAITING))
    assert "A backup was restored." in said(ada.get("/mails"))
    assert "dropped" in followed(ada, ada.post("/mails/held", decision="drop"))
    assert server.sql("SELECT state FROM mail_outbox WHERE id = ?", number) == [("dropped",)]
    assert "A backup was restored." not in said(ada.get("/mails"))


def save(ada: Visitor, **fields: Any) -> httpx.Response:
    given = {"subject": "Ends {{ expires_at|day }}", "text": "Dear {{ customer.name }}\n", "html": ""}
    return ada.post(PATH, **given | fields)


def test_a_template_is_checked_with_its_line_and_saved(server: RunningServer, ada: Visitor) -> None:
    shown = said(ada.get(PATH))
    assert "built-in" in shown
    assert "This is a reminder: your license for Example Writer" in shown
    wrong = save(ada, text="Dear\n{{ customer.nick }}", html="\n{% set x = 1 %}")
    assert wrong.status_code == 422
    assert "Line 2: " in said(wrong)
    assert "Line 2: “set” is not allowed here." in said(wrong)
    assert server.count("mail_templates") == 0
    assert "Dear Dora Example" in said(save(ada, do="preview"))
    assert server.count("mail_templates") == 0
    assert "The template was saved." in followed(ada, save(ada))
    assert "Dear {{ customer.name }}" in said(ada.get(PATH))
    assert "English" in said(ada.get("/mail-templates"))
    assert "The built-in template is used again." in followed(ada, ada.post(PATH.replace("?", "/delete?")))
    assert server.count("mail_templates") == 0


def test_the_html_is_previewed_where_it_can_do_nothing(ada: Visitor) -> None:
    answer = save(ada, do="html", html="<script>alert(1)</script><b>{{ customer.name }}</b>")
    assert answer.status_code == 200
    assert "<b>Dora Example</b>" in answer.text
    [policy] = answer.headers.get_list("content-security-policy")
    assert "sandbox;" in policy
    assert "script-src" not in policy
    assert "default-src 'none'" in policy


def test_a_test_mail_goes_to_my_own_address(server: RunningServer, ada: Visitor) -> None:
    path = PATH.replace("?", "/test?")
    assert "Set your e-mail address" in followed(ada, ada.post(path))
    assert ada.post("/account/email", email="nobody").status_code == 422
    assert "was saved" in followed(ada, ada.post("/account/email", email="ada@example.com"))
    assert "The test mail is waiting" in followed(ada, ada.post(path))
    [(subject,)] = server.sql("SELECT subject FROM mail_outbox ORDER BY id DESC LIMIT 1")
    assert subject == '{"is_sample":true}'
    assert "a…@example.com" in said(ada.get("/mails"))


def test_a_customer_unsubscribes_with_a_button_or_one_click(server: RunningServer, customer: int) -> None:
    with opened(server) as storage:
        path = rules.path_of(storage.key_ring, customer, "de")
    query = "SELECT unsubscribed_at IS NOT NULL FROM customers WHERE id = ?"
    with httpx.Client(base_url=server.base_url) as browser:
        asking = browser.get(path)
        assert "Erinnerungen abbestellen" in asking.text
        assert bool(server.sql(query, customer)[0][0]) is False
        wrong = browser.post(path.replace(str(customer), str(customer + 1), 1))
        done = browser.post(path, data={"List-Unsubscribe": "One-Click"})
    assert wrong.status_code == 404
    assert (asking.status_code, done.status_code) == (200, 200)
    assert bool(server.sql(query, customer)[0][0]) is True
