"""The doctor warns about stuck sales, mails, webhooks and backups, and says what to do."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import select, text, update

from keywright.config import Settings
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import installation
from keywright.delivery.mail import store
from keywright.delivery.mail import store as mail_store
from keywright.delivery.mail.letters import MailSettings
from keywright.delivery.mail.message import list_unusable
from keywright.delivery.mail.model import OwnTemplate
from keywright.delivery.webhooks import store as webhook_store
from keywright.delivery.webhooks.commands import CreateEndpoint
from keywright.delivery.webhooks.fields import NewWebhook
from keywright.delivery.webhooks.model import DisabledReason, Endpoint
from keywright.engine.executor import Executor
from keywright.events.model import MailState, MailTemplate, QueuedMail
from keywright.events.outbox_store import queue_mail
from keywright.maintenance import watched
from keywright.maintenance.backup import note_backup
from keywright.maintenance.watched import Figure
from keywright.provisioning.shops import store as shop_store
from keywright.provisioning.shops.model import EventState, Payload, Reason, StoredEvent
from tests.connections import CONTEXT, connect, do
from tests.makers import NOW, a_delivery, create_policy

pytestmark = pytest.mark.of_the_database

LATER = NOW + timedelta(hours=7)


def sell(executor: Executor) -> None:
    """Connect a shop whose products are mapped to a policy."""
    do(executor, create_policy())
    connect(executor)


def keep_event(storage: Storage, number: int, state: EventState, detail: str) -> None:
    event = StoredEvent(
        id=0,
        connection_id=1,
        event_id=str(number),
        name="sale",
        order_ref=None,
        state=state,
        reason=Reason.UNKNOWN_PRODUCT if state is EventState.UNMATCHED else None,
        detail=detail,
        happened_at=NOW,
        received_at=NOW,
        attempts=1,
        next_attempt_at=LATER if state is EventState.WAITING else None,
    )
    run_write(storage, lambda tx: shop_store.save_new_event(tx, event, Payload({}, b"{}")))


def queue(storage: Storage, unique: str, state: MailState = MailState.WAITING, error: str = "") -> None:
    mail = QueuedMail(template=MailTemplate.EXPIRED, unique=unique, customer_id=7)
    run_write(storage, lambda tx: queue_mail(tx, mail, NOW))
    [queued, *_] = run_read(storage, lambda tx: mail_store.list_of_customer(tx, 7, limit=1))
    is_over = state is MailState.FAILED
    after = replace(queued, state=state, error=error or None, finished_at=NOW if is_over else None)
    run_write(storage, lambda tx: mail_store.save_mail(tx, after))


def make_endpoint(storage: Storage, executor: Executor, **fields: object) -> Endpoint:
    command = CreateEndpoint(
        context=CONTEXT, fields=NewWebhook(url="https://crm.example.com/hooks?token=secret", events=["*"])
    )
    endpoint: Endpoint = replace(do(executor, command).endpoint, **fields)
    run_write(storage, lambda tx: webhook_store.WEBHOOKS.update(tx, endpoint))
    return endpoint


#: Figures that depend on the machine, on the age of the database, or on a running server.
OTHERS = {"backup_age_seconds", "data_free_bytes", "search_lag_seconds", "feed_lag_seconds"}


def figures(storage: Storage, url: str, now: datetime = LATER, **settings: Any) -> dict[str, Figure]:
    """The figures that are bad at this time, by gauge."""
    given = Settings(data_dir=Path(), database_url=url, **settings)
    found = run_read(storage, lambda tx: watched.watch(tx, given, now, is_writable=True))
    return {one.gauge: one for one in found if one.is_bad and one.gauge not in OTHERS}


def others(storage: Storage, max_waiting: int = 10_000, **settings: Any) -> list[str]:
    given = Settings(**settings)
    return run_read(storage, lambda tx: [*watched.list_other_warnings(tx, given, max_waiting=max_waiting)])


WITH_MAIL: dict[str, Any] = {"smtp_url": "smtp://127.0.0.1:9", "mail_from": "keys@example.com"}


def test_where_all_gets_through_there_is_nothing_to_say(
    storage: Storage, url: str, executor: Executor
) -> None:
    sell(executor)
    make_endpoint(storage, executor, failing_at=LATER - timedelta(hours=1))
    make_endpoint(storage, executor, disabled_at=NOW, disabled_reason=DisabledReason.BY_HAND)
    queue(storage, "a moment ago")
    assert figures(storage, url, NOW, **WITH_MAIL) == {}
    assert others(storage, public_url="https://licenses.example.com", **WITH_MAIL) == []


def test_sales_that_wait_are_named_by_their_connection(
    storage: Storage, url: str, executor: Executor
) -> None:
    sell(executor)
    connect(executor, name="Empty", mapping=())
    keep_event(storage, 1, EventState.UNMATCHED, "no such product")
    keep_event(storage, 2, EventState.UNMATCHED, "no such product")
    keep_event(storage, 3, EventState.WAITING, "the shop did not\nanswer")
    keep_event(storage, 4, EventState.DONE, "")
    found = figures(storage, url)
    unmatched, late = found["shop_events_unmatched"], found["shop_event_oldest_seconds"]
    assert (unmatched.label, unmatched.value) == ("1", 2)
    assert unmatched.sentence.startswith(
        "events of the connection 1 (Our shop) that could not be processed in the last seven days: 2, the "
    )
    assert "`keywright connection events 1 --state unmatched`" in unmatched.sentence
    assert (late.label, late.value) == ("1", 7 * 3600)
    assert late.sentence.startswith(
        "events of the connection 1 (Our shop) that wait for another attempt: 1, the first"
    )
    assert "with “the shop did not answer”" in late.sentence
    [empty] = others(storage)
    assert empty.startswith("the connection 2 (Empty) makes no licenses: its mapping is empty.")


def test_mails_that_are_not_sent_are_named_with_the_reason(storage: Storage, url: str) -> None:
    queue(storage, "one", error="451 try later")
    queue(storage, "two", MailState.HELD)
    queue(storage, "three", MailState.FAILED, "550 no such user")
    found = figures(storage, url, **WITH_MAIL)
    late, refused = found["mail_oldest_seconds"], found["mails_refused"]
    assert (late.value, refused.value) == (7 * 3600, 1)
    assert late.sentence.startswith(
        "waiting mails: 1, the first of 2026-01-15 12:30:45 UTC, with “451 try later”."
    )
    assert refused.sentence.startswith("mails that were given up in the last seven days: 1, the first of ")
    assert "with “550 no such user”." in refused.sentence
    assert (
        "No mail server is set: set one under Settings"
        in figures(storage, url)["mail_oldest_seconds"].sentence
    )
    held, no_links = sorted(others(storage, **WITH_MAIL))
    assert held.startswith("mails contain no links")
    assert no_links.startswith("mails held since a backup was restored: 1,")
    # They are ignored after a week.
    assert "mails_refused" not in figures(storage, url, NOW + timedelta(days=8), **WITH_MAIL)


def test_a_template_that_cannot_be_used_is_named(storage: Storage) -> None:
    good = OwnTemplate(
        name=MailTemplate.EXPIRED,
        product_id=0,
        language="en",
        subject="Hello",
        text="Hello {{ vendor }}",
        html="",
        updated_at=NOW,
        updated_by=None,
    )
    bad = replace(good, product_id=7, language="de", text="Hallo {{ vendr }}")
    for one in (good, bad):
        run_write(storage, partial(store.save_template, template=one))
    [warning] = run_read(storage, lambda tx: list_unusable(tx, MailSettings("Larch", None, "en"), NOW))
    assert warning.startswith("your mail template expired (de, product 7) cannot be used: ")
    assert "vendr" in warning


@pytest.mark.parametrize("reason", [DisabledReason.GONE, DisabledReason.FAILING])
def test_a_webhook_that_was_disabled_by_itself_is_named(
    storage: Storage, url: str, executor: Executor, reason: DisabledReason
) -> None:
    make_endpoint(storage, executor, disabled_at=NOW, disabled_reason=reason)
    [(gauge, found)] = figures(storage, url).items()
    assert (gauge, found.label, found.value) == ("webhook_oldest_seconds", "1", 7 * 3600)
    assert found.sentence.startswith(
        "the webhook 1 (crm.example.com) was disabled at 2026-01-15 12:30:45 UTC"
    )
    assert "secret" not in found.sentence


def test_a_webhook_that_is_failing_behind_or_full_is_named(
    storage: Storage, url: str, executor: Executor
) -> None:
    endpoint = make_endpoint(storage, executor)
    delivery = a_delivery(
        license_id=0,
        attempts=3,
        next_attempt_at=LATER,
        first_attempt_at=NOW,
        status=500,
        answer="<h1>Oh\nno</h1>",
    )
    new = [delivery, replace(delivery, event_id=2)]
    run_write(storage, lambda tx: webhook_store.save_new_deliveries(tx, new))
    [behind] = figures(storage, url).values()
    assert behind.sentence.startswith(
        "the webhook 1 (crm.example.com) is behind; waiting deliveries: 2, the first of 2026-01-15"
    )
    run_write(storage, lambda tx: webhook_store.WEBHOOKS.update(tx, replace(endpoint, failing_at=NOW)))
    [failing] = figures(storage, url).values()
    assert "has accepted nothing since 2026-01-15 12:30:45 UTC, with “<h1>Oh no</h1>”" in failing.sentence
    [full] = others(storage, max_waiting=2)
    assert full.startswith("the webhook 1 has reached the limit of waiting deliveries;")
    # The oldest counts, and an hour is late.
    for age, is_late in ((timedelta(minutes=59), False), (timedelta(hours=1), True)):
        assert ("webhook_oldest_seconds" in figures(storage, url, NOW + age)) == is_late


# --- the installation -----------------------------------------------------------------------------


def bad(storage: Storage, url: str, now: datetime, **settings: Any) -> set[str]:
    given = Settings(data_dir=Path(), database_url=url, **settings)
    found = run_read(storage, lambda tx: watched.watch(tx, given, now, is_writable=False))
    return {one.gauge for one in found if one.is_bad}


def test_the_last_good_backup_is_that_of_a_right_clock(storage: Storage, url: str) -> None:
    installed = run_read(
        storage, lambda tx: tx.connection.execute(select(installation.c.created_at)).scalar_one()
    )
    made = datetime.fromtimestamp(installed, UTC)
    # A server has written to it, so an SQLite database has its lock file.
    with storage.write():
        pass
    day = timedelta(days=1)
    # Without a backup, the time of the installation counts.
    assert "backup_age_seconds" not in bad(storage, url, made + day)
    assert "backup_age_seconds" in bad(storage, url, made + 2 * day)
    note_backup(url, storage.key_ring, made + 2 * day)
    assert "backup_age_seconds" not in bad(storage, url, made + 3 * day)
    assert "backup_age_seconds" in bad(storage, url, made + 4 * day)
    # A backup from the future was made while the clock was wrong.
    note_backup(url, storage.key_ring, made + 400 * day)
    assert "backup_age_seconds" in bad(storage, url, made + 5 * day)


def test_a_rotation_an_upgrade_and_a_database_that_takes_no_change_are_named(
    storage: Storage, url: str
) -> None:
    assert bad(storage, url, NOW) & {"writable", "rotation_pending", "upgrade_pending"} == {"writable"}
    with storage.write() as tx:
        tx.connection.execute(update(installation).values(previous_secret_id="x" * 16))
        tx.connection.execute(text("UPDATE alembic_version SET version_num = '9000'"))
    # Read through another storage, because this one would need both secrets.
    found = bad(storage, url, NOW)
    assert found >= {"writable", "rotation_pending", "upgrade_pending"}


def test_every_gauge_has_a_figure_and_every_figure_a_gauge(
    storage: Storage, url: str, executor: Executor
) -> None:
    sell(executor)
    make_endpoint(storage, executor)
    given = Settings(data_dir=Path(), database_url=url)
    found = run_read(storage, lambda tx: watched.watch(tx, given, NOW, is_writable=True))
    # There is no such figure if no certificate is verified.
    assert {one.gauge for one in found} == watched.GAUGES.keys() - {"certificate_seconds"}
    assert {bool(one.label) for one in found if watched.GAUGES[one.gauge][0]} == {True}
    assert {bool(one.label) for one in found if not watched.GAUGES[one.gauge][0]} == {False}
