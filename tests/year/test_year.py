"""A vendor's life with a clock that is set: a day has sales, programs, staff, and a night in which a server
is restarted; the books of an outside model agree with what two servers made of it.
"""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import receiver, smtp_server
from tests.faults.altered import altering_command
from tests.faults.installations import rounds
from tests.proving import IS_LONG, record, size
from tests.server import NO_LIMITS, running, wait_until
from tests.smtp_server import Mailbox
from tests.year.ledger import DAY
from tests.year.vendor import Clock, Vendor
from tools.postgres import binaries

pytestmark = [pytest.mark.tier("rest"), pytest.mark.timeout(0 if IS_LONG else 900)]
DATABASES = ("sqlite", "postgresql") if IS_LONG else ("sqlite",)
DAYS = size(20, 400)
#: The short form has the end of a month in it.
START = datetime(2031, 1, 15, tzinfo=UTC)


@contextmanager
def a_vendor(folder: Path, database: str, seed: int, *alterations: str) -> Iterator[Vendor]:
    """Two servers on one new database, with a shop, a receiver of webhooks, and a mail server."""
    clock, mailbox = Clock(folder / "ahead"), Mailbox()
    clock.set(START)
    with ExitStack() as stack:
        receiving = stack.enter_context(receiver.receiving())
        port = stack.enter_context(smtp_server.receiving(mailbox))
        settings: dict[str, Any] = {
            "smtp_url": f"smtp://127.0.0.1:{port}",
            "mail_from": "keys@example.com",
            "expiry_mails": True,
            "webhook_networks": "127.0.0.0/8",
            **NO_LIMITS,
        }
        program = altering_command("hurrying", "by a set clock", *alterations, ahead=clock.file)
        first = stack.enter_context(running(folder / "first", database, program=program, **settings))
        (folder / "second").mkdir()
        shutil.copy(folder / "first" / "secret", folder / "second")
        settings["database_url"] = first.database_url
        second = stack.enter_context(running(folder / "second", program=program, **settings))
        yield Vendor([first, second], clock, mailbox, receiving, random.Random(seed))


def live_a_day(vendor: Vendor, day: int) -> None:
    """A day from midnight to midnight. In the night, one of the servers is killed, or ends in good order."""
    today, clock = START + day * DAY, vendor.clock
    victim = vendor.servers[day % 2]
    if day % 5 == 2:
        victim.kill()
    else:
        assert victim.stop() == 0
    victim.start()
    # Periods are closed an hour after midnight; claims of the server that was killed are over.
    clock.set(today + timedelta(hours=2))
    vendor.settle()
    clock.set(today + timedelta(hours=9))
    if day % 14 == 0:
        vendor.release(f"{1 + day // 14}.0.0")
    vendor.trade()
    vendor.settle()
    # Subscriptions end at half past ten; programs never ask exactly 30 days later.
    clock.set(today + timedelta(hours=12 + day % 7))
    vendor.settle()
    vendor.work()
    if day % 3 == 0:
        vendor.sign_in()
    vendor.settle()


def restore_elsewhere(vendor: Vendor, folder: Path, number: int, database: str) -> list[str]:
    """Back up, restore the backup elsewhere, and compare that with the books."""
    file = folder / f"backup-{number}.tar"
    vendor.servers[0].cli("backup", str(file))
    with running(folder / f"restored-{number}", database) as other:
        other.stop()
        other.cli("restore", str(file), "--overwrite")
        return vendor.differences(other)


@rounds(3)
def test_a_year_of_a_vendors_life_adds_up(
    database: str, tmp_path: Path, round_number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database == "postgresql":
        # pg_dump and pg_restore of the server's version.
        monkeypatch.setenv("PATH", f"{binaries()}:{os.environ['PATH']}")
    found: list[str] = []
    with a_vendor(tmp_path, database, seed=round_number) as vendor:
        for day in range(DAYS):
            live_a_day(vendor, day)
            if (START + (day + 1) * DAY).day == 1 or day == DAYS - 1:
                found += vendor.differences()
                assert not found, "\n".join(found)
                vendor.servers[0].assert_consistent()
        found += restore_elsewhere(vendor, tmp_path, day, database)
        figures = {
            "days": DAYS,
            "licenses": len(vendor.ledger.sold),
            "webhooks": vendor.ledger.webhooks,
            "mails": vendor.ledger.mails.total(),
            "periods": sum(len(one.closed) for one in vendor.ledger.sold.values()),
            **vendor.counted,
        }
        record("R30", database, figures | {"differences": len(found)})
        assert found == []
        assert min(figures.values()) > 0


def test_control_a_server_that_forgets_renewals_is_found(tmp_path: Path) -> None:
    with a_vendor(tmp_path, "sqlite", 1, "forgetting renewals") as vendor:
        vendor.clock.set(START + timedelta(hours=9))
        one = vendor.sell("plan")
        vendor.settle()
        assert vendor.differences() == []
        vendor.renew(one)
        server = vendor.servers[0]
        wait_until(
            lambda: server.sql("SELECT count(*) FROM shop_events WHERE state = 'waiting'") == [(0,)], "it"
        )
        found = vendor.differences()
    record("R30", "control: renewals forgotten", {"differences": len(found)})
    assert [one.partition(":")[0] for one in found] == ["license 1", "license 1", "mails"]
