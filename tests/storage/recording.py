"""Every statement that a release runs, recorded from it: its successor's schema must be good for them.

    git worktree add ../release <its commit>
    cp tests/storage/recording.py ../release/tests/storage/
    cd ../release && PYTHONPATH=src:. ../main/.venv/bin/python -m tests.storage.recording statements.json

A line of the file is a statement of SQLite's, the values of each of its runs, the rows that it found
(None: it finds nothing) and how many it changed. Bytes are ``{"hex": …}``.
"""

import json
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from keywright import access, accounts
from keywright import commands as c
from keywright.batches import Batches
from keywright.keys import hash_consumer_key
from keywright.model import LicenseFilter, NameKind, Permissions, Role, Status
from keywright.storage import Storage
from tests.makers import (
    LATER,
    NOW,
    TOKEN,
    a_retry,
    a_storage,
    activate,
    change_user,
    create,
    create_generator,
    create_user,
    deactivate,
    deactivate_all,
    delete,
    delete_generator,
    end_session,
    forget_answers,
    generate,
    reactivate,
    refuse_sign_in,
    rename,
    save_name,
    see_session,
    show_key,
    start_session,
    update,
    update_generator,
    validate,
)


def live(storage: Storage) -> None:
    """Do everything that can be done with a database."""
    batches = Batches(storage)
    full: dict[str, Any] = {"order_id": 1, "product_id": 2, "user_id": 3, "expires_at": LATER, "by": 7}
    batches.change([create("a", 3, **full), create("b"), create("c", 1, valid_for_days=5)])
    labeled = activate("a", label="Büro", meta_data={"os": "linux"})
    one, other, *_ = (
        outcome.activations[0].token
        for outcome in batches.change([labeled, activate("a"), activate("b"), activate("c")])
    )
    for command in (
        [deactivate(one, "a"), reactivate(one, "a"), activate("unknown")],
        [deactivate(other, "a")],
        [reactivate(other, "a")],
        [deactivate_all("b")],
        [update("b", status=Status.DISABLED, times_activated_max=9, by=4)],
        [rename("b", "d")],
        [delete("c")],
        [create_generator()],
        [update_generator(1, prefix="P")],
        [generate(1, 2)],
        [activate("a", retry=a_retry("call"))],
        [activate("a", retry=a_retry("call"))],
        [forget_answers(NOW)],
    ):
        batches.change(command)
    _administer(storage)
    ours = LicenseFilter(product_id=2, order_id=1, user_id=3)
    for question in (
        [validate("a"), validate("a", one), validate("d")],
        [c.FindLicenses(where=LicenseFilter(status=Status.ACTIVE), after_id=0, limit=5)],
        [c.ListLicenses(where=ours, page=1, per_page=2)],
        [c.ListGenerators(), c.GetGenerator(generator_id=1), c.CheckStore()],
    ):
        batches.ask(question)
    batches.change([delete_generator(1)])
    with storage.read() as tx:
        tx.list_events(1, limit=9)


def _administer(storage: Storage) -> None:
    issued = access.issue_api_key(storage, "shop", Permissions.READ, NOW)
    Batches(storage).ask([c.FindApiKey(consumer_key_hash=hash_consumer_key(issued.consumer_key))])
    access.list_api_keys(storage)
    access.revoke_api_key(storage, issued.api_key.id, LATER)
    batches = Batches(storage)
    batches.change([create_user("alice"), create_user("bob", Role.SUPPORT)])
    for command in (
        [start_session(1, TOKEN), see_session(TOKEN), change_user(2, role=Role.READER, password_hash="$")],
        [end_session(TOKEN), refuse_sign_in("alice"), save_name(NameKind.PRODUCT, 2, "Writer")],
        [save_name(NameKind.PRODUCT, 2, None), show_key("a")],
    ):
        batches.change(command)
    with storage.read() as tx:
        accounts.find_signed_in(tx, TOKEN, NOW)
        accounts.list_users(tx)
        accounts.list_names(tx, NameKind.PRODUCT, after=-1, limit=9)


def as_json(value: Any) -> Any:
    return {"hex": bytes(value).hex()} if isinstance(value, bytes | memoryview) else value


def main(target: Path) -> None:
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder, closing(a_storage(Path(folder))) as storage:

        @event.listens_for(Engine, "after_cursor_execute")
        def record(
            _: object, cursor: Any, statement: str, given: Any, _context: object, is_many: bool
        ) -> None:
            if statement.startswith(("BEGIN", "PRAGMA")):
                return
            rows = cursor.connection.execute(statement, given).fetchall() if cursor.description else None
            said = {
                "sql": " ".join(statement.split()),
                "runs": [[as_json(value) for value in values] for values in (given if is_many else [given])],
                "rows": None if rows is None else [[as_json(value) for value in row] for row in rows],
                "changed": cursor.rowcount,
            }
            lines.append(json.dumps(said, ensure_ascii=False))

        live(storage)
    target.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
