"""Claims, offers, transfers, undo, rotation and what shops say of the sale, in any order, against a model."""

from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import update as update_rows

from keywright.core.command import Context
from keywright.core.errors import (
    ClaimedLately,
    KeywrightError,
    LicenseDisabled,
    LicenseInactive,
    NotClaimable,
    NotFound,
    NotTransferable,
    TooManyOffers,
    TransferPending,
    TransferTooEarly,
)
from keywright.db import run_read, run_write
from keywright.db.schema import customers
from keywright.licensing.licenses.model import License, Status, UpdateLicense
from keywright.licensing.licenses.store import find_licenses, find_licenses_by_id
from keywright.maintenance.doctor import examine
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.licenses import RotateKey
from keywright.provisioning.ownership.model import (
    AcceptTransfer,
    CancelTransfer,
    ClaimLicense,
    OfferLicense,
    UndoTransfer,
)
from keywright.provisioning.shops.model import Shop
from keywright.registry import open_executor
from tests.databases import KINDS
from tests.makers import activate, an_origin, create
from tests.proving import IS_LONG, record, size
from tests.shop_scene import NOW, Scene
from tests.storage.test_batches_model import ADatabase, new_database

DATABASES = KINDS
pytestmark = [pytest.mark.tier("ordinary"), pytest.mark.timeout(3_600 if IS_LONG else 240)]

PEOPLE = {7: "ada@example.com", 8: "bob@example.com", 9: "eve@example.com"}
WHO = st.sampled_from(sorted(PEOPLE))
A_DAY, A_WEEK, FORTNIGHT = timedelta(days=1), timedelta(days=7), timedelta(days=14)
TERMS = {"transferable": "always", "transfer_after_days": 1, "max_activations": None}
FACTS = ("charge_refunded", "dispute_opened", "dispute_won", "dispute_lost", "refund_failed")
_counted = {"steps": 0, "transfers": 0}


class OwnersAgainstModel(RuleBasedStateMachine):
    """One license of a sale changes hands, its twin does not: the shop's facts reach both alike. A third one
    is claimed.
    """

    def __init__(self, a_database: ADatabase) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.storage = self.stack.enter_context(a_database())
        self.executor = open_executor(self.storage)
        self.now = NOW
        self.old_keys: set[str] = set()
        self.offer: tuple[int, int, int, datetime] | None = None
        self.offers: list[tuple[int, datetime]] = []
        self.accepted: list[tuple[int, int, int, datetime]] = []
        self.changed_at: datetime = NOW
        self.claim: tuple[int | None, datetime] = (None, NOW)
        self.taken = self.steps = 0

    def teardown(self) -> None:
        if hasattr(self, "number"):
            assert list(examine(self.storage, lambda _: None)) == []
        self.stack.close()

    @initialize()
    def sell(self) -> None:
        """A sale of two, and a code that can be claimed."""
        self.scene = Scene(self.executor, self.storage, Shop.STRIPE)
        for number, email in PEOPLE.items():
            self.do(CreateCustomer, fields=NewCustomer(id=number, email=email))
        proved = update_rows(customers).values(email_verified_at=1)
        run_write(self.storage, lambda tx: tx.connection.execute(proved))
        self.scene.tell("checkout_paid")
        self.number, self.twin = sorted(one.id for one in self.scene.licenses())
        self.buyer = self.read(self.twin).customer_id
        self.do(UpdateLicense, license=self.number, terms=TERMS, changes={"customer_id": 7})
        self.owner: int = 7
        [made] = self.executor.execute([create("CODE")])
        self.code: int = made.license.id
        self.do(UpdateLicense, license=self.code, terms=TERMS | {"claimable": True})
        self.begin = self.changed_at = self.read(self.number).created_at

    def do(self, kind: Any, **fields: Any) -> Any:
        """The outcome of a command, or the class of its refusal."""
        [found] = self.executor.execute([kind(context=Context(self.now, an_origin()), **fields)])
        return type(found) if isinstance(found, KeywrightError) else found

    def read(self, number: int) -> License:
        return run_read(self.storage, lambda tx: find_licenses_by_id(tx, [number]))[number]

    def is_open(self) -> bool:
        return self.offer is not None and self.now < self.offer[3] + A_WEEK

    def is_usable(self) -> bool:
        """Whether the shop lets the licenses be used, as it does of the twin."""
        return self.read(self.twin).status not in (Status.DISABLED, Status.INACTIVE)

    def hindrance(self) -> type[KeywrightError] | None:
        if not self.is_usable():
            return NotTransferable
        return TransferTooEarly if self.now < self.changed_at + A_DAY else None

    def hand_over(self, key: str, owner: int) -> None:
        assert self.read(self.number).key != key
        self.old_keys.add(key)
        self.owner, self.taken, self.offer = owner, 0, None
        _counted["transfers"] += 1

    # --- what happens -----------------------------------------------------------------------------

    @rule(hours=st.sampled_from([1, 25, 24 * 7, 24 * 15]))
    def wait(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @precondition(lambda self: self.steps > 10)
    @rule(fact=st.sampled_from(FACTS))
    def tell(self, fact: str) -> None:
        self.scene.tell(fact)

    @rule(who=WHO | st.none(), to=WHO)
    def offer_it(self, who: int | None, to: int) -> None:
        who = who or self.owner
        given = self.do(OfferLicense, license=self.number, email=PEOPLE[to], owner_id=who)
        recent = [one for by, one in self.offers if by == self.owner and one > self.now - A_DAY]
        expected: Any = self.hindrance() or (TransferPending if self.is_open() else None)
        expected = expected or (TooManyOffers if len(recent) >= 3 else None)
        if who != self.owner or to == self.owner:
            assert isinstance(given, type), given
        elif expected is not None:
            assert given is expected
        else:
            self.offer = (given.id, who, to, self.now)
            self.offers.append((who, self.now))

    @rule(who=WHO | st.none())
    def accept(self, who: int | None) -> None:
        number, who = (0, 7) if self.offer is None else (self.offer[0], who or self.offer[2])
        key = self.read(self.number).key
        fields = {"license": self.number, "transfer_id": number}
        given = self.do(AcceptTransfer, **fields, customer_id=who)
        if self.offer is None or not self.is_open() or who != self.offer[2]:
            assert given is NotFound
        elif refusal := self.hindrance():
            assert given is refusal
        else:
            self.accepted.append((number, self.owner, who, self.now))
            self.changed_at = self.now
            self.hand_over(key, who)

    @rule(to=WHO, hours=st.sampled_from([26, 0]))
    def hand_on(self, to: int, hours: int) -> None:
        self.now += timedelta(hours=hours)
        self.offer_it(who=self.owner, to=to)
        self.accept(who=to)

    @rule(who=WHO)
    def cancel(self, who: int) -> None:
        number = 0 if self.offer is None else self.offer[0]
        fields = {"license": self.number, "transfer_id": number}
        given = self.do(CancelTransfer, **fields, customer_id=who)
        if self.offer is None or not self.is_open() or who not in self.offer[1:3]:
            assert given is NotFound
        else:
            assert given is None
            self.offer = None

    @rule()
    def undo(self) -> None:
        number, before, _, _ = self.accepted[-1] if self.accepted else (0, 0, 0, NOW)
        key = self.read(self.number).key
        given = self.do(UndoTransfer, license=self.number, transfer_id=number)
        if not self.accepted:
            assert given is NotFound
            return
        assert given.undone_at == self.now
        self.accepted.pop()
        self.changed_at = max([self.begin, *(one[3] for one in self.accepted)])
        self.hand_over(key, before)

    @rule(of_code=st.booleans())
    def rotate(self, *, of_code: bool) -> None:
        number = self.code if of_code else self.number
        key = self.read(number).key
        given = self.do(RotateKey, license=number)
        claimer, claimed_at = self.claim
        if of_code and claimer is not None and self.now < claimed_at + FORTNIGHT:
            assert given is ClaimedLately
        else:
            self.old_keys.add(key)

    @rule()
    def use(self) -> None:
        [given] = self.executor.execute([activate(self.read(self.number).key, now=self.now)])
        if self.is_usable():
            self.taken += 1
        assert isinstance(given, LicenseDisabled | LicenseInactive) is not self.is_usable()

    @rule(who=WHO)
    def claim_it(self, who: int) -> None:
        given = self.do(ClaimLicense, license=self.read(self.code).key, customer_id=who)
        if self.claim[0] in (None, who):
            assert given.customer_id == who
            self.claim = (who, self.now) if self.claim[0] is None else self.claim
        else:
            assert given is NotClaimable

    @rule()
    def undo_claim(self) -> None:
        self.do(UpdateLicense, license=self.code, changes={"customer_id": None})
        self.claim = (None, self.now)

    # --- what is always so ------------------------------------------------------------------------

    @invariant()
    def the_license_is_its_owners_and_the_sale_its_buyers(self) -> None:
        if not hasattr(self, "code"):
            return
        self.steps += 1
        _counted["steps"] += 1
        one, twin, code = (self.read(number) for number in (self.number, self.twin, self.code))
        assert (one.customer_id, code.customer_id) == (self.owner, self.claim[0])
        assert (twin.customer_id, one.status, one.expires_at) == (self.buyer, twin.status, twin.expires_at)
        assert one.times_activated == self.taken
        assert not run_read(self.storage, lambda tx: find_licenses(tx, self.old_keys))


def test_licenses_change_hands_as_the_model_has_it(database: str) -> None:
    few = settings(
        max_examples=size(8 if database == "sqlite" else 4, 2_000),
        stateful_step_count=25,
        deadline=None,
    )
    _counted.update(steps=0, transfers=0)
    a_database = partial(new_database, database)
    run_state_machine_as_test(partial(OwnersAgainstModel, a_database), settings=few)  # type: ignore[arg-type]
    record("R23", f"claims and transfers, {database}", _counted)
