"""Batches of any size on a real database against a model that fits on a page."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import func, select

from keywright.core.command import Command
from keywright.core.errors import (
    AlreadyActivated,
    LicenseDisabled,
    LicenseExpired,
    LicenseInactive,
    LicenseKeyTaken,
    LimitReached,
    NothingActive,
    TokenNotActive,
    UnknownLicense,
    UnknownToken,
)
from keywright.db import ReadTransaction, Storage, run_read
from keywright.db.postgres import PostgresStorage
from keywright.db.schema import events
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activate, Activation, Deactivate, DeactivateAll, Reactivate
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import (
    CreateLicense,
    DeleteLicense,
    License,
    LicenseFilter,
    Status,
    UpdateLicense,
)
from keywright.registry import open_executor
from tests.databases import a_postgres_url
from tests.makers import (
    KEY_RING,
    LATER,
    NOW,
    TOKEN,
    a_storage,
    activate,
    create,
    deactivate,
    deactivate_all,
    delete,
    reactivate,
    rename,
    update,
    validate,
)
from tests.storage.conftest import ISOLATED, RUN_AGAIN
from tests.storage.unlucky import Unlucky

DATABASES = RUN_AGAIN
pytestmark = pytest.mark.tier("ordinary")

#: Opens a new database for as long as a block runs.
ADatabase = Callable[[], AbstractContextManager[Storage]]
#: What a command answers: the counter after it and the records in the answer, or the kind of refusal.
Said = tuple[int, int] | type[Exception] | None


class Sold(msgspec.Struct):
    """A license of the model: its tokens, and whether each is active."""

    limit: int | None
    status: int
    expires_at: datetime | None
    tokens: dict[str, bool]

    def active(self) -> list[str]:
        return [token for token, is_active in self.tokens.items() if is_active]

    def said(self, records: int) -> Said:
        return len(self.active()), records

    def refusal(self, now: datetime) -> type[Exception] | None:
        if self.expires_at is not None and now >= self.expires_at:
            return LicenseExpired
        return {Status.INACTIVE: LicenseInactive, Status.DISABLED: LicenseDisabled}.get(Status(self.status))

    def is_full(self) -> bool:
        return self.limit is not None and len(self.active()) >= self.limit


class Model:
    """What a license server is: licenses by key."""

    def __init__(self) -> None:
        self.sold: dict[str, Sold] = {}
        self.events = 0

    def decide(self, command: Any, new_token: str | None) -> Said:
        """What the command answers; ``new_token`` is what an activation drew."""
        decisions: dict[type, Callable[..., Said]] = {
            Activate: self.activate,
            Reactivate: self.reactivate,
            Deactivate: self.deactivate,
            DeactivateAll: self.deactivate_all,
            UpdateLicense: self.update,
            DeleteLicense: self.delete,
        }
        if isinstance(command, CreateLicense):
            return self.create(self.sold.get(command.key), command)
        one = self.sold.get(str(command.license))
        return UnknownLicense if one is None else decisions[type(command)](one, command, new_token)

    def create(self, one: Sold | None, command: CreateLicense) -> Said:
        if one is not None:
            return LicenseKeyTaken
        limit, expires_at = command.times_activated_max, command.expires_at
        self.sold[command.key] = Sold(limit, command.status, expires_at, {})
        self.events += 1
        return 0, 0

    def activate(self, one: Sold, command: Activate, new_token: str | None) -> Said:
        refusal = one.refusal(command.context.now) or (LimitReached if one.is_full() else None)
        if refusal is not None:
            return refusal
        assert new_token is not None
        one.tokens[new_token] = True
        self.events += 1
        return one.said(1)

    def reactivate(self, one: Sold, command: Reactivate, _: object) -> Said:
        if refusal := one.refusal(command.context.now):
            return refusal
        if command.token not in one.tokens:
            return UnknownToken
        if one.tokens[command.token]:
            return AlreadyActivated
        if one.is_full():
            return LimitReached
        one.tokens[command.token] = True
        self.events += 1
        return one.said(1)

    def deactivate(self, one: Sold, command: Deactivate, _: object) -> Said:
        if not one.tokens.get(command.token):
            return TokenNotActive
        one.tokens[command.token] = False
        self.events += 1
        return one.said(1)

    def deactivate_all(self, one: Sold, _command: object, _: object) -> Said:
        ended = one.active()
        if not ended:
            return NothingActive
        one.tokens |= dict.fromkeys(ended, False)
        self.events += len(ended)
        return one.said(len(ended))

    def update(self, one: Sold, command: UpdateLicense, _: object) -> Said:
        changes = command.changes
        new_key = changes.get("key", command.license)
        if new_key != command.license and new_key in self.sold:
            return LicenseKeyTaken
        one.limit = changes.get("times_activated_max", one.limit)
        one.status = changes.get("status", one.status)
        ended_at, one.expires_at = one.expires_at, changes.get("expires_at", one.expires_at)
        is_renewed = ended_at is not None and one.expires_at is not None and one.expires_at > ended_at
        del self.sold[str(command.license)]
        self.sold[new_key] = one
        self.events += 2 if is_renewed else 1
        return one.said(0)

    def delete(self, _one: object, command: DeleteLicense, _: object) -> Said:
        del self.sold[str(command.license)]
        self.events += 1
        return None


def said(outcome: Any) -> Said:
    if outcome is None or isinstance(outcome, Exception):
        return outcome if outcome is None else type(outcome)
    return outcome.license.times_activated, len(outcome.activations)


def contents(tx: ReadTransaction) -> tuple[list[License], dict[int, list[Activation]], int]:
    """The licenses, their records, and how many events there were."""
    licenses = license_store.list_licenses(tx, LicenseFilter(), after_id=0, limit=99)
    records = activation_store.list_activations(tx, [one.id for one in licenses])
    happened = tx.connection.execute(select(func.count()).select_from(events)).scalar_one()
    return licenses, records, happened


KEYS = st.sampled_from("abcd")
LIMITS = st.none() | st.integers(1, 3)
MOMENTS = st.sampled_from([NOW, LATER])
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "times_activated_max": LIMITS,
        "status": st.sampled_from(Status),
        "expires_at": st.none() | MOMENTS,
        "order_id": st.integers(0, 9),
    },
)


def commands(tokens: list[str]) -> st.SearchStrategy[Command]:
    """Any command; about the license and the tokens that there are more often than about others."""
    token = st.sampled_from([*tokens[-12:], TOKEN])
    return st.one_of(
        st.builds(create, KEYS, LIMITS, expires_at=st.none() | st.just(LATER)),
        st.builds(activate, KEYS, now=MOMENTS),
        st.builds(activate, KEYS),
        st.builds(reactivate, token, KEYS, now=MOMENTS),
        st.builds(deactivate, token, KEYS),
        st.builds(deactivate_all, KEYS),
        st.builds(lambda key, changes: update(key, **changes), KEYS, CHANGES),
        st.builds(rename, KEYS, KEYS),
        st.builds(delete, KEYS),
    )


class BatchesAgainstModel(RuleBasedStateMachine):
    """The same commands to both, in batches of any size; the answers and the contents are the same."""

    def __init__(self, a_database: ADatabase) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.storage = self.stack.enter_context(a_database())
        self.executor = open_executor(self.storage)
        self.model = Model()
        self.tokens: list[str] = []

    def teardown(self) -> None:
        self.stack.close()

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        batch = data.draw(st.lists(commands(self.tokens), min_size=1, max_size=20))
        for command, outcome in zip(batch, self.executor.execute(batch), strict=True):
            token = None
            if type(command) is Activate and not isinstance(outcome, Exception):
                token = outcome.activations[0].token
                self.tokens.append(token)
            assert said(outcome) == self.model.decide(command, token), command

    @rule(data=st.data())
    def run_read(self, data: st.DataObject) -> None:
        token = st.none() | st.sampled_from([*self.tokens, TOKEN])
        asked = data.draw(st.lists(st.builds(validate, KEYS, token), min_size=1, max_size=8))
        for query, outcome in zip(asked, self.executor.query(asked), strict=True):
            one = self.model.sold.get(query.key)
            if one is None:
                assert said(outcome) is UnknownLicense
            elif query.token is not None and not one.tokens.get(query.token):
                assert said(outcome) is TokenNotActive
            else:
                assert said(outcome) == one.said(1 if query.token else len(one.tokens))

    @invariant()
    def the_database_holds_what_the_model_holds(self) -> None:
        licenses, records, happened = run_read(self.storage, contents)
        assert happened == self.model.events
        assert {one.key for one in licenses} == set(self.model.sold)
        for license in licenses:
            one = self.model.sold[license.key]
            kept = {record.token: record.deactivated_at is None for record in records.get(license.id, ())}
            assert kept == one.tokens
            assert license.times_activated == len(one.active())
            assert (license.times_activated_max, license.status) == (one.limit, one.status)
            assert license.expires_at == one.expires_at


@contextmanager
def new_database(kind: str) -> Iterator[Storage]:
    """A database of this kind; where the server can undo transactions, it undoes many."""
    with ExitStack() as stack:
        if kind == "sqlite":
            storage: Storage = a_storage(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        else:
            url = stack.enter_context(a_postgres_url()) + ISOLATED.get(kind, "")
            storage = (Unlucky if kind in ISOLATED else PostgresStorage)(url, KEY_RING)
        yield stack.enter_context(closing(storage))


def test_batches_of_any_size_do_what_the_model_does(database: str) -> None:
    few = settings(max_examples=50 if database == "sqlite" else 15, stateful_step_count=10, deadline=None)
    a_database = partial(new_database, database)
    run_state_machine_as_test(partial(BatchesAgainstModel, a_database), settings=few)  # type: ignore[arg-type]
