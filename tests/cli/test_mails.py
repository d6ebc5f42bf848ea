"""``keywright mail``: what was mailed, and whether the SMTP server works."""

import json
from pathlib import Path

from tests.http.test_mails import SENDER, make_customer, queue, your_license
from tests.server import running
from tests.smtp_server import Mailbox, receiving


def test_mails_are_listed_shown_and_sent_again(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        customer, license = make_customer(server)
        queue(server, your_license(customer, license))
        [listed] = json.loads(server.cli("mail", "list", "--json"))
        shown = json.loads(server.cli("mail", "show", "1", "--json"))
        assert listed == shown
        assert (shown["to"], shown["state"], shown["attempts"]) == ("d…@example.com", "waiting", 0)
        assert json.loads(server.cli("mail", "list", "--state", "failed", "--json")) == []
        assert "The mail is queued" in server.cli("mail", "retry", "1")
        assert json.loads(server.cli("mail", "templates", "--json")) == []


def test_a_test_mail_says_what_the_server_answered(tmp_path: Path) -> None:
    mailbox = Mailbox()
    with receiving(mailbox) as port, running(tmp_path / "data") as server:
        config = tmp_path / "keywright.toml"
        config.write_text(f'smtp_url = "smtp://127.0.0.1:{port}"\nmail_from = "{SENDER}"\n')
        said = server.cli("mail", "test", "ada@example.com", "--config", str(config))
    assert said == "127.0.0.1 accepted the test mail.\n"
    assert mailbox.recipients == ["ada@example.com"]
