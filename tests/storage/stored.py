"""What a test's database holds: licenses, mails, and what shops have sent."""

from typing import Any

from sqlalchemy import select

from keywright.db import Storage, run_read
from keywright.db.schema import licenses, mail_outbox
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning.shops.commands import ListShopEvents, TryAgain, UpdateConnection
from keywright.provisioning.shops.model import Change, MappedProduct, StoredEvent
from keywright.provisioning.shops.outcome_rules import Outcome
from tests.connections import CONTEXT, ask, do, receive, work


def got(executor: Executor, change: Change, hours: float = 0, **fields: Any) -> Outcome:
    """What comes of a new event, which is kept and worked on."""
    outcome = receive(executor, change, hours, **fields)
    assert outcome is not None
    return outcome


def set_mapping(executor: Executor, *mapping: MappedProduct) -> None:
    """Let connection 1 sell these products."""
    do(executor, UpdateConnection(context=CONTEXT, connection_id=1, changes={"mapping": mapping}))


def try_again(executor: Executor, event_id: int, **fields: Any) -> None:
    """What a person does with an event of connection 1 that waits."""
    do(executor, TryAgain(context=CONTEXT, connection_id=1, event_id=event_id, **fields))
    work(executor, event_id)


def list_licenses(storage: Storage) -> list[License]:
    """All licenses, by their IDs."""
    with storage.read() as tx:
        ids = list(tx.connection.execute(select(licenses.c.id).order_by(licenses.c.id)).scalars())
        return list(find_licenses_by_id(tx, ids).values())


def licenses_by_id(storage: Storage) -> dict[int, License]:
    """All licenses."""
    return {one.id: one for one in list_licenses(storage)}


def find_license(storage: Storage, license_id: int = 1) -> License:
    """One that there is."""
    return run_read(storage, lambda tx: find_licenses_by_id(tx, [license_id]))[license_id]


def mails(storage: Storage) -> list[str]:
    """The templates of the mails that wait."""
    query = select(mail_outbox.c.template).order_by(mail_outbox.c.id)
    return run_read(storage, lambda tx: list(tx.connection.execute(query).scalars()))


def the_events(executor: Executor) -> list[StoredEvent]:
    """What connection 1 has stored, the oldest first."""
    return list(ask(executor, ListShopEvents(connection_id=1)).items)[::-1]
