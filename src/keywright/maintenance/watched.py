"""Monitored figures: problems that stop a vendor's business although the database is sound, such as waiting
sales, mails, webhooks or backups, a full disk, or an unfinished upgrade or rotation. The doctor, the overview
and the metrics show the same figures; each sentence states what to do.
"""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Select, func, literal_column, select

from keywright.config import Settings
from keywright.core.errors import Unavailable
from keywright.core.parsing import format_size, write_time
from keywright.db import Storage, database_path, run_write
from keywright.db.migrate import HEAD, read_state
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import (
    connections,
    installation,
    mail_outbox,
    shop_events,
    webhook_deliveries,
    webhook_endpoints,
)
from keywright.db.sealed_columns import find_secret_ids
from keywright.db.transaction import ReadTransaction
from keywright.db.urls import find_certificate_end
from keywright.events.model import MailState
from keywright.maintenance.backup import find_backup_time
from keywright.provisioning.shops.model import EventState
from keywright.search.feed import find_visible_id
from keywright.search.projector import lag
from keywright.search.terms_store import find_time_after

#: Mails, webhooks and shop events are late if they wait this long, including some retries.
_LATE = timedelta(hours=1)
#: The same for the search of the pages, and for the event feed that programs and webhooks read.
_SEARCH_LATE, _FEED_LATE = timedelta(minutes=15), timedelta(minutes=1)
#: Backups are made daily, plus time for making one.
_BACKUP_LATE = timedelta(hours=26)
#: A certificate should be renewed before its remaining validity is this short.
_RENEWED = timedelta(days=14)
#: How long failed mails, and sales that wait for a decision, are reported.
_LATELY = timedelta(days=7)
#: With fewer free bytes, a copy, a backup or the log of the database may fill the disk.
_LEAST_FREE = 1 << 30
#: The maximum number of rows to count.
_MAX_COUNTED = 10_000
#: The maximum length of a quoted answer.
_MAX_QUOTED = 150
#: The gauges, without the prefix ``keywright_``: the label's name, and the description.
GAUGES = {
    "webhook_oldest_seconds": ("endpoint", "How long the oldest undelivered event of an endpoint waits."),
    "shop_events_unmatched": (
        "connection",
        "Events of a shop in the last seven days that need a decision.",
    ),
    "shop_event_oldest_seconds": ("connection", "How long the oldest event of a shop waits for an attempt."),
    "mail_oldest_seconds": ("", "How long the oldest mail waits."),
    "mails_refused": ("", "Mails that were given up in the last seven days."),
    "backup_age_seconds": ("", "The time since the last successful backup, or since the installation."),
    "data_free_bytes": ("", "The free disk space, in bytes, where the database or the data directory is."),
    "writable": ("", "Whether changes are possible."),
    "search_lag_seconds": ("", "The age of the oldest event that is not yet in the search index."),
    "feed_lag_seconds": ("", "The age of the oldest event that cannot yet be listed or delivered."),
    "upgrade_pending": ("", "Whether the database has the schema of a newer version than this process."),
    "rotation_pending": ("", "Whether a rotation of the secret is unfinished."),
    "certificate_seconds": ("", "The remaining validity of PostgreSQL's certificate."),
}


class Figure(NamedTuple):
    """A figure. If it ``is_bad``, ``sentence`` states what is wrong and what to do. ``label`` is the value of
    the gauge's label.
    """

    gauge: str
    value: float
    is_bad: bool
    sentence: str
    label: str = ""


class _Waiting(NamedTuple):
    """Waiting items: their number, since when the oldest waits (now, if none waits), and a clause that quotes
    an answer to one of them, or "".
    """

    number: int
    since: datetime
    answer: str

    @property
    def amount(self) -> str:
        """``3, the first of 2026-01-15 12:30:45 UTC``."""
        more = " or more" if self.number >= _MAX_COUNTED else ""
        return f"{self.number:,}{more}, the first of {_at(self.since)}"


def probe(storage: Storage) -> bool:
    """Whether changes are possible now."""
    try:
        run_write(storage, lambda tx: tx.probe())
    except Unavailable:
        return False
    return True


def watch(tx: ReadTransaction, settings: Settings, now: datetime, *, is_writable: bool) -> list[Figure]:
    """All figures."""
    return [
        *_watch_shops(tx, now),
        *_watch_mails(tx, now, has_server=settings.smtp_server is not None),
        *_watch_webhooks(tx, now),
        *_watch_events(tx, now),
        *_watch_installation(tx, settings, now, is_writable=is_writable),
    ]


def _watch_shops(tx: ReadTransaction, now: datetime) -> Iterator[Figure]:
    """Sales without a license yet."""
    column = shop_events.c
    for number, name in tx.connection.execute(select(connections.c.id, connections.c.name)).all():
        of_it = select(column.received_at.label("since"), column.detail.label("answer")).where(
            column.connection_id == number
        )
        # A literal, to match the index. Some are settled elsewhere and stay unmatched, so only the last
        # week's count.
        is_unmatched = column.state == literal_column(f"'{EventState.UNMATCHED}'")
        is_new = column.received_at >= to_seconds(now - _LATELY)
        unmatched = _measure(tx, of_it.where(is_unmatched, is_new), now)
        yield Figure(
            "shop_events_unmatched",
            unmatched.number,
            unmatched.number > 0,
            f"events of the connection {number} ({name}) that could not be processed in the last seven "
            f"days: {unmatched.amount}. `keywright connection events {number} --state unmatched`, or the "
            "page Shops, shows what is missing; correct it, and try again.",
            str(number),
        )
        late = _measure(tx, of_it.where(column.next_attempt_at.is_not(None)), now)
        sentence = (
            f"events of the connection {number} ({name}) that wait for another attempt: "
            f"{late.amount}{late.answer}. Check that a server is running, and that the shop's API key is "
            "right."
        )
        yield _late("shop_event_oldest_seconds", now - late.since, _LATE, sentence, str(number))


def _watch_mails(tx: ReadTransaction, now: datetime, *, has_server: bool) -> Iterator[Figure]:
    """Waiting and failed mails."""
    column = mail_outbox.c
    mails = select(column.created_at.label("since"), column.error.label("answer"))
    waiting = _measure(tx, mails.where(column.state == MailState.WAITING.value), now)
    advice = (
        f"{waiting.answer}. Check that a server is running; `keywright mail test` with your address shows "
        "the mail server's answer."
        if has_server
        else ". No mail server is set: set one under Settings in the pages, or set smtp_url and mail_from."
    )
    sentence = f"waiting mails: {waiting.amount}{advice}"
    yield _late("mail_oldest_seconds", now - waiting.since, _LATE, sentence)
    is_given_up = (column.state == MailState.FAILED.value, column.finished_at >= to_seconds(now - _LATELY))
    refused = _measure(tx, mails.where(*is_given_up), now)
    yield Figure(
        "mails_refused",
        refused.number,
        refused.number > 0,
        f"mails that were given up in the last seven days: {refused.amount}{refused.answer}. Correct the "
        "addresses or the settings, and send them again on the page Mails.",
    )


def _watch_webhooks(tx: ReadTransaction, now: datetime) -> Iterator[Figure]:
    """Webhook endpoints that accept nothing."""
    column = webhook_deliveries.c
    for one in tx.connection.execute(select(webhook_endpoints).order_by(webhook_endpoints.c.id)).all():
        query = select(column.created_at.label("since"), column.answer).where(
            column.endpoint_id == one.id, column.finished_at.is_(None)
        )
        waiting, since = _measure(tx, query, now), None
        name = f"the webhook {one.id} ({urlsplit(one.url).hostname})"
        if one.disabled_at is not None:
            since = to_datetime(one.disabled_at)
            reason = "is gone" if one.disabled_reason == "gone" else "accepted nothing for five days"
            sentence = (
                f"{name} was disabled at {_at(since)}: its receiver {reason}. Delete it, or enable it when "
                "the receiver works again; deliveries then resume where they stopped."
            )
        elif one.failing_at is not None:
            sentence = (
                f"{name} has accepted nothing since {_at(to_datetime(one.failing_at))}{waiting.answer}; "
                f"waiting deliveries: {waiting.amount}. Fix its receiver: after five days, the webhook is "
                "disabled."
            )
        else:
            sentence = (
                f"{name} is behind; waiting deliveries: {waiting.amount}. Check that a server is running, "
                "and how long the receiver takes."
            )
        if one.disabled_reason != "by_hand":
            age = now - (since or waiting.since)
            yield _late("webhook_oldest_seconds", age, _LATE, sentence, str(one.id))


def _watch_events(tx: ReadTransaction, now: datetime) -> Iterator[Figure]:
    """The lag of the search and the event feed, normally some seconds."""
    found, listed_until = lag(tx).oldest_at or now, find_time_after(tx, find_visible_id(tx, 0)) or now
    sentence = f"the search of the pages has no events since {_at(found)}. Check that a server is running."
    yield _late("search_lag_seconds", now - found, _SEARCH_LATE, sentence)
    sentence = (
        f"events since {_at(listed_until)} cannot be listed or delivered yet. Look for a PostgreSQL "
        "transaction that stays open (pg_stat_activity), and end it."
    )
    yield _late("feed_lag_seconds", now - listed_until, _FEED_LATE, sentence)


def _watch_installation(
    tx: ReadTransaction, settings: Settings, now: datetime, *, is_writable: bool
) -> Iterator[Figure]:
    url = settings.database_url_in_force
    installed_at = to_datetime(tx.connection.execute(select(installation.c.created_at)).scalar_one())
    made_at = find_backup_time(tx)
    # A backup from the future was made while the clock was wrong.
    since = made_at if made_at is not None and made_at <= now else min(installed_at, now)
    sentence = (
        f"the last backup was made at {_at(since)}" if since == made_at else "no backup was made yet"
    ) + ". Set backup_daily_at, or run `keywright backup`; `keywright status` shows why a backup failed."
    yield _late("backup_age_seconds", now - since, _BACKUP_LATE, sentence)
    folder = (database_path(url) or settings.data_dir / "x").parent
    free = shutil.disk_usage(folder).free
    sentence = (
        f"only {format_size(free)} is free in {folder.absolute()}. Free disk space before the disk is full."
    )
    yield Figure("data_free_bytes", free, free < _LEAST_FREE, sentence)
    sentence = (
        "the database cannot be written, so no change is possible. Look for a full disk, a read-only file "
        "system, or a PostgreSQL server that is a standby."
    )
    yield Figure("writable", is_writable, not is_writable, sentence)
    revision = read_state(tx.connection).revision or HEAD
    sentence = f"the database has the schema of a newer version ({revision}). Upgrade this server, too."
    yield Figure("upgrade_pending", revision > HEAD, revision > HEAD, sentence)
    is_rotating = find_secret_ids(tx.connection).previous is not None
    sentence = "a rotation of the secret is not finished. Run `keywright secret rotate`."
    yield Figure("rotation_pending", is_rotating, is_rotating, sentence)
    if (ends_at := find_certificate_end(url)) is not None:
        sentence = f"PostgreSQL's certificate expires at {_at(ends_at)}. Renew it."
        left = (ends_at - now).total_seconds()
        yield Figure("certificate_seconds", left, ends_at - now < _RENEWED, sentence)


# --- for the doctor alone -------------------------------------------------------------------------


def list_other_warnings(tx: ReadTransaction, settings: Settings, *, max_waiting: int) -> Iterator[str]:
    """Warn about connections that can make no license, missing links, held mails and full webhook queues."""
    for one in tx.connection.execute(select(connections).where(connections.c.mapping == "[]")).all():
        yield (
            f"the connection {one.id} ({one.name}) makes no licenses: its mapping is empty. Add the shop's "
            "products to it."
        )
    if settings.smtp_server is not None and settings.public_url is None:
        yield (
            "mails contain no links to the portal or to stop reminders: set public_url, the address at "
            "which browsers reach the server, in a file or under Settings in the pages."
        )
    mails, column = mail_outbox.c, webhook_deliveries.c
    query = select(mails.created_at.label("since"), mails.error.label("answer"))
    held = _measure(tx, query.where(mails.state == MailState.HELD.value), datetime.now(UTC))
    if held.number:
        yield (
            f"mails held since a backup was restored: {held.amount}. They may already have been sent: send "
            "or drop them on the page Mails."
        )
    full = select(column.endpoint_id).where(column.finished_at.is_(None)).group_by(column.endpoint_id)
    for number in tx.connection.execute(full.having(func.count() >= max_waiting)).scalars():
        yield (
            f"the webhook {number} has reached the limit of waiting deliveries; further events wait in "
            "the log, for 30 days."
        )


# --- what they have in common ---------------------------------------------------------------------


def _late(gauge: str, age: timedelta, limit: timedelta, sentence: str, label: str = "") -> Figure:
    return Figure(gauge, age.total_seconds(), age >= limit, sentence, label)


def _measure(tx: ReadTransaction, query: Select[Any], now: datetime) -> _Waiting:
    """Aggregate rows of ``since`` and ``answer``."""
    some = query.limit(_MAX_COUNTED).subquery().c
    number, first, answer = tx.connection.execute(
        select(func.count(), func.min(some.since), func.max(some.answer))
    ).one()
    quoted = " ".join((answer or "").split())[:_MAX_QUOTED]
    return _Waiting(
        int(number), to_datetime(first) if number else now, f", with “{quoted}”" if quoted else ""
    )


def _at(moment: datetime) -> str:
    return f"{write_time(moment)} UTC"
