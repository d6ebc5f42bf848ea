"""Settings of the pages in the database: sealed, with an event that contains no secret."""

from collections.abc import Mapping

import pytest
from sqlalchemy import select, update

from keywright.config import Settings
from keywright.config.stored import apply
from keywright.core.command import Context
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import stored_settings
from keywright.db.stored_settings import list_stored
from keywright.engine.executor import Executor
from keywright.maintenance.tasks import ListSettings, SaveSettings
from keywright.registry import open_executor
from tests.jobs import events_of
from tests.makers import NOW, an_origin

pytestmark = pytest.mark.of_the_database

URL = "smtps://ada:geheim@mail.example.com"


def save(executor: Executor, changes: Mapping[str, str | None]) -> None:
    [outcome] = executor.execute([SaveSettings(context=Context(NOW, an_origin()), changes=changes)])
    assert outcome is None


def test_each_change_is_an_event_without_its_secrets(storage: Storage) -> None:
    executor = open_executor(storage)
    save(executor, {"session_hours": "4", "smtp_url": URL})
    save(executor, {"session_hours": None, "smtp_url": URL})
    save(executor, {"smtp_url": URL})
    assert executor.query([ListSettings()]) == [{"smtp_url": URL}]
    assert [one.details for one in events_of(storage, 0) if one.name == "settings.changed"] == [
        {"session_hours": [None, "4"], "smtp_url": [None, "mail.example.com"]},
        {"session_hours": ["4", None]},
    ]


def test_the_database_has_them_sealed(storage: Storage) -> None:
    save(open_executor(storage), {"smtp_url": URL, "portal": "false"})
    query = select(stored_settings.c.sealed_value)
    rows = run_read(storage, lambda tx: tx.connection.execute(query).scalars().all())
    assert all(b"geheim" not in bytes(one) and b"false" not in bytes(one) for one in rows)
    assert run_read(storage, list_stored) == {"smtp_url": URL, "portal": "false"}


def test_a_damaged_one_is_left_out(storage: Storage) -> None:
    save(open_executor(storage), {"session_hours": "4", "portal": "false", "expiry_notice_days": ""})
    damage = update(stored_settings).values(sealed_value=b"x" * 40)
    run_write(storage, lambda tx: tx.connection.execute(damage.where(stored_settings.c.name != "portal")))
    settings = Settings()
    apply(settings, run_read(storage, list_stored))
    assert (settings.session_hours, settings.expiry_notice_days, settings.portal) == (10, (7, 1), False)


def test_the_last_of_two_changes_counts(storage: Storage) -> None:
    executor = open_executor(storage)
    context = Context(NOW, an_origin())
    outcomes = executor.execute(
        [SaveSettings(context=context, changes={"session_hours": hours}) for hours in ("3", "5")]
    )
    assert outcomes == [None, None]
    assert run_read(storage, list_stored) == {"session_hours": "5"}
