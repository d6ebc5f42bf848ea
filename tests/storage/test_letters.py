"""A mail's contents are read when it is sent, and reflect changes since it was queued."""

from datetime import timedelta

import pytest

from keywright.db import Storage, run_read
from keywright.delivery.mail.letters import Letter, MailSettings, read_letter, sample_values
from keywright.delivery.mail.message import compose, render_source
from keywright.delivery.mail.model import Fate
from keywright.engine.executor import Executor
from keywright.events.model import MailState, MailTemplate, OutboxMail, Subject
from keywright.licensing.licenses.keys import make_license_ref
from keywright.licensing.licenses.model import Status
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.products import CreateProduct, NewProduct
from tests.connections import CONTEXT, do
from tests.makers import NOW, change_user, create, create_endpoint, create_user, update

#: The contents do not depend on the database.
DATABASES = ("sqlite",)


def read(storage: Storage, template: MailTemplate, subject: Subject, **recipient: int) -> Letter | Fate:
    """Read the letter, or the reason why the mail is not sent."""
    mail = OutboxMail(
        id=1,
        template=template,
        unique_text="x",
        customer_id=recipient.get("customer_id"),
        user_id=recipient.get("user_id"),
        product_id=None,
        language=None,
        subject=subject,
        message_id="1",
        state=MailState.WAITING,
        attempts=0,
        unanswered=0,
        created_at=NOW,
        next_attempt_at=NOW,
        finished_at=None,
        error=None,
        claimed_by="a",
        claimed_until=NOW,
    )
    settings = MailSettings("Example", "https://keys.example.com", "en")
    found = run_read(storage, lambda tx: read_letter(tx, mail, settings, NOW))
    return found if isinstance(found, Letter) else found.fate


@pytest.mark.parametrize(
    ("template", "is_sent"),
    [
        (MailTemplate.YOUR_LICENSE, False),
        (MailTemplate.RENEWED, False),
        (MailTemplate.EXPIRED, False),
        (MailTemplate.PAYMENT_FAILED, False),
        (MailTemplate.YOUR_KEYS, True),
    ],
)
def test_nothing_is_said_of_a_license_that_was_refunded_meanwhile(
    template: MailTemplate, executor: Executor, storage: Storage, *, is_sent: bool
) -> None:
    customer = do(executor, CreateCustomer(context=CONTEXT, fields=NewCustomer(email="ada@example.com")))
    keys = ["LEFT", "REFUNDED"]
    left, refunded = (
        do(executor, create(key, customer_id=customer.id, expires_at=NOW)).license for key in keys
    )
    about = {"storage": storage, "template": template, "customer_id": customer.id}
    both, one = Subject(license_ids=(left.id, refunded.id)), Subject(license_ids=(refunded.id,))
    assert isinstance(read(subject=one, **about), Letter)
    do(executor, update("REFUNDED", status=Status.DISABLED))
    letter = read(subject=both, **about)
    assert isinstance(letter, Letter)
    assert [one["key"] for one in letter.values["licenses"]] == keys[: 1 + is_sent]
    assert is_sent or read(subject=one, **about) is Fate.DROPPED


def test_a_mail_names_no_license_that_another_customer_has_by_now(
    executor: Executor, storage: Storage
) -> None:
    ada, bob = (
        do(executor, CreateCustomer(context=CONTEXT, fields=NewCustomer(email=f"{name}@example.com"))).id
        for name in ("ada", "bob")
    )
    kept, given = (do(executor, create(key, customer_id=ada)).license.id for key in ("KEPT", "GIVEN"))
    do(executor, update("GIVEN", customer_id=bob, key="NEW"))
    subject = Subject(license_ids=(kept, given))
    letter = read(storage, MailTemplate.YOUR_LICENSE, subject, customer_id=ada)
    assert isinstance(letter, Letter)
    assert [one["key"] for one in letter.values["licenses"]] == ["KEPT"]
    about = Subject(license_ids=(given,))
    assert read(storage, MailTemplate.YOUR_LICENSE, about, customer_id=ada) is Fate.DROPPED
    # The mail about that contains no key, and an ended offer is not sent.
    gone = read(storage, MailTemplate.LICENSE_GIVEN, about, customer_id=ada)
    assert isinstance(gone, Letter)
    assert gone.values["licenses"] == []
    assert read(storage, MailTemplate.LICENSE_OFFERED, about, customer_id=ada) is Fate.DROPPED


def test_a_reminder_links_to_where_the_license_is_renewed(executor: Executor, storage: Storage) -> None:
    address = "https://shop.example/renew?ref={license_ref}"
    product = do(executor, CreateProduct(context=CONTEXT, fields=NewProduct(name="Paint", renew_url=address)))
    customer = do(executor, CreateCustomer(context=CONTEXT, fields=NewCustomer(email="ada@example.com")))
    fields = {"customer_id": customer.id, "expires_at": NOW + timedelta(days=1)}
    renewable, other = (
        do(executor, create(key, product_id=number, **fields)).license
        for key, number in (("RENEWABLE", product.id), ("OTHER", None))
    )
    subject = Subject(license_ids=(renewable.id, other.id))
    letter = read(storage, MailTemplate.EXPIRING, subject, customer_id=customer.id)
    assert isinstance(letter, Letter)
    link = run_read(
        storage, lambda tx: address.format(license_ref=make_license_ref(tx.key_ring, renewable.id))
    )
    assert [one["renew_url"] for one in letter.values["licenses"]] == [link, None]
    text = compose(letter).text
    assert text.count(link) == 1
    assert "Renew Paint:" in text


def test_a_mail_has_the_links_that_its_preview_shows(executor: Executor, storage: Storage) -> None:
    customer = do(executor, CreateCustomer(context=CONTEXT, fields=NewCustomer(email="ada@example.com")))
    expires_at = NOW + timedelta(days=9)
    license = do(executor, create("KEY-1", customer_id=customer.id, expires_at=expires_at)).license
    subject = Subject(license_ids=(license.id,))
    settings = MailSettings("Example", "https://keys.example.com", "en")
    preview, portal = sample_values(settings, NOW), "https://keys.example.com/portal"
    wrong = []
    for template in ("your_license", "renewed", "expiring", "your_keys"):
        letter = read(storage, MailTemplate(template), subject, customer_id=customer.id)
        assert isinstance(letter, Letter)
        shown = render_source(letter.built_in, preview, letter.language, letter.brand)
        texts = (compose(letter).text, shown.text)
        if [portal in one.splitlines() for one in texts] != [True, True]:
            wrong.append(template)
    assert not wrong


def test_a_notice_about_an_endpoint_gives_no_secret_away(executor: Executor, storage: Storage) -> None:
    endpoint = do(executor, create_endpoint("https://example.com/services/T0/s3cret?token=s3cret")).endpoint
    user_id = do(executor, create_user()).id
    do(executor, change_user(user_id, email="ada@example.com"))
    letter = read(storage, MailTemplate.ENDPOINT_DISABLED, Subject(endpoint_id=endpoint.id), user_id=user_id)
    assert isinstance(letter, Letter)
    assert letter.values["endpoint"] == {
        "id": endpoint.id,
        "url": "https://example.com/service…",
        "page_url": f"https://keys.example.com/admin/webhooks/{endpoint.id}",
        "is_gone": False,
    }
