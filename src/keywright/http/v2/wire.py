"""Serialize the answers of v2: records, and errors as the error catalog describes them.

Licenses and generators are in camelCase, activations in snake_case; times are ``YYYY-MM-DD HH:MM:SS`` in UTC.
Public functions return whole bodies, including the envelope.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from keywright.core import errors as e
from keywright.core.parsing import write_time
from keywright.http.answer import Answer, error_headers
from keywright.http.v2 import parameters
from keywright.licensing.activations.model import Activation, LicenseRecord
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import remaining_activations
from keywright.provisioning.policies.model import Policy

#: Messages that replace those of the errors for an operation.
Sentences = Mapping[type[e.KeywrightError], str]

NO_SENTENCES: Sentences = MappingProxyType({})

#: The answers for the errors of v2 calls, in catalog order. ``Unavailable`` is only a group.
PROBLEMS: dict[type[e.KeywrightError], e.V2] = {
    kind: kind.v2 for kind in e.CATALOG if kind.v2 is not None and kind is not e.Unavailable
}

#: The errors that count as malformed requests.
MALFORMED = frozenset(kind for kind, problem in PROBLEMS.items() if problem.status == 400)


def write_error(error: e.KeywrightError, sentences: Sentences = NO_SENTENCES) -> Answer:
    """The answer for an error."""
    return Answer(*write(error, sentences), error_headers(error))


def write(error: e.KeywrightError, sentences: Sentences) -> tuple[int, bytes]:
    """The status and the body for an error."""
    status, code, sentence = error.v2 or PROBLEMS[e.Fault]
    message = error.fill(sentences.get(type(error), sentence))
    data: dict[str, Any] = {"status": status}
    if isinstance(error, e.InvalidParameters):
        data["params"] = error.reasons
    data["errors"] = {code: [message]}
    data["error_data"] = {code: {"status": status}}
    return status, encode({"success": False, "code": code, "message": message, "data": data})


_Record = TypeVar("_Record")

encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


#: How many licenses of a list are encoded at once.
_CHUNK = 10


def success(data: object) -> bytes:
    """The body of a successful answer."""
    return b'{"success":true,"data":%b}' % encode(data)


def one_activation(record: LicenseRecord) -> bytes:
    """The answer to activate, reactivate, and deactivate with a token."""
    one, activation = record.license, _activation(record.activations[0])
    return success(_license(parameters.ActivatedLicense, one, _text(one.updated_at), activation))


def many_activations(record: LicenseRecord) -> bytes:
    """The answer to deactivate without a token."""
    one = record.license
    return success(_license(parameters.DeactivatedLicense, one, _text(one.updated_at), _activations(record)))


def validation(record: LicenseRecord) -> bytes:
    """The answer to validate."""
    one = record.license
    return success(
        _license(
            parameters.ValidatedLicense, one, *_authors(one), remaining_activations(one), _activations(record)
        )
    )


def license_with_activations(record: LicenseRecord) -> bytes:
    """The answer to get a license."""
    return success(_with_activations(record))


def license_alone(record: LicenseRecord) -> bytes:
    """The answer to create and update a license."""
    return success(_license_alone(record.license))


def licenses_alone(records: Sequence[LicenseRecord]) -> bytes:
    """The answer to generate licenses."""
    return success([_license_alone(one.license) for one in records])


def licenses_with_activations(records: Sequence[LicenseRecord]) -> bytes:
    """The answer with one page of licenses."""
    return b'{"success":true,"data":[%b]}' % some_licenses(records)


def some_licenses(records: Sequence[LicenseRecord]) -> bytes:
    """Some licenses of a list, comma-separated and without brackets: a part of a body.

    They are encoded a few at a time: encoding very many at once would hold up the other threads.
    """
    few = (records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK))
    return b",".join(encode([_with_activations(one) for one in some])[1:-1] for some in few)


def generator(one: Policy) -> bytes:
    """The answer with one generator."""
    return success(_generator(one))


def generators(many: Sequence[Policy]) -> bytes:
    """The answer to list generators."""
    return success([_generator(one) for one in many])


def nothing(_outcome: object) -> bytes:
    """The answer to a deletion."""
    return b'{"success":true,"data":[]}'


# Cached, because many records have the same times; see ``db.rows.to_datetime``.
_text = lru_cache(maxsize=8192)(write_time)


@lru_cache(maxsize=8192)
def _optional_text(moment: datetime | None) -> str | None:
    return None if moment is None else write_time(moment)


def _digits(number: int | None) -> str | None:
    return None if number is None else str(number)


def _license_alone(one: License) -> parameters.License:
    return _license(parameters.License, one, *_authors(one))


def _with_activations(record: LicenseRecord) -> parameters.LicenseWithActivations:
    one = record.license
    return _license(parameters.LicenseWithActivations, one, *_authors(one), _activations(record))


def _license(record: Callable[..., _Record], one: License, *others: object) -> _Record:
    """Build a record of the license, with its additional fields."""
    return record(
        one.id,
        one.order_id,
        one.product_id,
        one.customer_id,
        one.key,
        _optional_text(one.expires_at),
        one.valid_for_days,
        one.source,
        one.status,
        one.times_activated,
        one.times_activated_max,
        _text(one.created_at),
        *others,
    )


def _authors(one: License) -> tuple[int, str, int | None]:
    """Created by, updated at, updated by."""
    return one.created_by or 0, _text(one.updated_at), one.updated_by


def _activations(record: LicenseRecord) -> list[parameters.Activation]:
    return list(map(_activation, record.activations))


def _activation(one: Activation) -> parameters.Activation:
    return parameters.Activation(
        one.id,
        one.token,
        one.license_id,
        one.label,
        one.source,
        one.ip_address,
        one.user_agent,
        _meta_data(one),
        _text(one.created_at),
        _optional_text(one.updated_at),
        _optional_text(one.deactivated_at),
    )


def _meta_data(one: Activation) -> Mapping[str, str] | None:
    """The metadata if it was sent over v2: typed v2 clients cannot read all JSON that v3 accepts."""
    if one.meta_data is None or one.fingerprint or one.platform or one.app_version:
        return None
    return one.meta_data if all(isinstance(value, str) for value in one.meta_data.values()) else None


def _generator(one: Policy) -> parameters.Generator:
    return parameters.Generator(
        one.id,
        one.name,
        one.charset,
        one.chunks,
        one.chunk_length,
        _digits(one.terms.max_activations),
        one.separator,
        one.prefix,
        one.suffix,
        _digits(one.terms.valid_for_days),
        _text(one.created_at),
        _digits(one.created_by),
        _text(one.updated_at),
        _digits(one.updated_by),
    )
