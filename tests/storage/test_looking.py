"""What wakes the loops in the background: one statement that says which tables hold work."""

from keywright.db import Storage, run_write
from keywright.delivery.mail import store as mails
from keywright.delivery.webhooks import store as webhooks
from keywright.engine.executor import Executor
from keywright.engine.looking import LookForWork
from keywright.events.outbox.model import MailTemplate, QueuedMail
from keywright.events.outbox.store import queue_mail
from keywright.jobs import store as jobs
from keywright.provisioning.shops import store as shops
from keywright.search import terms_store as terms
from tests.connections import a_sale, an_event, ask, connect, do, store
from tests.jobs import a_change, make_orderer, start
from tests.makers import NOW, create, create_endpoint, create_policy
from tests.storage.projected import follow_all
from tests.storage.webhooks import deliver

QUESTIONS = {
    "jobs": jobs.UNFINISHED,
    "mails": mails.WAITING,
    "shops": shops.WAITING,
    "webhooks": webhooks.WORKABLE,
    "search": terms.NEW_EVENTS,
}
MAIL = QueuedMail(template=MailTemplate.EXPIRED, unique="one", customer_id=1)


def find_work(executor: Executor) -> set[str]:
    found = ask(executor, LookForWork(questions=tuple(QUESTIONS.values())))
    return {name for name, has_work in zip(QUESTIONS, found, strict=True) if has_work}


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
    # It waits for another attempt.
    assert find_work(executor) == {"webhooks"}
    run_write(storage, lambda tx: queue_mail(tx, MAIL, NOW))
    store(executor, an_event(a_sale()))
    do(executor, start(a_change("disable")))
    follow_all(executor)
    assert find_work(executor) == {"jobs", "mails", "shops", "webhooks"}
