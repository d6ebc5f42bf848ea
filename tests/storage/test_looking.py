"""Polling of the work queue: one statement finds all items that are due."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event

from keywright.core.command import Context
from keywright.db import Storage, run_write
from keywright.delivery.mail import store as mails
from keywright.delivery.mail.model import AttemptOutcome, Fate, FinishMail
from keywright.delivery.webhooks import store as webhooks
from keywright.delivery.webhooks.rules import MAX_ENDPOINTS
from keywright.engine.executor import Executor
from keywright.engine.queue import AT_ONCE, ClaimItem, HoldItems, Item, Kind, LookForWork
from keywright.events.model import MailTemplate, QueuedMail
from keywright.events.outbox_store import queue_mail
from keywright.jobs import store as jobs
from keywright.jobs.handlers import MAX_UNFINISHED
from keywright.provisioning.shops import store as shops
from keywright.search import terms_store as terms
from tests.connections import CONTEXT, a_sale, an_event, ask, connect, do, store
from tests.jobs import a_change, make_orderer, start
from tests.makers import NOW, create, create_endpoint, create_policy, find_items
from tests.storage.projected import follow_all
from tests.storage.webhooks import deliver

pytestmark = pytest.mark.of_the_database

KINDS = {
    "jobs": jobs.JOBS,
    "mails": mails.MAILS,
    "shops": shops.EVENTS,
    "webhooks": webhooks.ENDPOINTS,
}
MAIL = QueuedMail(template=MailTemplate.EXPIRED, unique="one", customer_id=1)


def find_work(executor: Executor, now: datetime = NOW) -> set[str]:
    questions = (terms.NEW_EVENTS,)
    found = ask(executor, LookForWork(now=now, kinds=tuple(KINDS.values()), questions=questions))
    return {name for name, items in zip((*KINDS, "search"), found, strict=True) if items}


def test_each_loop_is_woken_by_its_own_work_alone(executor: Executor, storage: Storage) -> None:
    assert find_work(executor) == set()
    do(executor, create_endpoint())
    make_orderer(storage)
    do(executor, create_policy())
    connect(executor)
    follow_all(executor)
    deliver(executor)
    assert find_work(executor) == set()
    do(executor, create("A"))
    assert find_work(executor) == {"webhooks", "search"}
    follow_all(executor)
    assert find_work(executor) == {"webhooks"}
    deliver(executor, receive=lambda _: 500)
    # It waits for its next attempt, and is ignored until then.
    assert find_work(executor) == set()
    assert find_work(executor, NOW + timedelta(seconds=6)) == {"webhooks"}
    run_write(storage, lambda tx: queue_mail(tx, MAIL, NOW))
    store(executor, an_event(a_sale()))
    do(executor, start(a_change("disable")))
    follow_all(executor)
    assert find_work(executor) == {"jobs", "mails", "shops", "webhooks"}


def test_an_idle_look_is_one_statement(executor: Executor) -> None:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert find_work(executor) == set()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert len([one for one in statements if one.startswith("SELECT")]) == 1


def test_an_item_is_claimed_as_it_was_seen_or_not_at_all(executor: Executor, storage: Storage) -> None:
    """Even if another process claimed and released it in between: the mail was sent."""
    do(executor, create_endpoint())
    make_orderer(storage)
    do(executor, create_policy())
    connect(executor)
    do(executor, create("A"))
    run_write(storage, lambda tx: queue_mail(tx, MAIL, NOW))
    store(executor, an_event(a_sale()))
    do(executor, start(a_change("disable")))
    wrong = {}
    for name, kind in KINDS.items():
        (item,) = find_items(storage, kind)
        first, second = (a_claim(kind, item, name) for name in ("one", "two"))
        wrong[name] = (do(executor, first) is not None, do(executor, second) is None)
    assert wrong == dict.fromkeys(KINDS, (True, True))
    (mail,) = find_items(storage, mails.MAILS)
    sent = AttemptOutcome(Fate.SENT)
    do(executor, FinishMail(context=CONTEXT, mail_id=mail.id, claimed_by="one", outcome=sent))
    seen = mail._replace(claimed_by=None, claimed_until=None)
    assert do(executor, a_claim(mails.MAILS, seen, "two")) is None


def a_claim(kind: Kind, item: Item, claimed_by: str) -> ClaimItem:
    return ClaimItem(context=CONTEXT, kind=kind, item=item, claimed_by=claimed_by)


def test_a_claim_is_renewed_while_it_is_the_senders(executor: Executor, storage: Storage) -> None:
    run_write(storage, lambda tx: queue_mail(tx, MAIL, NOW))
    (free,) = find_items(storage, mails.MAILS)
    do(executor, a_claim(mails.MAILS, free, "one"))
    later = Context(NOW + timedelta(seconds=3), CONTEXT.origin)

    def hold(claimed_by: str) -> Any:
        hold = HoldItems(context=later, kind=mails.MAILS, items=[free], claimed_by=claimed_by)
        return do(executor, hold)

    assert [hold("two"), hold("one")] == [0, 1]
    (held,) = find_items(storage, mails.MAILS)
    assert held[:3] == (free.id, "one", int(NOW.timestamp()) + 8)


def test_a_look_finds_every_endpoint_and_every_job() -> None:
    assert max(MAX_ENDPOINTS, MAX_UNFINISHED) <= AT_ONCE
