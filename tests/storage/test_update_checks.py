"""Checks for updates read no more than validations, and are the same on both databases."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event

from keywright.core.command import Context, Origin, Query
from keywright.core.nouns import Noun
from keywright.db import Storage
from keywright.licensing.activations.model import ActivateDevice, Device, Validate
from keywright.licensing.licenses.model import CreateLicense, Status
from keywright.licensing.updates.queries import CheckForUpdate, FindDownload
from keywright.licensing.updates.rules import Asked
from keywright.licensing.updates.tickets import read_ticket
from keywright.licensing.updates.tokens import CreateUpdateToken
from keywright.licensing.validation import ValidateLicense
from keywright.provisioning.products import PRODUCT
from keywright.provisioning.releases.commands import RELEASE, AddFile, PublishRelease, YankRelease
from keywright.provisioning.releases.fields import NewFile
from keywright.registry import open_executor
from tests.makers import KEY, NOW

pytestmark = pytest.mark.of_the_database

CONTEXT = Context(NOW, Origin("cli:root", "", ""))
DEVICE = "device-7f3a9c0e12b4"


@contextmanager
def counting() -> Iterator[list[str]]:
    """The statements that are executed."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def make(noun: Noun, **fields: Any) -> Any:
    return noun.create(context=CONTEXT, fields=noun.new(**fields))


def publish(executor: Any, version: str) -> int:
    (release,) = executor.execute([make(RELEASE, product_id=17, version=version)])
    at: dict[str, Any] = {"url": "https://example.com/a", "size": 1, "sha256": "0" * 64}
    (file,) = executor.execute(
        [AddFile(context=CONTEXT, release_id=release.id, fields=NewFile(name="a", **at))]
    )
    (done,) = executor.execute([PublishRelease(context=CONTEXT, release_id=release.id, checked=[file])])
    assert done.rank is not None
    return int(release.id)


def test_a_check_reads_what_a_validation_reads(storage: Storage) -> None:
    validate = ValidateLicense(key=KEY, now=NOW, fingerprint=DEVICE, app_version="1.0")
    check = CheckForUpdate(key=KEY, now=NOW, fingerprint=DEVICE, asked=Asked(app_version="1.0"))

    def count(executor: Any, query: Query) -> int:
        # Names are read again each second, which may be one of these.
        counts = []
        for _ in range(4):
            with counting() as seen:
                (answer,) = executor.query([query])
            assert not isinstance(answer, Exception)
            counts.append(len(seen))
        return min(counts)

    with closing(open_executor(storage.clone())) as executor:
        license: dict[str, Any] = {"key": KEY, "status": Status.ACTIVE, "product_id": 17}
        executor.execute([make(PRODUCT, id=17, name="Paint"), CreateLicense(context=CONTEXT, **license)])
        executor.execute([ActivateDevice(context=CONTEXT, license=KEY, device=Device(DEVICE))])
        before = [count(executor, one) for one in (validate, Validate(key=KEY))]
        for version in ("1.0", "1.1"):
            publish(executor, version)
        after = [count(executor, one) for one in (validate, Validate(key=KEY))]
        assert after == before, "releases cost validations nothing"
        assert count(executor, check) == before[0], "a check reads no more than a validation"


def test_what_was_published_or_yanked_elsewhere_is_known_in_a_second(storage: Storage) -> None:
    check = CheckForUpdate(key=KEY, now=NOW + timedelta(days=1), asked=Asked(app_version="1.0"))
    with closing(open_executor(storage.clone())) as one, closing(open_executor(storage.clone())) as other:
        license: dict[str, Any] = {"key": KEY, "status": Status.ACTIVE, "product_id": 17}
        one.execute([make(PRODUCT, id=17, name="Paint"), CreateLicense(context=CONTEXT, **license)])
        release = publish(one, "1.1")

        def ask() -> str:
            with closing(open_executor(storage.clone())) as fresh:
                (found,) = fresh.query([check])
            return str(found.decision.code)

        assert ask() == "update_available"
        other.execute([YankRelease(context=CONTEXT, release_id=release)])
        assert ask() == "up_to_date"


def test_a_download_reads_its_own_release_and_a_token_is_folded_or_not_in_one_batch(storage: Storage) -> None:
    with closing(open_executor(storage.clone())) as executor:
        license: dict[str, Any] = {"key": KEY, "status": Status.ACTIVE, "product_id": 17}
        executor.execute([make(PRODUCT, id=17, name="Paint"), CreateLicense(context=CONTEXT, **license)])
        (made,) = executor.execute([CreateUpdateToken(context=CONTEXT, license=KEY)])
        for version in ("1.0", "1.1"):
            publish(executor, version)
        asked = [CheckForUpdate(now=NOW, update_token=one) for one in (made.text, made.text.upper())]
        found = executor.query(asked)
        assert [one.decision.code for one in found] == ["update_available"] * 2
        ticket = read_ticket(storage.key_ring, found[0].ticket, NOW)
        assert ticket is not None
        with counting() as seen:
            (download,) = executor.query([FindDownload(ticket=ticket, now=NOW)])
        assert download.release.version == "1.1"
        # The file, its release, the license, the product, the files of the release.
        assert len([one for one in seen if one.startswith("SELECT")]) == 5
