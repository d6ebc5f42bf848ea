"""Preview what the first start of this version will do to a database, and what prevents it.

The database may have any schema since the first release, so only columns that all of them have are read.
"""

import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select, text

from keywright import __version__
from keywright.config import Settings
from keywright.core.crypto import KeyRing
from keywright.core.parsing import format_count, write_time
from keywright.db import ReadTransaction, database_path, look_at
from keywright.db.migrate import OLDEST_COMPATIBLE, list_pending, read_usable_state
from keywright.db.schema import jobs, mail_outbox, shop_events, webhook_deliveries
from keywright.events.model import MailState
from keywright.maintenance.backup import find_backup_time
from keywright.maintenance.inspection import measure

#: The maximum number of rows to count, and of hosts to name.
_MAX_COUNTED, _MAX_HOSTS = 10_000, 20
_ROWS = {
    "job": select(jobs.c.id).where(jobs.c.finished_at.is_(None)),
    "mail": select(mail_outbox.c.id).where(mail_outbox.c.state == MailState.WAITING.value),
    "webhook": select(webhook_deliveries.c.event_id).where(webhook_deliveries.c.finished_at.is_(None)),
    "shop event": select(shop_events.c.id).where(shop_events.c.next_attempt_at.is_not(None)),
}
#: Count unfinished work, which continues after the upgrade.
_UNFINISHED = {
    name: select(func.count()).select_from(query.limit(_MAX_COUNTED).subquery())
    for name, query in _ROWS.items()
}
#: A backup older than this causes a warning. An SQLite file is also copied before a migration.
_BACKUP_LATE = {"sqlite": timedelta(hours=26), "postgresql": timedelta(hours=1)}
#: The PostgreSQL version that everything is tested with.
_TESTED = 18


def preview(
    settings: Settings, key_ring: KeyRing, servers: Sequence[tuple[str, str | None]], now: datetime
) -> dict[str, Any]:
    """Inspect the existing database of the settings without changing it.

    ``servers`` are the addresses and versions (None if unknown) of servers that run on this machine. Returns
    the ``schema``, the ``pending`` migrations, the ``size`` in bytes, whether the previous version
    ``is_compatible`` with the new schema, the ``database_version``, the time of the ``last_backup``, counts
    of ``unfinished`` work, and sentences: ``warnings``, and ``obstacles``, which would make the upgrade fail
    or break something. For SQLite, also the ``free`` bytes, and the bytes ``needed`` for a copy and the log
    of the migration.

    Raises the errors of ``open_storage``.
    """
    url = settings.database_url_in_force
    found: dict[str, Any] = look_at(url, partial(_look, key_ring=key_ring, path=database_path(url)))
    made_at, hosts = found.pop("made_at"), found.pop("hosts")
    found |= {"last_backup": write_time(made_at) if made_at else None, "warnings": [], "obstacles": []}
    if found["pending"]:
        found["warnings"] += _warn(found, None if made_at is None else now - made_at)
        found["warnings" if found["is_compatible"] else "obstacles"] += _name_servers(found, servers, hosts)
    if found.get("free", 0) < found.get("needed", 0):
        what = "not enough free disk space for a copy of the database and the log of the migration"
        found["obstacles"].append(f"{what}. Free some first.")
    return found


def _look(connection: Connection, name: str, *, key_ring: KeyRing, path: Path | None) -> dict[str, Any]:
    state, tx = read_usable_state(connection, key_ring, name), ReadTransaction(connection, key_ring)
    measured, schema = measure(tx), state.revision or ""
    pending = list_pending(schema)
    found: dict[str, Any] = {
        "schema": schema,
        "pending": pending,
        "size": measured.size,
        "is_compatible": schema >= OLDEST_COMPATIBLE,
        "database_version": f"{measured.kind} {measured.version}",
        "made_at": find_backup_time(tx),
        "unfinished": {one: connection.scalar(query) for one, query in _UNFINISHED.items()},
        "hosts": [],
    }
    if path is not None:
        needed = 2 * measured.size if pending else 0
        return found | {"free": shutil.disk_usage(path.parent).free, "needed": needed}
    from keywright.db.session import OTHER_SESSIONS

    query = f"SELECT DISTINCT coalesce(host(client_addr), 'this machine') {OTHER_SESSIONS} ORDER BY 1"
    return found | {"hosts": connection.execute(text(f"{query} LIMIT {_MAX_HOSTS}")).scalars().all()}


def _warn(found: dict[str, Any], backup_age: timedelta | None) -> Iterator[str]:
    kind, _, version = found["database_version"].partition(" ")
    if backup_age is None:
        yield "there is no backup to return to. Run `keywright backup` first."
    elif backup_age > _BACKUP_LATE[kind]:
        yield (
            f"the last backup is of {found['last_backup']} UTC. Returning to it would lose all later changes."
        )
    if number := found["unfinished"]["job"]:
        yield (
            f"{format_count(number, 'job')} not finished. Wait for it to end, or cancel it on the page Jobs."
        )
    if kind == "postgresql" and int(version.partition(".")[0]) < _TESTED:
        yield f"Keywright is tested with PostgreSQL {_TESTED}. Test the upgrade on a restored backup first."


def _name_servers(
    found: dict[str, Any], servers: Sequence[tuple[str, str | None]], hosts: Sequence[str]
) -> Iterator[str]:
    works = "works on the new schema" if found["is_compatible"] else "refuses the new schema"
    for address, version in servers:
        if version != __version__:
            name = f"a server of version {version or 'unknown'} runs at {address}, which {works}"
            yield (
                f"{name}. Stop it before you replace its program, parts of which it loads only when needed."
            )
    if hosts:
        advice = "Upgrade their servers, too" if found["is_compatible"] else "Stop their servers first"
        yield f"hosts connected to the database: {', '.join(hosts)}. {advice}."
