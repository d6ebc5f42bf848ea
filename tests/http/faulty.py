"""Keywright with something wrong on purpose, for the tests of tests: what looks for faults must find it.

Run as a program, it takes the name of a fault, and then what ``keywright`` takes.
"""

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from keywright.cli import main
from keywright.core import parsing
from keywright.core.errors import InvalidParameters, KeywrightError, LimitReached
from keywright.engine import idempotency
from keywright.http.answer import Answer
from keywright.http.v2 import wire
from keywright.http.v3 import client as v3_client
from keywright.http.v3 import client_schemas
from keywright.http.v3.call import Call
from keywright.http.v3.client_schemas import ClientActivation
from keywright.licensing.activations import devices
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.activations.model import Activation, LicenseRecord
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License
from keywright.licensing.validation import Validated


def one_place_too_many() -> None:
    def require_free_place(license: License) -> None:
        limit = license.times_activated_max
        if limit is not None and license.times_activated > limit:
            raise LimitReached(license.key)

    license_rules.require_free_place = require_free_place


def reactivates_what_is_active() -> None:
    right = activation_rules.reactivate

    def reactivate(license: License, activation: Activation, now: datetime) -> tuple[License, Activation]:
        if activation.deactivated_at is None:
            return license, activation
        return right(license, activation, now)

    activation_rules.reactivate = reactivate


def forgets_answers() -> None:
    idempotency.save_idempotency_records = lambda *_: None


def fails_at_some_labels() -> None:
    right = parsing.parse_text

    def parse_text(value: object, most: int) -> str | None:
        if isinstance(value, str) and not value.isascii():
            raise RuntimeError
        return right(value, most)

    parsing.parse_text = parse_text


def complains_in_html() -> None:
    right = wire.write

    def write(error: KeywrightError, sentences: wire.Sentences) -> tuple[int, bytes]:
        status, body = right(error, sentences)
        is_rare = isinstance(error, InvalidParameters) and len(error.reasons) > 1
        return status, b"<h1>Bad request</h1>" if is_rare else body

    wire.write = write


def leaves_a_field_out() -> None:
    right = wire.validation

    def validation(record: LicenseRecord) -> bytes:
        if record.license.times_activated_max == 1:
            return right(record).replace(b'"remainingActivations":', b'"left":')
        return right(record)

    wire.validation = validation


def ignores_replaced_devices() -> None:
    devices._find_replaced = lambda *_: None


def names_a_member_wrongly() -> None:
    right = v3_client._write_validation

    def write_validation(call: Call, found: Validated) -> Answer:
        answer = right(call, found)
        return Answer(answer.status, answer.body.replace(b'"valid":', b'"is_valid":'))

    v3_client._write_validation = write_validation


def fails_without_a_fingerprint() -> None:
    right = client_schemas.Activated

    def make_answer(activation: ClientActivation, *others: Any) -> Any:
        if activation.fingerprint is None:
            raise RuntimeError
        return right(activation, *others)

    setattr(client_schemas, right.__name__, make_answer)


def program(fault: Callable[[], None]) -> list[str]:
    """The command that runs Keywright with this fault."""
    return [sys.executable, "-P", __file__, fault.__name__]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    main(sys.argv[2:])
