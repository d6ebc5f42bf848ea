"""Write the answers of v2: records, and errors as the catalog of errors describes them.

Licenses and generators are written in camelCase, activations in snake_case; moments are
``YYYY-MM-DD HH:MM:SS`` in UTC. Functions without an underscore write whole bodies, with their envelope.
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

#: Another sentence for an error, where an operation has its own words.
Sentences = Mapping[type[e.KeywrightError], str]

NO_SENTENCES: Sentences = MappingProxyType({})

#: The answers to the errors that calls of v2 meet, in the catalog's order. ``Unavailable`` is a group.
PROBLEMS: dict[type[e.KeywrightError], e.V2] = {
    kind: kind.v2 for kind in e.CATALOG if kind.v2 is not None and kind is not e.Unavailable
}

#: The errors of requests that could not be read.
MALFORMED = frozenset(kind for kind, problem in PROBLEMS.items() if problem.status == 400)


def write_error(error: e.KeywrightError, sentences: Sentences = NO_SENTENCES) -> Answer:
    """The answer for an error."""
    return Answer(*write(error, sentences), error_headers(error))


def write(error: e.KeywrightError, sentences: Sentences) -> tuple[int, bytes]:
    """The status and the body of this error."""
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


#: The number of licenses of a list that are written at once.
_CHUNK = 10


def success(data: object) -> bytes:
    """A whole answer of success."""
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
    """The answer to get."""
    return success(_with_activations(record))


def license_alone(record: LicenseRecord) -> bytes:
    """The answer to create and update."""
    return success(_license_alone(record.license))


def licenses_alone(records: Sequence[LicenseRecord]) -> bytes:
    """The answer to generate."""
    return success([_license_alone(one.license) for one in records])


def licenses_with_activations(records: Sequence[LicenseRecord]) -> bytes:
    """One page of a list."""
    return b'{"success":true,"data":[%b]}' % some_licenses(records)


def some_licenses(records: Sequence[LicenseRecord]) -> bytes:
    """Some of a list's licenses, comma-separated, without brackets: a piece of an answer.

    They are written a few at a time: a thread that writes very many at once keeps the others waiting.
    """
    few = (records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK))
    return b",".join(encode([_with_activations(one) for one in some])[1:-1] for some in few)


def generator(one: Policy) -> bytes:
    """The answer about one generator."""
    return success(_generator(one))


def generators(many: Sequence[Policy]) -> bytes:
    """The answer to list generators."""
    return success([_generator(one) for one in many])


def nothing(_outcome: object) -> bytes:
    """The answer to delete."""
    return b'{"success":true,"data":[]}'


# Many records have the same times; see ``db.rows.to_datetime``.
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
    """A record of the license, with its other fields."""
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
    """Created by; updated at; updated by."""
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
    """The metadata that came over v2. A device of v3 has any JSON there, on which typed clients break."""
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
