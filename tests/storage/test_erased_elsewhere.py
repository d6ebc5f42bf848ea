"""Erasing a customer also erases data in the outbox, shop events and deliveries."""

from typing import Any

import pytest
from sqlalchemy import Table, insert, select

from keywright.core.command import Context
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import events, mail_outbox, shop_events, webhook_deliveries
from keywright.engine.executor import Executor
from keywright.events.model import MailTemplate, QueuedMail, RecordEvent
from keywright.events.outbox_store import queue_mail
from keywright.maintenance.personal_data_store import list_customer_events
from keywright.maintenance.tasks import EraseCustomer
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.shops.store import find_payload
from tests.jobs import decide
from tests.makers import NOW, an_origin, create

DATABASES = ("sqlite",)

ERASED, OTHER = 7, 8


@pytest.fixture
def filled(executor: Executor, storage: Storage) -> None:
    """Two customers with a license, a mail, a shop event and a delivery each."""
    for number, customer in enumerate((ERASED, OTHER), start=1):
        decide(
            executor,
            CreateCustomer(context=Context(NOW, an_origin()), fields=NewCustomer(id=customer, name="Dora")),
        )
        decide(executor, create(f"KEY-{customer}", customer_id=customer))
        mail = QueuedMail(template=MailTemplate.YOUR_KEYS, unique=f"mail {customer}", customer_id=customer)
        run_write(storage, lambda tx, mail=mail: queue_mail(tx, mail, NOW))  # type: ignore[misc]
        add(
            storage,
            shop_events,
            connection_id=1,
            event_id=f"event {customer}",
            name="order",
            state="done",
            customer_id=customer,
            sealed_payload=b"sealed",
            happened_at=1,
            received_at=1,
            is_forced=0,
            attempts=1,
        )
        add(
            storage,
            webhook_deliveries,
            endpoint_id=1,
            event_id=number,
            license_id=number,
            name="license.created",
            state="delivered",
            attempts=1,
            answer="Thank you, Dora",
            created_at=1,
        )


def add(storage: Storage, table: Table, **values: Any) -> None:
    run_write(storage, lambda tx: tx.connection.execute(insert(table).values(values)))


@pytest.mark.smoke
@pytest.mark.usefixtures("filled")
def test_an_erased_customer_is_forgotten_everywhere(executor: Executor, storage: Storage) -> None:
    decide(executor, EraseCustomer(context=Context(NOW, an_origin()), customer_id=ERASED))
    with storage.read() as tx:
        assert list(tx.connection.execute(select(mail_outbox.c.customer_id)).scalars()) == [OTHER]
        answers = select(webhook_deliveries.c.answer).order_by(webhook_deliveries.c.id)
        assert list(tx.connection.execute(answers).scalars()) == [None, "Thank you, Dora"]
        payloads = select(shop_events.c.sealed_payload).order_by(shop_events.c.id)
        assert list(tx.connection.execute(payloads).scalars())[1] == b"sealed"
    assert run_read(storage, lambda tx: find_payload(tx, 1)) is None


@pytest.mark.usefixtures("filled")
def test_the_address_of_a_customer_is_handed_out_and_erased(executor: Executor, storage: Storage) -> None:
    """The addresses of the vendor's users are neither exported nor erased."""
    for actor, customer in (("customer:7", ERASED), ("user:1", ERASED), ("customer:8", OTHER)):
        context = Context(NOW, an_origin(actor=actor))
        decide(
            executor, RecordEvent(context=context, name="customer.signed_in", details={"number": customer})
        )

    def addresses() -> list[str]:
        with storage.read() as tx:
            found = list_customer_events(tx, ERASED, after_id=0, limit=10)
        return [one.event.ip_address for one in found if one.event.name == "customer.signed_in"]

    address = an_origin().ip_address
    assert addresses() == [address, ""]
    decide(executor, EraseCustomer(context=Context(NOW, an_origin()), customer_id=ERASED))
    assert addresses() == ["", ""]
    with storage.read() as tx:
        left = select(events.c.actor).where(events.c.name == "customer.signed_in", events.c.ip_address == "")
        assert list(tx.connection.execute(left).scalars()) == ["customer:7"]
