"""Notices: which answers contain them, who is mailed, and what is stored about that."""

import random
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from keywright.core.errors import InvalidNotice, StillInUse
from keywright.core.nouns import Paging
from keywright.db import Storage, run_read
from keywright.delivery.mail.letters import Letter, MailSettings, read_letter
from keywright.delivery.mail.message import compose
from keywright.delivery.mail.model import AttemptOutcome, Fate, FinishMail, PurgeMails, SendAgain
from keywright.delivery.mail.store import list_mails
from keywright.engine.executor import Executor
from keywright.jobs.model import Job, NotifyCustomers
from keywright.jobs.notifying import PreviewNotice
from keywright.licensing import views_store
from keywright.licensing.activations.model import ActivateDevice, Device
from keywright.licensing.licenses.model import Status
from keywright.licensing.updates import notices_store
from keywright.licensing.updates.notices import Notice, NoticeState
from keywright.licensing.updates.notices_store import Preview, Recipient
from keywright.licensing.updates.queries import CheckForUpdate
from keywright.licensing.updates.rules import Asked
from keywright.licensing.validation import ValidateLicense
from keywright.maintenance.personal_data import find_customer_data
from keywright.maintenance.tasks import EraseCustomer
from keywright.provisioning.customers import CUSTOMER
from keywright.provisioning.products import PRODUCT
from keywright.provisioning.releases.notices import NOTICE, PurgeRecipients, SetNoticeState
from tests.connections import CONTEXT, ask, do
from tests.jobs import Work
from tests.makers import NOW, create, deactivate_all, update
from tests.storage.test_update_checks import counting, make, publish

pytestmark = pytest.mark.smoke
PRODUCT_ID, OTHER_PRODUCT = 17, 18
LIST = Paging(sort="id", after=None, limit=200)


def a_notice(
    executor: Executor, affected: str = ">= 2, < 3.2", *, is_draft: bool = False, **more: Any
) -> Notice:
    fields = {"product_id": PRODUCT_ID, "title": "A hole", "affected": affected} | more
    notice: Notice = do(executor, make(NOTICE, **fields))
    return notice if is_draft else set_state(executor, notice.id, NoticeState.PUBLISHED)


def set_state(executor: Executor, notice_id: int, state: NoticeState) -> Notice:
    notice: Notice = do(executor, SetNoticeState(context=CONTEXT, notice_id=notice_id, state=state))
    return notice


def change(executor: Executor, notice: Notice, **fields: Any) -> None:
    do(executor, NOTICE.update(context=CONTEXT, id=notice.id, fields=NOTICE.fields(**fields)))


def run(executor: Executor, storage: Storage, notice: Notice) -> Job:
    do(executor, NotifyCustomers(context=CONTEXT, notice_id=notice.id))
    work = Work(executor, storage)
    for _ in work.steps():
        pass
    return work.job


def recipients(storage: Storage, notice: Notice) -> list[Recipient]:
    return list(run_read(storage, lambda tx: notices_store.list_recipients(tx, notice.id, LIST)).items)


def mailed(storage: Storage) -> list[int]:
    query = text("SELECT customer_id FROM mail_outbox WHERE template = 'notice' ORDER BY customer_id")
    return list(run_read(storage, lambda tx: tx.connection.execute(query).scalars().all()))


def finish(executor: Executor, storage: Storage, mail_id: int, fate: Fate, reason: str | None = None) -> None:
    claim = text("UPDATE mail_outbox SET claimed_by = 'a' WHERE id = :id")
    with storage.write() as tx:
        tx.connection.execute(claim, {"id": mail_id})
    outcome = AttemptOutcome(fate, reason)
    do(executor, FinishMail(context=CONTEXT, mail_id=mail_id, claimed_by="a", outcome=outcome))


@pytest.fixture(autouse=True)
def _products(monkeypatch: pytest.MonkeyPatch, executor: Executor) -> None:
    # Disable the cache of products.
    monkeypatch.setattr(views_store, "KNOWN_FOR", -1.0)
    for number in (PRODUCT_ID, OTHER_PRODUCT):
        do(executor, make(PRODUCT, id=number, name=f"P{number}"))


def a_customer(executor: Executor, number: int, email: str | None = "") -> int:
    address = f"c{number}@example.com" if email == "" else email
    do(executor, make(CUSTOMER, id=number, name=f"C{number}", **({"email": address} if address else {})))
    return number


def a_device(executor: Executor, key: str, version: str | None, number: int = 1) -> None:
    device = Device(f"device-{key}-{number}", app_version=version)
    do(executor, ActivateDevice(context=CONTEXT, license=key, device=device))


def an_affected_customer(executor: Executor, number: int = 1) -> None:
    """Create a customer whose license has a device with version 2.1."""
    key = f"KEY-{a_customer(executor, number)}"
    do(executor, create(key, product_id=PRODUCT_ID, customer_id=number))
    a_device(executor, key, "2.1")


def test_answers_have_the_notices_about_the_version_that_asks(executor: Executor) -> None:
    """At most five, most severe first; a validation runs no queries for them."""
    do(executor, create("KEY", product_id=PRODUCT_ID, status=Status.ACTIVE))
    a_device(executor, "KEY", "2.5")

    def validate(version: str | None = None, **more: Any) -> list[str]:
        query = ValidateLicense(key="KEY", now=NOW, app_version=version, **more)
        found = ask(executor, query)
        assert found.findings.code == "valid", "a notice is no finding"
        return [one.title for one in found.notices]

    def check(version: str) -> list[str]:
        asked = CheckForUpdate(key="KEY", now=NOW, asked=Asked(app_version=version))
        return [one.title for one in ask(executor, asked).notices]

    def count() -> int:
        validate("2.5")
        with counting() as seen:
            validate("2.5")
        return len(seen)

    before = count()
    draft = a_notice(executor, is_draft=True, title="Low", severity="low")
    severities = {"High": "high", "Info": "info", "Critical": "critical", "Later": "high", "Medium": "medium"}
    for title, severity in severities.items():
        a_notice(executor, title=title, severity=severity)
    a_notice(executor, "< 1.0", title="Old", severity="critical")
    do(executor, make(NOTICE, product_id=OTHER_PRODUCT, title="Other", affected=">= 0"))
    every = ["Critical", "Later", "High", "Medium", "Info"]
    assert validate("2.5") == check("2.5") == every
    assert count() == before
    set_state(executor, draft.id, NoticeState.PUBLISHED)
    assert validate("2.5") == check("2.5") == [*every[:4], "Low"]
    assert (validate("3.2"), validate("0.9"), validate("none"), check("3.2")) == ([], ["Old"], [], [])
    assert (validate(), validate(fingerprint="device-KEY-1")[:1]) == ([], ["Critical"])
    set_state(executor, draft.id, NoticeState.WITHDRAWN)
    assert validate("2.5") == every
    unknown = ask(executor, ValidateLicense(key="NONE", now=NOW, app_version="2.5"))
    assert unknown.notices == ()


def test_a_notice_fits_its_product(executor: Executor) -> None:
    wrong = []
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"affected": "3.2 <"}, "affected must be"),
        ({"affected": "< x"}, "affected must be a version"),
        ({"affected": ""}, "affected must be"),
        ({"affected": "< 3", "fixed_in": "2.9"}, "fixed_in must not be affected itself"),
        ({"fixed_in": "new"}, "fixed_in must be a version"),
    )
    for given, message in cases:
        try:
            a_notice(executor, **given)
            wrong.append(given)
        except InvalidNotice as refusal:
            if message not in str(refusal.facts()["errors_in_words"]):
                wrong.append(refusal.facts())
    assert wrong == []
    notice = a_notice(executor)
    with pytest.raises(StillInUse):
        do(executor, NOTICE.delete(context=CONTEXT, id=notice.id))
    fields = PRODUCT.fields(version_scheme="semver")
    with pytest.raises(StillInUse):
        do(executor, PRODUCT.update(context=CONTEXT, id=PRODUCT_ID, fields=fields))
    draft = a_notice(executor, is_draft=True)
    with pytest.raises(InvalidNotice):
        do(executor, NotifyCustomers(context=CONTEXT, notice_id=draft.id))
    set_state(executor, notice.id, NoticeState.WITHDRAWN)
    for one in (notice.id, draft.id):
        do(executor, NOTICE.delete(context=CONTEXT, id=one))
    do(executor, PRODUCT.delete(context=CONTEXT, id=PRODUCT_ID))


class World:
    """A model: a list of devices, and who was mailed."""

    VERSIONS = ("1.9", "2.0", "2.5-beta", "3.1.9", "3.2", "3.10", "unknown build", None)
    AFFECTED = frozenset({"2.0", "2.5-beta", "3.1.9"})

    def __init__(self, executor: Executor, dice: random.Random) -> None:
        self._executor, self._dice = executor, dice
        #: Owner, product, and versions of devices, by license key.
        self.licenses: dict[str, tuple[int | None, int, list[str | None]]] = {}
        self.addresses: dict[int, bool] = {}
        self.mailed: set[int] = set()
        #: Expired or disabled licenses, whose devices no longer change.
        self.closed: set[str] = set()

    def grow(self, customers: int, licenses: int) -> None:
        dice = self._dice
        for number in range(len(self.addresses) + 1, len(self.addresses) + customers + 1):
            self.addresses[number] = dice.random() < 0.8
            a_customer(self._executor, number, "" if self.addresses[number] else None)
        for index in range(len(self.licenses), len(self.licenses) + licenses):
            owner = dice.choice([None, *self.addresses])
            product = dice.choice((PRODUCT_ID, PRODUCT_ID, OTHER_PRODUCT))
            key, status = f"KEY-{index}", dice.choice((Status.ACTIVE, Status.SOLD))
            expires_at = dice.choice((None, NOW + timedelta(days=9)))
            about: dict[str, Any] = {"customer_id": owner, "product_id": product, "expires_at": expires_at}
            do(self._executor, create(key, status=status, **about))
            self.licenses[key] = (owner, product, [])
            for _ in range(dice.randrange(4)):
                self._activate(key, len(self.licenses[key][2]))
            over = {"expires_at": NOW - timedelta(days=1)}, {"status": Status.DISABLED}
            if dice.random() < 0.4:
                do(self._executor, update(key, **dice.choice(over)))
                self.closed.add(key)

    def _activate(self, key: str, number: int) -> None:
        version, devices = self._dice.choice(self.VERSIONS), self.licenses[key][2]
        a_device(self._executor, key, version, number)
        if number == len(devices):
            devices.append(version)
        # A version that is not sent again is kept.
        devices[number] = version or devices[number]

    def change(self) -> None:
        """Update or remove devices, and give a customer an address."""
        dice = self._dice
        for key, (owner, product, devices) in list(self.licenses.items()):
            what = dice.random() if devices else 1.0
            if what < 0.1:
                do(self._executor, deactivate_all(key))
                self.licenses[key] = (owner, product, [])
            elif what < 0.3 and key not in self.closed:
                self._activate(key, 0)
        silent = [number for number, has_one in self.addresses.items() if not has_one]
        for number in silent[:2]:
            fields = CUSTOMER.fields(email=f"late{number}@example.com")
            do(self._executor, CUSTOMER.update(context=CONTEXT, id=number, fields=fields))
            self.addresses[number] = True

    def owners(self) -> set[int | None]:
        return {
            owner
            for owner, product, devices in self.licenses.values()
            if product == PRODUCT_ID and self.AFFECTED & set(devices)
        }

    def expected(self) -> Preview:
        own = {one for one in self.owners() if one is not None}
        reached = {one for one in own if self.addresses[one]}
        of_product = [one for one in self.licenses.values() if one[1] == PRODUCT_ID]
        hit = [(owner, [one for one in some if one in self.AFFECTED]) for owner, _, some in of_product]
        return Preview(
            devices=sum(len(some) for _, some in hit),
            customers=len(own),
            to_notify=len(reached - self.mailed),
            notified=len(own & self.mailed),
            unreachable=len(own - reached - self.mailed),
            licenses_without_customer=sum(owner is None and bool(some) for owner, some in hit),
            customer_ids=tuple(sorted(reached - self.mailed)[: notices_store.MAX_NAMED]),
        )


def test_exactly_the_customers_with_an_affected_device_are_mailed_and_once(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with a model, in three rounds, with jobs ordered twice."""
    monkeypatch.setattr(notices_store, "_LOOKED_AT", 7)
    monkeypatch.setattr(notices_store, "_MAX_FOUND", 3)
    world = World(executor, random.Random(34))
    notice = a_notice(executor)
    for customers, licenses in ((20, 40), (5, 15), (0, 0)):
        world.grow(customers, licenses)
        world.change()
        expected = world.expected()
        assert ask(executor, PreviewNotice(notice_id=notice.id)) == expected
        unreachable = {one.customer_id for one in recipients(storage, notice) if one.state == "unreachable"}
        world.mailed |= {one for one in world.owners() if one is not None and world.addresses[one]}
        first, second = run(executor, storage, notice), run(executor, storage, notice)
        assert (first.state, second.state, second.done) == ("done", "done", 0)
        assert mailed(storage) == sorted(world.mailed)
        found = recipients(storage, notice)
        states = {one.customer_id: one.state for one in found}
        assert len(states) == len(found)
        assert {one for one, state in states.items() if state == "waiting"} == world.mailed
        new = {one for one in world.owners() if one is not None} - world.mailed
        assert {one for one, state in states.items() if state == "unreachable"} >= new
        assert first.done - first.refused == expected.to_notify
        assert unreachable - world.mailed <= set(states)
    assert len(world.mailed) > 8, "the test says something"


def test_the_record_has_what_became_of_each_mail(executor: Executor, storage: Storage) -> None:
    for number in range(1, 5):
        an_affected_customer(executor, number)
    notice = a_notice(executor)
    job = run(executor, storage, notice)
    assert (job.done, job.refused) == (4, 0)
    ids = run_read(
        storage,
        lambda tx: list(tx.connection.execute(text("SELECT id FROM mail_outbox ORDER BY id")).scalars()),
    )
    finish(executor, storage, ids[0], Fate.SENT)
    finish(executor, storage, ids[1], Fate.REFUSED, "550 no such user bob@example.com")
    finish(executor, storage, ids[2], Fate.DELAYED, "later")
    do(executor, SendAgain(context=CONTEXT, mail_id=ids[0]))
    finish(executor, storage, ids[3] + 1, Fate.REFUSED, "the copy")
    found = {one.customer_id: one for one in recipients(storage, notice)}
    assert [found[number].state for number in (1, 2, 3, 4)] == ["sent", "failed", "waiting", "waiting"]
    assert (found[1].email, found[1].app_version, found[1].finished_at) == ("c1@example.com", "2.1", NOW)
    assert "bob@" not in (found[2].error or "")
    late = CONTEXT.__class__(NOW + timedelta(days=40), CONTEXT.origin)
    while do(executor, PurgeMails(context=late, keep_days=30)):
        pass
    states = [one.state for one in recipients(storage, notice)]
    assert states == ["sent", "failed", "failed", "failed"], "the outbox has forgotten, the record has not"


def test_of_an_erased_customer_count_and_time_are_left(executor: Executor, storage: Storage) -> None:
    for number in (1, 2):
        an_affected_customer(executor, number)
    notice = a_notice(executor)
    run(executor, storage, notice)
    own = run_read(storage, lambda tx: find_customer_data(tx, 1)).notices
    assert [(one["notice_id"], one["email"], one["created_at"]) for one in own] == [
        (notice.id, "c1@example.com", NOW)
    ]
    while not do(executor, EraseCustomer(context=CONTEXT, customer_id=1)).is_complete:
        pass
    erased, other = recipients(storage, notice)
    assert (erased.customer_id, erased.email, erased.created_at) == (None, None, NOW)
    assert (other.customer_id, other.email) == (2, "c2@example.com")
    found = ask(executor, PreviewNotice(notice_id=notice.id))
    assert (found.notified, found.unreachable) == (1, 1)
    set_state(executor, notice.id, NoticeState.WITHDRAWN)
    with pytest.raises(StillInUse):
        do(executor, NOTICE.delete(context=CONTEXT, id=notice.id))
    assert do(executor, PurgeRecipients(context=CONTEXT, before=NOW)) == 0
    assert do(executor, PurgeRecipients(context=CONTEXT, before=NOW + timedelta(seconds=1))) == 2
    do(executor, NOTICE.delete(context=CONTEXT, id=notice.id))


def test_a_job_ends_when_the_notice_is_withdrawn(executor: Executor, storage: Storage) -> None:
    an_affected_customer(executor)
    notice = a_notice(executor)
    do(executor, NotifyCustomers(context=CONTEXT, notice_id=notice.id))
    work = Work(executor, storage)
    set_state(executor, notice.id, NoticeState.WITHDRAWN)
    assert [job.state for job in work.steps()] == ["failed"]
    assert work.job.messages == "The notice is no longer published."
    assert (recipients(storage, notice), mailed(storage)) == ([], [])


def test_the_mail_is_in_the_language_of_the_customer_and_names_a_fix_that_is_free(
    executor: Executor, storage: Storage
) -> None:
    """Even if the license has ended: its device is still affected."""
    an_affected_customer(executor)
    do(executor, CUSTOMER.update(context=CONTEXT, id=1, fields=CUSTOMER.fields(language="de")))
    do(executor, update("KEY-1", expires_at=NOW - timedelta(days=400)))
    publish(executor, "3.2")
    more: dict[str, Any] = {
        "text": "First line.\nSecond line.",
        "url": "https://example.com/5",
        "fixed_in": "3.2",
    }
    notice = a_notice(executor, is_security=True, **more)
    assert run(executor, storage, notice).done == 1

    def mail() -> Any:
        def find(tx: Any) -> Any:
            (mail,) = list_mails(tx, customer_id=1, limit=9)
            return read_letter(tx, mail, MailSettings("Acme", None, "en"), NOW)

        letter = run_read(storage, find)
        return compose(letter) if isinstance(letter, Letter) else letter.fate

    said = mail().text
    assert mail().subject == "P17: A hole"
    for line in (
        "Sicherheitshinweis zu P17",
        "Betroffene Versionen: >= 2, < 3.2",
        "Second line.",
        "https://example.com/5",
    ):
        assert line in said
    assert "Version 3.2 behebt das." in said
    free = "auch, wenn Ihre Lizenz abgelaufen ist"
    assert free not in said
    with storage.write() as tx:
        tx.connection.execute(text("UPDATE releases SET is_free_for_expired = 1"))
    assert free in mail().text
    set_state(executor, notice.id, NoticeState.WITHDRAWN)
    assert mail() is Fate.DROPPED
