"""Servers are killed while they mail customers: each gets a notice, or its license files, once."""

import random
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from keywright.core.command import Command, Context, Origin
from keywright.jobs.model import NotifyCustomers
from keywright.jobs.orders import MakeFiles, start_command
from keywright.licensing.activations.model import ActivateDevice, Device
from keywright.licensing.licenses.model import CreateLicense, Status
from keywright.licensing.updates.notices import NoticeState
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.products import CreateProduct, NewProduct
from keywright.provisioning.releases.notices import CreateNotice, NewNotice, SetNoticeState
from tests.http.admin_browser import decide
from tests.http.test_mails import sending
from tests.proving import size
from tests.server import RunningServer, wait_until
from tests.smtp_server import Mailbox

pytestmark = pytest.mark.timeout(600)
CUSTOMERS, JOBS = 120, 2
VERSIONS = ("1.9", "2.0", "3.1", "3.2")
AFFECTED = frozenset({"2.0", "3.1"})


def fill(server: RunningServer, dice: random.Random, jobs: int = JOBS) -> set[str]:
    """Customers with two devices each, and jobs that notify those affected; returns their addresses."""
    context, affected = Context(datetime.now(UTC), Origin("cli:root", "", "")), set()
    commands: list[Command] = [CreateProduct(context=context, fields=NewProduct(id=17, name="Paint"))]
    devices: list[Command] = []
    for number in range(1, CUSTOMERS + 1):
        email, versions = f"c{number}@example.com", dice.choices(VERSIONS, k=2)
        if AFFECTED & set(versions):
            affected.add(email)
        commands.append(CreateCustomer(context=context, fields=NewCustomer(id=number, email=email)))
        for index, version in enumerate(versions):
            key, device = f"KEY-{number}-{index}", Device(f"device-{number}-{index}", app_version=version)
            commands.append(
                CreateLicense(
                    context=context, key=key, product_id=17, customer_id=number, status=Status.ACTIVE
                )
            )
            devices.append(ActivateDevice(context=context, license=key, device=device))
    decide(server, *commands)
    decide(server, *devices)
    fields = NewNotice(product_id=17, title="A hole", affected=">= 2, < 3.2")
    [notice] = decide(server, CreateNotice(context=context, fields=fields))
    decide(server, SetNoticeState(context=context, notice_id=notice.id, state=NoticeState.PUBLISHED))
    decide(server, *[NotifyCustomers(context=context, notice_id=notice.id)] * jobs)
    return affected


def has_unfinished(server: RunningServer) -> bool:
    jobs = server.sql("SELECT 1 FROM jobs WHERE finished_at IS NULL")
    return bool(jobs or server.sql("SELECT 1 FROM mail_outbox WHERE state = 'waiting'"))


def test_each_affected_customer_gets_one_mail_however_often_the_server_is_killed(
    tmp_path: Path, database: str
) -> None:
    """Two jobs of one notice, as if the button was pressed twice; each job is killed in the middle."""
    mailbox, kills = Mailbox(), size(4, 40)
    with sending(tmp_path, mailbox, database) as server:
        affected = fill(server, random.Random(34))
        for _ in range(kills):
            # No wait for something: the moment must have nothing to do with what goes on.
            time.sleep(random.uniform(0, 0.2))
            server.kill()
            server.start()
        wait_until(lambda: not has_unfinished(server), "the last mail")
        states = Counter(row[0] for row in server.sql("SELECT state FROM notice_recipients"))
        unanswered = sum(row[0] for row in server.sql("SELECT unanswered FROM mail_outbox"))
    times = Counter(mailbox.recipients)
    assert set(times) == affected
    assert states == {"sent": len(affected)}
    assert sum(times.values()) - len(times) <= unanswered, "twice only where the answer did not arrive"


def test_each_license_file_is_mailed_once_however_often_the_server_is_killed(
    tmp_path: Path, database: str
) -> None:
    """Killed while the job makes them, and while it mails them: each customer gets those of both devices."""
    mailbox, kills = Mailbox(), size(4, 40)
    with sending(tmp_path, mailbox, database) as server:
        fill(server, random.Random(36), jobs=0)
        context = Context(datetime.now(UTC), Origin("cli:root", "", ""))
        decide(server, start_command(MakeFiles(alg="EdDSA"), context=context))
        for _ in range(kills):
            time.sleep(random.uniform(0, 0.2))
            server.kill()
            server.start()
        wait_until(lambda: not has_unfinished(server), "the last mail")
        [[summary]] = server.sql("SELECT messages FROM jobs")
        unanswered = sum(row[0] for row in server.sql("SELECT unanswered FROM mail_outbox"))
    assert summary.startswith(f"Files: {2 * CUSTOMERS}. Mails: {CUSTOMERS}. ")
    times = Counter(mailbox.recipients)
    assert set(times) == {f"c{number}@example.com" for number in range(1, CUSTOMERS + 1)}
    assert sum(times.values()) - len(times) <= unanswered, "twice only where the answer did not arrive"
    for one in mailbox.messages:
        number = one["To"].addresses[0].username[1:]
        names = [each.get_filename() for each in one.iter_attachments()]
        assert len(names) == 2, (number, names)
