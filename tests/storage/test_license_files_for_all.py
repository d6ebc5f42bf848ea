"""License files for all licenses and devices: which get a file, and how long it is valid."""

import random
from collections import Counter
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import ZipFile

import msgspec
import pytest

from keywright.core.crypto import mask
from keywright.core.errors import InvalidParameters
from keywright.db import Storage, run_read
from keywright.delivery.mail import message
from keywright.delivery.mail.letters import Letter, MailSettings, read_letter
from keywright.delivery.mail.store import list_mails
from keywright.engine.executor import Executor
from keywright.jobs import mailings, mailings_store, making_files
from keywright.jobs.files import file_name, read_file
from keywright.jobs.mailings_store import FilesPreview
from keywright.jobs.making_files import StoredFile
from keywright.jobs.model import Job, JobState, PurgeJobFile
from keywright.jobs.orders import MakeFiles
from keywright.jobs.store import find_job_with_old_file
from keywright.licensing.activations.model import ActivateDevice, Device
from keywright.licensing.licenses.model import Status
from keywright.provisioning.customers import CUSTOMER
from keywright.provisioning.products import PRODUCT
from keywright.search.filters import Search
from keywright.signing.commands import LoadKeys
from keywright_client.errors import VerificationError
from keywright_client.verify import verify
from tests.connections import CONTEXT, do
from tests.jobs import Work, by_user, make_orderer, run_job, start
from tests.makers import NOW, create, deactivate_all, update
from tests.storage.test_update_checks import make

pytestmark = pytest.mark.smoke
DAY = timedelta(days=1)
FAR = NOW + 20 * 365 * DAY
ENDS = (None, NOW - DAY, NOW + 400 * DAY)
TERMS: tuple[dict[str, Any], ...] = (
    {"offline_days": 14},
    {"offline_days": 14, "device": "required"},
    {"offline_days": 14, "after_expiry": "allow"},
    {"offline_days": 14, "after_expiry": "older_versions"},
    {"offline_days": 14, "grace_days": 30},
    {"offline_days": 0},
    {"offline_days": 14, "max_leases": 2},
)


class Case(NamedTuple):
    """A license: its terms, status and expiry, the number of devices with a place, and its owner."""

    terms: dict[str, Any]
    status: Status
    expires_at: datetime | None
    devices: int
    customer_id: int | None


def expect(case: Case, until: datetime | None) -> list[datetime | None]:
    """When this license's files end, according to a simple model; none if it may have no file."""
    is_over, terms = case.expires_at is not None and case.expires_at <= NOW, case.terms
    end = case.expires_at
    if end is not None and "grace_days" in terms:
        end += terms["grace_days"] * DAY
        is_over = end <= NOW
    if terms.get("after_expiry") == "allow":
        end, is_over = None, False
    is_refused = is_over or case.status in (Status.DISABLED, Status.INACTIVE)
    if is_refused or terms["offline_days"] == 0 or "max_leases" in terms:
        return []
    amount = case.devices or int(terms.get("device") != "required")
    return [min((one for one in (end, until) if one is not None), default=None)] * amount


def fill(executor: Executor, cases: list[Case]) -> None:
    """Create licenses KEY-1, KEY-2 …, of customers 1 to 4, the last of whom has no address."""
    do(executor, make(PRODUCT, id=17, name="Paint"))
    for number in (1, 2, 3, 4):
        address = {"email": f"c{number}@example.com"} if number < 4 else {}
        do(executor, make(CUSTOMER, id=number, name=f"C{number}", **address))
    for number, case in enumerate(cases, 1):
        key = f"KEY-{number}"
        do(executor, create(key, product_id=17, customer_id=case.customer_id))
        do(executor, update(key, terms=msgspec.json.encode(case.terms).decode()))
        for index in range(case.devices):
            device = Device(f"device-{number}-{index}", name=f"Box {index}")
            do(executor, ActivateDevice(context=CONTEXT, license=key, device=device))
        do(executor, update(key, status=case.status, expires_at=case.expires_at))


def order(**fields: Any) -> MakeFiles:
    return MakeFiles(alg="EdDSA", **fields)


def files_of(storage: Storage, job: Job) -> list[StoredFile]:
    content = b"".join(read_file(lambda question: run_read(storage, question), job.id))
    return msgspec.json.Decoder(StoredFile).decode_lines(content)


def letters(storage: Storage, job: Job) -> list[Letter]:
    """The mails of a job, as if they were sent now."""
    settings = MailSettings("Example", "https://keys.example.com", "de")
    mails = run_read(storage, lambda tx: list_mails(tx, limit=1_000))
    own = [one for one in mails if one.subject.job_id == job.id]
    found = [run_read(storage, partial(read_letter, mail=one, settings=settings, now=NOW)) for one in own]
    return [one for one in found if isinstance(one, Letter)]


def public_keys(executor: Executor) -> list[str]:
    (loaded,) = executor.query([LoadKeys()])
    return [one.public_key for one in loaded.keys]


def test_each_license_and_device_that_may_have_one_gets_a_file_and_its_owner_has_it(
    executor: Executor, storage: Storage
) -> None:
    """Compared with a simple model, for random licenses; once with an end date, once without."""
    dice = random.Random(36)
    cases = [
        Case(
            *(dice.choice(TERMS), dice.choice(list(Status)), dice.choice(ENDS), dice.choice((0, 1, 2, 3))),
            dice.choice((None, 1, 2, 3, 4)),
        )
        for _ in range(40)
    ]
    # More devices than files per step, and than separate attachments.
    cases.append(Case(TERMS[1], Status.ACTIVE, None, 60, 2))
    fill(executor, cases)
    make_orderer(storage)
    for until in (FAR, None):
        job = run_job(executor, storage, order(ends_at=until))
        files = files_of(storage, job)
        expected = {f"KEY-{number}": expect(case, until) for number, case in enumerate(cases, 1)}
        made: dict[str, list[datetime | None]] = {key: [] for key in expected}
        for one in files:
            made[one.license_key].append(one.valid_until)
        assert made == expected
        assert job.done - job.refused == sum(map(bool, expected.values()))
        owners = {case.customer_id for number, case in enumerate(cases, 1) if expected[f"KEY-{number}"]}
        sent = letters(storage, job)
        assert {one.address for one in sent} == {f"c{number}@example.com" for number in owners - {None, 4}}
        reachable = [one for one in files if one.customer_id in (1, 2, 3)]
        attached = sorted(each.content.decode() for one in sent for each in one.attachments)
        assert attached == sorted(one.file for one in reachable), "each file goes to its owner once"
        unowned = sum(
            case.customer_id is None and bool(expected[f"KEY-{n}"]) for n, case in enumerate(cases, 1)
        )
        assert (job.messages or "").splitlines()[0] == (
            f"Files: {len(files)}. Mails: {len(sent)}. Licenses without a customer: {unowned}. Customers "
            f"without an e-mail address: {int(4 in owners)}."
        )
    keys, later = public_keys(executor), (NOW + 100 * 365 * DAY).timestamp()
    for one in files:
        check = partial(verify, one.file, public_keys=keys, license_key=one.license_key, now=later)
        if one.valid_until is None:
            assert check(fingerprint=one.fingerprint)["valid"]
        if one.valid_until is not None or one.fingerprint is not None:
            with pytest.raises(VerificationError):
                check(fingerprint="another-device")


def test_a_mail_has_few_files_attached_and_more_of_them_in_an_archive(
    executor: Executor, storage: Storage
) -> None:
    """And no useless ones: of licenses that were disabled, or have another owner or key by now."""
    cases = [
        Case(TERMS[1], Status.ACTIVE, None, amount, owner) for amount, owner in ((2, 1), (30, 2), (1, 3))
    ]
    fill(
        executor,
        [*cases, Case(TERMS[0], Status.ACTIVE, None, 1, 3), Case(TERMS[0], Status.ACTIVE, None, 1, 3)],
    )
    make_orderer(storage)
    job = run_job(executor, storage, order(search=Search(product_id=17)))
    do(executor, update("KEY-3", status=Status.DISABLED))
    do(executor, update("KEY-4", customer_id=1))
    do(executor, update("KEY-5", key="KEY-9"))
    few, archive = sorted(letters(storage, job), key=lambda one: one.address)
    composed = message.compose(few)
    assert composed.subject == "Ihre Lizenzdateien für Paint"
    assert f"license-1-1.txt: Paint, Schlüssel {mask('KEY-1')}, Gerät Box 0" in composed.text
    few_names, (packed,) = attached(few), attached(archive).values()
    assert list(few_names) == ["license-1-1.txt", "license-1-2.txt"]
    assert few_names["license-1-1.txt"].startswith("-----BEGIN KEYWRIGHT LICENSE-----")
    assert len(ZipFile(BytesIO(packed)).namelist()) == 30


def attached(letter: Letter) -> dict[str | None, Any]:
    """The attachments of a letter, by name."""
    composed = message.compose(letter)
    sent = message.build_envelope(letter, composed, mail_from="a@b.example", message_id="1", now=NOW)
    parsed = message_from_bytes(sent.message, policy=policy.default)
    return {one.get_filename(): one.get_content() for one in parsed.iter_attachments()}


def test_what_was_ordered_is_checked_and_counted_before(executor: Executor, storage: Storage) -> None:
    fill(
        executor,
        [
            Case(TERMS[0], Status.ACTIVE, None, 2, 1),
            Case(TERMS[0], Status.ACTIVE, None, 1, None),
            Case(TERMS[0], Status.DISABLED, None, 0, 2),
            Case(TERMS[0], Status.ACTIVE, NOW - DAY, 1, 2),
        ],
    )
    make_orderer(storage)
    found = run_read(storage, lambda tx: mailings_store.preview(tx, None, NOW))
    assert found == FilesPreview(total=4, licenses=2, devices=3, customers_with_address=1, without_customer=1)
    assert run_read(storage, lambda tx: mailings_store.preview(tx, 18, NOW)) == FilesPreview(0, 0, 0, 0, 0)
    with pytest.raises(InvalidParameters, match="future"):
        do(executor, start(order(ends_at=NOW)))
    job = run_job(executor, storage, order(is_mailed=False))
    assert letters(storage, job) == []
    assert len(files_of(storage, job)) == 3
    assert file_name(job).endswith(".jsonl")
    assert "License 4: it has expired." in (job.messages or "")
    # The file is kept longer than that of an export, because waiting mails need it.
    for before, is_old in ((NOW, False), (NOW + DAY, True)):
        find = partial(find_job_with_old_file, before=NOW + DAY, before_mailed=before)
        old = run_read(storage, find)
        assert (old == job.id) is is_old


def test_what_changes_before_a_step_or_a_mail_counts(executor: Executor, storage: Storage) -> None:
    """A deactivated device gets no file; a mail whose files were deleted is not sent."""
    fill(executor, [Case(TERMS[1], Status.ACTIVE, None, 1, 1), Case(TERMS[1], Status.ACTIVE, None, 2, 2)])
    make_orderer(storage)
    do(executor, start(order()))
    work = Work(executor, storage)
    step = work.prepare()
    do(executor, deactivate_all("KEY-1"))
    work.job = do(executor, step)
    assert (work.job.done, work.job.refused) == (2, 1)
    assert "License 1: no device is activated." in (work.job.messages or "")
    work.job = do(executor, work.prepare())
    work.job = do(executor, work.prepare())
    assert work.job.state is JobState.DONE
    (letter,) = letters(storage, work.job)
    assert (letter.address, len(letter.attachments)) == ("c2@example.com", 2)
    while do(executor, PurgeJobFile(**by_user(), job_id=work.job.id)):
        pass
    assert letters(storage, work.job) == [], "without its files, the mail is not sent"


def test_the_job_names_a_license_with_more_devices_than_its_file_has_room_for(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (mailings, making_files):
        monkeypatch.setattr(module, "PARTS", 2)
    fill(executor, [Case({"offline_days": 14}, Status.ACTIVE, None, devices, 1) for devices in (3, 60, 2)])
    make_orderer(storage)
    job = run_job(executor, storage, order(is_mailed=False))
    counts = Counter(one.license_id for one in files_of(storage, job))
    assert (counts[1], counts[2], counts[3]) == (3, 20, 2)
    assert "License 2: it has too many devices" in (job.messages or "")
    assert job.refused == 1
