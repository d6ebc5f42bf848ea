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
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from keywright.core.command import Context
from keywright.core.crypto import hash_consumer_key
from keywright.db import Storage, WriteTransaction, run_read, run_write
from keywright.delivery.mail import store
from keywright.delivery.mail.model import OwnTemplate
from keywright.delivery.webhooks.commands import CreateEndpoint, RotateSecret, SendTest
from keywright.delivery.webhooks.fields import NewWebhook
from keywright.engine.executor import Executor
from keywright.engine.health import CheckDatabase
from keywright.events import store as event_store
from keywright.events.model import MailTemplate, QueuedMail
from keywright.events.outbox_store import queue_mail
from keywright.identity import sessions
from keywright.identity import store as identity_store
from keywright.identity.model import FindApiKey, Permissions, Role, SaveView
from keywright.identity.passwords import derive_link_token
from keywright.identity.sessions import hash_session_token
from keywright.identity.store import list_users
from keywright.jobs import files as job_files
from keywright.jobs import store as job_store
from keywright.jobs.model import PurgeJobFile
from keywright.jobs.orders import Change, Export, Generate, What
from keywright.licensing.activations.model import (
    DeactivateDevice,
    Device,
    FindLicenses,
    ListLicenses,
    SaveLastSeen,
)
from keywright.licensing.licenses.model import LicenseFilter, Status
from keywright.licensing.validation import ValidateLicense
from keywright.maintenance.tasks import SaveSettings
from keywright.provisioning.brand import SaveBrand
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.licenses import IssueLicenses, RotateKey
from keywright.provisioning.policies.model import GetPolicy, ListPolicies
from keywright.provisioning.portal.model import AskToSignIn, FollowMailedLink, MakePortalLink
from keywright.provisioning.products import CreateProduct, NameKind, NewProduct
from keywright.provisioning.shops.model import SaleState
from keywright.provisioning.store import list_names
from keywright.provisioning.trials import StartTrial
from keywright.registry import open_executor
from keywright.search import license_pages, query_parser, statistics
from keywright.search.filters import Search
from keywright.search.statistics import ProjectEvents, SaveCounters
from keywright.signing.commands import BuildKeySets, LoadKeys
from tests.connections import a_sale, a_state, connect, receive
from tests.jobs import by_user, cancel, decide, make_orderer, run_job
from tests.makers import (
    KEY_RING,
    LATER,
    NOW,
    TOKEN,
    a_retry,
    a_storage,
    activate,
    activate_device,
    an_origin,
    change_user,
    create,
    create_policy,
    create_user,
    deactivate,
    deactivate_all,
    delete,
    delete_policy,
    enable_second_factor,
    end_lease,
    end_session,
    generate,
    issue_api_key,
    make_first_key,
    make_license_file,
    purge_idempotency_records,
    reactivate,
    record_usage,
    refuse_sign_in,
    release_lease,
    rename,
    renew_lease,
    revoke_api_key,
    rotate_key,
    save_name,
    see_session,
    show_key,
    start_session,
    take_lease,
    update,
    update_policy,
    validate,
    withdraw_key,
)
from tests.storage.webhooks import deliver


def live(storage: Storage) -> None:
    """Do everything that can be done with a database."""
    executor = open_executor(storage)
    full: dict[str, Any] = {"order_id": 1, "product_id": 2, "customer_id": 3, "expires_at": LATER, "by": 7}
    executor.execute([create("a", 3, **full), create("b"), create("c", 1, valid_for_days=5)])
    labeled = activate("a", label="Büro", meta_data={"os": "linux"})
    one, other, *_ = (
        outcome.activations[0].token
        for outcome in executor.execute([labeled, activate("a"), activate("b"), activate("c")])
    )
    for command in (
        [deactivate(one, "a"), reactivate(one, "a"), activate("unknown")],
        [deactivate(other, "a")],
        [reactivate(other, "a")],
        [deactivate_all("b")],
        [update("b", status=Status.DISABLED, times_activated_max=9, by=4)],
        [rename("b", "d")],
        [delete("c")],
        [create_policy()],
        [update_policy(1, prefix="P")],
        [generate(1, 2)],
        [activate("a", idempotency=a_retry("call"))],
        [activate("a", idempotency=a_retry("call"))],
        [purge_idempotency_records(NOW)],
    ):
        executor.execute(command)
    _administer(storage)
    ours = LicenseFilter(product_id=2, order_id=1, customer_id=3)
    for question in (
        [validate("a"), validate("a", one), validate("d")],
        [FindLicenses(where=LicenseFilter(status=Status.ACTIVE), after_id=0, limit=5)],
        [ListLicenses(where=ours, page=1, per_page=2)],
        [ListPolicies(), GetPolicy(policy_id=1), CheckDatabase()],
    ):
        executor.query(question)
    _use_devices(storage)
    _sign(storage)
    run_write(storage, _mail)
    _follow(storage)
    _work(storage)
    _help_customers(executor)
    _tell_others(executor)
    connect(executor)
    receive(executor, a_sale("in-1", subscription="sub-1"))
    receive(executor, a_state(SaleState.SUSPENDED, subscription="sub-1"), 1)
    executor.execute([delete_policy(1)])
    with storage.read() as tx:
        event_store.list_events(tx, 1, limit=9)


def _help_customers(executor: Executor) -> None:
    """The brand of the portal, and a customer who signs in."""
    by: dict[str, Any] = {"context": Context(NOW, an_origin())}
    link = derive_link_token(KEY_RING, "11")
    for command in (
        SaveBrand(**by, name="Larch", color=None, links=()),
        CreateCustomer(**by, fields=NewCustomer(id=70, email="ada@example.com", name="Ada")),
        AskToSignIn(**by, email="ada@example.com", sign_in_id=11),
        FollowMailedLink(**by, sign_in_id=11, link_token=link, token_hash=hash_session_token(TOKEN)),
        MakePortalLink(**by, customer_id=70, token="link"),
        SaveSettings(**by, changes={"session_hours": "4"}),
    ):
        decide(executor, command)


def _tell_others(executor: Executor) -> None:
    """An endpoint with two secrets, and a delivery."""
    by: dict[str, Any] = {"context": Context(NOW, an_origin())}
    decide(executor, CreateEndpoint(**by, fields=NewWebhook(url="https://example.com/hook", events=["*"])))
    decide(executor, RotateSecret(**by, endpoint_id=1))
    decide(executor, SendTest(**by, endpoint_id=1))
    deliver(executor)


def _use_devices(storage: Storage) -> None:
    """The calls of programs over v3, for a license with every kind of term."""
    executor = open_executor(storage)
    by: dict[str, Any] = {"context": Context(NOW, an_origin())}
    terms = {
        "max_activations": 2,
        "max_leases": 2,
        "new_devices": {"count": 9, "per_days": 1},
        "meters": {"renders": {"limit": 9, "per": "day", "overage": "refuse"}},
    }
    executor.execute([IssueLicenses(**by, status=Status.ACTIVE, key="v", terms=terms)])
    executor.execute([activate_device("desk", "v"), activate_device("laptop", "v")])
    first, second = executor.execute([take_lease(key="v", fingerprint="desk"), take_lease("bob", "v")])
    for command in (
        [activate_device("desk", "v"), record_usage("renders", 2, "v", fingerprint="desk")],
        [activate_device("phone", "v", replaces="laptop"), record_usage("renders", key="v")],
        [DeactivateDevice(**by, license="v", device=Device("phone"))],
        [renew_lease(first.leased.lease.lease_id, "v"), release_lease(second.leased.lease.lease_id, "v")],
        [end_lease(first.leased.lease.lease_id, "v"), SaveLastSeen(**by, seen={(1, 0): 100, (1, 1): 200})],
        [RotateKey(**by, license="v")],
    ):
        assert not [one for one in executor.execute(command) if isinstance(one, Exception)]
    executor.query([ValidateLicense(key="v", fingerprint="desk", now=NOW)])
    trial = (
        CreateProduct(**by, fields=NewProduct(id=9, name="Trials")),
        create_policy(product_id=9, terms={"trial": True}),
    )
    executor.execute(trial)
    [started] = executor.execute([StartTrial(**by, product=9, fingerprint="desk", device=Device("desk"))])
    assert not isinstance(started, Exception)


def _sign(storage: Storage) -> None:
    """The signing keys, and a license file."""
    executor = open_executor(storage)
    [first] = executor.execute([make_first_key()])
    executor.execute([make_license_file("v"), rotate_key(), withdraw_key(first.newest.kid)])
    executor.query([LoadKeys(), BuildKeySets(now=NOW, alg="EdDSA")])


def _mail(tx: WriteTransaction) -> None:
    queue_mail(tx, QueuedMail(template=MailTemplate.EXPIRED, unique="expired 1", customer_id=3), NOW)
    own = OwnTemplate(
        name=MailTemplate.EXPIRED,
        product_id=0,
        language="en",
        subject="Expired",
        text="Your license has expired.",
        html="",
        updated_at=NOW,
        updated_by=1,
    )
    store.save_template(tx, own)


def _administer(storage: Storage) -> None:
    issued = issue_api_key(storage, "shop", Permissions.READ, NOW)
    open_executor(storage).query([FindApiKey(consumer_key_hash=hash_consumer_key(issued.consumer_key))])
    run_read(storage, identity_store.list_api_keys)
    revoke_api_key(storage, issued.api_key.id, LATER)
    executor = open_executor(storage)
    executor.execute([create_user("alice"), create_user("bob", Role.SUPPORT)])
    for command in (
        [start_session(1, TOKEN), see_session(TOKEN), change_user(2, role=Role.READER, password_hash="$")],
        [end_session(TOKEN), refuse_sign_in("alice"), save_name(NameKind.PRODUCT, 2, "Writer")],
        [save_name(NameKind.PRODUCT, 2, None), show_key("a"), enable_second_factor(2)],
        [SaveView(context=Context(NOW, an_origin()), user_id=1, name="Due", query="expires=soon")],
    ):
        executor.execute(command)
    with storage.read() as tx:
        sessions.find_signed_in(tx, TOKEN, NOW)
        list_users(tx)
        list_names(tx, NameKind.PRODUCT, after=-1, limit=9)


def _follow(storage: Storage) -> None:
    executor = open_executor(storage)
    origin = an_origin(actor="keywright")
    tally = SaveCounters(
        context=Context(NOW, origin), validations=3, refused={"a": 2}, used_api_keys={1: LATER}
    )
    executor.execute([tally])
    while not executor.execute([ProjectEvents(context=Context(NOW, origin), limit=100)])[0].lag.is_complete:
        pass
    with storage.read() as tx:
        statistics.overview(tx, NOW)
        license_pages.find_page(tx, Search(is_full=True), cursor=None, limit=9, now=NOW)
        query_parser.interpret(tx, TOKEN)


def _work(storage: Storage) -> None:
    make_orderer(storage, "dora")
    executor = open_executor(storage)
    for order in (
        Generate(policy_id=1, amount=2, status=3),
        Change(what=What.RAISE_LIMIT, amount=1, search=Search()),
        Export(search=Search()),
    ):
        job = run_job(executor, storage, order)
    list(job_files.read_file(partial(run_read, storage), job.id))
    with storage.read() as tx:
        job_store.list_jobs(tx, before_id=None, limit=9)
    executor.execute([cancel(job.id), PurgeJobFile(**by_user(), job_id=job.id)])


def as_json(value: Any) -> Any:
    return {"hex": bytes(value).hex()} if isinstance(value, bytes | memoryview) else value


def as_run(values: Any) -> Any:
    """The values of one run, by their places or by their names."""
    if isinstance(values, dict):
        return {name: as_json(value) for name, value in values.items()}
    return [as_json(value) for value in values]


def main(target: Path) -> None:
    lines: list[str] = []

    def record(_: object, cursor: Any, statement: str, given: Any, _context: object, is_many: bool) -> None:
        if statement.startswith(("BEGIN", "PRAGMA")):
            return
        # Run again: what the cursor finds is not ours. What changes something must not be.
        is_asked = cursor.description and " RETURNING " not in statement
        rows = cursor.connection.execute(statement, given).fetchall() if is_asked else None
        said = {
            "sql": " ".join(statement.split()),
            "runs": [as_run(values) for values in (given if is_many else [given])],
            "rows": None if rows is None else [[as_json(value) for value in row] for row in rows],
            "changed": cursor.rowcount,
        }
        lines.append(json.dumps(said, ensure_ascii=False))

    with tempfile.TemporaryDirectory() as folder, closing(a_storage(Path(folder))) as storage:
        event.listen(Engine, "after_cursor_execute", record)
        try:
            live(storage)
        finally:
            event.remove(Engine, "after_cursor_execute", record)
    target.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
