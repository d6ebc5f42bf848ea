"""Customers claim licenses with their keys, and transfer them: once, in time, and as the terms allow."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from threading import Barrier
from typing import Any

import msgspec
import pytest
from sqlalchemy import insert, select
from sqlalchemy import update as update_rows

from keywright.core.command import Context
from keywright.core.errors import (
    ChangedSince,
    ClaimedLately,
    HandedOnBefore,
    InvalidParameters,
    KeywrightError,
    LeaseEndedByCustomer,
    NoFreeLease,
    NoRemovalLeft,
    NotClaimable,
    NotFound,
    NotTransferable,
    SubscriptionRuns,
    TooManyOffers,
    TransferPending,
    TransferTooEarly,
    UnknownLicenseId,
)
from keywright.db import Storage
from keywright.db.schema import (
    activations,
    customers,
    license_transfers,
    mail_outbox,
    portal_sessions,
    sold_licenses,
    subscriptions,
)
from keywright.delivery.mail.letters import MailSettings, read_letter
from keywright.delivery.mail.store import find_mail
from keywright.engine.executor import Executor
from keywright.identity import passwords
from keywright.licensing.leases.model import EndLeaseByCustomer
from keywright.licensing.licenses.model import License, Status, UpdateLicense
from keywright.licensing.undo.rules import RestoreLicense, UndoChanges
from keywright.maintenance.personal_data import find_customer_data
from keywright.maintenance.tasks import EraseCustomer
from keywright.provisioning.customers import CreateCustomer, CustomerFields, NewCustomer, UpdateCustomer
from keywright.provisioning.licenses import RotateKey
from keywright.provisioning.ownership.model import (
    AcceptTransfer,
    CancelTransfer,
    ClaimCounts,
    ClaimLicense,
    CountClaims,
    OfferLicense,
    UndoTransfer,
)
from keywright.provisioning.portal.model import AskToSignIn, ClaimWithCode, PurgeSignIns
from keywright.provisioning.shops.model import Shop
from keywright.provisioning.store import CUSTOMERS
from keywright.registry import open_executor
from tests.databases import KINDS, recorded_statements
from tests.jobs import decide
from tests.makers import (
    KEY,
    KEY_RING,
    NOW,
    activate,
    activate_device,
    an_origin,
    create,
    create_policy,
    deactivate_all,
    delete,
    generate,
    renew_lease,
    set_terms,
    take_lease,
    update,
)
from tests.shop_scene import Scene
from tests.storage.conftest import Opener
from tests.storage.stored import find_license

DATABASES = ("sqlite",)
ADA, BOB, EVE = 7, 8, 9
EMAILS = {ADA: "ada@example.com", BOB: "bob@example.com", EVE: "eve@example.com"}
A_DAY = timedelta(days=1)
MONTH = NOW + 30 * A_DAY


def by(customer_id: int | None, now: datetime = NOW) -> dict[str, Any]:
    actor = "user:1" if customer_id is None else f"customer:{customer_id}"
    return {"context": Context(now, an_origin(actor=actor))}


def claim(customer_id: int = ADA, key: str = KEY, now: datetime = NOW, **fields: Any) -> ClaimLicense:
    return ClaimLicense(**by(customer_id, now), license=key, customer_id=customer_id, **fields)


def offer(email: str = "Bob@example.com", now: datetime = MONTH, **fields: Any) -> OfferLicense:
    whole: dict[str, Any] = {"license": 1, "email": email, "owner_id": ADA} | fields
    return OfferLicense(**by(ADA, now), **whole)


def accept(transfer_id: int = 1, customer_id: int | None = BOB, now: datetime = MONTH) -> AcceptTransfer:
    return AcceptTransfer(**by(customer_id, now), license=1, transfer_id=transfer_id, customer_id=customer_id)


def cancel(transfer_id: int = 1, customer_id: int | None = ADA, now: datetime = MONTH) -> CancelTransfer:
    return CancelTransfer(**by(customer_id, now), license=1, transfer_id=transfer_id, customer_id=customer_id)


def undo(transfer_id: int = 1, now: datetime = MONTH + A_DAY) -> UndoTransfer:
    return UndoTransfer(**by(None, now), license=1, transfer_id=transfer_id)


def outcome(executor: Executor, command: Any) -> Any:
    """The outcome of a command, or the class of its refusal."""
    (found,) = executor.execute([command])
    return type(found) if isinstance(found, KeywrightError) else found


@pytest.fixture
def people(executor: Executor, storage: Storage) -> None:
    """Ada, Bob and Eve, customers with verified addresses."""
    for number, email in EMAILS.items():
        decide(executor, CreateCustomer(**by(None), fields=NewCustomer(id=number, email=email)))
    with storage.write() as tx:
        tx.connection.execute(update_rows(customers).values(email_verified_at=1))


@pytest.fixture
def owned(executor: Executor, people: None) -> License:
    """License 1 of Ada, which may be transferred after 30 days, any number of times."""
    decide(executor, create(KEY, limit=3, customer_id=ADA))
    changed = decide(executor, set_terms({"transferable": "always", "max_leases": 1, "max_activations": 3}))
    return changed.license  # type: ignore[no-any-return]


def mails(storage: Storage) -> list[tuple[str, int]]:
    with storage.read() as tx:
        column = mail_outbox.c
        found = tx.connection.execute(mail_outbox.select().order_by(column.id))
        return [(one.template, one.customer_id) for one in found]


# --- claims ---------------------------------------------------------------------------------------


def test_a_license_is_claimed_once_by_a_customer_with_its_key(executor: Executor, people: None) -> None:
    decide(executor, create(KEY))
    assert outcome(executor, claim()) is NotClaimable
    decide(executor, set_terms({"claimable": True}))
    assert outcome(executor, claim(only_product_id=5)) is NotClaimable
    assert outcome(executor, claim()).customer_id == ADA
    assert outcome(executor, claim()).customer_id == ADA
    assert outcome(executor, claim(BOB)) is NotClaimable
    assert outcome(executor, claim(BOB, key="unknown")) is NotClaimable
    decide(executor, update(1, customer_id=None, status=Status.DISABLED))
    assert outcome(executor, claim(BOB)) is NotClaimable


def test_a_claim_is_undone_like_any_change_and_is_settled_after_14_days(
    executor: Executor, storage: Storage, people: None
) -> None:
    decide(executor, create(KEY))
    terms = {"claimable": True, "transferable": "always", "transfer_after_days": 0}
    decide(executor, set_terms(terms))
    decide(executor, claim())
    almost, settled = NOW + timedelta(days=14, seconds=-1), NOW + timedelta(days=14)
    for moment, refusal in ((NOW, ClaimedLately), (almost, ClaimedLately)):
        assert outcome(executor, offer(now=moment)) is refusal
        assert outcome(executor, RotateKey(**by(ADA, moment), license=1)) is refusal
    actor = UndoChanges(**by(ADA), license=1, changed_at=NOW)
    decide(executor, actor)
    assert find_license(storage).customer_id is None
    assert outcome(executor, claim(BOB)).customer_id == BOB
    decide(executor, update(1, customer_id=ADA))
    decide(executor, RotateKey(**by(None), license=1))
    assert find_license(storage).key != KEY
    assert outcome(executor, offer(now=settled)).to_customer_id == BOB


def test_what_cannot_be_claimed_costs_the_same_statements(executor: Executor, people: None) -> None:
    for key, claimable, customer_id in (("free", False, None), ("taken", True, BOB)):
        decide(executor, create(key, customer_id=customer_id))
        decide(executor, set_terms({"claimable": claimable}, key=key))
    seen = []
    for key in ("unknown", "free", "taken"):
        with recorded_statements() as statements:
            assert outcome(executor, claim(key=key)) is NotClaimable
        seen.append(statements)
    assert seen[0]
    assert seen == [seen[0]] * 3


@pytest.mark.databases(*KINDS)
def test_a_person_who_is_no_customer_claims_with_the_code_of_a_mail(
    executor: Executor, storage: Storage, people: None
) -> None:
    """No mail is sent for a key that cannot be claimed; the claim creates the customer; the key may be typed
    in any case, and without dashes.
    """
    number_of = count(11)

    def ask(email: str, key: str) -> int:
        number = next(number_of)
        decide(executor, AskToSignIn(**by(None), email=email, sign_in_id=number, key=key, language="de"))
        return number

    def enter(number: int, key: str = "BOX-KEY-1", code: str | None = None) -> Any:
        right = passwords.derive_code(KEY_RING, str(number))
        fields: dict[str, Any] = {
            "license": key,
            "sign_in_ids": (number,),
            "code": code or right,
            "language": "de",
        }
        return outcome(executor, ClaimWithCode(**by(None), token_hash=b"%32d" % number, **fields))

    decide(executor, create("BOX-KEY-1"))
    decide(executor, create("TAKEN-KEY-1", customer_id=BOB))
    decide(executor, create("CLOSED-KEY-1"))
    for key in ("BOX-KEY-1", "TAKEN-KEY-1"):
        decide(executor, set_terms({"claimable": True}, key=key))
    before, seen, waiting = customer_emails(storage), [], []
    tries = [("Box-key1", "n@x.example"), ("TAKEN-KEY-1", "o@x.example"), ("none", "p@x.example")]
    for key, email in [*tries, ("BOX-KEY-1", EMAILS[ADA])]:
        with recorded_statements() as statements:
            waiting.append(ask(email, key))
        seen.append(statements)
    assert seen == [seen[0]] * 4
    assert customer_emails(storage) == before
    letters = [read_mail(storage, number) for number in waiting]
    assert [getattr(one, "address", None) for one in letters] == ["n@x.example", None, None, EMAILS[ADA]]
    assert letters[0].language.code == "de"
    assert [letters[number].values["sign_in_url"] is None for number in (0, 3)] == [True, False]
    new = waiting[0]
    assert enter(new, code="00000000") is None
    assert [enter(one) for one in waiting[1:3]] == [None, None]
    assert enter(new, "CLOSED-KEY-1") is NotClaimable
    assert enter(new, "TAKEN-KEY-1") is NotClaimable
    assert customer_emails(storage) == before
    claimed = enter(new)
    assert customer_emails(storage) == before | {claimed.customer_id: "n@x.example"}
    assert enter(new) is None
    assert enter(waiting[3]) is NotClaimable
    with storage.read() as tx:
        customer = CUSTOMERS.find(tx, claimed.customer_id)
        assert customer is not None
        assert (customer.email_verified_at, customer.language) == (NOW, "de")
        assert tx.connection.execute(select(portal_sessions.c.customer_id)).scalars().all() == [customer.id]


def customer_emails(storage: Storage) -> dict[int, str]:
    with storage.read() as tx:
        found = tx.connection.execute(select(customers.c.id, customers.c.email))
        return {row.id: row.email for row in found}


def read_mail(storage: Storage, sign_in_id: int) -> Any:
    """The mail that a sign-in queued, as sent; None if none was queued."""
    settings = MailSettings("Example", "https://keys.example.com", "en")
    with storage.read() as tx:
        rows = tx.connection.execute(select(mail_outbox.c.id, mail_outbox.c.subject))
        found = [row.id for row in rows if json.loads(row.subject).get("sign_in_id") == str(sign_in_id)]
        mail = find_mail(tx, found[0]) if found else None
        return None if mail is None else read_letter(tx, mail, settings, NOW)


@pytest.mark.databases(*KINDS)
def test_batches_count_what_was_claimed_and_activated(executor: Executor, people: None) -> None:
    decide(executor, create_policy())
    batch = decide(executor, generate(1, 5, claimable=True, order_id=12))
    keys = [one.license.key for one in batch]
    decide(executor, claim(ADA, keys[0]))
    decide(executor, claim(BOB, keys[1]))
    decide(executor, activate(keys[1]))
    decide(executor, activate(keys[2]))
    decide(executor, deactivate_all(keys[2]))
    decide(executor, update(batch[0].license.id, customer_id=None))
    counted = ClaimCounts(licenses=5, claimed=1, activated=2)
    asked = CountClaims(policy_id=1), CountClaims(order_id="12"), CountClaims(order_id="13")
    assert executor.query([*asked]) == [counted, counted, ClaimCounts(0, 0, 0)]


# --- offers ---------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_license_is_handed_on_with_a_new_key_and_all_places_free(
    executor: Executor, storage: Storage, owned: License
) -> None:
    for fingerprint in ("device 1", "device 2"):
        decide(executor, activate_device(fingerprint))
    decide(executor, take_lease())
    made = decide(executor, offer())
    assert (made.to_customer_id, made.expires_at) == (BOB, MONTH + timedelta(days=7))
    decide(executor, accept())
    now = find_license(storage)
    assert (now.customer_id, now.times_activated, now.deactivated_count) == (BOB, 0, 0)
    assert now.key != KEY
    with storage.read() as tx:
        assert tx.connection.execute(activations.select()).all() == []
    decide(executor, take_lease("bob", now.key))
    assert outcome(executor, take_lease("eve", now.key)) is NoFreeLease
    decide(executor, activate(now.key))
    assert mails(storage) == [("license_offered", BOB), ("license_received", BOB), ("license_given", ADA)]


def test_an_offer_is_accepted_once_in_time_and_by_nobody_else(executor: Executor, owned: License) -> None:
    decide(executor, offer())
    end = MONTH + timedelta(days=7)
    rows = [
        ("somebody else", accept(customer_id=EVE)),
        ("the owner", accept(customer_id=ADA)),
        ("too late", accept(now=end)),
        ("a clock that was ahead, and is right again", accept(now=MONTH - timedelta(days=400))),
        ("another offer", accept(transfer_id=2)),
        ("somebody else's cancellation", cancel(customer_id=EVE)),
        ("undone before it was accepted", undo()),
    ]
    assert {name: outcome(executor, one) for name, one in rows} == dict.fromkeys(dict(rows), NotFound)
    assert outcome(executor, accept(now=end - timedelta(seconds=1))).to_customer_id == BOB
    for again in (accept(), cancel(), cancel(customer_id=BOB)):
        assert outcome(executor, again) is NotFound


def test_who_accepts_has_proved_the_address(executor: Executor, storage: Storage, owned: License) -> None:
    made = decide(executor, offer("New@example.com"))
    new = made.to_customer_id
    assert outcome(executor, accept(customer_id=new)) is NotFound
    with storage.write() as tx:
        tx.connection.execute(update_rows(customers).where(customers.c.id == new).values(email_verified_at=1))
    decide(executor, UpdateCustomer(**by(None), id=new, fields=CustomerFields(email="other@example.com")))
    assert outcome(executor, accept(customer_id=new)) is NotFound
    assert outcome(executor, accept(customer_id=None)).to_customer_id == new


def test_a_license_is_offered_as_its_terms_allow(
    executor: Executor, storage: Storage, owned: License
) -> None:
    assert outcome(executor, offer(now=MONTH - timedelta(seconds=1))) is TransferTooEarly
    assert outcome(executor, offer(owner_id=BOB)) is UnknownLicenseId
    assert outcome(executor, offer("ADA@example.com")) is InvalidParameters
    for changes in ({"status": Status.DISABLED}, {"status": Status.INACTIVE}, {"customer_id": None}):
        before = {name: getattr(owned, name) for name in changes}
        decide(executor, update(1, **changes))
        refused = outcome(executor, offer(owner_id=None))
        decide(executor, update(1, **before))
        assert refused is NotTransferable, changes
    for terms in ({"transferable": "no"}, {"trial": True}):
        decide(executor, set_terms(terms))
        assert outcome(executor, offer()) is NotTransferable, terms
        decide(executor, set_terms({"transferable": "once", "trial": False}))
    decide(executor, offer())
    assert outcome(executor, offer()) is TransferPending
    decide(executor, set_terms({"transferable": "no"}))
    assert outcome(executor, accept()) is NotTransferable
    decide(executor, set_terms({"transferable": "once"}))
    decide(executor, accept())
    refused = outcome(executor, offer(EMAILS[EVE], MONTH + 99 * A_DAY, owner_id=None))
    assert refused is HandedOnBefore


def test_a_license_that_a_subscription_pays_for_stays(
    executor: Executor, storage: Storage, owned: License
) -> None:
    sold = {"connection_id": 1, "order_ref": "o", "line": "l", "number": 0, "license_id": 1, "status": 3}
    paying = {"connection_id": 1, "subscription_ref": "s"}
    with storage.write() as tx:
        tx.connection.execute(insert(sold_licenses).values(sold | paying))
    assert outcome(executor, offer()) is SubscriptionRuns
    for state, expected in (("grace", True), ("suspended", True), ("ended", False)):
        with storage.write() as tx:
            tx.connection.execute(subscriptions.delete())
            values = paying | {"state": state, "state_at": 1}
            tx.connection.execute(insert(subscriptions).values(values))
        assert (outcome(executor, offer()) is SubscriptionRuns) is expected, state


def test_a_customer_offers_three_licenses_a_day(executor: Executor, storage: Storage, owned: License) -> None:
    terms = {"transferable": "always", "transfer_after_days": 0}
    for number in range(2, 6):
        decide(executor, create(f"key {number}", customer_id=ADA))
        decide(executor, set_terms(terms, key=f"key {number}"))
    for number in (1, 2):
        decide(executor, offer(license=number))
    decide(executor, cancel())
    assert outcome(executor, cancel()) is NotFound
    decide(executor, offer(license=1))
    assert outcome(executor, offer(license=3)) is TooManyOffers
    assert outcome(executor, offer(now=MONTH + A_DAY - timedelta(seconds=1), license=3)) is TooManyOffers
    decide(executor, offer(now=MONTH + A_DAY, license=3))
    # A clock that was far ahead and is right again has no lasting effect.
    decide(executor, offer(now=MONTH + 400 * A_DAY, license=4))
    decide(executor, offer(now=MONTH + A_DAY, license=5))


@pytest.mark.databases(*KINDS)
def test_offers_that_are_over_are_deleted_and_transfers_stay(
    executor: Executor, storage: Storage, owned: License
) -> None:
    decide(executor, offer())
    decide(executor, cancel(customer_id=BOB))
    decide(executor, offer())
    decide(executor, accept(2))
    decide(executor, PurgeSignIns(**by(None), before=MONTH + timedelta(days=7)))
    assert transfers(storage) == [1, 2]
    decide(executor, PurgeSignIns(**by(None), before=MONTH + timedelta(days=8)))
    assert transfers(storage) == [2]


@pytest.mark.databases(*KINDS)
def test_customers_who_were_made_for_an_offer_alone_go_with_it(
    executor: Executor, storage: Storage, owned: License
) -> None:
    """Except those who signed in, have a name, a license or another offer, or existed before."""
    number_of = {}
    kinds = ("nothing", "signed in", "named", "licensed", "offered again", "known before")
    for day, kind in enumerate(kinds):
        email, now = f"{kind.replace(' ', '-')}@x.example", MONTH + day * A_DAY
        if kind == "known before":
            decide(executor, CreateCustomer(**by(None), fields=NewCustomer(email=email)))
        transfer = decide(executor, offer(email, now))
        number_of[kind] = transfer.to_customer_id
        decide(executor, cancel(transfer.id, now=now))
    with storage.write() as tx:
        signed_in = customers.c.id == number_of["signed in"]
        tx.connection.execute(update_rows(customers).where(signed_in).values(email_verified_at=1))
    named = UpdateCustomer(**by(None), id=number_of["named"], fields=CustomerFields(name="Cleo"))
    decide(executor, named)
    decide(executor, create("OTHER", customer_id=number_of["licensed"]))
    later = MONTH + 20 * A_DAY
    decide(executor, offer("offered-again@x.example", later))
    decide(executor, PurgeSignIns(**by(None, later), before=later))
    gone = {number_of["nothing"]}
    assert customer_emails(storage).keys() & {*number_of.values()} == {*number_of.values()} - gone
    assert transfers(storage) == [5, 7]
    decide(executor, PurgeSignIns(**by(None, later), before=later + 8 * A_DAY))
    assert number_of["offered again"] not in customer_emails(storage)


@pytest.mark.databases(*KINDS)
def test_data_and_erasure_keep_to_their_side_of_a_transfer(
    executor: Executor, storage: Storage, owned: License
) -> None:
    """The new owner exports and erases data since the transfer; the old one data about themselves."""
    decide(executor, activate(KEY, label="Ada's desk"))
    decide(executor, offer())
    decide(executor, accept())
    decide(executor, activate(find_license(storage).key, label="Bob's desk", now=MONTH + A_DAY))

    def data(number: int) -> str:
        with storage.read() as tx:
            found = find_customer_data(tx, number, for_customer=True)
        return msgspec.json.encode(found).decode()

    ada, bob = data(ADA), data(BOB)
    assert [name in ada for name in ("Ada's desk", "Bob's desk", find_license(storage).key)] == [False] * 3
    assert [name in bob for name in ("Ada's desk", "Bob's desk", find_license(storage).key, KEY)] == [
        *(False, True, True, False)
    ]
    erase(executor, ADA)
    assert "ada@example.com" not in data(BOB)
    assert "Bob's desk" in data(BOB)
    assert find_license(storage).customer_id == BOB
    erase(executor, BOB)
    assert "Bob's desk" not in data(BOB)
    assert find_license(storage).times_activated == 1
    assert EMAILS[BOB] not in customer_emails(storage).values()


def erase(executor: Executor, number: int) -> None:
    while not decide(executor, EraseCustomer(**by(None), customer_id=number)).is_complete:
        pass


def test_undo_gives_the_license_back_with_a_third_key(
    executor: Executor, storage: Storage, owned: License
) -> None:
    decide(executor, offer())
    decide(executor, accept())
    second = find_license(storage).key
    decide(executor, activate_device("device 3", second))
    assert outcome(executor, undo(2)) is NotFound
    decide(executor, undo())
    now = find_license(storage)
    assert (now.customer_id, now.times_activated) == (ADA, 0)
    assert len({KEY, second, now.key}) == 3
    assert outcome(executor, undo()) is NotFound
    assert mails(storage)[3:] == [("license_received", ADA), ("license_given", BOB)]
    decide(executor, set_terms({"transferable": "once"}, key=now.key))
    decide(executor, offer(EMAILS[EVE], MONTH + A_DAY))
    decide(executor, accept(2, EVE, MONTH + A_DAY))
    decide(executor, update(1, customer_id=BOB))
    assert outcome(executor, undo(2)) is ChangedSince


@pytest.mark.databases(*KINDS)
def test_a_deleted_license_comes_back_with_its_transfers(
    executor: Executor, storage: Storage, owned: License
) -> None:
    decide(executor, offer())
    decide(executor, accept())
    before = transfers(storage)
    decide(executor, delete(1))
    assert transfers(storage) == []
    decide(executor, RestoreLicense(**by(None), license=1))
    assert transfers(storage) == before


@pytest.mark.databases(*KINDS)
@pytest.mark.of_the_database
def test_of_two_who_accept_at_once_one_does(
    executor: Executor, open_again: Opener, storage: Storage, owned: License
) -> None:
    decide(executor, offer())
    executors, barrier = [open_executor(open_again()) for _ in range(2)], Barrier(2)

    def decide_at_once(executor: Executor, command: Any) -> Any:
        barrier.wait()
        return outcome(executor, command)

    with ThreadPoolExecutor(2) as threads:
        pairs = zip(executors, (accept(), accept()), strict=True)
        found = [one.result() for one in [threads.submit(decide_at_once, *pair) for pair in pairs]]
    assert [one for one in found if one is NotFound] == [NotFound]
    assert sum(template == "license_received" for template, _ in mails(storage)) == 1


def test_the_sale_stays_with_its_buyer_and_mails_go_to_each_customer(
    executor: Executor, storage: Storage, people: None
) -> None:
    scene = Scene(executor, storage, Shop.STRIPE)
    scene.tell("checkout_paid")
    given, kept = sorted(scene.licenses(), key=lambda one: one.id)
    buyer = given.customer_id
    decide(executor, UpdateLicense(**by(None), license=given.id, terms={"transferable": "always"}))
    fields: dict[str, Any] = {"license": given.id, "owner_id": buyer}
    later = given.created_at + 30 * A_DAY
    transfer = decide(executor, offer(now=later, **fields))
    decide(executor, AcceptTransfer(**by(BOB, later), license=given.id, transfer_id=transfer.id))
    before = len(mails(storage))
    scene.tell("charge_refunded", "refund_failed")
    # The buyer has already received that mail.
    assert mails(storage)[before:] == [("your_license", BOB)]
    assert [find_license(storage, one.id).customer_id for one in (given, kept)] == [BOB, buyer]
    with storage.read() as tx:
        column = mail_outbox.c
        query = select(column.customer_id, column.subject).where(column.template == "your_license")
        told = {row.customer_id: row.subject for row in tx.connection.execute(query.order_by(column.id))}
    assert json.loads(told[BOB])["license_ids"] == [given.id]
    scene.tell("dispute_opened", "dispute_lost")
    assert {find_license(storage, one.id).status for one in (given, kept)} == {Status.DISABLED}


# --- leases ---------------------------------------------------------------------------------------


def end(lease_id: str, now: datetime = NOW, customer_id: int = ADA) -> EndLeaseByCustomer:
    return EndLeaseByCustomer(**by(customer_id, now), license=1, lease_id=lease_id, customer_id=customer_id)


def test_a_holder_whose_lease_the_customer_ends_gets_none_for_its_time(
    executor: Executor, owned: License
) -> None:
    removals = {"count": 2, "per_days": 30}
    decide(executor, set_terms({"max_leases": 3, "lease_seconds": 600, "portal_removals": removals}))
    ann, ben, eve = (
        decide(executor, take_lease(name)).leased.lease.lease_id for name in ("ann", "ben", "eve")
    )
    assert outcome(executor, end(ann, customer_id=EVE)) is UnknownLicenseId
    decide(executor, end(ann))
    decide(executor, end(ann))
    almost, over = NOW + timedelta(seconds=599), NOW + timedelta(seconds=600)
    barred = [take_lease("ann", now=almost), renew_lease(ann, now=almost), take_lease("ann")]
    assert [outcome(executor, one) for one in barred] == [LeaseEndedByCustomer] * 3
    refused = executor.execute([take_lease("ann", now=almost)])[0]
    assert refused.retry_after_seconds == 1
    # The place is immediately free for others, and for the same holder on another device.
    assert decide(executor, take_lease("ann's sister")).leased.is_new
    decide(executor, end(ben))
    assert outcome(executor, end(eve)) is NoRemovalLeft
    assert outcome(executor, renew_lease(eve, now=almost)) is not LeaseEndedByCustomer
    assert decide(executor, renew_lease(ann, now=over)).leased.was_lost
    # A clock that was far ahead has no lasting effect.
    decide(executor, set_terms({"max_leases": 3, "lease_seconds": 600}))
    decide(executor, end(eve, now=NOW + 400 * A_DAY))
    assert decide(executor, take_lease("eve", now=over)).leased.lease.holder == "eve"


def transfers(storage: Storage) -> list[int]:
    with storage.read() as tx:
        return list(tx.connection.execute(license_transfers.select().order_by("id")).scalars())
